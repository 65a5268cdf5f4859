"""The store of a case: a file in its folder, or a schema of a PostgreSQL server that is named after the folder.

On PostgreSQL a silent process is dead after a second, rather than ten: cases are short. The server is one of this run
of the fuzzer (`begin_server`), and each process may reach it over another address (`FUZZ_SERVER`).
"""

import os
import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fuzz_agents import record
from live_states import Replayed
from watching import until_death

from supervisor import SqliteStore, StoreRefused
from supervisor.seam.store import Store
from supervisor.testing import replaced

LEASES = {"'00:00:10'": "'00:00:01'", "'00:00:03'": "'00:00:00.3'"}
BEAT = 0.1


def begin_server(stack: ExitStack) -> Any:
    """Start a server for the cases of this process and of its forks. Return it."""
    from postgres_server import running

    from supervisor.store.postgres import owners

    server = stack.enter_context(running())
    os.environ["FUZZ_SERVER"] = server.url
    until_death(replaced(owners, "BEAT", BEAT))
    return server


def prepare(folder: str) -> None:
    """Make the store of a case, if it is on a server."""
    if "FUZZ_SERVER" in os.environ:
        from postgres_server import ask

        store = make_store(folder)
        store.open()
        store.close()
        ((view,),) = ask(_url(folder), "SELECT pg_get_viewdef('living'::regclass)")
        for lease, shorter in LEASES.items():
            assert lease in view
            view = view.replace(lease, shorter)
        ask(_url(folder), f"CREATE OR REPLACE VIEW living AS {view}")


def exists(folder: str) -> bool:
    return "FUZZ_SERVER" in os.environ or Path(folder, "store.db").exists()


def patience() -> float:
    """Seconds in which the trees of a killed process become free."""
    return 5.0 if "FUZZ_SERVER" in os.environ else 0.0


def _url(folder: str) -> str:
    return f"{os.environ['FUZZ_SERVER']}?schema={Path(folder).name}"


def make_store(folder: str, *, create: bool = True) -> Store:
    if "FUZZ_SERVER" in os.environ:
        from supervisor.store.postgres.store import PostgresStore

        return PostgresStore(_url(folder), create=create)
    return SqliteStore(f"{folder}/store.db", create=create)


def let_die(store: Any, life: dict[str, Any], chance: random.Random) -> Any:
    """Let the commits of a store be slow, and end the process at one of them."""
    store.runner, store.count, replayed = None, 0, Replayed(store)
    begin, write, commit = store.begin, store.write, store.commit
    first, number = life.get("full") or (0, 0)

    def perhaps_die(when: str) -> None:
        if life["end"] == "commit" and (when, store.count) == (life["when"], life["n"]):
            os.kill(os.getpid(), signal.SIGKILL)

    def watched_begin() -> bool:
        begun: bool = begin()
        if begun and store.runner is not None and store.count % 5 == 0:
            for difference in replayed.differences(store.runner.journal):
                record("differences", difference)
        return begun

    def perhaps_full(rows: Any) -> None:
        if rows and first <= store.count < first + number:
            store.count += 1
            raise StoreRefused("the disk is full")
        write(rows)

    def slow_commit() -> None:
        store.count += 1
        if disk := life["disk"]:
            time.sleep(chance.choice(disk))
        perhaps_die("before")
        commit()
        perhaps_die("after")

    store.begin, store.write, store.commit = watched_begin, perhaps_full, slow_commit
    return store
