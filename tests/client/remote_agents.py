"""Agents of the tests of both Supervisors."""

import os

from supervisor import Context, StepContext, Usage, agent, tool

effects: list[str] = []
"""What has happened in this test."""


@tool
async def note(text: str) -> str:
    effects.append(text)
    return f"noted {text}"


@agent
async def noting(ctx: Context, texts: list[str]) -> list[str]:
    """Notes each text; a person is asked for each."""
    return [(await ctx.call(note, text)).content for text in texts]


@agent
async def chief(ctx: Context, texts: list[str]) -> list[str]:
    """Lets a sub-agent note."""
    return await ctx.run(noting, texts)


@agent
async def doubling(ctx: Context, number: int) -> int:
    return number * 2


@agent
async def greeting(ctx: Context, name: str = "you") -> str:
    return f"hello {name}"


@agent
async def asking(ctx: Context) -> str:
    return await ctx.ask("Tea or coffee?", choices=["tea", "coffee"])


@agent
async def chatting(ctx: Context, text: str) -> str:
    return f"{len(ctx.transcript())} before {text}"


@agent
async def jotting(ctx: Context, text: str) -> str:
    """Notes what it is told, in each turn."""
    return (await ctx.call(note, text)).content


@agent
async def failing(ctx: Context) -> str:
    if "REMOTE_TEST_WORKS" not in os.environ:
        raise ValueError("not today")
    return "works"


@agent
async def writing(ctx: Context) -> None:
    """Writes a text, and says it when it is told to."""
    for piece in ("The tide ", "is low."):
        ctx.stream(piece)
    await ctx.send(await ctx.receive())


@agent
async def reporting(ctx: Context, count: int) -> None:
    """Says so many things, each an entry of its journal."""
    for number in range(count):
        await ctx.report("text", "still here", call=str(number))


@agent
async def listening(ctx: Context, count: int) -> None:
    """Lets a sub-agent report."""
    await ctx.run(reporting, count)


async def think(step: StepContext, number: int) -> int:
    step.used(Usage(model="fake", input_tokens=90, output_tokens=10, usd=0.25))
    return number


@agent
async def thinking(ctx: Context, times: int) -> int:
    """Asks a model so many times."""
    for number in range(times):
        async with ctx.model_call():
            await ctx.step(think, number)
    return times


AGENTS = (
    *(noting, chief, doubling, greeting, asking, chatting),
    *(jotting, failing, thinking, writing, reporting, listening),
)
