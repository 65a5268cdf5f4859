"""The bodies of calls and steps on workers: what has begun, what runs again, and what waits."""

import threading
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from cluster_agents import __file__ as AGENTS  # noqa: N812 # a path
from clusters import histories, replay
from temporal_server import Server, namespace, working
from temporalio import activity, workflow
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client

from supervisor import Context, ServerUnavailable, agent, tool
from supervisor.core import events as e
from supervisor.core.declarations.tool_context import StepContext
from supervisor.system.loading import load_agents
from supervisor.temporal import open_temporal
from supervisor.temporal.client import rescue as rescue_module, starting
from supervisor.temporal.client.rescue import rescue
from supervisor.temporal.payloads import VARIABLE
from supervisor.temporal.wire import Start, decision_id
from supervisor.temporal.worker import bodies
from supervisor.testing import replaced, wrapped

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(120):
        yield


@tool(policy="allow", timeout=60)
async def echoing(text: str) -> str:
    return text


async def echo(text: str) -> str:
    return text


@agent
async def impatient(ctx: Context) -> list[object]:
    """Gives up a step and a call when it is told to, and does both again."""
    found: list[object] = []

    async def step() -> None:
        found.append(await ctx.step(echo, "first"))

    async def call() -> None:
        found.append((await ctx.call(echoing, "first")).kind)

    for first in (step, call):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await ctx.receive()
            tasks.cancel_scope.cancel()
    return [*found, await ctx.step(echo, "second"), (await ctx.call(echoing, "second")).value]


async def is_cancel_requested() -> bool:
    """Return whether the server knows that the activity in which this runs is to be cancelled."""
    info = activity.info()
    described = await activity.client().get_workflow_handle(info.workflow_id).describe()
    found = [each for each in described.raw_description.pending_activities if each.activity_id == info.activity_id]
    return [each.state for each in found] == [PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED]


async def test_a_body_that_is_cancelled_before_its_mark_has_not_begun(enter):
    """So it gives no result: not to its agent, and not to the journal."""
    usual, before_marks = bodies._handle, [anyio.Event(), anyio.Event()]
    first = iter(before_marks)

    class Late:
        async def heartbeat(self, mark: object) -> None:
            if (before_mark := next(first, None)) is not None:
                before_mark.set()
                while not await is_cancel_requested():
                    await anyio.sleep(0.05)
            await usual().heartbeat(mark)

    enter(replaced(bodies, "_handle", Late))
    url = await namespace()
    async with working(url, [impatient]), open_temporal(url) as supervisor:
        run = await supervisor.start(impatient, session="i")
        for before_mark in before_marks:
            await before_mark.wait()
            await supervisor.send("i", "give it up")
        assert await run.result() == ["second", "second"]
        entries = [row.event for row in await supervisor.find_entries("i")]
    ended = [each.kind for each in entries if isinstance(each, e.ToolCallFinished | e.OperationFinished)]
    assert [kind for kind in ended if kind != "receive"] == ["step", "ok"]


@agent
async def hasty(ctx: Context) -> str:
    return await ctx.ask("Well?", expires_in=2.0)


async def test_an_expiry_that_a_tree_of_former_code_has_claimed_before_it_moved_counts(monkeypatch, enter):
    """The tree moves before the server has told it that its claim stands: it expires in the next workflow."""
    usual = workflow.start_child_workflow

    async def slow(*given: object, **options: object) -> None:
        await usual(*given, **options)
        if workflow.info().continued_run_id is None:
            await workflow.sleep(2)

    monkeypatch.setattr(workflow, "start_child_workflow", slow)
    enter(replaced(starting, "Start", lambda **given: Start(**{**given, "has_signals": False})))
    url = await namespace()
    async with working(url, [hasty]), open_temporal(url) as supervisor:
        run = await supervisor.start(hasty, session="h")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        while not await count_workflows(url, decision_id(asked.id)):
            await anyio.sleep(0.1)
        assert await rescue(supervisor, "h", goes_on=False, by="ana") == "parked"
        while await count_workflows(url, "h") < 2:
            await anyio.sleep(0.1)
        await rescue(supervisor, "h", goes_on=True, by="ana")
        with anyio.fail_after(20):  # of the 30 s after which a decision that was lost is asked for again
            assert "expired" in (await run.outcome()).cause


async def count_workflows(url: str, workflow_id: str) -> int:
    target, name = url.removeprefix("temporal://").split("/")
    client = await Client.connect(target, namespace=name)
    return len([each async for each in client.list_workflows(f'WorkflowId = "{workflow_id}"')])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "size", "has_folder"), [(5, 900_000, False), pytest.param(18, 250_000, True, marks=pytest.mark.soak)]
)
async def test_calls_that_are_large_together_are_all_made(number, size, has_folder, monkeypatch, tmp_path):
    """Each of them is small enough, and all of them are more than a server takes in one message."""
    if has_folder:
        monkeypatch.setenv(VARIABLE, str(tmp_path))
    url = await namespace()
    async with working(url, list(load_agents(AGENTS).values())), open_temporal(url) as supervisor:
        run = await supervisor.start("crowding", [number, size], session="c")
        with anyio.fail_after(60):
            assert await run.result() == number * size
    if not has_folder:
        replay(await histories(url, "c"), AGENTS, processes=1)


