"""The composition root: it wires, opens and closes a supervisor.

    journal (writer) > runner (attempts) > posting (cards) > channels

All parts run in one shielded host task, so that only our own cancellations reach a run. Closing sets stop reasons,
waits for the attempts, and ends the writer last.
"""

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from supervisor.core.approvals.people import People
from supervisor.core.approvals.reminders import EscalationStep, Reminders
from supervisor.core.approvals.routes import Route
from supervisor.core.budgets import Budget
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, StoreDied, StoreError
from supervisor.core.limits import Limit
from supervisor.core.schedules import Schedule
from supervisor.core.store_urls import is_postgres, read_store_url
from supervisor.core.usage import Usage
from supervisor.core.values import Policy
from supervisor.runtime.lifecycle.claim import ClaimLoop
from supervisor.runtime.lifecycle.orphans import OrphanedProcesses
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.people.health import watch_channel
from supervisor.runtime.people.posting import Posting
from supervisor.runtime.people.releasing import Releasing
from supervisor.runtime.people.routing import check_reminders, check_routes
from supervisor.runtime.reading.streams import end_streams
from supervisor.runtime.reading.unfinished import opened as opened_runners, unfinished
from supervisor.seam.channel import Channel
from supervisor.seam.store import Store
from supervisor.seam.supervisor import StoreSupervisor, Supervisor
from supervisor.store.memory import MemoryStore
from supervisor.store.sqlite.store import SqliteStore
from supervisor.system.interpreter import tuned
from supervisor.system.logs import FactLog
from supervisor.system.prices import genai_price
from supervisor.system.refusals import UNATTENDED
from supervisor.system.withheld import hold_hashes
from supervisor.tools.job_watch import JobWatch
from supervisor.tools.orphaned import end_orphaned_process

if TYPE_CHECKING:
    from supervisor.runtime.scheduling import Scheduling
    from supervisor.store.postgres.store import PostgresStore
    from supervisor.traces import TracedEnvironment

log = FactLog(__name__)

LOOK_FOR_OTHERS_SECONDS = 0.2  # seconds between two checks for commits of other processes
SHUTDOWN_TIMEOUT_SECONDS = 10.0  # seconds for executing calls to finish when the supervisor is stopped (R8)
UNWIND_TIMEOUT_SECONDS = 5.0  # seconds after that for cancelled runs to end; the log names those that do not


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
    escalation: Sequence[EscalationStep] = (),
    create: bool = True,
    adopt: bool = False,
    people: People | None = None,
    tune_interpreter: bool = False,
    routes: Sequence[Route] = (),
    traces: bool = False,
    trace_contents: bool = False,
    limits: Sequence[Limit] = (),
    prices: Callable[[Usage], float | None] = genai_price,
    budget: Budget | None = None,
    schedules: Sequence[Schedule] | None = None,
) -> AsyncIterator[StoreSupervisor]:
    """Open a store, and supervise the runs that are started or resumed on it. Opening itself runs and owns nothing.

    `store`: a file, by its path or a URL as `sqlite:///srv/a/state.db`; `postgresql://USER@HOST/DB?schema=NAME` (extra
    `postgres`); `memory:`; or a Store. A file is created with
    mode 0600 (`create=False` raises NotFound instead).
    `agents`: the agents that `start` finds by name. Raises InvalidInput if two have one name.
    `channels`: where people see approvals. The first channel that takes an approval shows it (A11).
    `unattended`: "allow" or "deny" answers every approval of the trees that this process owns; deny rules still win.
    `rules`: standing decisions on calls in every tree that this process runs: allow, deny, ask (A7).
    `adopt`: run every open tree that no process owns, now and later, as a daemon does (R2).
    `people`: people and their roles. None: the people of the channels; if no channel authenticates people, every
    process that can open the store may do everything (A4).
    `passivate_after`: seconds after which a run that only waits leaves memory.
    `remind_after`: seconds after which people are reminded of an approval that still waits; None: never (A10).
    `escalate_after`, `escalate_to`: seconds after the reminder (or after the approval was asked, without reminders)
    from which these people, by name, may decide it, too. Its card names them.
    `escalation`: steps, in place of these three: more of them, repeated ones, and where people are told.
    `routes`: on which channels, and where there, approvals are shown, by agent and tool. The first route that fits
    counts. Without one, the first channel that takes an approval shows it.
    `tune_interpreter`: collect garbage less often while this is open, and switch threads faster while a commit runs in
    a thread. Both are settings of the whole process, so the program decides on them. Our own commands set it.
    `traces`: write spans of runs, attempts, calls, steps and waits to the OpenTelemetry SDK that the program has
    configured (extra `otel`). `trace_contents`: with inputs, arguments and results. Secret arguments stay masked.
    `schedules`: the schedules in this program's code or configuration. None: it has none, and leaves alone those that
    the last one had. The schedules of the store whose agent is in `agents` begin in either case (R11).

    `prices`: what a request to a model costs, in dollars, for a Usage without a price; None: that is not known. The
    default are the prices of genai-prices, if it is installed (extra `prices`).
    `budget`: what each tree may spend before a person is asked that was started without a budget (B2).
    `limits`: how many model calls, tools and agents that name one of them run at once, or begin within a minute; the
    others wait in order (L1). Raises InvalidInput if two have one name.

    Leaving the context normally waits for runs that can go on, and passivates runs that wait for people. Leaving it by
    an exception or a cancellation stops all runs so that they can be resumed. Neither loses or withdraws anything. The
    body's exception is raised bare. Raises StoreUnreadable; StoreDied if the store died meanwhile; NotEntitled if a
    process that a supervised call started would allow everything by `unattended`.

    When everything is stopped, executing calls have 10 s to end, and are then cancelled. A run that has not ended 5 s
    later is logged as `run.abandoned`. Neither asyncio nor trio can end a loop while a task ignores its cancellation or
    a function blocks the loop. A program that must end even then runs under `stopping.run_until_stopped`.
    """
    reminders = Reminders(
        escalation, remind_after=remind_after, escalate_after=escalate_after, escalate_to=tuple(escalate_to)
    )
    by_name, known = named_agents(agents), people if people is not None else people_of(channels)
    check_routes(routes, channels, known)
    check_reminders(reminders, channels, known)
    if trace_contents and not traces:
        raise InvalidInput("trace_contents says what traces hold: give traces=True, too")
    hold_hashes(token.hash for person in known or () for token in person.tokens)
    trace = _import_traces(contents=trace_contents) if traces else None
    opened = store if isinstance(store, Store) else make_store(store, create=create)
    opened.open()
    try:
        environment = None if trace is None else trace(opened)
        runner = Runner(
            opened,
            passivate_after,
            rules=rules,
            orphans=OrphanedProcesses(end_orphaned_process),
            jobs=JobWatch,
            environment=environment,
            limits=limits,
            prices=prices,
            budget=budget,
        )
        if environment is not None:
            runner.published.append(environment.hear)
        supervisor = LocalSupervisor(runner, known, by_name)
        if unattended == "allow":
            supervisor.refuse_inside(UNATTENDED.what)
        Releasing(runner, supervisor.admission)  # the runner's signals keep it
        posting = Posting(
            runner,
            supervisor.reader,
            supervisor.audience,
            channels,
            unattended,
            reminders,
            supervisor.cards_failed,
            sweep=adopt,
            routes=routes,
            people=known,
        )
        signals = runner.came_for_unowned, runner.began_elsewhere
        claim_loop = ClaimLoop(runner.attempts, runner.claims, *signals) if adopt else None
        scheduling = None
        if agents or schedules is not None:  # without an agent it begins nothing
            from supervisor.runtime.scheduling import Scheduling  # few commands need it

            scheduling = Scheduling(runner, supervisor, schedules)
        with tuned() if tune_interpreter else nullcontext():
            async with serving(runner, supervisor, posting, claim_loop, channels, scheduling=scheduling):
                yield supervisor
    finally:
        opened.close()


