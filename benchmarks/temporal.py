"""What do agents cost on Temporal, against one machine, and against a bare workflow that does the same?

Needs the extra temporal and its dev server (`.peers/temporal/bin/temporal`, or the program in BENCHMARK_TEMPORAL), so
it runs only by its name: `python -m benchmarks temporal`. The server keeps its data in a file, and each side has one
worker, in this process. The bare side waits for a signal and then runs an activity: no journal, no rules, no mark
before the effect, no audit, and a second signal is ignored. BENCHMARK_TREES=10000 starts and ends so many trees, once.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any, Final, TypeVar

import anyio
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from benchmarks import agents
from benchmarks.measure import Report, interleave, percentile, scratch
from benchmarks.scenes import PAYLOAD, waiting
from supervisor import Approve, Context, NotFound, ServerUnavailable, Supervisor, agent, open_supervisor, tool
from supervisor.temporal import open_temporal, run_worker

T = TypeVar("T")
AT_ONCE: Final = 20
CACHED: Final = 1000
"""The trees in the memory of a worker."""
BARE: Final = "bare"
_RAISED: Final = ("--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000")
"""The dev server looks at its queue at most 20 times a second, so that each hop through it waits for a grid of 50 ms.
The option raises that."""
_ENDED: Final = "WorkflowType = 'supervisor.tree' AND ExecutionStatus = 'Completed'"


@activity.defn
async def act(note: str) -> str:
    agents.effects[note] = perf_counter()
    return note


@workflow.defn
class Asker:
    """The bare side."""

    def __init__(self) -> None:
        self._is_decided = False

    @workflow.signal
    def decide(self) -> None:
        self._is_decided = True

    @workflow.run
    async def run(self, note: str) -> str:
        await workflow.wait_condition(lambda: self._is_decided)
        return await workflow.execute_activity(act, note, start_to_close_timeout=timedelta(seconds=60))


@tool(policy="allow", timeout=600)
async def nothing(number: int) -> int:
    return number


@agent
async def calling(ctx: Context, count: int) -> None:
    for number in range(count):
        await ctx.call(nothing, number)


held: list[int] = []
"""The processes that calls hold."""


@tool(policy="allow", timeout=600)
async def holding() -> None:
    process = await anyio.open_process(["sleep", "600"])
    held.append(process.pid)
    try:
        await process.wait()
    except anyio.get_cancelled_exc_class():
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()
        raise


@agent
async def holder(ctx: Context) -> None:
    await ctx.call(holding)


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    with scratch() as folder, _server(folder) as target:
        _compare_rates(report, target, smoke)
        if "BENCHMARK_TREES" not in os.environ:
            _compare_decisions(report, folder, target, smoke)
            _compare_cancels(report, folder, target, smoke)
            _count_events(report, target)
    if "BENCHMARK_TREES" not in os.environ:
        with scratch() as folder, _server(folder, *_RAISED) as target:
            _compare_decisions(report, folder, target, smoke, "with the server's queue limit raised")
    return {"rows": report.rows}


def _compare_decisions(report: Report, folder: Path, target: str, smoke: bool, how: str = "as it ships") -> None:
    count, repetitions = (5, 1) if smoke else (100, 5)
    sides = {
        "here": partial(anyio.run, _decide_here, folder, count),
        "ours": partial(anyio.run, _decide_ours, target, count),
        BARE: partial(anyio.run, _decide_bare, target, count),
    }
    found = interleave(sides, repetitions)
    report.compare(
        f"Decision -> effect begins, one after another, {count} waiting, {how}",
        "one machine: SQLite WAL synchronous=FULL; Temporal: SQLite, as the dev server sets it up",
    )
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        taken = {side: [percentile(each, share) for each in samples] for side, samples in found.items()}
        report.values(f"{name}: one machine, {how}", taken["here"], "ms", 1e3)
        report.values(f"{name}: a bare workflow, one signal, {how}", taken[BARE], "ms", 1e3)
        report.values(f"{name}: on Temporal, {how}", taken["ours"], "ms", 1e3)
        report.ratio(f"decision on Temporal over a bare workflow, {name}, {how}", taken["ours"], taken[BARE])
        report.ratio(f"decision on Temporal over one machine, {name}, {how}", taken["ours"], taken["here"])


def _compare_rates(report: Report, target: str, smoke: bool) -> None:
    named = os.environ.get("BENCHMARK_TREES")
    count, repetitions = (int(named), 1) if named else (5, 1) if smoke else (200, 3)
    sides = {
        "ours": partial(anyio.run, _rates_ours, target, count),
        BARE: partial(anyio.run, _rate_bare, target, count),
    }
    found = interleave(sides, repetitions)
    report.compare(f"{count} trees started, decided and ended, {AT_ONCE} requests at the same time")
    ours = [count / (begin + end) for begin, end in found["ours"]]
    report.values("on Temporal: until all wait", [begin for begin, _ in found["ours"]], "s")
    report.values("on Temporal: until all are decided and ended", [end for _, end in found["ours"]], "s")
    report.values("on Temporal: trees a second", ours, "/s")
    report.values("bare workflows a second", found[BARE], "/s")
    report.ratio("bare workflows a second over trees", found[BARE], ours)


def _compare_cancels(report: Report, folder: Path, target: str, smoke: bool) -> None:
    count = 2 if smoke else 20

    async def here() -> list[float]:
        async with open_supervisor(folder / "cancels.db") as supervisor:
            return await _cancels(supervisor, count)

    async def ours() -> list[float]:
        async with _working(target, [holder]) as supervisor:
            return await _cancels(supervisor, count)

    report.compare("A cancel -> the process of a call is gone")
    taken = anyio.run(ours)
    report.values("one machine", anyio.run(here), "s")
    report.values("on Temporal", taken, "s")
    report.ratio("cancel on Temporal, worst", [max(taken)], at_most=2, unit="s")


def _count_events(report: Report, target: str) -> None:
    report.compare("Events of a workflow's history, of which Temporal allows 51,200")
    allowed, asked, bare = anyio.run(_events, target)
    report.ratio("events of a call without an approval", [allowed], unit="")
    report.ratio("events of a tree with one call that a person approves", [asked], unit="")
    report.ratio("events of a bare workflow with a signal and an activity", [bare], unit="")


async def _decide_here(folder: Path, count: int) -> list[float]:
    agents.effects.clear()  # those of other sides have the same notes
    async with waiting(folder / f"{perf_counter()}.db", count) as (supervisor, _):
        return await _decisions(supervisor)


async def _decide_ours(target: str, count: int) -> list[float]:
    async with _working(target, [agents.asker]) as supervisor:
        await _start(supervisor, count)
        return await _decisions(supervisor)


async def _decisions(supervisor: Supervisor) -> list[float]:
    """Return the seconds from each decision to the effect."""
    taken = []
    for approval in await supervisor.find_approvals(limit=None):
        note = approval.arguments["note"]
        begun = perf_counter()
        await supervisor.decide(approval.id, Approve(by="ana"))
        taken.append(await _effect(note) - begun)
    return taken


async def _decide_bare(target: str, count: int) -> list[float]:
    taken = []
    async with _bare(target) as client:
        notes = [_note(number) for number in range(count)]
        handles = [
            await client.start_workflow(Asker.run, note, id=f"bare {perf_counter()}", task_queue=BARE) for note in notes
        ]
        for note, handle in zip(notes, handles, strict=True):
            agents.effects.pop(note, None)
            begun = perf_counter()
            await handle.signal(Asker.decide)
            taken.append(await _effect(note) - begun)
    return taken


async def _rates_ours(target: str, count: int) -> tuple[float, float]:
    async with _working(target, [agents.asker]) as supervisor:
        client = await Client.connect(target, namespace=supervisor.where.rpartition("/")[2])
        begun = perf_counter()
        await _start(supervisor, count)
        await _until(client, "SupervisorPending IS NOT NULL", count)
        all_wait = perf_counter()
        approvals = await _answered(lambda: supervisor.find_approvals(limit=None))

        async def decide(approval: Any) -> None:
            await _answered(lambda: supervisor.decide(approval.id, Approve(by="ana")))

        await _with_each(approvals, decide)
        await _until(client, _ENDED, count)
        return all_wait - begun, perf_counter() - all_wait


async def _until(client: Client, query: str, count: int) -> None:
    with anyio.fail_after(3600):
        while (await client.count_workflows(query)).count < count:
            await anyio.sleep(0.1)


async def _rate_bare(target: str, count: int) -> float:
    async with _bare(target) as client:
        begun = perf_counter()
        handles = []

        async def start(number: int) -> None:
            named = f"bare {begun} {number}"
            handles.append(await client.start_workflow(Asker.run, _note(number), id=named, task_queue=BARE))

        async def end(handle: Any) -> None:
            await handle.signal(Asker.decide)
            await handle.result()

        await _with_each(range(count), start)
        await _with_each(handles, end)
        return count / (perf_counter() - begun)


async def _cancels(supervisor: Supervisor, count: int) -> list[float]:
    taken = []
    for _ in range(count):
        held.clear()
        started = await supervisor.start(holder)
        while not held:
            await anyio.sleep(0.001)
        begun = perf_counter()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervisor.cancel, started.session)
            while Path(f"/proc/{held[0]}").exists():
                await anyio.sleep(0.001)
            taken.append(perf_counter() - begun)
        await started.outcome()
    return taken


async def _events(target: str) -> tuple[float, float, float]:
    async with _working(target, [agents.asker, calling]) as supervisor, _bare(target) as bare:
        client = await Client.connect(target, namespace=supervisor.where.rpartition("/")[2])

        async def count(session: str) -> int:
            return len((await client.get_workflow_handle(session).fetch_history()).events)

        lengths = []
        for number in (10, 20):
            await (await supervisor.start(calling, number, session=f"calling{number}")).result()
            lengths.append(await count(f"calling{number}"))
        await _start(supervisor, 1)
        (approval,) = await supervisor.find_approvals()
        await supervisor.decide(approval.id, Approve(by="ana"))
        await (await supervisor.get_run(approval.session)).outcome()
        handle = await bare.start_workflow(Asker.run, _note(0), id="bare events", task_queue=BARE)
        await handle.signal(Asker.decide)
        await handle.result()
        return (lengths[1] - lengths[0]) / 10, await count(approval.session), len((await handle.fetch_history()).events)


def _note(number: int) -> str:
    return f"{number} {PAYLOAD}"


async def _effect(note: str) -> float:
    """Wait for an effect. Return when it began."""
    while note not in agents.effects:
        await anyio.sleep(0.0005)
    return agents.effects.pop(note)


async def _start(supervisor: Supervisor, count: int) -> None:
    agents.effects.clear()

    async def start(number: int) -> None:
        await _answered(lambda: supervisor.start(agents.asker, _note(number), session=f"asker{number}"))

    await _with_each(range(count), start)


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the server answers: one that has too much to do does not, for a while. A second request has no second
    effect."""
    with anyio.fail_after(3600):
        while True:
            try:
                return await ask()
            except ServerUnavailable:
                await anyio.sleep(0.1)


