"""Trees that Temporal has ended, by hand or by a limit: they are shown so, and take nothing more."""

from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import pytest
from temporal_server import namespace, working
from temporalio.client import Client
from watching import calls_of

from supervisor import Answer, Context, InvalidInput, NotFound, ServerUnavailable, SessionConflict, agent, tool
from supervisor.core.errors import ServerError
from supervisor.core.store_urls import read_temporal_url
from supervisor.temporal import open_temporal
from supervisor.temporal.client.remote import TemporalSupervisor
from supervisor.temporal.client.runs import TemporalRun
from supervisor.temporal.connection import connect_to_server
from supervisor.temporal.mirror import mirror
from supervisor.temporal.mirror.mirror import Mirror
from supervisor.temporal.mirror.namespace import NamespaceReader
from supervisor.testing import replaced, wrapped

pytestmark = pytest.mark.anyio


@tool(policy="allow")
async def adding(number: int) -> int:
    return number + 1


@agent
async def asking(ctx: Context) -> str:
    return await ctx.ask("Well?")


@agent
async def leading(ctx: Context) -> str:
    return await ctx.run(asking)


@agent(name="leading")
async def changed(ctx: Context) -> str:
    await ctx.call(adding, 1)
    return await ctx.ask("Other?")


@pytest.fixture(autouse=True)
async def bounded():
    with anyio.fail_after(60):
        yield


async def asked(supervisor):
    while not (found := await supervisor.find_approvals()):
        await anyio.sleep(0.05)
    return found[0]


async def client_of(url: str) -> Client:
    target, name = url.removeprefix("temporal://").split("/")
    return await Client.connect(target, namespace=name)


async def terminate(url: str, session: str) -> None:
    """Terminate it, and wait until the server lists it so: that comes a little later."""
    client = await client_of(url)
    await client.get_workflow_handle(session).terminate(reason="by hand")
    while not (await client.count_workflows(f"WorkflowId = '{session}' AND ExecutionStatus = 'Terminated'")).count:
        await anyio.sleep(0.02)


@asynccontextmanager
async def following(url: str):
    """A supervisor that follows every tree, as a server does."""
    named = read_temporal_url(url)
    supervisor = TemporalSupervisor(await connect_to_server(named), named)
    await supervisor.mirror.follow_all()
    yield supervisor


async def test_a_tree_that_was_terminated_is_shown_as_such_and_takes_nothing_more():
    """The program that waits for it goes on; a client that comes later sees the same, in the same words."""
    url = await namespace()
    async with working(url, [leading, asking]), open_temporal(url) as first:
        run = await first.start(leading, session="c")
        approval = (await asked(first)).id
        await terminate(url, "c")
        outcome = await run.outcome()
        assert (outcome.kind, "by hand" in outcome.cause) == ("abandoned", True)
        async with open_temporal(url) as later:
            child, root = sorted(await later.find_sessions(), key=lambda each: each.parent is None)
            assert (root.id, root.status, child.status) == ("c", "error", "error")
            assert (await later.get_session("c")).outcome["cause"] == outcome.cause
            assert not await later.find_approvals()
            result = await later.decide(approval, Answer(value="x", by="ana"))
            assert (result.kind, result.status) == ("closed", "withdrawn")
            ends = [[each.event for each in await one.find_entries("c", tree=True)] for one in (first, later)]
            assert ends[0] == ends[1]


async def test_a_command_to_a_tree_that_was_terminated_is_refused_in_one_line():
    """Its id is not used again by another start. A fork goes on with what it has journaled."""
    url = await namespace()
    async with working(url, [leading, asking]), open_temporal(url) as supervisor:
        await supervisor.start(leading, session="c")
        await asked(supervisor)
        await terminate(url, "c")
        for refused in (supervisor.cancel("c"), supervisor.send("c", "hi"), supervisor.retry("c")):
            with pytest.raises(InvalidInput, match="terminated") as error:
                await refused
            assert "\n" not in str(error.value)
        with pytest.raises(SessionConflict):
            await supervisor.start(asking, session="c")
        assert not (await supervisor.start(leading, session="c")).is_new
        await supervisor.fork("c", before=3, new="f")
        await supervisor.decide((await asked(supervisor)).id, Answer(value="x", by="ana"))
        assert await (await supervisor.get_run("f")).result() == "x"


async def test_a_server_that_has_shown_a_tree_shows_that_it_was_terminated(enter):
    """Although no list of ended trees has it, since the clocks differ; and although its code has changed."""
    enter(replaced(mirror, "LATE", timedelta(days=-1)))
    url = await namespace()
    async with working(url, [leading, asking]), open_temporal(url) as supervisor:
        await supervisor.start(leading, session="c")
        await asked(supervisor)
        async with following(url) as server:
            assert len(await server.find_approvals()) == 1
    async with working(url, [changed]):
        await terminate(url, "c")
        while await server.find_approvals():
            await server.mirror.follow_all()
            await anyio.sleep(0.05)
        assert (await server.get_session("c")).status == "error"
        assert server.mirror._looks.by_root == {}


async def test_a_tree_that_was_terminated_is_known_without_a_worker(enter):
    """As far as the server knows it. It hides no other tree, and nobody waits for its end."""

    def impatient(query, reader, *given, patience=None, **options):
        return query(reader, *given, patience=timedelta(seconds=0.5), **options)

    enter(wrapped(NamespaceReader, "query", impatient))
    url = await namespace()
    async with working(url, [leading, asking]), open_temporal(url) as supervisor:
        await supervisor.start(leading, session="c")
        approval = (await asked(supervisor)).id
    await terminate(url, "c")
    async with following(url) as server, open_temporal(url) as client:
        (shown,) = await client.find_sessions()
        assert (shown.status, shown.outcome["kind"]) == ("error", "abandoned")
        for each in (client, server):
            assert not await each.find_approvals()
            assert (await each.decide(approval, Answer(value="x", by="ana"))).kind == "closed"
        with pytest.raises(ServerUnavailable, match="terminated"):
            await TemporalRun(client, client.trees, client.near, "c", 1).outcome()


@pytest.mark.parametrize("error", [ServerError("the server refuses"), NotFound("there is no session c")])
async def test_an_error_of_the_server_reaches_who_waits_for_a_tree(enter, error):
    """As itself, and in no group: a refusal, and a tree that the namespace's retention has removed."""

    async def fail(*_) -> None:
        raise error

    async def wait() -> None:
        async with open_temporal(url) as supervisor:
            run = await supervisor.start(asking, session="c")
            enter(replaced(Mirror, "_follow", fail))
            await run.outcome()

    url = await namespace()
    async with working(url, [asking]):
        with pytest.raises(type(error)) as raised:
            await wait()
        assert raised.value is error


async def test_a_tree_that_waits_is_asked_nothing_until_it_goes_on():
    """A server lists the trees. It asks a workflow for its entries only if its history has grown."""
    url = await namespace()
    async with working(url, [asking]), open_temporal(url) as supervisor:
        await supervisor.start(asking, session="s")
        waiting = await asked(supervisor)
        async with following(url) as server:
            await server.mirror.follow_all()
            with calls_of(NamespaceReader.query) as asks:
                for _ in range(10):
                    await server.mirror.follow_all()
                    await server.get_session("s")
                assert asks == []
                await supervisor.decide(waiting.id, Answer(value="x", by="ana"))
                while (await server.get_session("s")).outcome is None:
                    await anyio.sleep(0.05)
            await server.mirror.follow_all()
            assert server.mirror._looks.by_root == {}
