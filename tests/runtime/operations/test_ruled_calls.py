"""A7, A9, A14: rules from code decide before a person is asked, and again before the effect."""

import pytest
from watching import next_of

from supervisor import Approve, Context, MemoryStore, agent, allow, ask, deny, open_supervisor, tool

pytestmark = pytest.mark.anyio
STAGING, PRODUCTION = '{"target":"staging"}', '{"target":"production"}'


def make():
    """Return two tools, one that asks and one that does not, and what they did."""
    done = []

    @tool
    async def deploy(target: str) -> str:
        done.append(target)
        return target

    @tool(policy="allow", name="look")
    async def look(target: str) -> str:
        done.append(target)
        return target

    return deploy, look, done


async def test_an_allowed_call_asks_no_one_and_every_other_call_asks():
    """A7: a pattern is exact. The tool's own policy decides calls that it does not match."""
    deploy, _, done = make()

    @agent
    async def both(ctx: Context) -> list[str]:
        return [(await ctx.call(deploy, target)).kind for target in ("staging", "production")]

    async with open_supervisor(MemoryStore(), rules=[allow(deploy, STAGING)]) as supervisor:
        run = await supervisor.start(both)
        asked = await next_of(run.watch_approvals())
        assert (asked.arguments, done) == ({"target": "production"}, ["staging"])
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == ["ok", "ok"]


async def test_deny_beats_ask_beats_allow_and_a_denial_is_a_result():
    """A7: a denied call never runs, although a rule allows it, and the agent reads why."""
    deploy, look, done = make()

    @agent
    async def both(ctx: Context) -> list[str]:
        results = [await ctx.call(deploy, "production"), await ctx.call(look, "production")]
        return [f"{result.kind} {result.details['reason']} {result.details['effect']}" for result in results]

    rules = [allow(deploy), deny(deploy, PRODUCTION), deny(look, PRODUCTION)]
    async with open_supervisor(MemoryStore(), rules=rules, unattended="allow") as supervisor:
        assert await (await supervisor.start(both)).result() == ["denied rule none", "denied rule none"]
    assert done == []


async def test_a_rule_makes_an_allowed_tool_ask():
    """A7: a rule has precedence over the tool's own policy."""
    _, look, done = make()

    @agent
    async def looks(ctx: Context) -> str:
        return (await ctx.call(look, "x")).kind

    async with open_supervisor(MemoryStore(), rules=[ask(look), allow(look)]) as supervisor:
        run = await supervisor.start(looks)
        asked = await next_of(run.watch_approvals())
        assert done == []
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "ok"


def make_guarded():
    """Return a tool that asks for staging and denies everything else, and what it did."""
    done = []

    @tool(policy=lambda target: "ask" if target == "staging" else "deny")
    async def guarded(target: str) -> None:
        done.append(target)

    return guarded, done


async def test_a_tool_may_deny_by_its_own_policy_until_a_rule_says_otherwise():
    """A7: a denied call asks no approval, and the denial is its result."""
    guarded, done = make_guarded()

    @agent
    async def calls(ctx: Context) -> str:
        return (await ctx.call(guarded, "production")).kind

    async with open_supervisor(MemoryStore(), unattended="allow") as supervisor:
        assert await (await supervisor.start(calls)).result() == "denied"
    assert done == []
    async with open_supervisor(MemoryStore(), rules=[allow(guarded)]) as supervisor:
        assert await (await supervisor.start(calls)).result() == "ok"
    assert done == ["production"]


async def test_edited_arguments_are_checked_against_the_tools_own_policy():
    """A8: an edit cannot make a call that the tool denies."""
    guarded, done = make_guarded()

    @agent
    async def calls(ctx: Context) -> str:
        return (await ctx.call(guarded, "staging")).kind

    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(calls)
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana", arguments={"target": "production"}))
        assert (await run.result(), done) == ("denied", [])


async def test_edited_arguments_are_checked_against_the_deny_rules():
    """A8: an edited call is denied as an agent's own call is."""
    deploy, _, done = make()

    @agent
    async def deploys(ctx: Context) -> str:
        return (await ctx.call(deploy, "staging")).kind

    async with open_supervisor(MemoryStore(), rules=[deny(deploy, PRODUCTION)]) as supervisor:
        run = await supervisor.start(deploys)
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana", arguments={"target": "production"}))
        assert (await run.result(), done) == ("denied", [])


async def test_rules_come_down_the_tree_and_a_sub_agent_never_widens_them():
    """A14: a sub-agent inherits what its parents deny, and its own allow counts for nothing."""
    deploy, look, done = make()

    @agent(rules=[allow(deploy)])
    async def child(ctx: Context) -> list[str]:
        return [(await ctx.call(look, "x")).kind, (await ctx.call(deploy, "y")).kind]

    @agent(rules=[deny(look)])
    async def parent(ctx: Context) -> list[str]:
        return await ctx.run(child)

    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(parent)
        asked = await next_of(run.watch_approvals())
        assert (asked.tool, done) == ("deploy", [])
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == ["denied", "ok"]


async def test_the_log_says_once_which_rules_of_a_sub_agent_have_no_effect(caplog):
    """A14: an allow that no rule above has. A rule that narrows, and one that is allowed above, are not named."""
    deploy, look, _ = make()

    @agent(rules=[allow(deploy, STAGING), allow(look), deny(deploy, PRODUCTION)])
    async def child(ctx: Context) -> str:
        return "done"

    @agent(rules=[allow(look)])
    async def parent(ctx: Context) -> list[str]:
        return [await ctx.run(child), await ctx.run(child)]

    async with open_supervisor(MemoryStore()) as supervisor:
        assert await (await supervisor.start(parent)).result() == ["done", "done"]
    (said,) = [record.getMessage() for record in caplog.records if "rules.without_effect" in record.getMessage()]
    assert "deploy" in said
    assert "staging" in said
    assert "look" not in said
    assert "production" not in said
