"""An agent's own code calls a sub-agent as a tool; a tool knows whether its call was allowed; turns know each other."""

import pytest
from scenes import events, fork, opened
from watching import next_of

from supervisor import Approve, Context, MemoryStore, ToolContext, agent, allow, ask, deny, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio


@agent
async def doubles(ctx: Context, number: int) -> int:
    if number < 0:
        raise ValueError("a negative number")
    return number * 2


@agent
async def calls(ctx: Context, number: int) -> list[object]:
    result = await ctx.named("first").call(doubles, number)
    return [result.kind, result.value, result.content]


@pytest.mark.parametrize(
    ("number", "rules", "expected"),
    [
        (2, (), ["ok", 4, "4"]),
        (-2, (), ["error", None, "ValueError: a negative number"]),
        (2, [deny("doubles")], ["denied", None, "denied by a rule from code: doubles"]),
    ],
)
async def test_a_sub_agent_is_called_as_a_tool(number, rules, expected):
    """T1: its outcome is the result of the call, and rules apply to the call."""
    async with opened(rules=rules) as supervisor:
        assert await (await supervisor.start(calls, number)).result() == expected


async def test_a_called_sub_agent_is_asked_about_and_runs_once():
    store = MemoryStore()
    async with opened(store, rules=[ask("doubles")]) as supervisor:
        run = await supervisor.start(calls, 3, session="s")
        approval = await next_of(run.watch_approvals())
        assert (approval.tool, approval.arguments) == ("doubles", {"number": 3})
        killed = fork(store)
    async with opened(killed, rules=[ask("doubles")]) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == ["ok", 6, "6"]
    assert len(events(killed, "s", e.ToolCallStarted)) == 1


@tool(policy="allow")
async def is_allowed(context: ToolContext) -> bool:
    return context.is_allowed


@agent
async def wonders(ctx: Context) -> bool | None:
    return (await ctx.call(is_allowed)).value


@pytest.mark.parametrize(
    ("rules", "expected"), [((), False), ([allow("is_allowed")], True), ([ask("is_allowed")], True)]
)
async def test_a_tool_knows_whether_its_call_was_allowed(rules, expected):
    """By a rule or a person; the tool's own policy is no such decision."""
    async with opened(rules=rules) as supervisor:
        run = await supervisor.start(wonders)
        if rules and rules[0].kind == "ask":
            approval = await next_of(run.watch_approvals())
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() is expected


@agent
async def remembers(ctx: Context, text: str) -> list[object]:
    before = ctx.saved_before()
    if text != "quiet":
        await ctx.save([text, "begun"])
        await ctx.save([text])
    return [*before, ctx.saved]


async def test_a_turn_sees_what_earlier_turns_have_saved():
    """R7: the last state of each, in order; a turn that saved none is left out."""
    async with opened() as supervisor:
        run = await supervisor.start(remembers, "one", session="s")
        assert await run.result() == [["one"]]
        for text, expected in (("quiet", [["one"], None]), ("three", [["one"], ["three"]])):
            await supervisor.send("s", text)
            assert await (await supervisor.get_run("s")).result() == expected
