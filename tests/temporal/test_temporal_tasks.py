"""What fails a task of a workflow, and what fails the workflow: missing agents, and errors without a remedy."""

import anyio
import pytest
from temporal_server import namespace, working
from turning_agents import chatty

from supervisor import (
    Context,
    InvalidInput,
    NotFound,
    ServerUnavailable,
    SessionConflict,
    StepFailed,
    UnknownAgent,
    agent,
    tool,
)
from supervisor.temporal import open_temporal
from supervisor.temporal.client import turns
from supervisor.temporal.client.rescue import rescue
from supervisor.temporal.mirror.namespace import NotReadYet
from supervisor.temporal.payloads import VARIABLE
from supervisor.temporal.wire import Command
from supervisor.temporal.workflow import missing, moving
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio


@agent
async def other(ctx: Context) -> str:
    return "other"


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(120):
        yield


async def begun(supervisor, session: str, number: int = 1):
    """Return a run of a session when a worker has begun it."""
    while True:
        try:
            return await supervisor.get_run(session, number=number)
        except (NotFound, ServerUnavailable):
            await anyio.sleep(0.1)


def lacking():
    """Let the workers find none of the agents that this process has imported."""
    return replaced(missing, "find_referred", lambda *_: None)


@pytest.mark.slow
async def test_an_agent_that_one_worker_lacks_runs_on_another_one():
    """Each start, and each question of a reader, comes to any of them."""
    url = await namespace()
    async with working(url, [other]), working(url, [chatty]), open_temporal(url) as supervisor:
        for number in range(4):
            await supervisor.start(chatty, "hello", session=f"s{number}")
            run = await begun(supervisor, f"s{number}")
            assert await run.result() == "hello after 0"


@pytest.mark.slow
async def test_an_agent_that_no_worker_has_is_refused_and_never_begins():
    """At once, with the agents that there are; also where a worker with it starts later."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        async with working(url, [other]):
            with pytest.raises(UnknownAgent, match="other"), anyio.fail_after(4):
                await supervisor.start("chatty", "hello", session="s")
        async with working(url, [chatty]):
            assert (await (await begun(supervisor, "s")).outcome()).kind == "cancelled"


@pytest.mark.slow
async def test_a_turn_that_a_worker_without_its_agent_takes_up_runs_on_another_one(caplog):
    """It blocks nothing there, and the history that it leaves is the right worker's. It says once what it lacks."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        async with working(url, [chatty]):
            await (await supervisor.start(chatty, "first", session="s")).outcome()
        with lacking():
            async with working(url, [other]):
                await supervisor.send("s", "second")
        async with working(url, [chatty]):
            assert await (await begun(supervisor, "s", 2)).result() == "second after 2"
    told = [text for each in caplog.records if "tree.left_to_another_worker" in (text := each.getMessage())]
    assert len(told) == 1
    assert "chatty" in told[0]


@pytest.mark.slow
async def test_a_query_that_a_worker_without_the_agent_fails_may_be_answered_by_another_one(enter):
    """So it is asked again, until the time is over."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        async with working(url, [chatty]):
            await (await supervisor.start(chatty, "first", session="s")).outcome()
        enter(lacking())
        async with working(url, [other]):
            with pytest.raises(NotReadYet, match="chatty"):
                await supervisor.mirror.namespace.query("s", "entries", 0, bytes)


async def test_a_turn_after_an_end_that_left_nothing_fails_in_one_line(enter):
    """Its client knew an older end. Whoever waits gets the reason, and so does the next message."""
    url = await namespace()
    async with working(url, [chatty]), open_temporal(url) as supervisor:
        await (await supervisor.start(chatty, "first", session="s")).outcome()
        trees = supervisor.trees
        old = await trees.namespace.describe("s")
        left = await turns.find_left(trees.client, trees.named, old)
        enter(replaced(moving, "CARRIED_LARGEST_BYTES", 10))
        await supervisor.send("s", "second")
        assert await (await begun(supervisor, "s", 2)).result() == "second after 2"
        while await trees.is_open("s"):
            await anyio.sleep(0.05)
        late = Command(id="late", kind="send", session="s", by="ana", text="third")
        await turns.follow(trees.client, trees.named, old, left, late)
        while await trees.is_open("s"):
            await anyio.sleep(0.05)
        for command in (supervisor.send("s", "fourth"), supervisor.retry("s")):
            with pytest.raises(InvalidInput, match=VARIABLE):
                await command
        assert [each.status for each in await supervisor.find_sessions()] == ["completed"]
        with pytest.raises(SessionConflict):
            await supervisor.start(chatty, "again", session="s")


_begun: list[str] = []


async def sticking() -> str:
    """Show no progress at the first time."""
    _begun.append("")
    if len(_begun) == 1:
        await anyio.sleep_forever()
    return "done"


@agent(inactivity_timeout=2)
async def stuck(ctx: Context) -> str:
    return await ctx.step(sticking)


async def test_a_step_that_stalls_while_its_tree_is_to_move_holds_nothing():
    """It runs again where the tree goes on."""
    url = await namespace()
    async with working(url, [stuck]), open_temporal(url) as supervisor:
        run = await supervisor.start(stuck, session="s")
        while not _begun:
            await anyio.sleep(0.05)
        with anyio.fail_after(30):
            await rescue(supervisor, "s", goes_on=False, by="ana")
            await rescue(supervisor, "s", goes_on=True, by="ana")
            assert await run.result() == "done"


async def wordy_step(size: int) -> str:
    raise ValueError("x" * size)


@tool(policy="allow")
async def wordy_tool(size: int) -> str:
    raise ValueError("x" * size)


@agent
async def wordy(ctx: Context, size: int) -> str:
    said = (await ctx.call(wordy_tool, size)).content
    try:
        await ctx.step(wordy_step, size)
    except StepFailed as error:
        said += str(error)
    raise ValueError(said + "x" * size)


async def test_an_exception_with_a_text_that_no_server_takes_is_cut():
    """Of a tool, of a step and of an agent: the run fails with the beginning and the end of it."""
    url = await namespace()
    async with working(url, [wordy]), open_temporal(url) as supervisor:
        outcome = await (await supervisor.start(wordy, 3_000_000, session="s")).outcome()
        assert outcome.kind == "failed"
        assert outcome.cause.startswith("ValueError: ValueError: x")
        assert len(outcome.cause) < 100_000
