"""`check_replay`: it checks whether today's code follows open runs, without running anything
(supervisor/wiring/checking.py)."""

import anyio
import msgspec
import pytest
from scenes import effects, opened

from supervisor import Context, MemoryStore, agent, tool
from supervisor.core import events as e
from supervisor.core.documents import event_document
from supervisor.core.errors import InvalidInput
from supervisor.core.rows import JournalEntry
from supervisor.wiring.checking import Checked, check_replay, read_export

pytestmark = pytest.mark.anyio


@tool
async def deploy(target: str) -> str:
    effects.append(target)
    return target


@tool(policy="allow")
async def look(name: str) -> str:
    effects.append(name)
    return name


async def fetch(name: str) -> str:
    effects.append(name)
    return name


@agent
async def child(ctx: Context) -> str:
    await ctx.step(fetch, "below")
    return (await ctx.call(deploy, "below")).content


@agent
async def release(ctx: Context, target: str) -> str:
    await ctx.spawn(child)
    await ctx.step(fetch, "above")
    await ctx.call(deploy, target)
    await ctx.step(fetch, "afterwards")
    return target


async def store_left() -> list:
    """Return the journal entries of a tree whose two sessions wait for people."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(release, "prod", session="s")
        while len(await supervisor.find_approvals()) < 2:
            await anyio.sleep(0.01)
        effects.clear()
        return store.rows(0)


async def checked(rows, *agents, **options) -> dict[str, Checked]:
    found = await check_replay(rows, {spec.name: spec for spec in agents}, **options)
    assert effects == []  # no step and no call has run
    return {each.path[-1]: each for each in found}


async def test_unchanged_code_follows_and_nothing_runs():
    """Each open session of the tree is replayed. Its steps and calls do not run, and no approval is asked."""
    rows = await store_left()
    found = await checked(rows, release, child)
    assert {name: each.kind for name, each in found.items()} == {"release": "follows", "child": "follows"}


async def test_an_approved_call_is_not_run_by_a_check():
    """The call would run next, and the check holds it there."""
    rows = await store_left()
    asked = [row for row in rows if isinstance(row.event, e.ToolCallRequested)]
    for row in asked:
        about = {"operation": row.event.operation, "approval": row.event.approval}
        decided = e.ApprovalDecided(at=row.event.at, decision="approve", by="ana", **about)
        rows.append(JournalEntry(rows[-1].position + 1, row.session, decided))
    found = await checked(rows, release, child)
    assert {name: each.kind for name, each in found.items()} == {"release": "follows", "child": "follows"}


async def test_changed_code_is_blocked_at_the_first_difference():
    """`resume` would give the same block."""

    @agent(name="release")
    async def changed(ctx: Context, target: str) -> str:
        await ctx.spawn(child)
        await ctx.call(look, "inserted")
        return target

    found = await checked(await store_left(), changed, child)
    assert (found["release"].kind, found["child"].kind) == ("blocked", "follows")
    assert found["release"].block.held == "step fetch"
    assert "inserted" in found["release"].block.cause


async def test_an_agent_that_is_not_there_blocks_and_one_that_takes_long_is_undecided():
    """Agents are found by name. A check cannot hurry an agent's own code."""

    @agent(name="release")
    async def slow(ctx: Context, target: str) -> str:
        await anyio.sleep(1000)
        return target

    found = await checked(await store_left(), slow, seconds=5.0)
    assert (found["release"].kind, found["child"].kind) == ("undecided", "blocked")
    assert found["child"].block.why == "agent"


async def test_an_export_is_replayed_as_its_store_would_be():
    """`read_export` reads the output of `supervisor export`. An invalid line is named."""
    lines = [msgspec.json.encode({"entry": 1, **event_document(row)}) for row in await store_left()]
    found = await checked(read_export(lines), release, child)
    assert {each.kind for each in found.values()} == {"follows"}
    with pytest.raises(InvalidInput, match="line 2 "):
        read_export([lines[0], b'{"position": 1}'])


async def test_an_ended_session_is_not_replayed():
    """No session is open, so the result is empty."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(child, session="s")).cancel()
    assert await checked(store.rows(0), child) == {}
