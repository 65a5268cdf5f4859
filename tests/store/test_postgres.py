"""What the store on PostgreSQL promises beyond every store: one owner of a tree over all machines, lease and fence."""

import json
import os
import re
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import psycopg
import pytest
from msgspec.structs import replace
from postgres_server import ask, run_client
from store_stories import append, created, finished, started

from supervisor import (
    Approve,
    Context,
    InvalidInput,
    NotEntitled,
    StoreDied,
    StoreRefused,
    StoreUnreadable,
    agent,
    allow,
    open_supervisor,
    tool,
)
from supervisor.channels import Channel
from supervisor.core.rows import JournalEntry
from supervisor.runtime.clock.clock import Clock
from supervisor.runtime.lifecycle.leading import root_of_channel
from supervisor.store.postgres.pulse import LOOK_SECONDS
from supervisor.store.postgres.server import Address
from supervisor.store.postgres.store import ALONE, PostgresStore
from supervisor.system.identity import HOST, host_of, is_elsewhere, is_here
from supervisor.system.inside import refuse_below_owner
from supervisor.system.machine import NAMESPACE
from supervisor.system.withheld import is_withheld
from supervisor.wiring.app import LOOK_FOR_OTHERS_SECONDS


def _created(position, name):
    return JournalEntry(position, name, created(root=name))


@pytest.fixture
def stores(postgres):
    """Two processes, as far as the server can tell: two open stores of one schema."""
    both = PostgresStore(postgres), PostgresStore(postgres)
    for each in both:
        each.open()
    yield both
    for each in both:
        each.close()


def _claim(store, root):
    assert store.begin()
    owner = store.claim(root)
    store.commit()
    return owner


@pytest.mark.parametrize("root", ["r", root_of_channel("pager")], ids=["of a session", "of a channel"])
def test_a_process_that_was_silent_for_too_long_loses_its_trees_and_never_writes_again(stores, postgres, root):
    """Its successor buries it in the transaction that takes the tree; under the lock it finds that out, and dies. So
    what a paused leader of a channel decides does not count."""
    first, second = stores
    assert _claim(first, root) is None
    assert _claim(second, root).id == first.owners()[0].id  # it lives
    first._trees._heart.stop()  # as SIGSTOP does, which also keeps the connection at the server for a while
    ask(postgres, "UPDATE owner SET beat = beat - interval '11 s'")
    ask(postgres, "CREATE OR REPLACE VIEW living AS SELECT o.* FROM owner AS o "
                   "WHERE o.beat > clock_timestamp() - interval '10 s'")  # fmt: skip # without a server's first seconds
    assert _claim(second, root) is None
    with pytest.raises(StoreDied, match="silent for too long"):
        first.begin()
    with pytest.raises(StoreDied):
        first.has_changed()
    assert second.begin()  # and the lock is free
    second.rollback()


@pytest.mark.parametrize("has_moved", [False, True], ids=["nothing was written", "an entry was written"])
def test_reads_of_one_instant_go_on_over_another_connection_if_it_is_still_the_present(stores, postgres, has_moved):
    """Otherwise they would mix two instants: the reader is told to ask again."""
    first, second = stores
    with first.one_instant():
        assert first.counts().sessions == 0
        if has_moved:
            append(second, ("a", created("a")))
        ask(postgres, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                      f"WHERE application_name LIKE 'supervisor reader %:{os.getpid()}'")  # fmt: skip
        if has_moved:
            with pytest.raises(StoreRefused, match="try again"):
                first.counts()
        else:
            assert first.counts().sessions == 0
    assert first.counts().sessions == has_moved


@pytest.mark.parametrize("is_alone", [True, False], ids=["in one piece", "under the lock"])
@pytest.mark.parametrize("is_there", [True, False], ids=["committed", "not committed"])
def test_a_commit_whose_answer_is_lost_is_looked_up_by_its_token_and_written_once(stores, is_there, is_alone):
    """A connection that breaks around COMMIT leaves one copy of the entries, whether COMMIT had reached the server."""
    first, second = stores
    append(first, ("one", created("one")), ("one", started()), ("one", finished()))
    if is_alone:
        first.attend()
        first._alone = ALONE
    assert first.begin()
    first.write([JournalEntry(4, "one", started())])
    send = first._begin_commit

    def cut(connection):
        first._begin_commit = send
        if is_there:
            send(connection)
            first._writer.pieces(connection).finish()
        connection.close()
        raise psycopg.OperationalError("cut")

    first._begin_commit = cut
    first.commit()
    assert [row.position for row in second.rows(0)] == [1, 2, 3, 4]
    assert first.begin()
    first.write([_created(5, "two")])
    first.commit()
    assert [row.position for row in second.rows(0)] == [1, 2, 3, 4, 5]


