"""The jobs of the processes in the crash tests. Each is a program as a user would write it, on a store that can end or
stop its own process before or after its n-th commit.

At every transaction the store compares the live states with a replay of the journals, and records a difference.
"""

import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import scenario
from live_states import Replayed
from nest import tell
from scenario import record
from watching import until_death

from supervisor import Approval, DecisionResult, InvalidInput, Run, SqliteStore, Supervisor, TreeOwned, open_supervisor
from supervisor.runtime import starting
from supervisor.runtime.journal.writer import Journal
from supervisor.testing import replaced
from supervisor.wiring.stopping import run_until_stopped


@dataclass(kw_only=True)
class Job:
    """What a test tells a process to do."""

    do: str
    backend: Any
    folder: str
    session: str = "top"
    act: str | None = None
    """What happens at the commit: kill, term, stop."""
    when: str = "after"
    n: int = 0
    kill_after: int = 0
    """For cancel: kill at this many commits after it."""
    passivate_after: float = 60.0
    decision: str = ""
    """For a decider."""


class Store(SqliteStore):
    """Calls `act` before or after its n-th commit."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.folder}/store.db")
        self.watched: Journal | None = None
        self._replayed = Replayed(self)
        self.count = 0
        self.doom = (job.when, job.n)
        self.act = ACTS.get(job.act or "", lambda: None)

    def begin(self) -> bool:
        begun = super().begin()
        if begun and self.watched is not None:
            for difference in self._replayed.differences(self.watched):
                record(difference, "differences")
        return begun

    def commit(self) -> None:
        self.count += 1
        if self.doom == ("before", self.count):
            self.act()
        super().commit()
        if self.doom == ("after", self.count):
            self.act()


def _send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


ACTS = {"kill": _send(signal.SIGKILL), "term": _send(signal.SIGTERM), "stop": _send(signal.SIGSTOP)}


def main(job: dict[str, Any]) -> int:
    """Do a job. Return the exit code."""
    os.environ["CRASH_FOLDER"] = job["folder"]
    parsed = Job(**job)
    return run_until_stopped(partial(JOBS[parsed.do], parsed), parsed.backend) or 0


@asynccontextmanager
async def opened(job: Job, store: Store | None = None) -> AsyncIterator[Any]:
    store = store or Store(job)
    async with open_supervisor(store, passivate_after=job.passivate_after) as supervisor:
        store.watched = supervisor._runner.journal
        yield supervisor
    record(str(store.count), "commits")


async def listen() -> str:
    """Wait for the test's next message."""
    await anyio.wait_readable(0)
    return os.read(0, 1000).decode()


# -- the person --------------------------------------------------------------------------------------------------------


async def answer(supervisor: Supervisor, run: Run[Any], job: Job) -> None:
    """Answer the approvals of a tree until it has ended. The person remembers what was shown, and what the results
    said."""
    async with anyio.create_task_group() as tasks:
        async with run.watch_approvals() as watch:
            async for approval in watch:
                record(f"{approval.session} {approval.operation} {approval.id}", "shown")
                if scenario.answer_to(approval) is not None:
                    tasks.start_soon(_decide, supervisor, approval, job)
        tasks.cancel_scope.cancel()


async def _decide(supervisor: Supervisor, approval: Approval, job: Job) -> None:
    if job.passivate_after < 1:
        await _until_asleep(supervisor, approval.session)
    decision = scenario.answer_to(approval)
    assert decision is not None
    if approval.choices:  # she says something, too; again if she cannot know whether it was heard
        with suppress(InvalidInput):  # it is being cancelled; in a story without a cancel the message is missed later
            await supervisor.send(approval.session, "news", by="ana")
    result = await supervisor.decide(approval.id, decision)
    record(f"{approval.id} {result.kind}", "told")


async def _until_asleep(supervisor: Any, session: str) -> None:
    async with supervisor.watch_session(session) as watch:
        async for _ in watch:
            if supervisor.store.get_session(session).is_asleep:
                return


# -- jobs --------------------------------------------------------------------------------------------------------------


async def run(job: Job) -> None:
    """Start a tree, or continue it, and answer to its end."""
    async with opened(job) as supervisor:
        await answer(supervisor, await supervisor.start(scenario.top, job.session, session=job.session), job)


async def resume(job: Job) -> None:
    """Continue a tree by its id alone, and answer to its end."""
    async with opened(job) as supervisor:
        await answer(supervisor, await supervisor.resume(job.session), job)


async def cancel_midway(job: Job) -> None:
    """Run a tree that another task cancels at the n-th commit, and perhaps die some commits later."""
    store, due = Store(job), anyio.Event()

    def act() -> None:
        if job.kill_after:
            store.act, store.doom = ACTS["kill"], (job.when, store.count + job.kill_after)
        _call_in_loop(due.set)

    async def cancel(supervisor: Supervisor) -> None:
        await due.wait()
        await supervisor.cancel(job.session, reason="enough", by="ana")
        record("accepted", "cancel")

    store.act, store.doom = act, ("after", job.n)
    async with opened(job, store) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(cancel, supervisor)
        await answer(supervisor, await supervisor.start(scenario.top, job.session, session=job.session), job)
        tasks.cancel_scope.cancel()


