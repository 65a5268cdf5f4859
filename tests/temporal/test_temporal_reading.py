"""Reading where not every tree can be read, or nothing is there."""

import sqlite3

import anyio
import pytest
from clusters import histories
from temporal_server import namespace, shared, working
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from watching import calls_of

from supervisor import Answer, Context, NotFound, ServerUnavailable, agent, tool
from supervisor.core.store_urls import read_temporal_url
from supervisor.store.sqlite.store import SqliteStore
from supervisor.temporal import open_temporal
from supervisor.temporal.client.remote import TemporalSupervisor
from supervisor.temporal.mirror.mirror import Mirror
from supervisor.temporal.mirror.store import FileFeed, MirrorFile, Reached
from supervisor.temporal.workflow import moving
from supervisor.temporal.workflow.workflows import WORKFLOWS, Offer
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio


@tool(policy="allow")
async def adding(number: int) -> int:
    return number + 1


@agent
async def steady(ctx: Context) -> list[str]:
    return [await ctx.ask("First?"), await ctx.ask("Second?")]


@agent(name="changing")
async def before(ctx: Context) -> str:
    return await ctx.ask("Before?")


@agent(name="changing")
async def after(ctx: Context) -> str:
    await ctx.call(adding, 1)
    await ctx.sleep(1)
    return await ctx.ask("After?")


async def test_a_tree_that_cannot_be_read_hides_no_other_one(caplog):
    """It is listed as far as the server knows it, the log names it, and a session that may be in it is not missing."""
    url = await namespace()
    async with working(url, [before, steady]), open_temporal(url) as supervisor:
        await supervisor.start("changing", session="c")
        await supervisor.start("steady", session="s")
    async with working(url, [after, steady]), open_temporal(url) as supervisor:
        found = {each.id: each for each in await supervisor.find_sessions()}
        assert set(found) == {"c", "s"}
        assert (found["c"].agent, found["c"].status) == ("changing", "blocked")
        assert [each.id for each in await supervisor.find_sessions(agent="steady")] == ["s"]
        assert {each.session for each in await supervisor.find_approvals()} == {"c", "s"}
        with pytest.raises(ServerUnavailable, match="c"):
            await supervisor.get_session("child")
    named = [each.getMessage() for each in caplog.records if "tree.not_read" in each.getMessage()]
    assert len(named) == 1  # once, although everything was read four times
    assert "root='c'" in named[0]


async def test_a_namespace_that_is_gone_is_no_missing_session():
    """An answer of "no such session" would be a lie: nobody knows."""
    gone = read_temporal_url(f"temporal://{shared()}/gone")
    await namespace()  # the server answers
    supervisor = TemporalSupervisor(await Client.connect(gone.target, namespace="gone"), gone)
    for ask in (supervisor.mirror.namespace.describe("s"), supervisor.mirror.namespace.query("s", "entries", 0, dict)):
        with pytest.raises(NotFound, match="namespace create"):
            await ask


async def test_a_late_decision_waits_once_for_a_worker(enter):
    """None answers: what is claimed is enough to say whose decision counts."""
    reads = list[str]()

    async def unread(_: Mirror, root: str) -> None:
        reads.append(root)
        raise ServerUnavailable("no worker answers", maybe_done=False)

    url = await namespace()
    async with working(url, [steady]), open_temporal(url) as supervisor:
        await supervisor.start(steady, session="s")
        while not (found := await supervisor.find_approvals()):
            await anyio.sleep(0.05)
        assert (await supervisor.decide(found[0].id, Answer(by="ana", value="yes"))).kind == "accepted"
    enter(replaced(Mirror, "read", unread))
    async with open_temporal(url) as supervisor:
        assert (await supervisor.decide(found[0].id, Answer(by="bob", value="yes"))).kind == "already"
    assert reads == ["s"]


async def test_a_replay_logs_nothing_again(enter, caplog):
    """A tree is run again whenever a worker takes it up: what it says is in the log once."""
    enter(replaced(moving, "CARRIED_LARGEST_BYTES", 10))
    url = await namespace()
    async with working(url, [before]), open_temporal(url) as supervisor:
        run = await supervisor.start(before, session="c")
        while not (found := await supervisor.find_approvals()):
            await anyio.sleep(0.05)
        await supervisor.decide(found[0].id, Answer(by="ana", value="yes"))
        await run.outcome()
    logged = [each for each in caplog.records if "tree.left_nothing" in each.getMessage()]
    assert len(logged) == 1
    replayer = Replayer(
        workflows=WORKFLOWS,
        interceptors=[Offer({"changing": before}, 30.0)],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    for named, history in (await histories(url, "c")).items():
        await replayer.replay_workflow(WorkflowHistory.from_json(named, history))
    assert [each for each in caplog.records if "tree.left_nothing" in each.getMessage()] == logged


async def test_a_server_that_waits_to_write_into_its_mirror_is_cancelled_at_once(tmp_path):
    """Another process has the lock of the file, perhaps for ever. Nothing was written by then."""
    mirror = MirrorFile(tmp_path / "mirror.db", "temporal://here/default")
    mirror.open()
    feed = FileFeed(mirror)
    feed.open()
    other = sqlite3.connect(mirror.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with anyio.fail_after(30), calls_of(SqliteStore.begin) as looks, anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed.add, "r", [], Reached("run", 3))
            while len(looks) < 2:
                await anyio.sleep(0.001)
            scope.cancel()
    assert scope.cancelled_caught, "it waits no longer, although the file is locked"
    other.execute("ROLLBACK")
    other.close()
    assert feed.reached("r") == Reached()
    feed.close()
    mirror.close()
