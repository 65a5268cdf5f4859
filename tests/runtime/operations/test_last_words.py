"""W9: what a run has said reaches its parent, although it did not succeed."""

import anyio
import pytest
from scenes import opened

from supervisor import Context, MemoryStore, RunStalled, ToolCall, agent

pytestmark = pytest.mark.anyio


@agent(inactivity_timeout=1)
async def speaker(ctx: Context, end: str) -> str:
    """Say something in each way, and end in this way."""
    await ctx.save("half")
    await ctx.send("one")
    ctx.stream("two")
    await ctx.report("text", "two")
    await ctx.report("thought", "not said")
    if end == "asleep":
        await ctx.receive()
    if end == "failed":
        raise ValueError("no")
    if end == "succeeded":
        return "done"
    async with ctx.model_call():
        ctx.stream("three")
        await anyio.sleep(60)
    return "never"


@agent(tools=[speaker])
async def asking(ctx: Context) -> list[object]:
    result = await ctx.call(ToolCall("1", "speaker", {"end": "stalled"}), because="")
    return [result.kind, result.details.get("said")]


@agent
async def parent(ctx: Context, end: str) -> list[object]:
    child = await ctx.spawn(speaker, end)
    if end in ("cancelled", "asleep"):
        await ctx.sleep(0.5 if end == "cancelled" else 100)
        await child.cancel()
    outcome = await child.outcome()
    return [outcome.kind, outcome.partial, outcome.said]


@pytest.mark.parametrize(
    ("end", "kind", "said"),
    [
        ("stalled", "stalled", "one\n\ntwo\n\nthree"),
        ("cancelled", "cancelled", "one\n\ntwo\n\nthree"),
        ("asleep", "cancelled", "one\n\ntwo"),
        ("failed", "failed", "one\n\ntwo"),
    ],
)
async def test_the_last_words_of_a_run_that_did_not_succeed_are_in_its_outcome(end, kind, said):
    """Each once, also those of a run that has left memory. What it saved is apart from them."""
    async with opened(MemoryStore(), passivate_after=10) as supervisor:
        assert await (await supervisor.start(parent, end)).result() == [kind, "half", said]


async def test_the_outcome_of_a_success_repeats_no_words():
    """Its value says it."""
    async with opened(MemoryStore()) as supervisor:
        assert (await (await supervisor.start(speaker, "succeeded")).outcome()).said == ""


async def test_a_model_reads_the_last_words_of_a_sub_agent_that_it_called():
    """They are in the details of the result."""
    async with opened(MemoryStore(), unattended="allow") as supervisor:
        assert await (await supervisor.start(asking)).result() == ["error", "one\n\ntwo\n\nthree"]


async def test_the_error_of_a_run_has_its_last_words_and_they_are_bounded():
    """The last ones count."""

    @agent(inactivity_timeout=1)
    async def talks(ctx: Context) -> None:
        for number in range(30):
            await ctx.send(f"{number:1000}")
        async with ctx.model_call():
            ctx.stream("end")
            await anyio.sleep(60)

    async with opened(MemoryStore()) as supervisor:
        with pytest.raises(RunStalled) as raised:
            await (await supervisor.start(talks)).result()
    assert (len(raised.value.said), raised.value.said[-10:]) == (10_000, f"{29:1000}\n\nend"[-10:])
