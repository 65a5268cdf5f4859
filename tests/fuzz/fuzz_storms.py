"""Storms: three owners share the trees of a store on PostgreSQL, and processes, connections and the server die.

    storm    {"seed", "backend", "seconds", "trees": [{"session", "agent", "program"}], "limits", "faults": [fault...]}
    fault    {"at", "do"}: kill an owner ("whom"), stop it and let it go on "after" some seconds, cut all connections,
             break the next commit before or after it reached the server, kill the server

An owner that has died begins anew. In the end all owners leave, and a last process ends every tree. None of an effect,
a result or a decision may be lost or be there twice (fuzz_oracles.py); a process that was stopped or cut off may find
out that it was declared dead, and ends by that.
"""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import fuzz_agents
import fuzz_lives
import fuzz_stores
from fuzz_agents import record
from fuzz_cases import Found
from fuzz_oracles import Story, at_the_end, wrong_on_disk
from fuzz_programs import LIMITS, Maker
from fuzz_proxy import Proxy

from supervisor import StoreDied, StoreRefused, StoreUnreadable, TreeOwned, open_supervisor

OWNERS = 3
OF_SHORT = 9  # the trees of a short storm; an owner begins one after the other, so that each fault finds some at work
DIED = 71  # the exit code of an owner that was declared dead
SECONDS = 4.0  # of a storm; a short one takes a quarter, and has each fault once, one after the other
PACE = 0.4  # seconds between the starts of an owner's trees
LONGEST = 90.0  # seconds after which a process hangs
FAULTS = ("kill", "kill", "stop", "cut", "before", "before", "after", "after", "after", "server")


