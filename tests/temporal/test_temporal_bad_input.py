"""What is wrong on a cluster: each fault is one line that names it, and what to do."""

import socket
import subprocess
from base64 import b64encode
from pathlib import Path
from random import Random

import anyio
import pytest
from temporal_server import Server, namespace, shared, working

from supervisor import Approve, Context, InvalidInput, LimitExceeded, NotFound, ServerUnavailable, agent, tool
from supervisor.core.errors import ServerError
from supervisor.core.store_urls import read_temporal_url
from supervisor.temporal import connection, open_temporal, run_worker
from supervisor.temporal.payloads import VARIABLE
from supervisor.temporal.worker import bodies
from supervisor.temporal.worker.offered import Offered
from supervisor.temporal.workflow.environment import WorkflowEnvironment
from supervisor.testing import replaced, wrapped
from supervisor.tools import shell

pytestmark = pytest.mark.anyio


@tool(policy="allow")
async def repeating(text: str, times: int) -> str:
    return text * times


@agent
async def large(ctx: Context, sizes: list[int]) -> list[str]:
    result = await ctx.call(repeating, "x" * sizes[0], sizes[1])
    return [result.kind, result.content]


NOISE = b64encode(Random(1).randbytes(540_000)).decode()
"""720,000 characters. They take 1.44 MB of a journal, which fits, and 2.2 MB with the outcome, which does not."""


@agent
async def excessive(ctx: Context, what: str) -> str:
    text = "x" * 2_200_000
    match what:
        case "question":
            await ctx.ask(text)
        case "state":
            await ctx.save(text)
        case "input":
            await ctx.run(excessive, text)
    return NOISE if what == "noise" else text if what == "result" else "never"


@agent
async def commanding(ctx: Context) -> str:
    return (await ctx.call(shell, "echo hello from $PWD")).content


@agent
async def repeated(ctx: Context) -> str:
    return (await ctx.call(repeating, "x", 2)).content


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(120):
        yield


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def test_a_server_that_is_not_there_is_named():
    """By its address, for clients and workers."""
    url = f"temporal://127.0.0.1:{unused_port()}/default"
    for opened in (open_temporal(url).__aenter__(), run_worker(url, [large])):
        with pytest.raises(ServerUnavailable, match=r"127\.0\.0\.1"):
            await opened


async def test_a_namespace_that_is_not_there_is_named():
    """With the command that creates it."""
    await namespace()  # the server answers
    with pytest.raises(NotFound, match="temporal operator namespace create --namespace nowhere"):
        async with open_temporal(f"temporal://{shared()}/nowhere"):
            pass


@pytest.mark.parametrize("url", ["temporal://host/x", "temporal:host:7233/x", "temporal://u:p@host:7233/x", "s.db"])
async def test_a_wrong_url_is_refused(url):
    """It may hold a password, so it is not repeated."""
    with pytest.raises(InvalidInput, match="temporal://HOST:PORT/NAMESPACE") as refused:
        async with open_temporal(url):
            pass
    assert "u:p" not in str(refused.value)


async def test_a_search_attribute_that_may_not_be_made_is_named(enter):
    """With the command that makes it. The server refuses a type that there is not."""
    url = await namespace()
    enter(replaced(connection, "_WANTED", {"SupervisorOther": (99, "Keyword")}))
    client = await connection.connect_to_server(read_temporal_url(url))
    with pytest.raises(ServerError, match="temporal operator search-attribute create"):
        await connection.prepare(client, read_temporal_url(url))


async def ended(url: str, name: str, *given):
    with anyio.fail_after(60):
        async with open_temporal(url) as supervisor:
            return await (await supervisor.start(name, *given)).outcome()


async def test_arguments_and_results_that_are_too_large_are_errors():
    """Arguments are refused before a person is asked. The one result of a call says it of its value."""
    url = await namespace()
    async with working(url, [large]):
        given, got = [await ended(url, "large", numbers) for numbers in ([2_000_000, 1], [2, 1_000_000])]
    assert (given.kind, "object store" in given.cause) == ("failed", True)
    assert (got.value[0], "object store" in got.value[1]) == ("error", True)


async def test_a_value_of_an_agent_that_is_too_large_fails_its_run():
    """A server would take none of it: no worker could go on with the session, or read it."""
    url = await namespace()
    async with working(url, [excessive]):
        for what in ("result", "question", "state", "input"):
            outcome = await ended(url, "excessive", what)
            assert (what, outcome.kind) == (what, "failed")
            assert "object store" in outcome.cause