def _call_in_loop(fn: Callable[[], None]) -> None:
    """Call something in the loop, since a commit may run in a worker thread."""
    if threading.current_thread() is threading.main_thread():
        fn()
    else:
        anyio.from_thread.run_sync(fn)


async def cancel(job: Job) -> None:
    """Cancel a tree from outside."""
    async with opened(job) as supervisor:
        await supervisor.cancel(job.session, reason="enough", by="bob")


async def begin_and_leave(job: Job) -> None:
    """Start a tree, and leave it as soon as it only waits for people."""
    async with opened(job) as supervisor:
        await supervisor.start(AGENTS[job.session], *INPUTS.get(job.session, ()), session=job.session)


async def own(job: Job) -> None:
    """Start a tree, say when all its approvals are asked, and stay until it has ended."""
    async with opened(job) as supervisor:
        await _own(supervisor, job)


async def _own(supervisor: Supervisor, job: Job) -> None:
    given = INPUTS.get(job.session, ())
    run = await supervisor.start(AGENTS[job.session], *given, session=job.session)
    async with run.watch_approvals() as questions:
        for _ in range(given[0] if given else 1):
            await anext(questions)
        tell(said="asked")
        outcome = await run.outcome()
        tell(said=outcome.value)


async def own_twice(job: Job) -> None:
    """Own a tree with one approval, and when it has ended another tree with the same one."""
    async with opened(job) as supervisor:
        await _own(supervisor, job)
        tell(said=await (await supervisor.start(AGENTS[job.session])).result())


async def decide_and_finish(job: Job) -> None:
    """Decide the approvals of a tree, even if they are decided already, and bring the tree to its end."""
    async with opened(job) as supervisor:
        (approval,) = await supervisor.find_approvals(pending=False)
        assert (await supervisor.decide(approval.id, _decision(job))).kind in ("accepted", "already")
    await finish(job)


async def finish(job: Job) -> None:
    """Resume a tree, answer nothing, and stay until it has ended."""
    async with opened(job) as supervisor:
        run = await supervisor.resume(job.session)
        await run.outcome()


async def claim(job: Job) -> None:
    """Try to start and to resume a tree that another process owns, and report the result."""
    async with opened(job) as supervisor:
        for attempt in (
            partial(supervisor.resume, job.session),
            partial(supervisor.start, AGENTS[job.session], session=job.session),
        ):
            try:
                await attempt()
            except TreeOwned as error:
                tell(said=[error.root, error.owner])


async def run_and_take_over(job: Job) -> None:
    """Run an own tree to its end next to another process. Then, when told, continue the other one's tree."""
    async with opened(job) as supervisor:
        await answer(supervisor, await supervisor.start(scenario.top, job.session, session=job.session), job)
        tell(said="finished")
        other = await supervisor.resume(json.loads(await listen()))
        await answer(supervisor, other, job)


def know_no_agents() -> None:
    """Be a program that only records, as the command line is: it has declared none of the agents."""
    until_death(replaced(starting, "find_declared", lambda *named: None))


async def decide_all(job: Job) -> None:
    """Decide every approval, one after another, each when told, and report the results."""
    know_no_agents()
    async with opened(job) as supervisor:
        for approval in await supervisor.find_approvals():
            tell(said=approval.id)
            await listen()
            tell(said=_words(await supervisor.decide(approval.id, _decision(job))))


async def decide_one(job: Job) -> None:
    know_no_agents()
    async with opened(job) as supervisor:
        (approval,) = await supervisor.find_approvals()
        tell(said=_words(await supervisor.decide(approval.id, _decision(job))))


def _decision(job: Job) -> Any:
    if job.decision == "always":
        return scenario.Approve(by="ana", scope="always")
    return scenario.Approve(by="ana") if job.decision == "approve" else scenario.Deny(by="bob")


def _words(result: DecisionResult) -> list[Any]:
    return [result.kind, result.status, result.by, result.running]


async def wait_to_be_killed(job: Job) -> None:
    """Ask a person, and die at the first event of a kind that this process adds to the journal."""
    async with opened(job) as supervisor:
        before = (await supervisor.find_owners()).cursor
        run = await supervisor.start(scenario.asker, session=job.session)
        async with run.watch_approvals() as watch:
            async for approval in watch:
                record(approval.id, "shown")
                break
        async with supervisor.watch_session(job.session, after=before) as watch:
            async for row in watch:
                if type(row.event).__name__ == job.when:
                    os.kill(os.getpid(), signal.SIGKILL)


AGENTS: dict[str, Any] = {
    "top": scenario.top,
    "asker": scenario.asker,
    "questioner": scenario.questioner,
    "suicidal": scenario.suicidal,
}
INPUTS: dict[str, tuple[Any, ...]] = {"top": ("top",), "questioner": (20,)}
"""Sessions are named after their agents here."""

JOBS = {
    fn.__name__: fn
    for fn in (
        begin_and_leave,
        cancel,
        cancel_midway,
        claim,
        decide_all,
        decide_and_finish,
        decide_one,
        finish,
        own,
        own_twice,
        resume,
        run,
        run_and_take_over,
        wait_to_be_killed,
    )
}
