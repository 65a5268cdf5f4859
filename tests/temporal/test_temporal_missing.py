"""Workers that lack what a tree needs: an agent, or the version of a run. The tree waits for another worker."""

import anyio
import pytest
from temporal_server import namespace, working

from supervisor import Answer, Context, ServerUnavailable, UnknownAgent, agent
from supervisor.events import ForkTaken
from supervisor.temporal import open_temporal
from supervisor.temporal.client.rescue import rescue

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
NEWER = {"name": "ship", "version": "2"}


@agent
async def other(ctx: Context) -> str:
    return "other"


async def sailing(ctx: Context) -> str:
    return f"{await ctx.ask('Where?')} {ctx.version}"


async def flying(ctx: Context) -> str:
    return "flew"


async def manned(ctx: Context) -> str:
    return await ctx.run(crew)


@agent
async def crew(ctx: Context) -> str:
    """Deployed anew by its test."""
    return ""


async def mutinous(ctx: Context) -> str:
    raise OSError("mutiny")


async def loyal(ctx: Context) -> str:
    return f"loyal {ctx.version}"


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(120):
        yield


async def parked(supervisor, deployed) -> str:
    """Park a session of the old code, which asks something. Return what it asks."""
    async with working(supervisor.where, [deployed(sailing, name="ship")]):
        run = await supervisor.start("ship", session="s")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        assert await rescue(supervisor, "s", goes_on=False, by="ana") == "parked"
    return asked.id


@pytest.mark.parametrize(
    ("lacks", "said"),
    [pytest.param("agent", "no agent .*:worker$", marks=pytest.mark.soak), ("version", "no version '1'")],
)
async def test_a_parked_tree_goes_on_with_a_worker_that_has_its_agent_and_its_version(deployed, caplog, lacks, said):
    """Another worker leaves it, and blocks nothing. It says once what it lacks, and so does the command."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        asked = await parked(supervisor, deployed)
        newer = deployed(None if lacks == "agent" else flying, **({} if lacks == "agent" else NEWER))
        async with working(url, [newer or other]):
            with pytest.raises(ServerUnavailable, match=said):
                await rescue(supervisor, "s", goes_on=True, by="ana")
        async with working(url, [deployed(flying, versions={"1": sailing}, **NEWER)]):
            await supervisor.decide(asked, Answer(by="ana", value="Rome"))
            assert await (await supervisor.get_run("s")).result() == "Rome 1"
    told = [each.getMessage() for each in caplog.records if "tree.left_to_another_worker" in each.getMessage()]
    assert ["ship" in each for each in told] == [True]


@pytest.mark.parametrize(
    ("version", "said"),
    [pytest.param(None, "no agent .*:worker", marks=pytest.mark.soak), ("9", "no version '9'")],
)
async def test_a_fork_that_no_worker_can_run_is_refused_and_never_begins(deployed, version, said):
    """As a start is, with what is missing. Its source knows nothing of it, and its id is free."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        ship = deployed(flying, name="ship")
        async with working(url, [ship]):
            await (await supervisor.start("ship", session="s")).outcome()
        async with working(url, [deployed(None) or other] if version is None else [ship]):
            with pytest.raises(UnknownAgent, match=said), anyio.fail_after(4):
                await supervisor.fork("s", before=3, new="f", version=version)
            while await supervisor.trees.is_open("f"):
                await anyio.sleep(0.1)
        async with working(url, [deployed(flying, name="ship")]):
            assert [each.id for each in await supervisor.find_sessions()] == ["s"]
            await supervisor.fork("s", before=3, new="f")
            assert await (await supervisor.get_run("f")).result() == "flew"
        taken = [row.event for row in await supervisor.find_entries("s") if isinstance(row.event, ForkTaken)]
        assert len(taken) == 1


async def test_a_retry_waits_for_a_worker_that_has_the_versions_of_all_that_run_again(deployed, caplog):
    """Of the sub-agents, too. The worker that lacks one of them blocks nothing."""
    url = await namespace()
    ship = deployed(manned, name="ship")
    async with open_temporal(url) as supervisor:
        async with working(url, [ship, deployed(mutinous, held_as="crew", name="crew")]):
            run = await supervisor.start("ship", session="s")
            assert (await run.outcome()).kind == "failed"
        newer = {"held_as": "crew", "name": "crew", "version": "2"}
        async with working(url, [ship, deployed(flying, **newer)]):
            run = await supervisor.retry("s", by="ana")
        async with working(url, [ship, deployed(flying, versions={"1": loyal}, **newer)]):
            with anyio.fail_after(30):
                assert await run.result() == "loyal 1"
    told = [each.getMessage() for each in caplog.records if "tree.left_to_another_worker" in each.getMessage()]
    assert ["crew" in each for each in told] == [True]
