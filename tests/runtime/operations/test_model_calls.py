"""Calls that a model emits: looked up by name, answered whatever the model wrote, and one result for each use of an
id."""

import anyio
import pytest
from scenes import ForkingStore, events, names, opened
from watching import next_of

from supervisor import (
    Approve,
    Context,
    InvalidInput,
    MemoryStore,
    ToolCall,
    ToolResult,
    agent,
    ask,
    deny,
    tool,
)
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
effects: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    effects.clear()


@tool
async def deploy(target: str, replicas: int = 1) -> dict[str, int]:
    effects.append(f"deploy {target}")
    return {target: replicas}


@tool(policy="allow")
async def look(target: str) -> str:
    effects.append(f"look {target}")
    return f"saw {target}"


@agent
async def researcher(ctx: Context, question: str) -> str:
    if question == "break":
        raise LookupError("no such thing")
    if question == "rest":
        await ctx.sleep(1e6)
    if question == "ask":
        return (await ctx.call(deploy, "from below")).content
    return f"{(await ctx.call(look, question)).content}, I think"


@agent(tools=[deploy, look, researcher])
async def main(ctx: Context, calls: list[ToolCall]) -> list[ToolResult[object]]:
    """Make the calls of a model, all at once."""
    results = [ToolResult(kind="ok", content="")] * len(calls)

    async def answer(ctx: Context, number: int, call: ToolCall) -> None:
        results[number] = await ctx.call(call)

    async with ctx.task_group() as group:
        for number, call in enumerate(calls):
            group.start_soon(answer, number, call)
    return results


async def _call(*calls: ToolCall, store=None, **options) -> list[ToolResult[object]]:
    async with opened(store, **options) as supervisor:
        return await (await supervisor.start(main, list(calls), session="s")).result()


async def test_a_call_is_looked_up_by_name_and_takes_an_object_or_its_text():
    """The result is that of a program's call. The approval also shows defaults."""
    async with opened() as supervisor:
        calls = [ToolCall("1", "deploy", {"target": "a"}), ToolCall("2", "look", '{"target": "b"}')]
        run = await supervisor.start(main, calls)
        approval = await next_of(run.watch_approvals())
        assert (approval.tool, approval.arguments) == ("deploy", {"target": "a", "replicas": 1})
        await supervisor.decide(approval.id, Approve(by="ana", arguments={"target": "a", "replicas": 2}))
        first, second = await run.result()
    assert (first.kind, first.value, second.content) == ("ok", {"a": 2}, "saw b")
    assert sorted(effects) == ["deploy a", "look b"]


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("deplo", {"target": "a"}, "unknown_tool"),
        ("a:b/c#1 \x1b[31m\ud800" + "x" * 5000, "{nonsense", "unknown_tool"),
        ("", "", "unknown_tool"),
        ("deploy", {"target": "a", "force": True}, "invalid_arguments"),
        ("deploy", {"target": "a", "replicas": "3"}, "invalid_arguments"),
        ("deploy", {}, "invalid_arguments"),
        ("deploy", "", "invalid_arguments"),
        ("deploy", '{"target": "a"', "invalid_arguments"),
        ("deploy", '{"target": "\\ud800"}', "invalid_arguments"),
        ("deploy", '{"target": "\ud800"}', "invalid_arguments"),
        ("deploy", '["a"]', "invalid_arguments"),
        ("deploy", "null", "invalid_arguments"),
        ("deploy", "[" * 100_000, "invalid_arguments"),
        ("deploy", None, "invalid_arguments"),
        ("deploy", {"target": object()}, "invalid_arguments"),
        ("researcher", {"question": 3}, "invalid_arguments"),
        ("researcher", {}, "invalid_arguments"),
    ],
)
async def test_an_invalid_call_of_a_model_has_an_error_that_the_model_can_read(name, arguments, reason):
    """T1: it raises nothing. The error is the call's one result, in the journal. No approval is asked, and nothing
    runs."""
    got = []

    @agent(tools=[deploy, look, researcher])
    async def caller(ctx: Context) -> None:
        got.append(await ctx.call(ToolCall("1", name, arguments)))

    async with opened() as supervisor:
        run = await supervisor.start(caller, session="s")
        assert (await run.outcome()).kind == "succeeded"
        assert (got[0].kind, got[0].details["reason"], got[0].details["effect"]) == ("error", reason, "none")
        (asked,), (finished,) = (
            events(supervisor.store, "s", kind) for kind in (e.ToolCallRequested, e.ToolCallFinished)
        )
        assert (asked.operation, asked.approval) == (finished.operation, None)
        assert finished.content == got[0].content
        assert len(asked.operation) < 100
        assert effects == []
        assert len(await supervisor.find_sessions()) == 1


