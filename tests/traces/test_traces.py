"""Traces: a tree of sessions is one trace, whichever processes run it, and a span has its true start."""

import logging

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import StatusCode
from recorded import at, lasted, sdk
from scenes import events, knowing_no_agents, opened
from watching import next_of

from supervisor import (
    Answer,
    Approve,
    Context,
    InvalidInput,
    MemoryStore,
    RunFailed,
    SqliteStore,
    ToolContext,
    ToolFailed,
    Usage,
    agent,
    tool,
)
from supervisor.core import events as e
from supervisor.testing import CopyingStore
from supervisor.traces import names

pytestmark = pytest.mark.anyio
HOUR = 3600.0
SPENDING = {names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.MODEL_REQUESTS, names.USD, names.UNPRICED}


def traced(store=None, **options):
    return opened(store, traces=True, **options)


def own(name):
    """A span of the program's own."""
    return trace.get_tracer("program").start_as_current_span(name)


@tool(policy="allow", secret=["token"])
async def fetch(url: str, token: str = "") -> str:
    with own("request"):
        await anyio.sleep(2)
    return f"the page at {url}"


@tool
async def publish(text: str) -> None:
    await anyio.sleep(5)


@tool(policy="allow")
async def fails(why: str) -> None:
    raise ValueError(why)


@tool(policy="allow")
async def gives_up(why: str) -> None:
    raise ToolFailed(why, reason=why)


async def summarise(text: str) -> str:
    with own("model"):
        return text[:3]


async def breaks(why: str) -> None:
    raise LookupError(why)


@agent
async def reader(ctx: Context, url: str) -> str:
    return (await ctx.call(fetch, url, token="hunter2")).content


@agent
async def reporter(ctx: Context, url: str) -> str:
    with own("thought"):
        page = await (await ctx.spawn(reader, url)).result()
    text = await ctx.step(summarise, page)
    await ctx.sleep(60)
    await ctx.call(publish, text)
    return text


@agent
async def asker(ctx: Context) -> str:
    return await ctx.ask("go on?", choices=("yes", "no"))


@agent
async def clumsy(ctx: Context) -> None:
    await ctx.call(fails, "the reason is private")
    await ctx.call(gives_up, "of a private kind")
    await ctx.step(breaks, "this one, too")


async def decide_after(supervisor, seconds, decision):
    approval = await next_of(supervisor.watch_approvals())
    await anyio.sleep(seconds)
    await supervisor.decide(approval.id, decision)


async def test_a_tree_of_sessions_is_one_trace(spans):
    """Sub-agents are below the session that started them, and what an agent does is below its attempt."""
    async with traced(passivate_after=10 * HOUR) as supervisor:
        with own("request of a user"):
            run = await supervisor.start(reporter, "a")
        await decide_after(supervisor, 10, Approve(by="ana"))
        await run.result()
    assert len(spans.traces) == 1
    assert spans.above("start reporter") == ["request of a user"]
    assert spans.above("invoke_agent reader") == ["start reader", "start reporter", "request of a user"]
    assert spans.above("request")[:4] == ["execute_tool fetch", "attempt reader", "start reader", "start reporter"]
    assert spans.above("model")[:3] == ["step summarise", "attempt reporter", "start reporter"]
    assert spans.above("thought")[:2] == ["attempt reporter", "start reporter"]
    assert {spans.above(name)[0] for name in ("wait approval", "wait timer")} == {"start reporter"}


@tool(policy="allow")
async def translate(tool: ToolContext, text: str) -> str:
    tool.used(Usage("m", 1, 90, 40, 10, 0.5))
    return text


@agent
async def translator(ctx: Context, text: str) -> str:
    await ctx.call(translate, text)
    await ctx.used(Usage("m", 1, 9, 4, 1))
    return text


