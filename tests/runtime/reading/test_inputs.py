"""Sub-agents of one name are told apart by their inputs, on cards and in lists."""

from datetime import UTC, datetime, timedelta

import anyio
import pytest
from scenes import opened

from supervisor import Context, MemoryStore, SqliteStore, agent, tool
from supervisor.channels.wording.cards import make_card
from supervisor.runtime.reading.inputs import LONGEST_CHARACTERS

pytestmark = pytest.mark.anyio


@tool
async def restart() -> str:
    return "ok"


@agent
async def leaf(ctx: Context, host: str) -> str:
    return (await ctx.call(restart)).content


@agent
async def branch(ctx: Context, zone: dict[str, str]) -> None:
    await (await ctx.spawn(leaf, "same")).outcome()


@agent
async def lead(ctx: Context, hosts: list[str]) -> None:
    runs = [await ctx.spawn(leaf, host) for host in hosts]
    for run in runs:
        await run.outcome()


@agent
async def chief(ctx: Context, zones: list[str]) -> None:
    runs = [await ctx.spawn(branch, {"zone": zone}) for zone in zones]
    for run in runs:
        await run.outcome()


@agent
async def named(ctx: Context, env: str) -> None:
    await ctx.named("cleanup").call(leaf, env)


async def waiting(supervisor, count):
    while len(found := await supervisor.find_approvals()) < count:
        await anyio.sleep(0.01)
    return found


def told(approval):
    return [fact.text for fact in make_card(approval, approval.created_at).facts if fact.name == "input"]


async def test_each_card_names_the_input_of_its_sub_agent():
    """In lists and in watches; the root has its id."""
    async with opened(MemoryStore()) as supervisor:
        await supervisor.start(lead, ["live-1", "live-2"], session="s")
        found = await waiting(supervisor, 2)
        assert [told(each) for each in found] == [["leaf: live-1"], ["leaf: live-2"]]
        async with supervisor.watch_approvals() as watch:
            assert [(await anext(aiter(watch))).inputs for _ in found] == [("live-1",), ("live-2",)]
        assert (await supervisor.get_approval(found[0].id)).inputs == ("live-1",)
        await supervisor.cancel("s")


async def test_an_agent_further_up_is_told_apart_too():
    """The leaves have one input; the agents above them have others."""
    async with opened(MemoryStore()) as supervisor:
        await supervisor.start(chief, ["a", "b"], session="s")
        found = await waiting(supervisor, 2)
        assert {told(each)[0] for each in found} == {f'branch: {{"zone":"{zone}"}}\nleaf: same' for zone in ("a", "b")}
        await supervisor.cancel("s")


async def test_a_long_input_shows_both_ends_and_no_credential():
    """A token in it is masked."""
    token = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with opened(MemoryStore()) as supervisor:
        await supervisor.start(lead, [f"{token} begin {'x' * 1000} end"], session="s")
        (found,) = await waiting(supervisor, 1)
        (text,) = found.inputs
        assert text.startswith("[secret 1] begin")
        assert text.endswith("x end")
        assert len(text) < LONGEST_CHARACTERS + 50
        await supervisor.cancel("s")


async def test_a_sub_agent_has_its_own_input_where_a_pruned_one_had_its_id(tmp_path):
    """A named call gives the child its id, whatever the input is. A process that reads for long must not show the old
    input of it."""
    path, seen = tmp_path / "s.db", []
    async with opened(SqliteStore(path)) as reader:
        for env in ("staging", "production"):
            async with opened(SqliteStore(path)) as runner:
                await runner.start(named, env, session="s")
                (found,) = await waiting(runner, 1)
                seen.append((found.session, (await reader.get_approval(found.id)).inputs))
                await runner.cancel("s")
            await reader.prune(datetime.now(UTC) + timedelta(days=1))
    (first, before), (second, after) = seen
    assert (first, before, after) == (second, ("staging",), ("production",))