async def test_each_use_of_an_id_is_a_call_of_its_own_in_a_replay_too():
    """R1: models repeat their ids. Killed after any commit, each use has its own result, and nothing runs twice."""

    @agent(tools=[deploy, look])
    async def repeats(ctx: Context) -> list[str]:
        calls = [ToolCall("call_0", "deploy" if n % 2 else "look", {"target": str(n)}) for n in range(4)]
        return [(await ctx.call(call)).content for call in calls] + [(await ctx.call(look, "0")).content]

    wanted = ["saw 0", '{"1":1}', "saw 2", '{"3":1}', "saw 0"]
    store = ForkingStore(look=lambda: list(effects))
    async with opened(store, unattended="allow") as supervisor:
        assert await (await supervisor.start(repeats, session="s")).result() == wanted
    assert len(effects) == 5
    for copy, before in store.copies[:-1]:
        effects[:] = before
        async with opened(copy, unattended="allow") as supervisor:
            run = await supervisor.resume("s")
            got = await run.result()
        assert [mine for mine, theirs in zip(got, wanted, strict=True) if mine != theirs and "lost" not in mine] == []
        assert len(effects) <= 5
        assert len(copy.find_approvals(pending=False)) == 2


@pytest.mark.parametrize(("targets", "kind"), [("ab", "succeeded"), ("aa", "failed")])
async def test_one_id_in_two_tasks_at_once_is_two_calls_unless_they_are_the_same(targets, kind):
    """R1: the order of two equal calls would change from attempt to attempt, so they need branches."""

    @agent(tools=[deploy])
    async def twice(ctx: Context) -> None:
        async with anyio.create_task_group() as group:
            for target in targets:
                group.start_soon(ctx.call, ToolCall("", "deploy", {"target": target}))

    async with opened(unattended="allow") as supervisor:
        outcome = await (await supervisor.start(twice)).outcome()
    assert (outcome.kind, "branch" in (outcome.cause or "")) == (kind, kind == "failed")


async def test_a_sub_agent_that_is_called_is_a_child_and_its_outcome_the_result():
    """W13: success, failure and a person's cancel are results; the child's session is named in the details."""
    async with opened() as supervisor:
        questions = ["why", "break", "rest"]
        run = await supervisor.start(main, [ToolCall(q, "researcher", {"question": q}) for q in questions])
        await anyio.sleep(1)
        _, resting = await supervisor.find_sessions(is_open=True)
        assert (resting.path, resting.parent) == (("main", "researcher"), run.session)
        await supervisor.cancel(resting.id, by="ana")
        ok, failed, cancelled = await run.result()
    assert (ok.kind, ok.content, ok.value) == ("ok", "saw why, I think", "saw why, I think")
    assert (ok.details["reason"], ok.details["effect"]) == (None, "done")
    assert (failed.kind, failed.details["reason"], "no such thing" in failed.content) == ("error", "failed", True)
    assert (cancelled.kind, cancelled.details["child"]) == ("interrupted", resting.id)


async def test_a_limit_that_refuses_a_sub_agent_is_the_calls_result():
    """The agent's declaration bounds what its model may begin. There is no child, and the model reads why."""

    @agent(tools=[researcher], max_children=1)
    async def bounded(ctx: Context) -> list[str | None]:
        calls = [ToolCall(question, "researcher", {"question": question}) for question in "ab"]
        return [(await ctx.call(call)).details["reason"] for call in calls]

    async with opened() as supervisor:
        assert await (await supervisor.start(bounded)).result() == [None, "limit"]
        assert len(await supervisor.find_sessions()) == 2


async def test_a_called_sub_agent_goes_on_after_a_crash():
    """T2, R1: killed after any commit, there is one child, its approval is asked once, and the call is not lost."""
    store = ForkingStore(look=lambda: list(effects))
    call = ToolCall("1", "researcher", {"question": "ask"})
    assert (await _call(call, store=store, unattended="allow"))[0].content == '{"from below":1}'
    assert len(store.copies) > 6
    for copy, before in store.copies[:-1]:
        effects[:] = before
        async with opened(copy, unattended="allow") as supervisor:
            (result,) = await (await supervisor.start(main, [call], session="s")).result()
            assert result.kind == "ok"
            assert "lost" in result.content or effects == ["deploy from below"]
            assert len(await supervisor.find_sessions()) == 2
            assert len(await supervisor.find_approvals(pending=False)) == 1
            assert names(copy, "s").count("ToolCallFinished") == 1