def _import_traces(*, contents: bool) -> "Callable[[Store], TracedEnvironment]":
    """Raises InvalidInput without the extra."""
    from supervisor.traces import TracedEnvironment

    return partial(TracedEnvironment, contents=contents)


def named_agents(agents: Sequence[AgentSpec[..., Any]]) -> dict[str, AgentSpec[..., Any]]:
    """Return agents by their names. Raises InvalidInput if two have one name."""
    found: dict[str, AgentSpec[..., Any]] = {}
    for spec in agents:
        if found.setdefault(spec.name, spec) is not spec:
            raise InvalidInput(f"two agents are named {spec.name}: rename one with @agent(name=...)")
    return found


def people_of(channels: Sequence[Channel]) -> People | None:
    """Return the people of the channels; None if no channel authenticates people. Raises InvalidInput."""
    known = [each.people for each in channels if each.people is not None]
    if any(each is not known[0] for each in known):
        raise InvalidInput("the channels know different people: give all of them to open_supervisor, as people=...")
    return known[0] if known else None


def make_store(named: str | os.PathLike[str], *, create: bool = False) -> Store:
    """Return the store that a text or a path names, not open. Raises InvalidInput."""
    if isinstance(named, str) and is_postgres(named):
        return make_postgres(named, create=create)
    path = read_store_url(named) if isinstance(named, str) else os.fspath(named)
    return MemoryStore() if path is None else SqliteStore(path, create=create)


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """Open a store that exists, for what is no journal. Raises InvalidInput, StoreError."""
    store = make_store(url)
    store.open()
    try:
        yield store
    finally:
        store.close()


def make_postgres(url: str, *, create: bool = False) -> "PostgresStore":
    """Return the store at a URL, not open. Raises InvalidInput, also without the extra."""
    try:
        from supervisor.store.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "a store on PostgreSQL needs psycopg: pip install 'subagent-supervisor[postgres]'"
        ) from error
    return PostgresStore(url, create=create)


