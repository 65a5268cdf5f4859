"""The limits of a body and of a memo: what stalls, what takes too long, and what is too large to be shown."""

import json

import anyio
import pytest
from cluster_agents import __file__ as AGENTS  # noqa: N812 # a path
from clusters import histories
from fronts import LosingFront
from temporal_server import namespace, shared, working
from temporalio.worker import Worker
from watching import calls_of

from supervisor import Context, MemoryStore, agent, open_supervisor, tool
from supervisor.system.loading import load_agents
from supervisor.temporal import open_temporal
from supervisor.temporal.worker import bodies, worker
from supervisor.testing import replaced

in_process = pytest.mark.anyio


@tool(policy="allow", timeout=0.5)
async def sleeping() -> None:
    await anyio.sleep_forever()


async def idle() -> None:
    await anyio.sleep_forever()


@agent
async def patient(ctx: Context) -> list[str]:
    """Calls a tool that takes too long."""
    result = await ctx.call(sleeping)
    return [result.kind, result.content, str(result.details)]


@agent(inactivity_timeout=1)
async def idling(ctx: Context) -> None:
    """Takes a step that makes no progress."""
    await ctx.step(idle)


@in_process
@pytest.mark.parametrize("agent_", [patient, idling], ids=["deadline", "stall"])
async def test_a_body_that_takes_too_long_ends_as_on_one_machine(agent_):
    url = await namespace()
    async with open_supervisor(MemoryStore()) as here:
        expected = await (await here.start(agent_)).outcome()
    async with working(url, [agent_]), open_temporal(url) as there:
        outcome = await (await there.start(agent_)).outcome()
    assert (outcome.kind, outcome.value) == (expected.kind, expected.value)
    assert outcome.kind == ("succeeded" if agent_ is patient else "stalled")


@in_process
async def test_a_body_counts_as_lost_after_30_seconds_and_shows_life_each_second():
    """By default. The history says the first; temporalio's worker passes on each sign of life that a body gives."""
    url = await namespace()
    with calls_of(Worker.__init__, lambda frame: frame.f_locals["self"]) as made:
        async with working(url, [patient]), open_temporal(url) as supervisor:
            run = await supervisor.start(patient)
            await run.outcome()
    (history,) = (await histories(url, run.session)).values()
    scheduled = [
        each["activityTaskScheduledEventAttributes"]
        for each in history["events"]
        if "activityTaskScheduledEventAttributes" in each
    ]
    assert "30s" in [each.get("heartbeatTimeout") for each in scheduled]
    assert made[0].config()["max_heartbeat_throttle_interval"].total_seconds() < 2 * bodies.PULSE_SECONDS == 1


async def thinking() -> None:
    await anyio.sleep(0.3)


@agent(inactivity_timeout=2)
async def quiet(ctx: Context) -> str:
    """Thinks for a while, sleeps once, and asks."""
    await ctx.step(thinking)
    await ctx.sleep(0.1)
    return await ctx.ask("Well?")


@in_process
async def test_the_watchdog_does_not_tick_inside_a_workflow():
    """Neither while a step runs, nor while a person is waited for: the one timer of the history is the agent's."""
    url = await namespace()
    async with working(url, [quiet]), open_temporal(url) as supervisor:
        run = await supervisor.start(quiet)
        async with run.watch_approvals() as watch:
            await anext(watch)
        (history,) = (await histories(url, run.session)).values()
    kinds = [each["eventType"] for each in history["events"]]
    assert kinds.count("EVENT_TYPE_TIMER_STARTED") == 1