def make_storm(seed: int, backend: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Return a storm, which is the same for the same seed."""
    chance = random.Random(f"storm {seed} {backend}")
    maker = Maker(chance)
    trees, is_short = [], seconds < SECONDS
    for number in range(OF_SHORT if is_short else chance.randint(4, 7)):
        agent = chance.choice(["worker", "worker", "restarter"])
        trees.append({"session": f"root{number}", "agent": agent, "program": maker.program(agent, 0, 5)})
        maker.refill()
    if is_short:
        kinds = chance.sample([*dict.fromkeys(FAULTS)], len({*FAULTS}))
        instants = [0.3 + (seconds - 0.3) * place / len(kinds) for place in range(len(kinds))]
    else:
        kinds = sorted(chance.choice(FAULTS) for _ in range(chance.randint(4, 10)))
        instants = [chance.uniform(0.3, seconds) for _ in kinds]
    faults = [_fault(chance, kind, at, is_short=is_short) for kind, at in zip(kinds, instants, strict=True)]
    faults.sort(key=lambda fault: fault["at"])
    limits = [name for name in LIMITS if chance.random() < 0.3]
    passivate_after = chance.choice([0.01, 60.0])
    storm = {"seed": seed, "backend": backend, "seconds": seconds, "trees": trees, "limits": limits, "faults": faults}
    return {**storm, "passivate_after": passivate_after, "program": [op for tree in trees for op in tree["program"]]}


def _fault(chance: random.Random, kind: str, at: float, *, is_short: bool) -> dict[str, Any]:
    fault = {"at": round(at, 3), "do": kind}
    if fault["do"] in ("kill", "stop"):
        fault["whom"] = chance.randrange(OWNERS)
    if fault["do"] == "stop":
        fault["after"] = 2.0 if is_short else chance.choice([0.3, 1.5, 2.5])  # after 1 s of silence it is dead
    return fault


def run_storm(storm: dict[str, Any], server: Any) -> Found:
    folder = Path(tempfile.mkdtemp(prefix="fuzz", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    fuzz_stores.prepare(str(folder))
    proxy, direct = Proxy(server.port, f"{folder}/log"), os.environ["FUZZ_SERVER"]
    owners = _Owners(storm, str(folder), direct.replace(f":{server.port}/", f":{proxy.port}/"))
    try:
        problems = [*owners.weather(proxy, server)]
    finally:
        proxy.close()
    begun = time.monotonic()
    last = fuzz_lives.fork(str(folder), "last", partial(_be_last, storm, str(folder)))
    while (ended := os.waitpid(last, os.WNOHANG)) == (0, 0):
        time.sleep(0.02)
        if time.monotonic() - begun > LONGEST:
            os.kill(last, signal.SIGKILL)
            problems.append("hang: the last process has not ended")
            os.waitpid(last, 0)
            break
    else:
        if ended[1]:
            problems.append(f"fell: the last process ended with {os.waitstatus_to_exitcode(ended[1])}, see the log")
    story = Story(str(folder), storm, owners.codes)
    problems += wrong_on_disk(story)
    problems += [] if problems else at_the_end(story)
    if not problems:
        shutil.rmtree(folder)
    return Found(problems, owners.lives + 1, folder if problems else None)


class _Owners:
    """The processes that share the trees."""

    def __init__(self, storm: dict[str, Any], folder: str, url: str) -> None:
        self._storm, self._folder, self._url = storm, folder, url
        self._living: dict[int, int] = {}
        self._stopped: dict[int, float] = {}
        self._disturbed: set[int] = set()
        self._began = 0.0
        self.codes: dict[int, int] = {}
        self.lives = 0

    def _begin(self, place: int) -> None:
        self.lives += 1
        main = partial(_be_owner, self._storm, self._folder, place, self._url)
        self._living[place] = fuzz_lives.fork(self._folder, f"{place}.{self.lives}", main)

    def weather(self, proxy: Proxy, server: Any) -> Iterator[str]:
        for place in range(OWNERS):
            self._begin(place)
        self._began, faults = time.monotonic(), list(self._storm["faults"])
        lasts = self._storm.get("seconds", SECONDS) + 0.5
        while (now := time.monotonic() - self._began) < lasts or faults or self._stopped:
            while faults and faults[0]["at"] <= now:
                self._do(faults.pop(0), proxy, server, now)
            for pid in [pid for pid, until in self._stopped.items() if until <= now]:
                os.kill(pid, signal.SIGCONT)
                del self._stopped[pid]
            yield from self._reap(is_over=False)
            time.sleep(0.01)
        Path(self._folder, "over").touch()
        until = time.monotonic() + LONGEST
        while self._living and time.monotonic() < until:
            yield from self._reap(is_over=True)
            time.sleep(0.01)
        for place, pid in self._living.items():
            yield f"hang: owner {place} does not leave"
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _do(self, fault: dict[str, Any], proxy: Proxy, server: Any, now: float) -> None:
        match fault["do"]:
            case "kill":
                os.kill(self._living[fault["whom"]], signal.SIGKILL)
            case "stop":
                pid = self._living[fault["whom"]]
                os.kill(pid, signal.SIGSTOP)
                self._stopped[pid] = now + fault["after"]
                self._disturbed.add(pid)
            case "server":
                before = time.monotonic()
                server.kill()
                server.start()
                self._began += time.monotonic() - before  # the storm stands still meanwhile
            case how:
                proxy.do(how)

    def _reap(self, *, is_over: bool) -> Iterator[str]:
        for place, pid in list(self._living.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if not found:
                continue
            del self._living[place]
            self._stopped.pop(pid, None)
            code = os.waitstatus_to_exitcode(status)
            was_lost = code == DIED or pid in self._disturbed
            self.codes[pid] = -9 if was_lost else code  # what it had begun is lost as if it had been killed
            if code not in (0, -9, DIED) or (code == 0 and not is_over):
                yield f"fell: an owner ended with {code}, see the log"
            if not is_over:
                self._begin(place)


def _be_owner(storm: dict[str, Any], folder: str, place: int, url: str) -> int:
    os.environ["FUZZ_SERVER"], code = url, 0
    try:
        anyio.run(_own, storm, folder, storm["trees"][place::OWNERS], False, backend=storm["backend"])
    except* StoreDied as all_died:
        died: BaseException = all_died
        while isinstance(died, BaseExceptionGroup):
            died = died.exceptions[0]
        record("died", str(died))
        code = DIED
    except* StoreUnreadable:  # the server was away when it began
        code = DIED
    return code


def _be_last(storm: dict[str, Any], folder: str) -> None:
    anyio.run(_own, storm, folder, storm["trees"], True, backend=storm["backend"])


async def _own(storm: dict[str, Any], folder: str, trees: list[Any], is_last: bool) -> None:
    chance = random.Random(f"{storm['seed']} {folder}")
    options = {"passivate_after": storm["passivate_after"], "limits": fuzz_lives.limits_of(storm)}
    with anyio.CancelScope() as scope:
        async with open_supervisor(fuzz_stores.make_store(folder), adopt=True, **options) as supervisor:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fuzz_lives.person, supervisor, chance, 0.01)
                async with anyio.create_task_group() as starting:
                    for number, tree in enumerate(trees):
                        starting.start_soon(_start, supervisor, tree, 0.0 if is_last else number * PACE)
                    if not is_last:
                        while not os.path.exists(f"{folder}/over"):  # noqa: PTH110 # a folder's name is a string here
                            await anyio.sleep(0.05)
                        starting.cancel_scope.cancel()
                if is_last:
                    await fuzz_lives.end_all(supervisor)
                tasks.cancel_scope.cancel()
            scope.cancel()


async def _start(supervisor: Any, tree: dict[str, Any], after: float) -> None:
    await anyio.sleep(after)
    with suppress(TreeOwned, StoreRefused):  # another owner has it, or the server is away
        await fuzz_lives.begin(supervisor, fuzz_agents.AGENTS[tree["agent"]], tree["program"], session=tree["session"])
        fuzz_lives.tell("started", tree["session"])