@asynccontextmanager
async def serving(
    runner: Runner,
    supervisor: LocalSupervisor,
    posting: Posting,
    claim_loop: ClaimLoop | None = None,
    channels: Sequence[Channel] = (),
    served: Supervisor | None = None,
    scheduling: "Scheduling | None" = None,
) -> AsyncIterator[None]:
    """Run a supervisor on an open store, and close it as `open_supervisor` says. `served`: what the channels serve;
    None: that supervisor."""
    opened_runners.add(runner)
    body: BaseException | None = None
    async with anyio.create_task_group() as outer:
        ready, leaving = anyio.Event(), anyio.Event()
        services = [each.run for each in (claim_loop, scheduling) if each is not None]
        outer.start_soon(_host, runner, served or supervisor, posting, services, channels, ready, leaving)
        await ready.wait()
        try:
            yield
            if scheduling is not None:
                scheduling.leave()
            await _drain(runner, posting)
        except anyio.get_cancelled_exc_class():
            await _stop(runner)
            raise
        except BaseException as error:  # noqa: BLE001 # raised bare below, when the task group is done
            await _stop(runner)
            body = error
        finally:
            try:
                await runner.jobs.leave()
            finally:
                end_streams(supervisor.reader)
                leaving.set()
    runner.journal.catch_up()  # notices a store that was just replaced, rather than report a missing session
    if body is not None:
        raise body
    if runner.journal.death is not None:
        raise StoreDied(str(runner.journal.death))


async def _host(
    runner: Runner,
    supervisor: Supervisor,
    posting: Posting,
    more: Sequence[Callable[[], Coroutine[Any, Any, None]]],
    channels: Sequence[Channel],
    ready: anyio.Event,
    leaving: anyio.Event,
) -> None:
    """Own every task. The writer outlives the attempts, and the attempts outlive the cards and the channels."""
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
                        for service in more:
                            services.start_soon(service)
                        for channel in channels:
                            if runner.journal.store.is_shared:
                                from supervisor.runtime.lifecycle.leading import until_leading  # few stores need it

                                channel.turn = partial(until_leading, runner.journal, channel.name)
                            health = anyio.CancelScope()
                            services.start_soon(watch_channel, channel, health)
                            services.start_soon(_serve, channel, supervisor, health)
                        ready.set()
                        await leaving.wait()
                        services.cancel_scope.cancel()
                    runner.bodies.forsake_threads()
                except BaseException:
                    runner.attempts.suspend_all("the supervisor failed")  # so no run fails
                    runner.bodies.forsake_threads()
                    raise
            runner.attempts.serve_in(None)
            writer.cancel_scope.cancel()


async def _serve(channel: Channel, supervisor: Supervisor, health: anyio.CancelScope) -> None:
    """Let a channel listen. If it fails, the supervisor goes on: its approvals can be decided elsewhere."""
    try:
        await channel.serve(supervisor)
    except Exception as error:  # noqa: BLE001 # a channel may raise anything
        health.cancel()  # this channel does not listen any more, also if the platform says that it is well
        channel.down = "it has failed, and listens again after a restart; the log says why"
        log.error("channel.failed", channel=channel.name, error=repr(error))


async def _drain(runner: Runner, posting: Posting) -> None:
    """Wait for the runs that can go on, and for the cards of decided approvals. Passivate runs that wait for people."""
    runner.passivation.leave()
    await runner.attempts.wait_until(lambda: runner.is_idle)
    await posting.settle()
    await runner.attempts.wait_until(lambda: runner.is_idle)
    runner.attempts.is_closed = True


async def _stop(runner: Runner) -> None:
    """Stop all runs so that they can be resumed. Executing calls may finish, for a bounded time (R8)."""
    with anyio.CancelScope(shield=True):
        runner.attempts.is_draining = runner.attempts.is_closed = True
        try:
            with anyio.move_on_after(SHUTDOWN_TIMEOUT_SECONDS):
                await runner.attempts.wait_until(lambda: not runner.calls_under_way)
        finally:  # a second, native cancellation ends the wait
            runner.attempts.suspend_all("the supervisor was stopped")
        with anyio.move_on_after(UNWIND_TIMEOUT_SECONDS):
            await runner.attempts.wait_until(lambda: runner.attempts.is_empty)
            return
        for each in unfinished(runner):
            log.error("run.abandoned", session=each.session, agent=each.agent, doing=each.doing, since=str(each.since))
        await runner.attempts.wait_until(lambda: runner.attempts.is_empty)


async def _look_for_others(runner: Runner) -> None:
    """Apply the decisions and cancels of other processes, and their other entries."""
    store = runner.journal.store
    store.attend()
    while store.is_durable:
        await anyio.sleep(LOOK_FOR_OTHERS_SECONDS / 2 if store.is_shared else LOOK_FOR_OTHERS_SECONDS)  # it looks, too
        runner.journal.catch_up()


async def _keep_log_short(store: Store) -> None:
    thread = anyio.CapacityLimiter(1)  # its own: all shared threads may be in use
    while store.is_durable:
        await anyio.sleep(LOOK_FOR_OTHERS_SECONDS)
        if store.wants_checkpoint():
            try:
                await anyio.to_thread.run_sync(store.checkpoint, limiter=thread)
            except StoreError as error:  # if the store has died, the next commit raises
                log.error("store.not_checkpointed", store=store.name, reason=str(error))
