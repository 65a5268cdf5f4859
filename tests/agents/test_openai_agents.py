"""OpenAI Agents: handoffs, agents as tools, guardrails, and what would be lost or under no rule."""

import gc
import sys
from typing import Any

import anyio
import pytest
from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    LocalShellTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.mcp import MCPServer, MCPServerStdio
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from dying import fork
from framework_scenes import ANSWER, SEEN, approve_all, opened, refusal_of, texts_of
from mcp.types import CallToolResult, TextContent, Tool
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel
from watching import next_of

from supervisor import Approve, MemoryStore, ask, open_supervisor
from supervisor.agents.openai_agents import openai_agent
from supervisor.core import events as e
from supervisor.testing import fast_disk, virtual_asyncio
from supervisor.wiring.checking import check_replay

pytestmark = pytest.mark.anyio
QUIET = RunConfig(tracing_disabled=True)
effects: list[Any] = []


@pytest.fixture
def anyio_backend():
    return virtual_asyncio()


@pytest.fixture(autouse=True)
def _nothing_has_happened(enter):
    enter(fast_disk())
    effects.clear()


def model_of(*answers):
    """Return a model that gives these answers in turn: a text, or the calls of an answer as (tool, arguments)."""

    def output(number, answer):
        if isinstance(answer, str):
            return [assistant_message(answer)]
        return [function_call(tool, given, call_id=f"c{number}-{n}") for n, (tool, given) in enumerate(answer)]

    def respond(call):
        done = sum(item.get("type") == "function_call_output" for item in call.input) if call.input else 0
        return output(done, answers[min(done, len(answers) - 1)])

    return ScriptedModel([ModelStep.respond(respond)] * 20)


@function_tool(needs_approval=True)
async def refund(amount: int) -> str:
    effects.append(amount)
    return f"refunded {amount}"


def helper_of(agent, **options):
    return openai_agent("helper", agent, run_config=QUIET, **options)


async def test_a_handoff_shows_its_path_and_the_next_turn_begins_there():
    billing = Agent("Billing", tools=[refund], model=model_of([], [("refund", {"amount": 5})], "paid"))
    triage = Agent("Triage", handoffs=[billing], model=model_of([("transfer_to_billing", {})]))
    async with opened() as supervisor:
        run = await supervisor.start(helper_of(triage), "my money", session="s")
        asked = await approve_all(supervisor, run)
        assert asked == [(("helper",), "helper.Billing.refund", {"amount": 5})]
        assert await run.result() == "paid"
        await supervisor.send("s", "thanks")
        assert await (await supervisor.get_run("s")).result() == "paid"
    assert effects == [5]


async def test_a_declared_handoff_leads_to_an_agent_of_ours():
    billing = Agent("Billing", tools=[refund], model=model_of([], [("refund", {"amount": 5})], "paid"))
    triage = Agent("Triage", handoffs=[handoff(billing)], model=model_of([("transfer_to_billing", {})]))
    async with opened() as supervisor:
        run = await supervisor.start(helper_of(triage), "my money")
        assert [tool for _, tool, _ in await approve_all(supervisor, run)] == ["helper.Billing.refund"]


@pytest.mark.parametrize("dies", [False, True])
async def test_the_calls_of_an_agent_that_is_a_tool_are_calls(dies):
    """A nested approval. Two calls of the same agent, at the same time, are two loops."""
    clerk = Agent("Clerk", tools=[refund], model=model_of([("refund", {"amount": 5})], "done"))
    calls = [("clerk", {"input": "one"}), ("clerk", {"input": "two"})]
    boss = Agent("Boss", tools=[clerk.as_tool("clerk", "A clerk.")], model=model_of(calls, calls, "all done"))
    store = MemoryStore()
    helper = helper_of(boss)
    async with opened(store) as supervisor:
        run = await supervisor.start(helper, "go", session="s")
        await next_of(run.watch_approvals())
        await anyio.sleep(1)
        left = fork(store) if dies else store
        if not dies:
            assert [tool for _, tool, _ in await approve_all(supervisor, run)] == ["helper.Clerk.refund"] * 2
            assert await run.result() == "all done"
    if dies:
        async with opened(left) as supervisor:
            run = await supervisor.resume("s")
            assert len(await approve_all(supervisor, run)) == 2
            assert await run.result() == "all done"
    assert effects == [5, 5]