def test_one_process_at_a_time_is_in_a_transaction_and_no_method_waits(stores):
    """`begin` returns False at once while another process is in a transaction."""
    first, second = stores
    assert first.begin()
    before = time.monotonic()
    assert not second.begin()
    assert time.monotonic() - before < 1
    first.rollback()
    assert second.begin()
    second.rollback()


def test_a_writer_that_was_stopped_while_it_sent_its_transaction_loses_the_lock(stores, postgres):
    """The server sees no idle transaction then, so the next writer ends the connection."""
    address, (_, second) = Address(postgres), stores
    second.stopped_seconds = 0.5
    options = f"-c search_path={address.schema} -c application_name=supervisor\\ writer"
    stopped = psycopg.connect(address.conninfo, autocommit=True, options=options)
    with suppress(psycopg.OperationalError), stopped.pipeline():  # it is told when it sends the rest
        stopped.execute("BEGIN")
        assert stopped.execute("SELECT last FROM store FOR UPDATE").fetchone() == (0,)
        stopped.execute("SELECT 1")
        stopped.pgconn.send_flush_request()
        stopped.pgconn.flush()
        until = time.monotonic() + 10
        while not (is_mine := second.begin()) and time.monotonic() < until:
            time.sleep(0.05)
        assert is_mine
        second.rollback()


def test_the_places_of_a_limit_hold_over_processes_and_end_with_their_owner(stores):
    """Two processes share two places; those of a process that has left are free."""
    first, second = stores
    _claim(first, "a"), _claim(second, "b")
    assert {first.take_place("tests", 2), first.take_place("tests", 2)} == {0, 1}
    assert second.take_place("tests", 2) is None
    first.give_place_back("tests", 1)
    assert second.take_place("tests", 2) == 1
    first.close()
    assert second.take_place("tests", 2) == 0


def test_an_owner_on_another_machine_is_no_process_of_this_one(stores):
    """Its pid may be that of our parent: a person may decide here all the same. One of this machine still counts."""
    first, _ = stores
    _claim(first, "a")
    (owner,) = first.owners()
    foreign = replace(owner, id="0" * 32, machine="another")
    refuse_below_owner("deciding", [foreign], in_doubt=True)
    with pytest.raises(NotEntitled):
        refuse_below_owner("deciding", [replace(foreign, machine=owner.machine, pid=2**30)], in_doubt=True)


def test_a_process_of_this_machine_that_was_killed_is_dead_while_its_lease_goes_on(stores, postgres):
    """A person decides at once after a crash, since no process is left that could have started theirs, and the next
    process takes its trees. One of another container may be alive although its pid is not seen."""
    first, second = stores
    assert _claim(first, "r") is None
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    ask(postgres, "UPDATE owner SET pid = $1, machine = split_part(machine, ' ', 1) || ' pid:[1]'", ended.pid)
    assert [owner.pid for owner in second.owners()] == [second.get_owner("r").pid] == [ended.pid]
    assert _claim(second, "r").pid == ended.pid
    ask(postgres, "UPDATE owner SET machine = split_part(machine, ' ', 1) || ' ' || $1", NAMESPACE)
    assert (second.owners(), second.get_owner("r"), second.get_owners(["r"])) == ([], None, {})
    assert _claim(second, "r") is None


def test_the_time_of_a_timer_is_the_servers(stores):
    """A machine whose clock is an hour late stamps and waits by the server's; a few milliseconds are no difference."""
    first, _ = stores
    now = datetime.now(UTC)
    first._set_clock(now, now + timedelta(milliseconds=20))
    assert first.skew() == timedelta()
    first._set_clock(now, now + timedelta(hours=1))

    async def ahead():
        return Clock(first.skew).now() - datetime.now(UTC)

    assert abs(anyio.run(ahead) - timedelta(hours=1)) < timedelta(seconds=1)
    first._set_clock(now - timedelta(seconds=5), now)  # an answer that took 5 s says nothing
    assert first.skew() > timedelta(minutes=59)


def test_a_pid_of_another_machine_is_looked_for_on_no_other():
    """Two containers may have one host name. A machine that cannot look at a process does not say that it is gone."""
    assert is_here(host_of(is_shared=True))
    assert is_here(HOST)  # a journal of one machine
    other = f"{HOST}/00000000"
    assert is_elsewhere(other)
    assert not is_here(other)
    assert not is_elsewhere("renamed")


