"""The processes of a case: one life after another on one store, each with the other processes of the same time.

    end        commit   SIGKILL before or after its n-th commit
               kill     SIGKILL at an instant
               scope    the scope around the supervisor is cancelled
               raise    an exception leaves the supervisor
               native   the task that has the supervisor open is cancelled (asyncio), or the whole run is (trio)
               leave    the supervisor closes, and waits for runs that can go on
               natural  it closes when the tree has ended, if that is soon
               final    everything is decided, until the tree has ended
               sabotage it does what no life may do; for the tests of the oracles

Each acknowledgement that a caller got is a line of `told`, written after the caller got it.
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import fuzz_agents
import fuzz_dumps
import fuzz_stores
import trio
from fuzz_agents import record
from fuzz_programs import answer_to, changes_first
from msgspec.structs import replace
from watching import until_death

from supervisor import (
    Budget,
    InvalidInput,
    JournalEntry,
    Limit,
    NotFound,
    Schedule,
    SqliteStore,
    StoreRefused,
    SupervisorError,
    TreeOwned,
    Usage,
    allow,
    open_supervisor,
)
from supervisor.core import limits
from supervisor.core.ids import RULES, SCHEDULES
from supervisor.events import RuleUsed, ScheduleHandled, UsageSpent
from supervisor.runtime import scheduling
from supervisor.testing import replaced, wall_clock

ROOT, TALK = "root", "talk"
LONGEST = 0.5  # seconds of a life whose end does not come by itself
LEAVING = 0.5  # seconds that it may take to be left
FELL = 70  # the exit code of a life that raised what it should not have


class Left(Exception):
    """Raised to leave a supervisor."""


def fork(folder: str, name: str, main: Callable[[], int | None]) -> int:
    """Begin a process, whose exit code is what `main` returns. Return its pid."""
    if pid := os.fork():
        return pid
    code = FELL
    try:
        until_death(replaced(limits, "MINUTE_SECONDS", 0.1))
        until_death(replaced(scheduling, "LOOK_SECONDS", 0.02))
        until_death(replaced(scheduling, "STAND_BACK_SECONDS", 0.2))
        until_death(replaced(scheduling, "SETTLING_SECONDS", 0.1))
        os.environ |= {"FUZZ_FOLDER": folder, "FUZZ_LIFE": name}
        log = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.write(2, f"-- {name} {time.time():.3f}\n".encode())
        code = main() or 0
    except BaseException:  # a fork must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def live(case: dict[str, Any], number: int, folder: str) -> dict[int, int]:
    """Let a life of a case begin and end, together with its other processes. Return the exit codes, the life's own
    first."""
    life, backend = case["lives"][number], case["backend"]
    pids = [fork(folder, str(number), partial(_live, case, number, folder))]
    for place, other in enumerate(life["others"]):
        chance = random.Random(f"{case['seed']} {number} {place}")
        other_one = partial(_be_other, case, life, folder, backend, other, chance)
        pids.append(fork(folder, f"{number}.{place}", other_one))
    return {pid: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids}


# -- the life that runs the tree ---------------------------------------------------------------------------------------


def _live(case: dict[str, Any], number: int, folder: str) -> None:
    life = case["lives"][number]
    random.seed(f"{case['seed']} {number}")
    set_clocks(life)
    if life["end"] == "sabotage":
        SABOTAGE[life["what"]]()
        return
    try:
        anyio.run(_main, case, life, folder, backend=case["backend"])
    except* (Left, asyncio.CancelledError, trio.Cancelled):
        pass


def set_clocks(life: dict[str, Any], since: float = 0.0) -> None:
    """Let the wall clock of this process be set forward and back. `since`: how long the life has gone on."""
    wall = until_death(wall_clock())
    for at, ahead in life.get("clock") or ():
        if at <= since:
            wall.ahead = ahead
        else:
            timer = threading.Timer(at - since, setattr, (wall, "ahead", ahead))
            timer.daemon = True
            timer.start()


async def _main(case: dict[str, Any], life: dict[str, Any], folder: str) -> None:
    chance = random.Random(f"{case['seed']} {life}")
    store = fuzz_stores.let_die(fuzz_stores.make_store(folder), life, chance)
    fuzz_dumps.watch(lambda: (store.count, len(fuzz_agents.lines("effects"))), lambda: store.runner)
    options = {"passivate_after": life["passivate_after"], "limits": limits_of(case)}
    if life["end"] != "final":  # it ends what has begun
        options |= schedules_of(case)
    with anyio.CancelScope() as scope:
        async with open_supervisor(store, **options) as supervisor, _ending(life, scope):
            store.runner = supervisor._runner
            try:
                await _run(supervisor, case, life, chance)
            except* SupervisorError:
                if not life.get("full"):
                    raise
            if life.get("full"):
                await anyio.sleep(LONGEST)


async def _run(supervisor: Any, case: dict[str, Any], life: dict[str, Any], chance: random.Random) -> None:
    budget = Budget(**case["budget"]) if "budget" in case else None
    try:
        agent = fuzz_agents.AGENTS[case["agent"]]
        run = await begin(supervisor, agent, case["program"], session=ROOT, budget=budget)
        if case.get("talks"):
            await begin(supervisor, fuzz_agents.talker, "m0", session=TALK)
    except TreeOwned:  # another one has taken it up, and does as it likes with it
        await anyio.sleep(LONGEST)
        return
    tell("started", ROOT)
    await _allow(supervisor, case)
    async with anyio.create_task_group() as tasks:
        if life["person"] is not None or life["end"] in ("natural", "final"):
            tasks.start_soon(person, supervisor, chance, life["person"] or 0.0)
        if life["end"] != "leave":
            await _until_end(run, life)
            if life["end"] == "final":
                await end_all(supervisor)
        else:
            await anyio.sleep(life["at"])
        tasks.cancel_scope.cancel()


async def _allow(supervisor: Any, case: dict[str, Any]) -> None:
    """Allow some calls beforehand, once in all lives."""
    known = {rule.tool for rule in await supervisor.find_rules() if rule.approval is None}
    for name, uses in case.get("allows", {}).items():
        if name not in known:
            tree, seconds = ROOT if case["allows_tree"] else None, case.get("allows_for")
            until = None if seconds is None else supervisor._runner.clock.now() + timedelta(seconds=seconds)
            with suppress(InvalidInput):  # the clock was set since
                await supervisor.add_rule(allow(name, session=tree, uses=uses, until=until), by="ana", pending=True)


async def begin(supervisor: Any, agent: Any, program: Any, **options: Any) -> Any:
    """Start a session, or take it up when the process that ran it is known to be dead."""
    until = anyio.current_time() + fuzz_stores.patience()
    while True:
        try:
            return await supervisor.start(agent, program, **options)
        except (TreeOwned, StoreRefused):
            if anyio.current_time() >= until:
                raise
            await anyio.sleep(0.05)


def limits_of(case: dict[str, Any]) -> list[Limit]:
    at_once, per_minute = case.get("limits", ()), case.get("per_minute", ())
    return [
        Limit(name, at_once=1 if name in at_once else None, per_minute=1 if name in per_minute else None)
        for name in sorted({*at_once, *per_minute})
    ]


def schedules_of(case: dict[str, Any], **words: Any) -> dict[str, Any]:
    """Return the agent that begins each second, in cases in which one does. `words`: other ones of the schedule."""
    if "schedule" not in case:
        return {}
    said = {"input": ["tick"], "cron": "* * * * * *", **case["schedule"], **words}
    return {"agents": [fuzz_agents.ticker], "schedules": [Schedule("tick", "ticker", **said)]}


async def end_all(supervisor: Any) -> None:
    """End the other processes that the case began."""
    await supervisor.resume_all()
    while open_ones := await supervisor.find_sessions(is_open=True):
        await (await supervisor.get_run(open_ones[0].id)).outcome()


async def _until_end(run: Any, life: dict[str, Any]) -> None:
    outcome = await run.outcome()
    tell("outcome", outcome.kind)
    if life["end"] not in ("natural", "final"):
        await anyio.sleep(0.05)
    if life["end"] in ("kill", "commit"):
        os.kill(os.getpid(), signal.SIGKILL)


@asynccontextmanager
async def _ending(life: dict[str, Any], scope: anyio.CancelScope) -> AsyncIterator[None]:
    """End the life inside the supervisor, in the way of the case."""
    at, end = life["at"], life["end"]
    if end in ("kill", "commit"):
        after = at if end == "kill" else LONGEST
        killer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL))
        killer.daemon = True
        killer.start()
    match end:
        case "raise":
            with anyio.move_on_after(at):
                yield
            raise Left
        case "scope":
            scope.deadline = anyio.current_time() + at
        case "leave":
            scope.deadline = anyio.current_time() + at + LEAVING
        case "natural":
            scope.deadline = anyio.current_time() + LONGEST
        case "native":
            _cancel_natively(at)
        case _:
            pass
    yield


def _cancel_natively(after: float) -> None:
    try:
        nursery = trio.lowlevel.current_task().parent_nursery
    except RuntimeError:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(after, task.cancel)
        return
    assert nursery is not None
    nursery.cancel_scope.deadline = trio.current_time() + after


def _lose_the_outcome() -> None:
    with sqlite3.connect(f"{os.environ['FUZZ_FOLDER']}/store.db") as connection:
        connection.execute("UPDATE session SET finished = NULL")


def _add(make: Callable[[Any], Any], session: str = ROOT) -> None:
    """Write an event into a journal, by default that of the root, that no life wrote."""
    store = SqliteStore(f"{os.environ['FUZZ_FOLDER']}/store.db")
    store.open()
    store.begin()
    last = store.rows(0)[-1].position
    store.write([JournalEntry(last + 1, session, make(store))])
    store.commit()
    store.close()


def _one_use_more(store: Any) -> RuleUsed:
    (rule,) = [row.event.rule.id for row in store.journal(RULES)]
    return RuleUsed(at=datetime.now(UTC), rule=str(rule), session=ROOT, operation="call:risky:0#9")


def _begun(store: Any) -> ScheduleHandled:
    now = datetime.now(UTC)
    return ScheduleHandled(at=now, schedule="tick", instant=now, became="begun", session="another")


def _late_use(store: Any) -> RuleUsed:
    (rule,) = [row.event.rule for row in store.journal(RULES)]
    return replace(_one_use_more(store), at=rule.until + timedelta(days=1))


def _spent(model: str) -> UsageSpent:
    return UsageSpent(at=datetime.now(UTC), usage=Usage(model, requests=7))


SABOTAGE: dict[str, Callable[[], None]] = {
    "effects": lambda: record("effects", "c1"),
    "told": lambda: tell("decided", "nobody", "accepted"),
    "index": _lose_the_outcome,
    "uses": lambda: _add(_one_use_more),
    "spent": lambda: _add(lambda _: _spent("fuzz")),
    "budget": lambda: _add(lambda _: _spent("another")),
    "instant": lambda: _add(_begun, SCHEDULES),
    "time": lambda: _add(_late_use),
}


# -- people ------------------------------------------------------------------------------------------------------------


async def person(supervisor: Any, chance: random.Random, hesitates: float) -> None:
    """Decide every approval, and send to each session that waits for a message."""
    seen: set[str] = set()
    async with anyio.create_task_group() as tasks:
        while True:
            with suppress(StoreRefused):  # a server that is away: it asks again
                pending = await supervisor.find_approvals()
                if chance.random() < 0.1:
                    await _decide_all(supervisor, pending)
                for approval in pending:
                    if approval.id not in seen:
                        seen.add(approval.id)
                        tasks.start_soon(_decide, supervisor, approval, chance.uniform(0.0, 2.0) * hesitates)
                for session in _listeners(supervisor):
                    await _send(supervisor, session)
            await anyio.sleep(chance.choice([0.001, 0.005, 0.02]))


def _listeners(supervisor: Any) -> list[str]:
    """Return the sessions that wait for a message now, and have none."""
    found = []
    for view in supervisor.store.find_sessions(is_open=True):
        if attempt := supervisor._runner.attempts.live.get(view.id):
            is_waiting = "message" in attempt.waiting and not attempt.state.inbox
        else:
            is_waiting = _is_asleep_for_message(supervisor, view.id)
        if is_waiting:
            found.append(view.id)
    return found


def _is_asleep_for_message(supervisor: Any, session: str) -> bool:
    row = supervisor.store.get_session(session)
    if not row.is_asleep or row.blocked is not None:  # on a busy machine a run may be presumed blocked for a moment
        return False
    events = [row.event for row in supervisor.store.journal(session)]
    (waiting,) = [event.waiting_for for event in events[::-1] if hasattr(event, "waiting_for")][:1]
    return "message" in waiting


async def _decide(supervisor: Any, approval: Any, hesitates: float) -> None:
    if (decision := answer_to(approval)) is None:
        return
    await anyio.sleep(hesitates)
    if (changed := changes_first(approval)) is not None:
        record("changed", changed)
    try:
        result = await supervisor.decide(approval.id, decision)
        while result.kind == "unseen":  # an edit: its evidence is there, or is when the call has looked
            await anyio.sleep(0.01)
            seen = replace(decision, seen=result.seen or None)
            result = await supervisor.decide(approval.id, seen)
    except StoreRefused:  # the connection broke; others decide it
        return
    tell("decided", approval.id, result.kind)


async def _decide_all(supervisor: Any, approvals: Sequence[Any]) -> None:
    """Decide calls together, and none that would be an edit which no person has seen the evidence of."""
    some = [(each.id, answer) for each in approvals if changes_first(each) is None and (answer := answer_to(each))]
    with suppress(StoreRefused):
        for result in await supervisor.decide_all(some):
            tell("decided", result.approval, result.kind)


async def _send(supervisor: Any, session: str) -> None:
    text = f"m{time.time_ns()}p{os.getpid()}"
    with suppress(InvalidInput, StoreRefused):  # it has just ended, or is being cancelled; or the disk is full
        receipt = await supervisor.send(session, text, by="ana")
        tell("sent", session, receipt.message, receipt.kind)


def tell(*words: str) -> None:
    record("told", json.dumps(words))


# -- other processes ---------------------------------------------------------------------------------------------------


def _be_other(
    case: dict[str, Any], life: dict[str, Any], folder: str, backend: str, other: dict[str, Any], chance: random.Random
) -> None:
    time.sleep(other["at"] + 0.03)
    set_clocks(life, other["at"] + 0.03)
    anyio.run(_other, case, folder, other["do"], chance, backend=backend)


async def _other(case: dict[str, Any], folder: str, do: str, chance: random.Random) -> None:
    store = fuzz_stores.make_store(folder, create=False)
    runner: list[Any] = [None]
    fuzz_dumps.watch(lambda: do, lambda: runner[0])
    options: dict[str, Any] = {"limits": limits_of(case)}
    if do == "schedule":
        options |= schedules_of(case, **chance.choice([{}, {"cron": "*/2 * * * * *"}, {"input": ["tock"]}]))
    try:
        with anyio.CancelScope() as scope:
            async with open_supervisor(store, passivate_after=0.01, adopt=do == "adopt", **options) as supervisor:
                runner[0] = supervisor._runner
                if not (views := await supervisor.find_sessions()):
                    return
                await _do(supervisor, do, views, chance)
                scope.cancel()
    except NotFound:  # the store was not made yet
        pass


async def _do(  # noqa: C901 # one case per kind
    supervisor: Any, do: str, views: list[Any], chance: random.Random
) -> None:
    match do:
        case "decide":
            pending = await supervisor.find_approvals()
            for approval in chance.sample(pending, len(pending) * 2 // 3 or len(pending)):
                await _decide(supervisor, approval, 0.0)
        case "send":
            await _send(supervisor, chance.choice(views).id)
        case "batch":
            await _decide_all(supervisor, await supervisor.find_approvals())
        case "raise":
            await supervisor.raise_budget(chance.choice(views).id, Budget(calls=chance.randint(1, 9)), by="bob")
        case "schedule":
            with anyio.move_on_after(chance.choice([0.1, 1.5])):
                await person(supervisor, chance, 0.01)
            if (to := chance.choice(["paused", "running", "started"])) == "started":
                await supervisor.run_schedule("tick", by="bob")
            else:
                await supervisor.change_schedule("tick", to, by="bob")
        case "talk" if any(view.id == TALK for view in views):
            await _send(supervisor, TALK)
        case "cancel":
            session = chance.choice(views).id
            await supervisor.cancel(session, reason="enough", by="bob")
            tell("cancelled", session)
        case "adopt":
            with anyio.move_on_after(0.4):
                await person(supervisor, chance, 0.01)


def final(case: dict[str, Any]) -> dict[str, Any]:
    """The life that must end everything."""
    chance = random.Random(f"final {case['seed']}")
    passivate_after, disk = chance.choice([0.0, 0.01, 60.0]), chance.choice([[], [], [0.006]])
    person = chance.choice([0.0, 0.003, 0.01])
    return {"end": "final", "at": 0, "passivate_after": passivate_after, "disk": disk, "person": person, "others": []}
