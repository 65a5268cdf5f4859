"""Calls of foreign tools: asked, decided, run and kept like all calls, and forgotten when they have ended."""

import gc
import weakref
from typing import Any

import pytest
from scenes import ForkingStore, events, fork, opened
from watching import next_of

from supervisor import Approve, Context, InvalidInput, ToolCall, ToolContext, agent, allow, deny, foreign_tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
ran: list[Any] = []
declared: dict[str, Any] = {}
"""How today's code declares the tool."""


@pytest.fixture(autouse=True)
def _nothing_has_run():
    ran.clear()
    declared.clear()


def make(name: str = "reviewer.execute", **options):
    async def execute(context: ToolContext, arguments):
        ran.append(arguments)
        return {"of": context.session}

    return foreign_tool(name, execute, **{**options, **declared})


@agent
async def executing(ctx: Context, arguments: dict[str, Any]) -> Any:
    result = await ctx.call(make(), arguments)
    return result.value if result.kind == "ok" else result.kind


async def test_a_foreign_tool_is_called_with_one_mapping_and_its_name_may_have_dots():
    """A person sees the mapping as it is; the function gets it after its context."""
    async with opened() as supervisor:
        run = await supervisor.start(executing, {"path": "/x", "deep": {"a": [1, None]}}, session="s")
        asked = await next_of(run.watch_approvals())
        assert (asked.tool, asked.arguments) == ("reviewer.execute", {"path": "/x", "deep": {"a": [1, None]}})
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == {"of": "s"}
    assert ran == [{"path": "/x", "deep": {"a": [1, None]}}]


async def test_a_call_goes_on_in_another_process_that_makes_the_tool_again():
    """No table of tools: the replay passes the tool, and the decision that was made meanwhile is used."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(executing, {"n": 1}, session="s")
        asked = await next_of(run.watch_approvals())
        killed = fork(store)
        await run.cancel()
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(asked.id, Approve(by="ana", arguments={"n": 2}))
        assert await run.result() == {"of": "s"}
    assert ran == [{"n": 2}]


async def test_an_edit_must_fit_the_schema_which_alone_says_its_names():
    """A8: the person is told what does not fit, and the call goes on waiting."""
    declared["schema"] = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with opened() as supervisor:
        run = await supervisor.start(executing, {"n": 1})
        asked = await next_of(run.watch_approvals())
        for wrong in ({"m": 1}, {"n": "two"}):
            with pytest.raises(InvalidInput):
                await supervisor.decide(asked.id, Approve(by="ana", arguments=wrong))
        await supervisor.decide(asked.id, Approve(by="ana", arguments={"n": 2}))
        await run.result()
    assert ran == [{"n": 2}]


async def test_a_models_call_is_checked_against_the_schema():
    """It reads what is wrong; a call that fits gets the mapping."""

    @agent(tools=[make("count", policy="allow", schema={"properties": {"n": {"type": "integer"}}})])
    async def main(ctx: Context) -> list[str]:
        calls = [ToolCall("1", "count", '{"n": "x"}'), ToolCall("2", "count", {"n": 5})]
        return [str((await ctx.call(each)).details["reason"]) for each in calls]

    async with opened() as supervisor:
        assert await (await supervisor.start(main)).result() == ["invalid_arguments", "None"]
    assert ran == [{"n": 5}]


@pytest.mark.parametrize(("rule", "kind"), [(allow, {"of": "s"}), (deny, "denied")])
async def test_rules_and_offers_are_of_the_command_that_the_tool_declares(rule, kind):
    """Whatever the tool is called."""
    declared["command"] = "script"
    async with opened(rules=[rule("reviewer.execute", "git status *")]) as supervisor:
        run = await supervisor.start(executing, {"script": "git status -s"}, session="s")
        assert await run.result() == kind
        run = await supervisor.start(executing, {"script": "git log -1"}, session="t")
        asked = await next_of(run.watch_approvals())
        assert asked.command == "script"
        assert {each.pattern for each in asked.options if each.scope == "always"} == {
            f"in {asked.cwd}: git log -1",
            f"in {asked.cwd}: git log *",
        }
        await run.cancel()


@pytest.mark.parametrize("now", [{}, {"command": "other"}])
async def test_the_command_that_was_journaled_counts_after_the_code_has_changed(now):
    """A9: a deny rule of a later process still finds it, and the approval still shows it."""
    declared.update(command="script", editable=False)
    store = ForkingStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(executing, {"script": "rm x", "other": "ls"}, session="s")
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana"))
        await run.result()
        (killed,) = [copy for copy, _ in store.copies if _is_last_before_the_effect(copy)]
    ran.clear()
    declared.clear()
    declared.update(now)
    async with opened(killed, rules=[deny("reviewer.execute", "rm")]) as supervisor:
        found = await supervisor.get_approval(asked.id)
        assert (found.command, found.editable) == ("script", False)
        assert await (await supervisor.resume("s")).result() == "denied"
    assert ran == []


def _is_last_before_the_effect(store) -> bool:
    return bool(events(store, "s", e.ApprovalDecided)) and not events(store, "s", e.ToolCallStarted)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_calls_of_fresh_tools_leave_no_tool_and_no_function_in_memory(count):
    """Each tool is a closure of its own. Nothing keeps one after its call, while the run goes on."""
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    @agent(tools=[make("offered", policy="allow")])
    async def many(ctx: Context) -> list[int]:
        for number in range(count):
            each = make(policy="allow", schema={"type": "object"}, command="script")
            alive.update((each, each.fn))
            await ctx.call(each, {"script": f"ls {number}"})
        del each
        gc.collect()
        return [len(ran), len(alive)]

    async with opened() as supervisor:
        assert await (await supervisor.start(many)).result() == [count, 0]