def test_no_name_and_no_error_has_the_password_of_the_url():
    """A URL may have one; messages and logs have the host, the database and the schema."""
    store = PostgresStore("postgresql://ada:sesame@127.0.0.1:1/db?schema=s")
    assert store.name == "postgresql://127.0.0.1:1/db?schema=s"
    store.coming_seconds = 0
    with pytest.raises(StoreUnreadable, match="Try again when it runs") as refused:
        store.open()
    assert "sesame" not in f"{refused.value}{store!r}"
    with pytest.raises(InvalidInput, match="schema="):
        PostgresStore("postgresql://h/db?schema=Bad-Name")


def test_no_command_gets_the_variables_by_which_the_store_is_reached(monkeypatch):
    """Who has them has the store, and decides."""
    monkeypatch.setenv("PGPASSFILE", "/etc/pass")
    monkeypatch.setenv("SUPERVISOR_STORE", "postgresql://h/db")
    monkeypatch.setenv("OTHER", "sesame two")
    PostgresStore("postgresql://h/db")
    PostgresStore("postgresql://ada:sesame@h/db")
    variables = {"PGPASSFILE": "/etc/pass", "SUPERVISOR_STORE": "postgresql://h/db", "OTHER": "sesame two",
                 "DATABASE_URL": "postgresql://bob:s%65same@other/db"}  # fmt: skip
    assert not is_withheld("DOCS", "https://example.org/open-sesame")
    assert all(is_withheld(name, value) for name, value in variables.items())


@tool(policy="ask")
async def deploy(target: str) -> str:
    return target


@agent
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


def test_a_process_looks_so_often_that_a_decision_made_anywhere_reaches_it_within_300_ms():
    """Its thread asks the server, and its loop asks the thread; each wait is bounded, whatever the machine does."""
    assert LOOK_SECONDS + LOOK_FOR_OTHERS_SECONDS / 2 <= 0.2  # the rest is for the two round trips


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_decision_made_anywhere_reaches_the_process_that_runs_the_tree(postgres, backend):
    """One process runs the session, another one decides, each with its own store of the same URL. Before the thread
    has looked thrice, and the loop thrice, the tree goes on."""
    looks, journal_looks = [0], [0]

    async def both():
        store = PostgresStore(postgres)
        learn, has_changed = store._learn, store.has_changed

        def learned(*given):
            looks[0] += 1
            learn(*given)

        def asked():
            journal_looks[0] += 1
            return has_changed()

        store._learn, store.has_changed = learned, asked
        async with open_supervisor(store) as runs:
            run = await runs.start(asks, "prod")
            async with open_supervisor(postgres, create=False) as decides:
                with anyio.fail_after(20):
                    while not (pending := await decides.find_approvals()):
                        await anyio.sleep(0.01)
                    await decides.decide(pending[0].id, Approve(by="ada"))
                    before = looks[0], journal_looks[0]
                    assert (await run.outcome()).kind == "succeeded"
                    assert (looks[0] - before[0] <= 3) or (journal_looks[0] - before[1] <= 3)

    anyio.run(both, backend=backend)


class Listening(Channel):
    """A channel that notes who listens, and how many cards it was asked to show and to retire."""

    name = "pager"
    keeps_cards = True

    def __init__(self, listens, cards):
        self.listens, self.cards = listens, cards

    async def serve(self, supervisor):
        await self.turn()
        self.listens.append(self)
        await anyio.sleep_forever()

    async def post(self, approval, card):
        if card is None:
            self.cards.append(card := f"card {len(self.cards)}")
        return card

    async def retire(self, approval, card):
        self.cards.remove(card)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_process_listens_to_a_channel_and_the_next_one_takes_over(postgres, backend):
    """Also its cards: at most one more is shown, and none is left when it was decided."""
    listens, cards = [], []

    async def both():
        first, second = Listening(listens, cards), Listening(listens, cards)
        async with open_supervisor(postgres, channels=[second], adopt=True, passivate_after=0.1) as later:
            while not listens:  # it leads first, and the other one waits
                await anyio.sleep(0.01)
            async with open_supervisor(postgres, channels=[first], agents=[asks], passivate_after=0.1) as runs:
                await runs.start(asks, "prod", session="s")
                while not cards:
                    await anyio.sleep(0.01)
                await anyio.sleep(1.2)  # by then it has looked whether it may listen
            assert listens == [second]
            with anyio.fail_after(20):
                while (await later.get_session("s")).outcome is None:
                    for pending in await later.find_approvals():
                        await later.decide(pending.id, Approve(by="ada"))
                    await anyio.sleep(0.05)
                while cards:
                    await anyio.sleep(0.05)
        listens.clear()
        async with open_supervisor(postgres, channels=[first]):
            with anyio.fail_after(5):
                while listens != [first]:
                    await anyio.sleep(0.01)

    anyio.run(both, backend=backend)
    assert not cards


