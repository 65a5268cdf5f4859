"""The composition root: how a supervisor is wired, opened and left.

    journal (writer) > runner (attempts) > posting (cards) > channels

All of it runs in one shielded host task, so that nobody's cancellation but ours reaches a run. Leaving sets fates,
waits for the attempts, and ends the writer last.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio

from supervisor.abc import Channel, Store, StoreSupervisor
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, StoreDied, StoreError
from supervisor.core.people import People
from supervisor.core.reminders import Reminders
from supervisor.core.rules import Rule
from supervisor.core.store_urls import read_store_url
from supervisor.core.values import Policy
from supervisor.logs import FactLog
from supervisor.runtime.lifecycle.claim import ClaimLoop
from supervisor.runtime.lifecycle.orphans import OrphanedProcesses
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.people.posting import Posting
from supervisor.runtime.reading.streams import end_streams
from supervisor.runtime.reading.unfinished import opened as opened_runners, unfinished
from supervisor.store.memory import MemoryStore
from supervisor.store.sqlite.store import SqliteStore
from supervisor.system.interpreter import tuned
from supervisor.tools.job_watch import JobWatch
from supervisor.tools.orphaned import end_orphaned_process

log = FactLog(__name__)

LOOK_FOR_OTHERS = 0.2  # seconds between two looks for what other processes have committed
SHUTDOWN_TIMEOUT = 10.0  # seconds that executing calls may take to finish when the supervisor is stopped (R8)
UNWIND_TIMEOUT = 5.0  # seconds after that in which what was cancelled ends; what does not is named in the log


@asynccontextmanager
async def open_supervisor(
    store: str | os.PathLike[str] | Store,
    *,
    agents: Sequence[AgentSpec[..., Any]] = (),
    channels: Sequence[Channel] = (),
    unattended: Policy = "ask",
    rules: Sequence[Rule] = (),
    passivate_after: float = 60.0,
    remind_after: float | None = None,
    escalate_after: float | None = None,
    escalate_to: Sequence[str] = (),
    create: bool = True,
    adopt: bool = False,
    people: People | None = None,
    tune_interpreter: bool = False,
) -> AsyncIterator[StoreSupervisor]:
    """Open a store and supervise what is started or resumed on it. Opening runs and owns nothing.

    `store`: a file, which is created with mode 0600 (`create=False` raises NotFound instead), by a path or a text as
    `sqlite:///srv/a/state.db`; `memory:`; or a Store.
    `agents`: those that `start` finds by their names. Raises InvalidInput if two have one name.
    `channels`: where people are asked; the first that takes an approval shows it (A11).
    `unattended`: "allow" or "deny" answers every approval of the trees that this process owns; deny rules still win.
    `rules`: standing decisions on calls in every tree that this process runs: allow, deny, ask (A7).
    `adopt`: run every open tree that nobody owns, now and later, as a daemon does (R2).
    `people`: who may do what. None: those of the channels, and where these authenticate no people, whoever can open the
    store may do everything (A4).
    `passivate_after`: seconds after which a run that only waits leaves memory.
    `remind_after`: seconds after which people are shown once more what still waits for them; None: never (A10).
    `escalate_after`, `escalate_to`: seconds after that from which these people, by name, may decide it, too; they are
    named on its card.
    `tune_interpreter`: collect garbage less often while this is open, and switch threads faster while a commit is in
    one. Both are settings of the whole process, so a program decides on them; our own commands do it.

    Leaving normally waits for what can go on, and passivates what waits for people. Leaving by an exception or a
    cancellation stops everything so that it can be resumed; neither loses or withdraws anything. The body's exception
    is raised bare. Raises StoreUnreadable; StoreDied if the store died meanwhile; NotEntitled where a supervised call
    would allow everything by `unattended`.

    Calls that execute have 10 s to end when everything is stopped, then they are cancelled. What has not ended 5 s
    later is logged as `run.abandoned`. Neither asyncio nor trio can be left while a task ignores its cancellation, or
    while a function holds the loop; a program that has to end even so runs under `stopping.run_until_stopped`.
    """
    reminders = Reminders(remind_after=remind_after, escalate_after=escalate_after, escalate_to=tuple(escalate_to))
    by_name, known = named_agents(agents), people if people is not None else people_of(channels)
    opened = store if isinstance(store, Store) else _make_store(store, create=create)
    opened.open()
    try:
        runner = Runner(
            opened, passivate_after, rules=rules, orphans=OrphanedProcesses(end_orphaned_process), jobs=JobWatch
        )
        supervisor = LocalSupervisor(runner, known, by_name)
        if unattended == "allow":
            supervisor.refuse_inside("allowing everything (unattended)")
        posting = Posting(runner, supervisor.reader, supervisor.audience, channels, unattended, reminders, sweep=adopt)
        adoption = ClaimLoop(runner.attempts, runner.claims, runner.came_for_unowned) if adopt else None
        with tuned() if tune_interpreter else nullcontext():
            async with serving(runner, supervisor, posting, adoption, channels):
                yield supervisor
    finally:
        opened.close()


def named_agents(agents: Sequence[AgentSpec[..., Any]]) -> dict[str, AgentSpec[..., Any]]:
    """Return agents by their names. Raises InvalidInput if two have one name."""
    found: dict[str, AgentSpec[..., Any]] = {}
    for spec in agents:
        if found.setdefault(spec.name, spec) is not spec:
            raise InvalidInput(f"two agents are named {spec.name}: rename one with @agent(name=...)")
    return found


def people_of(channels: Sequence[Channel]) -> People | None:
    """Return the people whom the channels hear; None if none of them authenticates people. Raises InvalidInput."""
    known = [each.people for each in channels if each.people is not None]
    if any(each is not known[0] for each in known):
        raise InvalidInput("the channels know different people: give all of them to open_supervisor, as people=...")
    return known[0] if known else None


def _make_store(named: str | os.PathLike[str], *, create: bool) -> Store:
    path = read_store_url(named) if isinstance(named, str) else os.fspath(named)
    return MemoryStore() if path is None else SqliteStore(path, create=create)


@asynccontextmanager
async def serving(
    runner: Runner,
    supervisor: LocalSupervisor,
    posting: Posting,
    adoption: ClaimLoop | None = None,
    channels: Sequence[Channel] = (),
) -> AsyncIterator[None]:
    """Run a supervisor on a store that is open, and leave it as `open_supervisor` says."""
    opened_runners.add(runner)
    body: BaseException | None = None
    async with anyio.create_task_group() as outer:
        ready, leaving = anyio.Event(), anyio.Event()
        outer.start_soon(_host, runner, supervisor, posting, adoption, channels, ready, leaving)
        await ready.wait()
        try:
            yield
            await _drain(runner, posting)
        except anyio.get_cancelled_exc_class():
            await _stop(runner)
            raise
        except BaseException as error:  # noqa: BLE001 # it leaves bare, below, when the task group is done
            await _stop(runner)
            body = error
        finally:
            try:
                await runner.jobs.leave()
            finally:
                end_streams(supervisor.reader)
                leaving.set()
    runner.journal.catch_up()  # a store that was replaced a moment ago is said to be, not that it lacks a session
    if body is not None:
        raise body
    if runner.journal.death is not None:
        raise StoreDied(str(runner.journal.death))


async def _host(
    runner: Runner,
    supervisor: LocalSupervisor,
    posting: Posting,
    adoption: ClaimLoop | None,
    channels: Sequence[Channel],
    ready: anyio.Event,
    leaving: anyio.Event,
) -> None:
    """Own every task: the writer outlives the attempts, the attempts outlive the cards and the channels."""
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as writer:
            writer.start_soon(runner.journal.run)
            async with anyio.create_task_group() as tasks:
                runner.attempts.serve_in(tasks)
                try:
                    async with anyio.create_task_group() as services:
                        posting.serve_in(services)
                        services.start_soon(runner.alarm.run)
                        services.start_soon(posting.run)
                        services.start_soon(runner.jobs.run)
                        services.start_soon(_look_for_others, runner)
                        services.start_soon(_keep_log_short, runner.journal.store)
                        if adoption is not None:
                            services.start_soon(adoption.run)
                        for channel in channels:
                            services.start_soon(_serve, channel, supervisor)
                        ready.set()
                        await leaving.wait()
                        services.cancel_scope.cancel()
                except BaseException:
                    runner.attempts.suspend_all("the supervisor fell")  # no run fails because we did
                    raise
            writer.cancel_scope.cancel()


async def _serve(channel: Channel, supervisor: LocalSupervisor) -> None:
    """Let a channel listen; one that cannot takes nobody down: what it was asked to show can be decided elsewhere."""
    try:
        await channel.serve(supervisor)
    except Exception as error:  # noqa: BLE001 # a channel may raise anything
        log.error("channel.failed", channel=channel.name, error=repr(error))


async def _drain(runner: Runner, posting: Posting) -> None:
    """Wait for what can go on, and for the cards of what was decided; what waits for people goes to sleep."""
    runner.quiet.leave()
    await runner.attempts.wait_until(lambda: runner.is_idle)
    await posting.settle()
    await runner.attempts.wait_until(lambda: runner.is_idle)
    runner.attempts.is_closed = True


async def _stop(runner: Runner) -> None:
    """Stop everything so that it can be resumed: calls that execute may finish, for a bounded time (R8)."""
    with anyio.CancelScope(shield=True):
        runner.attempts.is_draining = runner.attempts.is_closed = True
        try:
            with anyio.move_on_after(SHUTDOWN_TIMEOUT):
                await runner.attempts.wait_until(lambda: not runner.is_executing)
        finally:  # a second cancellation that knows no shields is in a hurry
            runner.attempts.suspend_all("the supervisor was stopped")
        with anyio.move_on_after(UNWIND_TIMEOUT):
            await runner.attempts.wait_until(lambda: runner.attempts.is_empty)
            return
        for each in unfinished(runner):
            log.error("run.abandoned", session=each.session, agent=each.agent, doing=each.doing, since=str(each.since))
        await runner.attempts.wait_until(lambda: runner.attempts.is_empty)


async def _look_for_others(runner: Runner) -> None:
    """Take in what other processes decide and cancel."""
    while runner.journal.store.is_durable:
        await anyio.sleep(LOOK_FOR_OTHERS)
        runner.journal.catch_up()


async def _keep_log_short(store: Store) -> None:
    thread = anyio.CapacityLimiter(1)  # of its own: those of others may all be taken
    while store.is_durable:
        await anyio.sleep(LOOK_FOR_OTHERS)
        if store.wants_checkpoint():
            try:
                await anyio.to_thread.run_sync(store.checkpoint, limiter=thread)
            except StoreError as error:  # if the store has died of it, the next commit says so
                log.error("store.not_checkpointed", store=store.name, reason=str(error))