async def test_spans_of_calls_and_runs_say_what_was_spent(spans):
    """A price that is not known is in no sum, and counted."""
    async with traced() as supervisor:
        await (await supervisor.start(translator, "a")).result()
    found = [
        {name.rpartition(".")[2]: value for name, value in spans.named(span).attributes.items() if name in SPENDING}
        for span in ("execute_tool translate", "invoke_agent translator")
    ]
    assert found == [
        {"input_tokens": 90, "output_tokens": 10, "model_requests": 1, "usd": 0.5},
        {"input_tokens": 99, "output_tokens": 11, "model_requests": 2, "usd": 0.5, "unpriced_requests": 1},
    ]


async def test_a_span_says_who_and_how_it_went(spans):
    async with traced() as supervisor:
        run = await supervisor.start(reporter, "a", session="s")
        await decide_after(supervisor, 0, Approve(by="ana"))
        await run.result()
    call = dict(spans.named("execute_tool publish").attributes)
    assert call.pop("gen_ai.tool.call.id").startswith("call:publish:")
    assert call == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "publish",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "reporter",
        "gen_ai.conversation.id": "s",
        "supervisor.root_session": "s",
        "supervisor.run": 1,
        "supervisor.result": "ok",
    }
    ran = spans.named("invoke_agent reporter").attributes
    assert ran["gen_ai.operation.name"] == "invoke_agent"
    assert ran["supervisor.outcome"] == "succeeded"
    assert spans.named("invoke_agent reader").attributes["supervisor.root_session"] == "s"


@pytest.mark.parametrize("passivate_after", [60, 10 * HOUR])
async def test_a_wait_is_written_when_it_ends_with_its_true_start(spans, passivate_after):
    """In memory and passivated alike."""
    store = MemoryStore()
    async with traced(store, passivate_after=passivate_after) as supervisor:
        run = await supervisor.start(reporter, "a", session="s")
        await decide_after(supervisor, HOUR, Approve(by="ana"))
        await run.result()
    wait = spans.named("wait approval")
    assert lasted(wait) == pytest.approx(HOUR, abs=1)
    (asked,) = events(store, "s", e.ToolCallRequested)
    assert at(wait.start_time) == asked.at
    assert wait.attributes["supervisor.decision"] == "approve"
    assert lasted(spans.named("wait timer")) == pytest.approx(60, abs=1)
    assert lasted(spans.named("execute_tool publish")) == pytest.approx(5, abs=1)
    assert lasted(spans.named("invoke_agent reporter")) == pytest.approx(HOUR + 67, abs=3)


async def test_a_wait_that_ends_while_no_process_runs_the_tree_is_written_by_the_next_one(spans):
    """The process in which it was decided has no traces."""
    store = CopyingStore()
    async with traced(store) as supervisor:
        await supervisor.start(asker, session="s")
        await next_of(supervisor.watch_approvals())
        await anyio.sleep(HOUR)
        (left,) = store.copies[-1:]
    async with opened(left) as untraced:
        approval = await next_of(untraced.watch_approvals())
        await anyio.sleep(HOUR)
        with knowing_no_agents():
            await untraced.decide(approval.id, Answer(value="yes", by="ana"))
    async with traced(left) as supervisor:
        await (await supervisor.resume("s")).result()
    wait = spans.named("wait question")
    assert at(wait.start_time) == approval.created_at
    assert len(spans.traces) == 1


async def test_after_a_kill_the_next_process_goes_on_with_the_trace(spans):
    """And writes the call that was lost, from its true start. What the killed process had open is never written."""
    store = CopyingStore()
    with sdk() as killed:
        async with traced(store) as supervisor:
            await supervisor.start(reporter, "a", session="s")
            await decide_after(supervisor, 0, Approve(by="ana"))
            await anyio.sleep(1)
            (left,) = store.copies[-1:]
            await anyio.sleep(10)
    async with traced(left) as supervisor:
        await (await supervisor.resume("s")).result()
    assert spans.traces == killed.traces
    lost = spans.named("execute_tool publish")
    (began,) = events(left, "s", e.ToolCallStarted)
    assert at(lost.start_time) == began.at
    assert lost.attributes["error.type"] == "lost"
    assert spans.named("attempt reporter").attributes["supervisor.attempt"] == 2
    assert spans.names == ["attempt reporter", "execute_tool publish", "invoke_agent reporter", "thought"]