async def test_an_agent_that_is_a_tool_is_asked_about_by_a_rule():
    clerk = Agent("Clerk", model=model_of("done"))
    boss = Agent(
        "Boss", tools=[clerk.as_tool("clerk", "A clerk.")], model=model_of([("clerk", {"input": "one"})], "ok")
    )
    async with opened(rules=[ask("helper.clerk")]) as supervisor:
        run = await supervisor.start(helper_of(boss), "go")
        assert [tool for _, tool, _ in await approve_all(supervisor, run)] == ["helper.clerk"]
        assert await run.result() == "ok"


async def needs_more(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
    return arguments["amount"] > 10


async def test_a_tool_decides_itself_whether_it_needs_an_approval():
    @function_tool(needs_approval=needs_more)
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    model = model_of([("pay", {"amount": 5}), ("pay", {"amount": 50})], "", "ok")
    async with opened() as supervisor:
        run = await supervisor.start(helper_of(Agent("Payer", tools=[pay], model=model)), "pay")
        assert [arguments for *_, arguments in await approve_all(supervisor, run)] == [{"amount": 50}]


@pytest.mark.parametrize("of", ["the agent", "the run"])
async def test_a_guardrail_is_a_step(of):
    """It may ask a model, by an agent of its own: a replay has its answer, and does not ask again."""
    judge = Agent("Judge", model=model_of("harmless"))

    async def guard(context, agent, given):
        effects.append((await Runner.run(judge, "is it?", run_config=QUIET)).final_output)
        return GuardrailFunctionOutput(output_info={"n": len(effects)}, tripwire_triggered=False)

    guards = [InputGuardrail(guard)]
    agent = Agent("Guarded", tools=[refund], model=model_of([("refund", {"amount": 5})], "paid"))
    if of == "the agent":
        agent.input_guardrails = guards
    config = RunConfig(tracing_disabled=True, input_guardrails=guards if of == "the run" else None)
    guarded, store = openai_agent("helper", agent, run_config=config), MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(guarded, "go", session="s")
        await next_of(run.watch_approvals())
        await anyio.sleep(1)
        left = fork(store)
    async with opened(left) as supervisor:
        run = await supervisor.resume("s")
        await approve_all(supervisor, run)
        assert await run.result() == "paid"
    assert effects == ["harmless", 5]


class Bill(BaseModel):
    amount: int


async def test_the_final_output_is_json():
    async with opened() as supervisor:
        agent = Agent("Biller", output_type=Bill, model=model_of('{"amount": 3}'))
        assert await (await supervisor.start(helper_of(agent), "bill")).result() == {"amount": 3}


async def test_an_output_of_a_tool_that_ends_the_run_has_no_words_for_a_model():
    """Those above the result of a call that a person has edited."""
    agent = Agent(
        "Payer",
        tools=[refund],
        tool_use_behavior="stop_on_first_tool",
        model=model_of([("refund", {"amount": 5})]),
    )
    async with opened() as supervisor:
        run = await supervisor.start(helper_of(agent), "pay")
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana", arguments={"amount": 3}))
        assert await run.result() == "refunded 3"


async def test_the_context_is_made_in_each_attempt():
    @function_tool
    async def whose(context: RunContextWrapper[str]) -> str:
        effects.append(context.context)
        return context.context

    agent = Agent("Owner", tools=[whose], model=model_of([("whose", {})], "ok"))
    async with opened() as supervisor:
        await (
            await supervisor.start(helper_of(agent, deps=lambda ctx: f"of {ctx.session}"), "?", session="s")
        ).result()
    assert effects == ["of s"]


@pytest.mark.parametrize("how", ["run", "run_sync", "run_streamed"])
async def test_a_tool_that_runs_an_agent_itself_is_refused(how):
    """What that agent does would be lost and under no rule: the error says how to give it instead."""
    inner = Agent("Inner", model=model_of("done"))

    @function_tool
    async def delegates() -> str:
        found = getattr(Runner, how)(inner, "go")
        return str(await found if how == "run" else found)

    agent = Agent("Outer", tools=[delegates], model=model_of([("delegates", {})], "ok"))
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(helper_of(agent), "go", session="s")).outcome()
    (result,) = [row.event for row in store.journal("s") if isinstance(row.event, e.ToolCallFinished)]
    assert result.kind == "error"
    assert "Inner" in result.content
    assert "as_tool" in result.content


async def test_a_program_may_still_run_agents_without_us():
    assert (await Runner.run(Agent("Alone", model=model_of("done")), "go", run_config=QUIET)).final_output == "done"