async def _with_each(items: Iterable[Any], act_on: Callable[[Any], Any]) -> None:
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(item: Any) -> None:
        async with limit:
            await act_on(item)

    async with anyio.create_task_group() as tasks:
        for item in items:
            tasks.start_soon(one, item)


@asynccontextmanager
async def _working(target: str, offered: Sequence[Any]) -> AsyncIterator[Supervisor]:
    """Run a worker in a namespace of its own, and open that."""
    named = f"trees-{perf_counter_ns()}"
    made = [str(_program()), "operator", "namespace", "create", "--address", target, "--namespace", named]
    await anyio.run_process([*made, "--retention", "24h"])
    url = f"temporal://{target}/{named}"
    is_open = anyio.Event()

    async def work() -> None:
        while True:
            try:
                await run_worker(url, offered, cached=CACHED, is_open=is_open.set)
            except NotFound:  # the server caches which namespaces it has
                await anyio.sleep(0.5)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await is_open.wait()
        async with open_temporal(url) as supervisor:
            yield supervisor
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _bare(target: str) -> AsyncIterator[Client]:
    client = await Client.connect(target)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=BARE, workflows=[Asker], activities=[act], workflow_runner=runner):
        yield client


@contextmanager
def _server(folder: Path, *options: str) -> Iterator[str]:
    """Run the dev server. Yield its address, when it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(folder / "temporal.db")]
    command = [_program(), "server", "start-dev", "--headless", "--log-level", "never", *where, *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        anyio.run(_until_it_answers, f"127.0.0.1:{port}")
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


async def _until_it_answers(target: str) -> None:
    with anyio.fail_after(60):
        while True:
            try:
                await Client.connect(target)
            except RuntimeError:
                await anyio.sleep(0.1)
            else:
                return


def _program() -> str:
    usual = Path(__file__).parent.parent / ".peers/temporal/bin/temporal"
    return os.environ.get("BENCHMARK_TEMPORAL") or str(usual.resolve())