async def test_a_result_that_leaves_no_room_for_the_journal_is_the_last_turn():
    """The outcome counts. What another turn needs is left out, and the turn is refused with what to do."""
    url = await namespace()
    async with working(url, [excessive]), open_temporal(url) as supervisor:
        run = await supervisor.start(excessive, "noise", session="e")
        assert len(await run.result()) == len(NOISE)
        while await supervisor.trees.is_open("e"):
            await anyio.sleep(0.05)
        with pytest.raises(LimitExceeded, match=VARIABLE):
            await supervisor.send("e", "again")


async def test_a_command_runs_in_the_folder_of_its_session(tmp_path):
    """On a worker, as next to a store."""
    url = await namespace()
    async with working(url, [commanding]), open_temporal(url) as supervisor:
        run = await supervisor.start(commanding, cwd=str(tmp_path))
        async with run.watch_approvals() as watch:
            await supervisor.decide((await anext(watch)).id, Approve(by="ana"))
        assert await run.result() == f"hello from {tmp_path}\n"


async def test_a_worker_with_other_code_leaves_a_call_to_another_one(enter):
    """It has not begun: it waits for a worker that has its function, and then runs once."""
    asked: list[str] = []

    def resolve(resolve_here, reference: str):
        asked.append(reference)
        return resolve_here("gone.py:gone" if len(asked) == 1 else reference)

    enter(wrapped(bodies, "resolve", resolve))
    url = await namespace()
    async with working(url, [repeated]):
        assert (await ended(url, "repeated")).value == "xx"
    assert len(asked) == 2


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_trio_is_refused_in_one_line(anyio_backend):
    """temporalio runs on asyncio alone."""
    with pytest.raises(InvalidInput, match="asyncio"):
        async with open_temporal("temporal://127.0.0.1:7233/default"):
            pass


async def test_a_wait_goes_on_until_a_worker_lives():
    """Nothing is lost: what was started without one begins with the first."""
    url = await namespace()
    async with working(url, [repeated]):
        pass  # it has made the search attributes
    async with open_temporal(url) as supervisor:
        run = await supervisor.start("repeated", session="r")
        assert (await supervisor.get_session("r")).status == "active"
        with anyio.move_on_after(0.5) as waited:
            await run.outcome()
        assert waited.cancelled_caught
        async with working(url, [repeated]):
            assert await run.result() == "xx"


@agent
async def waiting(ctx: Context, number: int) -> str:
    return await ctx.ask(f"{number}?")


@agent
async def crowd(ctx: Context, number: int) -> list[str]:
    """Spawns so many sub-agents that wait, and cancels them."""
    children, refused = [], []
    for each in range(number):
        try:
            children.append(await ctx.spawn(waiting, each))
        except LimitExceeded as limit:
            refused.append(str(limit))
    for child in children:
        await child.cancel()
    return refused


async def test_a_tree_with_too_many_live_sessions_is_refused_more(enter):
    """By an error that the agent gets: a tree is one workflow, and must fit into memory and histories."""
    enter(replaced(WorkflowEnvironment, "most_live", 5))
    url = await namespace()
    async with working(url, [crowd]):
        outcome = await ended(url, "crowd", 6)
    assert [text[:28] for text in outcome.value] == ["the tree has 5 sessions at w"] * 2


@pytest.fixture
def server(tmp_path):
    """A server of the test's own, which it may kill and start again."""
    own = Server(tmp_path / "server.db")
    yield own
    own.kill()


async def test_a_server_that_goes_away_is_waited_for(server):
    """SIGKILL, and a new start with the same file: what it had acknowledged is there, and the worker goes on."""
    url = await namespace(server)
    async with working(url, [commanding]), open_temporal(url) as supervisor:
        run = await supervisor.start(commanding)
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
            server.kill()
            with pytest.raises(ServerUnavailable), anyio.fail_after(60):
                await supervisor.decide(asked.id, Approve(by="ana"))
            server.start()
            while True:
                try:
                    await supervisor.decide(asked.id, Approve(by="ana"))
                    break
                except ServerUnavailable:
                    await anyio.sleep(0.1)
            assert "hello from" in await run.result()


async def secret_step(text: str) -> str:
    return text


@pytest.mark.parametrize("function", [subprocess.check_output, Path.cwd, working])
async def test_a_worker_runs_no_function_that_its_agents_do_not_declare(function):
    """Although its module is loaded, and imported there: a client that starts activities cannot run any code."""
    with pytest.raises(InvalidInput, match="--also"):
        Offered([repeated]).check("MODULE:NAME", function)


async def test_a_worker_runs_what_its_agents_modules_declare():
    """Their functions and tools, imported tools, and those of modules that were named."""
    offered = Offered([repeated])
    offered.check("here", secret_step)
    offered.check("here", repeating)
    offered.check("there", shell)
    Offered([repeated], ["subprocess"]).check("there", subprocess.check_output)