async def test_only_the_process_that_owns_a_tree_writes_its_spans(spans, tmp_path):
    async with traced(SqliteStore(tmp_path / "s.db")) as owner, traced(SqliteStore(tmp_path / "s.db")) as other:
        run = await owner.start(asker, session="s")
        await decide_after(other, 1, Answer(value="yes", by="ana"))
        await run.result()
        await anyio.sleep(1)
    assert spans.names == ["attempt asker", "invoke_agent asker", "start asker", "wait question"]


async def test_no_span_has_text_of_inputs_arguments_results_or_errors(spans):
    async with traced() as supervisor:
        run = await supervisor.start(reporter, "https://private")
        await decide_after(supervisor, 0, Approve(by="ana"))
        await run.result()
        with pytest.raises(RunFailed):
            await (await supervisor.start(clumsy)).result()
    written = "".join(span.to_json() for span in spans)
    assert "execute_tool fetch" in written
    for text in ("private", "hunter2", "the page", "the ", "this one"):
        assert text not in written


async def test_a_span_of_a_failure_says_its_kind(spans):
    async with traced() as supervisor:
        with pytest.raises(RunFailed):
            await (await supervisor.start(clumsy)).result()
    failed = {span.name: span.attributes["error.type"] for span in spans if span.status.status_code is StatusCode.ERROR}
    assert failed == {
        "execute_tool fails": "exception",
        "execute_tool gives_up": "error",
        "step breaks": "LookupError",
        "attempt clumsy": "failed",
        "invoke_agent clumsy": "failed",
    }


async def test_contents_are_written_if_they_are_asked_for_and_secrets_never(spans):
    async with traced(trace_contents=True) as supervisor:
        await (await supervisor.start(reader, "https://x")).result()
    call, run = spans.named("execute_tool fetch").attributes, spans.named("invoke_agent reader").attributes
    assert call["gen_ai.tool.call.arguments"] == '{"url":"https://x","token":"[secret]"}'
    assert call["gen_ai.tool.call.result"] == "the page at https://x"
    assert '"role":"user","parts":[{"type":"text","content":"https://x"}]' in run["gen_ai.input.messages"]
    assert '"role":"assistant"' in run["gen_ai.output.messages"]
    assert "hunter2" not in "".join(span.to_json() for span in spans)


async def test_contents_without_traces_are_refused():
    with pytest.raises(InvalidInput, match="traces"):
        async with opened(trace_contents=True):
            pass


async def test_a_session_that_began_without_traces_has_none(spans):
    """But the spans of the program stay where they are."""
    store = CopyingStore()
    async with opened(store) as supervisor:
        await supervisor.start(reporter, "a", session="s")
        await decide_after(supervisor, 0, Approve(by="ana"))
    async with traced(store.copies[3]) as supervisor:
        with own("around"):
            await (await supervisor.resume("s")).outcome()
        assert {"execute_tool fetch", "invoke_agent reporter"}.isdisjoint(spans.names)


class Broken(SpanProcessor):
    """Raises for our spans where the SDK does not catch it, at their start or their end."""

    def __init__(self, when):
        setattr(self, when, self._raise)

    def _raise(self, span, parent_context=None):
        if span.instrumentation_scope.name == "subagent-supervisor":
            raise RuntimeError("no room")


@pytest.mark.parametrize("when", ["on_start", "on_end"])
async def test_an_error_of_the_sdk_reaches_no_run(caplog, when):
    with sdk(Broken(when)), caplog.at_level(logging.WARNING, "supervisor"):
        async with traced() as supervisor:
            run = await supervisor.start(reporter, "a")
            await decide_after(supervisor, 0, Approve(by="ana"))
            assert await run.result() == "the"
    assert len([record for record in caplog.records if "traces.failed" in record.getMessage()]) == 1
