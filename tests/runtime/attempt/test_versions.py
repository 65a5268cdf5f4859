"""Code that changes on purpose while people wait: versions and named changes (R10)."""

import sys

import anyio
import pytest
from scenes import deploy, effects, events, fork, opened
from watching import next_of

from supervisor import Approve, Context, MemoryStore, SessionConflict, UnknownAgent, agent, tool
from supervisor.core import events as e
from supervisor.testing import fresh_process

pytestmark = pytest.mark.anyio


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    return name


async def _fails() -> None:
    raise ValueError


async def left_waiting(old, *given) -> MemoryStore:
    """Start an agent, and end the program when it waits for a person. Return the store."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(old, *given, session="s")
        await next_of(run.watch_approvals())
        return fork(store)


async def finish(store) -> object:
    """Approve every call until the session has ended."""
    async with opened(store) as supervisor:
        await supervisor.resume("s")
        async with anyio.create_task_group() as tasks:

            async def approve() -> None:
                async with supervisor.watch_approvals() as watch:
                    async for approval in watch:
                        await supervisor.decide(approval.id, Approve(by="ana"))

            tasks.start_soon(approve)
            outcome = await (await supervisor.get_run("s")).outcome()
            tasks.cancel_scope.cancel()
        return outcome.value


async def old_code(ctx: Context, target: str) -> str:
    return f"old {ctx.version} {(await ctx.call(deploy, target)).content}"


async def new_code(ctx: Context, target: str) -> str:
    await ctx.now()
    return f"new {ctx.version} {(await ctx.call(deploy, target)).content}"


@pytest.mark.parametrize("is_agent", [True, False], ids=["an agent", "a function"])
async def test_a_run_keeps_the_version_that_it_began_with(deployed, is_agent):
    """R10: the old code ends its run, with the same approval. New runs and turns begin with the new version."""
    store = await left_waiting(deployed(agent(old_code), held_as="ship"), "prod")
    asked = [event.approval for event in events(store, "s", e.ToolCallRequested)]
    old = agent(old_code) if is_agent else old_code
    new = deployed(agent(version="2", versions={"1": old})(new_code), held_as="ship")
    assert await finish(store) == "old 1 prod"
    assert [event.approval for event in events(store, "s", e.ToolCallRequested)] == asked
    assert effects == ["prod"]
    async with opened(store) as supervisor:
        assert await (await supervisor.start(new, "prod", session="s")).result() == "old 1 prod"
        await supervisor.send("s", "again")
    assert await finish(store) == "new 2 again"


async def test_a_version_that_is_not_declared_blocks_the_run(deployed):
    """R10: a run never continues under another version. The text names the declared versions."""
    store = await left_waiting(deployed(agent(version="1.5")(old_code), held_as="ship"), "prod")
    deployed(agent(version="2", versions={"1": old_code})(new_code), held_as="ship")
    async with opened(store) as supervisor:
        await supervisor.resume("s")
        await anyio.sleep(1)
        view = await supervisor.get_session("s")
        assert (view.status, view.blocked.why) == ("blocked", "agent")
        assert "1.5" in view.blocked.cause
        assert len(view.pending_approvals) == 1
    deployed(agent(version="2", versions={"1.5": old_code})(new_code), held_as="ship")
    assert await finish(store) == "old 1.5 prod"


def test_versions_are_checked_when_an_agent_is_declared():
    """An old function that cannot be an agent raises at once, and so does a version that is declared twice."""
    with pytest.raises(TypeError):
        agent(version="2", versions={"1": lambda ctx: None})(new_code)
    with pytest.raises(ValueError, match="version"):
        agent(version="2", versions={"2": old_code})(new_code)
    with pytest.raises(UnknownAgent):
        agent(version="2", versions={"1": old_code})(new_code).at_version("3")


async def test_an_old_function_has_the_budgets_of_the_new_declaration_and_its_own_types(monkeypatch):
    """`versions={"1": fn}`: it runs under the new declaration, with its own input and result types."""
    spec = agent(version="2", versions={"1": old_code}, inactivity_timeout=7.0)(new_code)
    older = spec.at_version("1")
    assert (older.inactivity_timeout, older.fn, older.version) == (7.0, old_code, "1")
    assert spec.at_version("1") is older


async def test_an_agent_that_moved_is_found_under_its_old_name(deployed, enter, monkeypatch):
    """`start(session=...)` accepts the agent under both names. Without the old name it is another agent."""
    store = await left_waiting(deployed(agent(old_code), held_as="ship"), "prod")
    moved = agent(old_code)
    moved.__module__, moved.__qualname__ = "scenes", "moved"
    monkeypatch.setattr(sys.modules["scenes"], "moved", moved, raising=False)
    enter(fresh_process())
    async with opened(store) as supervisor:
        with pytest.raises(SessionConflict):
            await supervisor.start(moved, "prod", session="s")
    monkeypatch.setattr(sys.modules[__name__], "ship", moved)
    enter(fresh_process())
    async with opened(store) as supervisor:
        assert not (await supervisor.start(moved, "prod", session="s")).is_new
    assert await finish(store) == "old 1 prod"


async def looping_before(ctx: Context) -> list[str]:
    return [(await ctx.call(deploy, target)).content for target in ("a", "b")]


async def looping_after(ctx: Context) -> list[str]:
    got = []
    for target in ("a", "b"):
        if await ctx.patched("check first"):
            await ctx.call(effect, f"checked {target}")
        got.append((await ctx.call(deploy, target)).content)
    return got


async def test_an_old_run_keeps_its_path_and_a_new_one_takes_the_new_path(deployed):
    """The run that waits at its first call goes on in the old way, in every later loop. A new session checks first."""
    store = await left_waiting(deployed(agent(looping_before), held_as="loops"))
    new = deployed(agent(looping_after), held_as="loops")
    assert await finish(store) == ["a", "b"]
    assert effects == ["a", "b"]
    effects.clear()
    killed = await left_waiting(new)
    assert await finish(killed) == ["a", "b"]
    assert effects == ["checked a", "a", "checked b", "b"]
    assert [mark.name for mark in events(killed, "s", e.PatchMarked)] == ["check first"]


async def saving(ctx: Context) -> list[bool]:
    if ctx.saved is None:
        await ctx.save([await ctx.patched("x")])
    await ctx.call(deploy, "a")
    return [*ctx.saved, await ctx.patched("x"), await ctx.patched("y")]


async def test_a_mark_outlives_a_save_and_a_crash_and_is_no_operation(deployed):
    """The mark is journaled once. A run that has it takes the new path again, even after a save."""
    store = await left_waiting(deployed(agent(saving), held_as="saves"))
    assert await finish(store) == [True, True, True]
    assert [mark.name for mark in events(store, "s", e.PatchMarked)] == ["x", "y"]


async def marked_in_branches(ctx: Context) -> list[bool]:
    found = []

    async def ask(branch: Context) -> None:
        found.append(await branch.patched("x"))
        await branch.call(deploy, "a")

    async with ctx.task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(ask)
    return found


async def unmarked_in_branches(ctx: Context) -> None:
    async with ctx.task_group() as tasks:
        tasks.start_soon(lambda branch: branch.call(deploy, "a"))
        tasks.start_soon(lambda branch: branch.call(deploy, "a"))


@pytest.mark.parametrize("is_old", [True, False])
async def test_the_first_answer_holds_for_all_branches(deployed, is_old):
    """So it does in the attempt in which the replay ends between the two branches."""
    old = unmarked_in_branches if is_old else marked_in_branches
    store = await left_waiting(deployed(agent(old), held_as="branches"))
    deployed(agent(marked_in_branches), held_as="branches")
    assert await finish(store) == [not is_old, not is_old]


async def marked_turn(ctx: Context, text: str) -> bool:
    return await ctx.patched("x")


async def test_a_turn_has_marks_of_its_own(deployed):
    """Each run answers for itself, and a second turn is marked anew."""
    turn = deployed(agent(marked_turn), held_as="turns")
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(turn, "one", session="s")).result()
        await supervisor.send("s", "two")
        await (await supervisor.get_run("s")).outcome()
    assert len(events(store, "s", e.PatchMarked)) == 2