@pytest.mark.soak
def test_an_approval_that_no_memo_holds_needs_a_worker(cluster):
    """A memo holds 64 KiB. A decision on one that it holds counts without a worker; on another one it is an error."""
    cluster.worker()
    cluster.run("start", "janitor", json.dumps([f"/{n}/" + "x" * 30000 for n in range(3)]), "--session", "j", code=3)
    every = {each["id"] for each in cluster.pending(3)}
    cluster.kill()
    out, said = (text.decode() for text in cluster.begin("approvals", "--json").communicate(timeout=60))
    held = {each["id"] for each in json.loads(out)}
    (left_out,) = every - held
    assert "count=1" in said
    assert "supervisor worker" in cluster.run("approve", left_out, code=8)
    assert cluster.read("approve", held.pop())["kind"] == "recorded"
    cluster.worker()
    assert cluster.read("approve", held.pop())["kind"] == "accepted"
    assert cluster.read("approve", left_out)["kind"] == "accepted"
    assert cluster.outcome("j")["kind"] == "succeeded"
    assert len(cluster.effects()) == 1 + 3


@in_process
async def test_a_cancel_reaches_a_call_with_one_of_its_next_signs_of_life(tmp_path, monkeypatch):
    """A worker that runs the tree, too, lets the body give more of them at once. The server's answer to the first one
    may be on its way. The process of the call is gone then; tests/test_benchmarks.py measures the time."""
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    front, url, agents = LosingFront("nothing", is_back=True), await namespace(), list(load_agents(AGENTS).values())
    async with (
        front.serving(shared()) as address,
        open_temporal(url) as supervisor,
        working(url.replace(shared(), address), agents),
    ):
        run = await supervisor.start("deep", 1)
        while front.seen.count("RecordActivityTaskHeartbeat") < 4:  # of both: the mark, and a sign of life
            await anyio.sleep(0.05)
        before = len(front.seen)
        await supervisor.cancel(run.session)
        await run.outcome()
    seen = front.seen[before:]
    seen = seen[seen.index("RespondWorkflowTaskCompleted") :]
    ended = [number for number, name in enumerate(seen) if name.startswith("RespondActivityTask")]
    assert len(ended) == 2
    assert seen[: ended[-1]].count("RecordActivityTaskHeartbeat") <= 2 * len(bodies.HURRY_SECONDS) == 4
    effects = (tmp_path / "effects").read_text().splitlines()
    assert sorted(each.split()[0] for each in effects) == ["begun", "begun", "gone", "gone"]


@tool(policy="allow")
async def unending() -> None:
    """Do not end when cancelled, until the test says so."""
    _stages[0].set()
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await _stages[1].wait()


_stages: list[anyio.Event] = []


@agent
async def holding_on(ctx: Context) -> None:
    await ctx.call(unending)


@in_process
async def test_a_body_that_does_not_end_holds_the_stop_of_its_worker_for_a_bounded_time(enter, caplog):
    """The log says so."""
    enter(replaced(worker, "STOPPED_AFTER_SECONDS", 1.0))
    begun, end = _stages[:] = anyio.Event(), anyio.Event()
    url = await namespace()
    async with open_temporal(url) as supervisor, working(url, [holding_on]):
        await supervisor.start(holding_on)
        await begun.wait()
    assert "worker.not_stopped" in caplog.text
    end.set()


@tool(policy="allow", queue="elsewhere")
async def holding_elsewhere() -> None:
    _stages[0].set()
    try:
        await anyio.sleep_forever()
    finally:
        _stages[1].set()


@agent
async def reaching(ctx: Context) -> None:
    await ctx.call(holding_elsewhere)


@in_process
async def test_a_cancel_reaches_a_call_on_another_worker_before_its_next_sign_of_life():
    """The worker that runs the session sends a courier to it. The next sign of life would come a second after the first
    one: that is 0.9, 0.7 and 0.5 s later here."""
    url, taken = await namespace(), list[float]()
    async with (
        open_temporal(url) as supervisor,
        working(url, [reaching]),
        working(url, [reaching], queue="elsewhere"),
    ):
        for number in range(3):
            begun, gone = _stages[:] = anyio.Event(), anyio.Event()
            run = await supervisor.start(reaching, session=f"r{number}")
            await begun.wait()
            await anyio.sleep(0.1 + 0.2 * number)
            before = anyio.current_time()
            await supervisor.cancel(run.session)
            await gone.wait()
            taken.append(anyio.current_time() - before)
            await run.outcome()
    assert sorted(taken)[1] < 0.45, taken