async def test_a_run_whose_called_sub_agent_waits_leaves_memory_and_is_woken():
    """R2: a decision wakes the child, and its outcome wakes the caller. A deny rule comes too late then."""
    async with opened(MemoryStore(), passivate_after=60) as supervisor:
        run = await supervisor.start(main, [ToolCall("1", "researcher", {"question": "ask"})])
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(200)
        assert supervisor._runner.attempts.live == {}
        await supervisor.add_rule(deny("researcher"), by="ana")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert (await run.result())[0].content == '{"from below":1}'


async def test_rules_hold_for_sub_agents_that_are_called():
    """A7: there is a deny on its name, and an ask, whose approver may edit its arguments. Nothing begins before."""
    call = ToolCall("1", "researcher", {"question": "why"})
    (denied,) = await _call(call, rules=[deny("researcher")])
    assert (denied.kind, effects) == ("denied", [])
    async with opened(rules=[ask("researcher")]) as supervisor:
        run = await supervisor.start(main, [call])
        approval = await next_of(run.watch_approvals())
        assert (approval.tool, approval.arguments, len(await supervisor.find_sessions())) == (
            "researcher",
            call.arguments,
            1,
        )
        await supervisor.decide(approval.id, Approve(by="ana", arguments={"question": "how"}))
        assert (await run.result())[0].content == "saw how, I think"


async def test_a_called_sub_agent_whose_call_is_cancelled_is_cancelled_in_a_replay_too():
    """T1, W8: no other caller could get its outcome. The call is abandoned, and the sub-agent ends."""

    @agent(tools=[researcher])
    async def hurries(ctx: Context) -> bool:
        async with ctx.move_on_after(5) as timer:
            await ctx.call(ToolCall("1", "researcher", {"question": "rest"}))
        return timer.expired

    store = ForkingStore()
    async with opened(store) as supervisor:
        assert await (await supervisor.start(hurries, session="s")).result()
    for copy, _ in store.copies[:-1]:
        async with opened(copy) as supervisor:
            run = await supervisor.resume("s")
            assert await run.result()
            _, child = await supervisor.find_sessions()
            assert child.outcome["kind"] == "cancelled"
            assert names(copy, "s").count("OperationAbandoned") == 1


def test_two_tools_of_one_name_are_refused_at_declaration():
    """A model could not tell them apart. A function that is no tool is refused, too."""

    @tool(name="look")
    async def other() -> None: ...

    with pytest.raises(ValueError, match="look"):
        agent(tools=[look, other])(main.fn)
    with pytest.raises(ValueError, match="researcher"):
        agent(tools=[researcher, tool(name="researcher")(other.fn)])(main.fn)
    with pytest.raises(TypeError):
        agent(tools=[print])(main.fn)


async def test_a_tool_call_holds_its_arguments():
    """Other arguments next to it would be lost."""

    @agent(tools=[look])
    async def wrong(ctx: Context) -> None:
        with pytest.raises(TypeError):
            await ctx.call(ToolCall("1", "look", {}), target="a")

    async with opened() as supervisor:
        await (await supervisor.start(wrong)).result()


def test_schemas_describe_the_arguments_of_a_model():
    """They hold names, descriptions from docstrings, and the JSON schema of the parameters, without the program's own
    ones."""

    @tool(secret=["token", "pin"])
    async def pay(to: str, pin: int, amount: float = 1, token: str = "planted") -> None:
        """Pay somebody.

        At once.
        """

    @agent(tools=[pay, researcher])
    async def payer(ctx: Context) -> None: ...

    first, second = payer.tool_schemas()
    assert (first["name"], first["description"]) == ("pay", "Pay somebody.\n\nAt once.")
    assert first["parameters"]["properties"].keys() == {"to", "pin", "amount"}
    assert first["parameters"]["required"] == ["to", "pin"]
    assert (second["name"], second["parameters"]["properties"]) == ("researcher", {"question": {"type": "string"}})
    assert "planted" not in str(payer.tool_schemas())


def test_a_parameter_that_no_schema_can_describe_raises_with_the_name_of_its_tool():
    """The error is one clear line, when the program asks for the schemas."""

    @tool
    async def odd(what: Context) -> None: ...

    with pytest.raises(InvalidInput, match="odd"):
        agent(tools=[odd])(main.fn).tool_schemas()
