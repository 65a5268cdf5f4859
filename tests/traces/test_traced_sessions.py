"""Spans of sessions that wait, take turns, fail, are forked or leave memory: each is written once, with its times."""

import anyio
import pytest
from opentelemetry import baggage, context
from recorded import lasted
from scenes import FaultyStore, events, opened
from watching import next_of

from supervisor import Answer, Context, MemoryStore, StoreDied, ToolCall, agent, tool
from supervisor.testing import CopyingStore, replaced
from supervisor.traces import spans as writer

pytestmark = pytest.mark.anyio
HOUR = 3600.0
failures: list[str] = []


def traced(store=None, **options):
    return opened(store, traces=True, **options)


@tool(policy="allow")
async def look(at: str) -> str:
    return at


@agent
async def helper(ctx: Context, topic: str) -> str:
    return topic


@agent(tools=[helper])
async def model(ctx: Context) -> str:
    return (await ctx.call(ToolCall("1", "helper", {"topic": "tea"}))).kind


@agent
async def asks_twice(ctx: Context) -> None:
    await ctx.ask("one?")
    await ctx.ask("two?")


@agent
async def echo(ctx: Context, text: str) -> str:
    return text


@agent
async def sleeper(ctx: Context) -> None:
    await ctx.sleep(HOUR)


@agent
async def curious(ctx: Context) -> str | None:
    return baggage.get_baggage("whose")


@agent
async def looker(ctx: Context) -> str:
    return (await ctx.call(look, "x")).content


async def fetch() -> None:
    if failures:
        raise LookupError(failures.pop())


@agent(restart="transient", restart_delay=1, max_restart_delay=1)
async def hasty(ctx: Context) -> None:
    async with ctx.move_on_after(100):
        await ctx.step(fetch)
        await ctx.sleep(200)


async def answer(supervisor):
    asked = await next_of(supervisor.watch_approvals())
    await supervisor.decide(asked.id, Answer(value="yes", by="ana"))


async def test_a_wait_is_not_written_again_after_a_restart(spans):
    store = CopyingStore()
    async with traced(store) as supervisor:
        await supervisor.start(asks_twice, session="s")
        await answer(supervisor)
        await next_of(supervisor.watch_approvals())
        left = store.copies[-1]
    assert spans.names.count("wait question") == 1
    async with traced(left) as supervisor:
        run = await supervisor.resume("s")
        await answer(supervisor)
        await run.result()
    assert spans.names.count("wait question") == 2


async def test_a_start_that_finds_its_session_begins_no_trace(spans):
    async with traced() as supervisor:
        for _ in range(2):
            await (await supervisor.start(helper, "x", session="s")).result()
    assert spans.names.count("start helper") == 1


async def test_a_sub_agent_that_a_model_calls_has_a_call_and_a_session(spans):
    async with traced() as supervisor:
        await (await supervisor.start(model)).result()
    assert spans.above("execute_tool helper") == ["start model"]
    assert spans.above("invoke_agent helper") == ["start helper", "start model"]


async def test_turns_of_a_conversation_are_runs_in_its_trace(spans):
    async with traced() as supervisor:
        await (await supervisor.start(echo, "a", session="s")).result()
        await supervisor.send("s", "b")
        await (await supervisor.get_run("s", number=2)).result()
    runs = [span for span in spans if span.name == "invoke_agent echo"]
    assert [run.attributes["supervisor.run"] for run in runs] == [1, 2]
    assert len(spans.traces) == 1


async def test_a_fork_has_the_trace_of_its_source_and_its_own_times(spans):
    """Its run begins with the fork, and so does what it waits for."""
    store = MemoryStore()
    async with traced(store) as supervisor:
        run = await supervisor.start(sleeper, session="s")
        await anyio.sleep(HOUR / 2)
        fork = await supervisor.fork("s", before=len(events(store, "s")), new="f")
        await (await supervisor.get_run(fork.session)).result()
        await run.result()
    times = {span.attributes["gen_ai.conversation.id"]: lasted(span) for span in spans if span.name == "wait timer"}
    assert times == {"s": pytest.approx(HOUR, abs=1), "f": pytest.approx(HOUR / 2, abs=1)}
    assert len(spans.traces) == 1


async def test_a_time_limit_that_a_restart_opens_again_has_a_span_for_each_part(spans):
    failures[:] = ["once"]
    async with traced() as supervisor:
        await (await supervisor.start(hasty)).result()
    limits = [span for span in spans if span.name == "wait timer"]
    assert sum(map(lasted, limits)) == pytest.approx(200, abs=5)  # the limit, and the sleep inside it
    lefts = [span.attributes["supervisor.left"] for span in spans if span.name == "attempt hasty"]
    assert lefts == ["restarted", "succeeded"]


async def test_a_call_whose_result_is_lost_with_the_store_is_written_as_unfinished(spans):
    def die():
        raise StoreDied("the disk is gone")

    with pytest.raises(StoreDied):
        async with traced(FaultyStore(3, die)) as supervisor:
            await (await supervisor.start(looker)).result()
    assert spans.named("execute_tool look").attributes["error.type"] == "unfinished"
    assert spans.named("attempt looker").attributes["supervisor.left"] == "suspended"


async def test_an_agent_does_not_see_the_baggage_of_its_starter(spans):
    """A later attempt would not have it."""
    async with traced() as supervisor:
        token = context.attach(baggage.set_baggage("whose", "the starter's"))
        run = await supervisor.start(curious)
        context.detach(token)
        assert await run.result() is None


async def test_a_session_that_was_forgotten_is_read_again(spans, enter):
    enter(replaced(writer, "KEPT", 1))
    async with traced(passivate_after=1) as supervisor:
        runs = [await supervisor.start(asks_twice, session=f"s{n}") for n in range(3)]
        await anyio.sleep(HOUR)
        for n in range(3):
            for _ in range(2):
                asked = await next_of((await supervisor.get_run(f"s{n}")).watch_approvals())
                await supervisor.decide(asked.id, Answer(value="yes", by="ana"))
            await runs[n].result()
    waits = [lasted(span) for span in spans if span.name == "wait question"]
    assert sorted(round(wait / HOUR) for wait in waits) == [0, 0, 0, 1, 1, 1]
    assert spans.names.count("invoke_agent asks_twice") == 3