SERVER = """
from mcp.server import MCPServer
server = MCPServer("files")
@server.tool()
async def delete(path: str) -> str:
    return f"deleted {path}"
server.run("stdio")
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_is_connected_while_runs_need_it(anyio_backend):
    """Two runs share its process, and the last one ends it."""
    files = MCPServerStdio({"command": sys.executable, "args": ["-c", SERVER]}, require_approval="always")
    model = model_of([("delete", {"path": "a"})], "ok")
    cleaner = helper_of(Agent("Cleaner", mcp_servers=[files], model=model))
    async with open_supervisor(MemoryStore()) as supervisor:
        runs = [await supervisor.start(cleaner, "go") for _ in range(2)]
        for run in runs:
            approval = await next_of(run.watch_approvals())
            assert files.session is not None
            await supervisor.decide(approval.id, Approve(by="ana"))
            assert await run.result() == "ok"
    assert files.session is None


BAD = {
    "no agent": (lambda: openai_agent("a", "gpt"), "agents.Agent"),  # type: ignore[arg-type]
    "a context that is no factory": (lambda: openai_agent("a", Agent("A"), deps=["x"]), "deps="),  # type: ignore[arg-type]
    "a tool that acts under no rule": (
        lambda: openai_agent("a", Agent("A", tools=[LocalShellTool(executor=lambda request: "")])),
        "LocalShellTool",
    ),
    "such a tool of an agent further down": (
        lambda: openai_agent(
            "a", Agent("A", handoffs=[Agent("B", tools=[LocalShellTool(executor=lambda request: "")])])
        ),
        "a.B",
    ),
}

test_an_openai_agent_that_cannot_be_durable_is_refused = refusal_of(BAD)


def test_tools_that_the_provider_runs_belong_to_the_request():
    assert openai_agent("a", Agent("A", tools=[WebSearchTool()])).name == "a"


class Telling(ScriptedModel):
    """Writes its text piece by piece, and then gives the answer of its script."""

    async def stream_response(self, *args, **kwargs):
        for number, piece in enumerate(ANSWER):
            await anyio.sleep(1)
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                delta=piece,
                content_index=0,
                item_id="1",
                output_index=0,
                sequence_number=number,
                logprobs=[],
            )
        await anyio.sleep(1)
        async for event in super().stream_response(*args, **kwargs):
            if "delta" not in event.type:
                yield event


async def test_people_see_what_the_model_writes():
    """While it writes, with a blank line between two answers."""

    @function_tool
    async def look() -> str:
        return "seen"

    steps = [[function_call("look", {}, call_id="c")], [assistant_message("".join(ANSWER))]]
    agent = Agent("Teller", tools=[look], model=Telling([ModelStep.respond(lambda _: steps.pop(0))] * 2))
    async with opened() as supervisor:
        assert await texts_of(supervisor, helper_of(agent)) == SEEN


@function_tool(needs_approval=True)
async def forbidden(path: str) -> str:
    raise PermissionError("not yours")


@function_tool(failure_error_function=lambda context, error: f"sorry: {error}")
async def sorry(path: str) -> str:
    raise PermissionError("not yours")


@function_tool(failure_error_function=None)
async def raw(path: str) -> str:
    raise PermissionError("not yours")


class Refuses(MCPServer):
    """A server whose tool says that it has failed."""

    name = "files"

    async def connect(self): ...
    async def cleanup(self): ...
    async def list_prompts(self): ...
    async def get_prompt(self, name, arguments=None): ...

    async def list_tools(self, run_context=None, agent=None):
        return [Tool(name="mcp", input_schema={"type": "object", "properties": {"path": {"type": "string"}}})]

    async def call_tool(self, tool_name, arguments, meta=None):
        return CallToolResult(content=[TextContent(type="text", text="not yours")], is_error=True)


async def _handmade(context, raw):
    raise PermissionError("not yours")


@function_tool(failure_error_function=lambda context, error: 1 / 0)
async def clumsy(path: str) -> str:
    raise PermissionError("not yours")


@function_tool(timeout=5, timeout_behavior="raise_exception")
async def late(path: str) -> str:
    await anyio.sleep(60)
    return path


@function_tool(timeout=5, timeout_error_function=lambda context, error: "try tomorrow")
async def patient(path: str) -> str:
    await anyio.sleep(60)
    return path


handmade = FunctionTool("handmade", "", forbidden.params_json_schema, _handmade)
FAILED = {"forbidden": "An error occurred", "sorry": "sorry: not yours", "mcp": "not yours"}
RAISED = {"raw": "not yours", "handmade": "not yours", "clumsy": "ZeroDivisionError", "late": "timed out"}


@pytest.mark.parametrize("tool", FAILED)
async def test_a_tool_that_failed_is_an_error_in_the_journal_and_the_model_reads_what_the_sdk_says(tool):
    """T8. The SDK makes a text of what a tool raises."""
    model = model_of([(tool, {"path": "a"})], "done")
    agent, store = Agent("Files", tools=[forbidden, sorry], mcp_servers=[Refuses()], model=model), MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(helper_of(agent), "go", session="s")
        await approve_all(supervisor, run)
        assert await run.result() == "done"
        (saved,) = [bytes(row.event.state) for row in store.journal("s") if isinstance(row.event, e.StateSaved)]
    (ended,) = [row.event for row in store.journal("s") if isinstance(row.event, e.ToolCallFinished)]
    assert (ended.kind, bytes(ended.details)) == ("error", b'{"reason":"exception","effect":"maybe"}')
    assert FAILED[tool] in ended.content
    assert FAILED[tool] in saved.decode()


@pytest.mark.parametrize("tool", RAISED)
async def test_an_exception_that_ends_a_run_of_the_sdk_ends_it_here(tool):
    """The call has its result, the model is not told, and a later process ends the run, too."""
    model = model_of([(tool, {"path": "a"})], "went on")
    agent, store = Agent("Files", tools=[raw, handmade, clumsy, late], model=model), MemoryStore()
    helper = helper_of(agent)
    async with opened(store) as supervisor:
        outcome = await (await supervisor.start(helper, "go", session="s")).outcome()
    (ended,) = [row.event for row in store.journal("s") if isinstance(row.event, e.ToolCallFinished)]
    assert ended.kind == "error"
    assert outcome.kind == "failed"
    assert RAISED[tool] in outcome.cause


async def test_a_run_that_fails_ends_the_other_calls_of_its_answer_first(caplog):
    """No task of a call outlives the run: its journal is whole, and the SDK logs no failure of it."""
    model, store = model_of([("raw", {"path": "a"}), ("forbidden", {"path": "b"})], "went on"), MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(helper_of(Agent("Files", tools=[raw, forbidden], model=model)), "go", session="s")
        assert (await run.outcome()).kind == "failed"
        assert not (await supervisor.find_approvals()).items
    gc.collect()
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []


async def test_a_tool_says_itself_that_it_is_late():
    """Its `timeout_error_function` makes what the model reads."""
    agent = Agent("Files", tools=[patient], model=model_of([("patient", {"path": "a"})], "done"))
    store = MemoryStore()
    async with opened(store) as supervisor:
        assert await (await supervisor.start(helper_of(agent), "go", session="s")).result() == "done"
    (saved,) = [bytes(row.event.state) for row in store.journal("s") if isinstance(row.event, e.StateSaved)]
    assert b"try tomorrow" in saved


async def test_calls_that_wait_when_the_program_ends_leave_no_traceback(caplog):
    calls = [("refund", {"amount": number}) for number in range(3)]
    agent = Agent("Billing", tools=[refund], model=model_of(calls, "done"))
    async with opened() as supervisor:
        run = await supervisor.start(helper_of(agent), "go")
        async with run.watch_approvals() as watch:
            for _ in range(3):
                await anext(watch)
    gc.collect()
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []


async def test_a_renamed_argument_of_a_waiting_tool_is_told_by_the_check_or_by_the_result(deployed):
    """R1: a replay ends, either way. The call that the journal knows is asked as it was; today's tool refuses its
    arguments when it runs, and the model reads that."""

    def made(function):
        tool = function_tool(function, name_override="remove", needs_approval=True)
        model = model_of([("remove", {"path": "a"})], "done")
        return openai_agent("writer", Agent("writer", model=model, tools=[tool]), run_config=QUIET)

    async def remove(path: str) -> str:
        return f"removed {path}"

    async def remove_renamed(folder: str) -> str:
        raise AssertionError(folder)

    async with opened() as supervisor:
        approval = await next_of((await supervisor.start(made(remove), "go", session="s")).watch_approvals())
        left = fork(supervisor.store)
        await supervisor.cancel("s")
    after = deployed(made(remove_renamed), held_as="writer")
    (checked,) = await check_replay(left.rows(0), {"writer": after})
    assert checked.kind == "follows"
    async with opened(left) as supervisor:
        await supervisor.decide(approval.id, Approve(by="ana"))
        with anyio.fail_after(20):
            assert await (await supervisor.resume("s")).result() == "done"
    (finished,) = [row.event for row in left.journal("s") if isinstance(row.event, e.ToolCallFinished)]
    assert finished.kind == "error"