def test_two_machines_never_spend_the_last_use_of_an_allowance_twice(postgres):
    """A19: each has calls at once; what is left over asks."""

    async def both():
        async with open_supervisor(postgres) as one, open_supervisor(postgres) as other:
            rule = await one.add_rule(allow("deploy", '{"target":"x"}', uses=5), by="ana")
            for number in range(8):
                await (one, other)[number % 2].start(asks, "x", session=f"s{number}")
            with anyio.fail_after(20):
                while len(await one.find_sessions(is_open=True)) != len(await one.find_approvals()):
                    await anyio.sleep(0.05)
            done = [view for view in await one.find_sessions() if view.outcome is not None]
            (found,) = await other.find_rules()
            assert (len(done), found.id, found.used, found.ended) == (5, rule.id, 5, True)

    anyio.run(both)


def test_a_role_that_reads_has_what_the_guide_grants(stores, postgres):
    """docs/how-to/postgresql.md: it reads everything, and can decide nothing."""
    page = (Path(__file__).parents[2] / "docs/how-to/postgresql.md").read_text()
    (grants,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    role, schema = f"reader{secrets.token_hex(4)}", Address(postgres).schema
    ask(postgres, f"CREATE ROLE {role} LOGIN")
    for statement in grants.replace("payments", schema).replace("reader", role).split(";\n"):
        ask(postgres, statement) if statement.strip() else None
    reads = postgres.replace("supervisor@", f"{role}@")
    assert ask(reads, "SELECT count(*) FROM approval_full") == [(0,)]
    assert stores[0].secret()
    assert ask(reads, "SELECT * FROM secret") == []  # it signs logins, which decide
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(reads, "UPDATE store SET last = 0")


def test_a_role_that_owns_its_schema_needs_nothing_else(postgres, server):
    """docs/how-to/postgresql.md makes it: it opens the store, writes, owns trees, and is no superuser."""
    page = (Path(__file__).parents[2] / "docs/how-to/postgresql.md").read_text()
    role, schema = f"daemon{secrets.token_hex(4)}", Address(postgres).schema
    (command,) = re.findall(r"\$ psql agents (-c .*)", page)
    for statement in re.findall(r"-c '(.*?)'", command):
        ask(server, statement.replace("payments", schema).replace("agents", role))
    store = PostgresStore(postgres.replace("supervisor@", f"{role}@"))
    store.open()
    append(store, ("a", created("a")))
    assert _claim(store, "a") is None
    store.close()
    assert ask(server, "SELECT rolsuper OR rolcreatedb FROM pg_roles WHERE rolname = $1", role) == [(False,)]


def test_a_copy_that_pg_dump_made_is_the_store_again(postgres):
    """While a program has it open; the copy is given back after DROP SCHEMA, as the guide says."""
    store = PostgresStore(postgres)
    store.open()
    append(store, ("a", created("a")), ("a", started()))
    address, before = Address(postgres), [row.event for row in store.rows(0)]
    copy = run_client("pg_dump", f"--schema={address.schema}", address.conninfo)
    append(store, ("b", created("b")))
    store.close()
    ask(postgres, f"DROP SCHEMA {address.schema} CASCADE")
    run_client("psql", "--quiet", "--set=ON_ERROR_STOP=1", address.conninfo, given=copy)
    store.open()
    assert [row.event for row in store.rows(0)] == before
    append(store, ("b", created("b")))
    store.close()


def test_commands_read_decide_replay_export_and_prune_on_postgresql(postgres, tmp_path):
    """`--store postgresql://...` names the store for every command that needs no daemon next to it."""
    agents = tmp_path / "agents.py"
    agents.write_text(
        "from supervisor import agent, tool\n\n@tool(policy='ask')\nasync def deploy(target: str) -> str:\n"
        "    return target\n\n@agent\nasync def asks(ctx, target: str) -> str:\n"
        "    return (await ctx.call(deploy, target)).kind\n"
    )

    def command(*words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")}
        done = subprocess.run(
            [sys.executable, "-m", "supervisor", *words, "--store", postgres],
            capture_output=True, text=True, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode in (0, 3), done.stderr
        return done.stdout

    command("run", "agents.py:asks", '"prod"')
    (pending,) = json.loads(command("approvals", "--json"))
    assert "follows" in command("check-replay", "agents.py")
    command("approve", pending["id"])
    command("resume", pending["root_session"])
    assert '"succeeded"' in command("show", pending["root_session"], "--json")
    assert '"SessionCreated"' in command("export", pending["root_session"])
    command("prune", "--older-than", "0s", "--yes")
    assert pending["root_session"] not in command("sessions", "--json")