@agent
async def looking(ctx: Context, how: str) -> str:
    if how == "step":
        return await ctx.step(echo, "here")
    return (await ctx.call(echoing, "here")).content


@pytest.mark.parametrize("how", ["call", "step"])
async def test_a_body_whose_function_is_missing_does_not_hold_a_rescue(how):
    """The tree parks, and the next workflow looks for the function again: nothing has begun, so nothing was lost."""
    asked = list[str]()

    def resolve(resolve_here, reference: str) -> object:
        asked.append(reference)
        return resolve_here("gone.py:gone")

    url = await namespace()
    async with working(url, [looking]), open_temporal(url) as supervisor:
        with wrapped(bodies, "resolve", resolve):
            run = await supervisor.start(looking, how, session="c")
            while not asked:
                await anyio.sleep(0.1)
            assert await rescue(supervisor, "c", goes_on=False, by="ana") == "parked"
            assert await count_workflows(url, "c") == 2
        assert await rescue(supervisor, "c", goes_on=True, by="ana") == "going on"
        assert await run.result() == "here"


@agent
async def resting(ctx: Context) -> str:
    await ctx.call(sleeping, 3.0)
    return await ctx.ask("Rested?")


@tool(policy="allow")
async def sleeping(seconds: float) -> None:
    await anyio.sleep(seconds)


async def test_a_rescue_says_what_it_waits_for():
    """It has not parked before what runs has ended."""
    url = await namespace()
    async with working(url, [resting]), open_temporal(url) as supervisor:
        await supervisor.start(resting, session="c")
        while not [row for row in await supervisor.find_entries("c") if isinstance(row.event, e.ToolCallStarted)]:
            await anyio.sleep(0.1)
        with replaced(rescue_module, "MOVED_WITHIN_SECONDS", 0.5), pytest.raises(ServerUnavailable, match="sleeping"):
            await rescue(supervisor, "c", goes_on=False, by="ana")
        assert await rescue(supervisor, "c", goes_on=False, by="ana") == "parked"


@tool(policy="allow", timeout=60)
async def lingering(folder: str) -> str:
    """Has its effect, and ends when it may."""
    with (Path(folder) / "effects").open("a") as file:
        file.write("effect\n")
    while not (Path(folder) / "may end").exists():
        await anyio.sleep(0.05)
    (Path(folder) / "ended").touch()
    return "done"


@agent
async def outlasting(ctx: Context, folder: str) -> list[str]:
    result = await ctx.call(lingering, folder)
    return [result.kind, result.content]


@pytest.mark.slow
async def test_a_body_that_ends_while_the_server_is_dead_has_its_result(tmp_path):
    """SIGKILL of the server, and a new start with its file: the effect happens once, and the worker tells its end."""
    server = Server(tmp_path / "server.db")
    try:
        url = await namespace(server)
        async with working(url, [outlasting]), open_temporal(url) as supervisor:
            run = await supervisor.start(outlasting, str(tmp_path))
            while not (tmp_path / "effects").exists():
                await anyio.sleep(0.05)
            server.kill()
            (tmp_path / "may end").touch()
            while not (tmp_path / "ended").exists():
                await anyio.sleep(0.05)
            server.start()
            assert await run.result() == ["ok", "done"]
    finally:
        server.kill()
    assert (tmp_path / "effects").read_text() == "effect\n"


let_go = threading.Event()


@tool(policy="allow", timeout=0.2)
async def shielded() -> None:
    """Does not hear its cancellation."""
    await anyio.to_thread.run_sync(let_go.wait)


@tool(policy="allow", timeout=0.2)
def blocking(text: str) -> str:
    if text != "wait":
        return text
    let_go.wait()
    return "late"


def plain_step(context: StepContext, text: str) -> str:
    context.heartbeat()
    return f"{text}, plainly"


@agent
async def leaving(ctx: Context) -> list[object]:
    """Calls functions that do not end in time, and others without async."""
    found = [await ctx.call(shielded), await ctx.call(blocking, "wait")]
    reasons = [each.details["reason"] for each in found]
    return [*reasons, (await ctx.call(blocking, "done")).value, await ctx.step(plain_step, "said")]


async def test_a_worker_leaves_what_does_not_end_in_time_and_runs_functions_without_async_in_threads():
    """T3: inside the activity, so that the tree goes on, and a replay of the workflow finds the same."""
    url = await namespace()
    async with working(url, [leaving]), open_temporal(url) as supervisor:
        run = await supervisor.start(leaving, session="l")
        assert await run.result() == ["deadline", "deadline", "done", "said, plainly"]
        let_go.set()
