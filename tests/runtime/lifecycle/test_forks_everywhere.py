"""A tree is forked before each of its entries. Each fork comes to the same end, and repeats no operation whose result
it has (R10)."""

from collections import Counter

import anyio
import pytest
from scenes import deploy, effects, fork, opened

from supervisor import Answer, Approve, Context, InvalidInput, MemoryStore, ToolCall, agent, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
failures: list[str] = []


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    return name


async def fragile(name: str) -> str:
    if failures:
        raise ConnectionError(failures.pop())
    return name


@agent(restart="transient", restart_delay=1.0)
async def grandchild(ctx: Context, name: str) -> str:
    await ctx.call(effect, f"{name} below")
    return await ctx.step(fragile, name)


@agent
async def child(ctx: Context, name: str) -> str:
    await ctx.send(f"{name} works")
    asked = await ctx.call(deploy, name)
    return asked.content + await ctx.run(grandchild, name)


@agent
async def lasting(ctx: Context) -> None:
    await ctx.receive()


@agent(tools=[child])
async def root(ctx: Context) -> list[object]:
    found: list[object] = []
    if ctx.saved is None:
        await ctx.call(effect, "before the save")
        await ctx.save(await ctx.patched("new"))
    found.append(ctx.saved)

    async def race(branch: Context) -> None:
        async with branch.move_on_after(5) as timer:
            await branch.call(deploy, "never")
        found.append(timer.expired)

    async with ctx.task_group() as tasks:
        tasks.start_soon(race)
        tasks.start_soon(lambda branch: branch.sleep(3))
    stays = await ctx.spawn(lasting)
    async with ctx.task_group() as tasks:
        tasks.start_soon(lambda branch: branch.run(child, "one"))
        tasks.start_soon(lambda branch: branch.call(ToolCall("1", "child", {"name": "two"})))
    await stays.cancel("enough")
    found += [(await stays.outcome()).kind, await ctx.receive()]
    found.append(await ctx.ask("Which?", choices=["a", "b"]))
    return found


RESULT = [True, True, "cancelled", "hello", "b"]


async def finish(supervisor, session: str) -> object:
    """Decide every approval, except those that stay undecided, until a session has ended."""
    for _ in range(100):
        if (await supervisor.get_session(session)).outcome is not None:
            break
        for approval in await supervisor.find_approvals(session=session):
            if approval.arguments != {"target": "never"}:
                is_question = approval.kind == "question"
                await supervisor.decide(approval.id, Answer(value="b", by="ana") if is_question else Approve(by="ana"))
        await anyio.sleep(1)
    view = await supervisor.get_session(session)
    assert view.outcome is not None, view
    return view.outcome["value"]


def done(store, tree: str) -> Counter[str]:
    """Return what the calls of a tree have done, by their results."""
    ended = [row.event for view in store.find_sessions(root=tree) for row in store.journal(view.id)]
    ended = [event for event in ended if isinstance(event, e.ToolCallFinished) and event.kind == "ok"]
    return Counter(event.content for event in ended if "call:child:" not in event.operation)


@pytest.mark.slow
async def test_a_fork_before_every_entry_comes_to_the_same_end():
    """At these entries timers, races, questions, sub-agents at any depth, a restart or a cancel are open."""
    store, forked = MemoryStore(), []
    failures[:] = ["once"]
    async with opened(store) as supervisor:
        await supervisor.start(root, session="s")
        await supervisor.send("s", "hello")
        assert await finish(supervisor, "s") == RESULT
    places = [(view.id, n) for view in store.find_sessions() for n, _ in enumerate(store.journal(view.id), start=1)]
    for session, entry in places:
        effects.clear()
        async with opened(fork(store)) as supervisor:
            try:
                await supervisor.fork(session, before=entry, new="f")
            except InvalidInput:
                continue
            forked.append((session, entry))
            known = done(supervisor.store, "f")
            if not any(isinstance(row.event, e.MessageReceived) for row in await supervisor.find_entries("f")):
                await supervisor.send("f", "hello")
            assert await finish(supervisor, "f") == RESULT, (session, entry)
            assert known + Counter(effects) == done(store, "s")
    assert forked == places[2:]
