"""Agents that converse."""

import os
from pathlib import Path

from cluster_agents import die_where, effect

from supervisor import Context, agent, tool


@tool(policy="allow")
async def noting(text: str) -> str:
    return text


async def write(text: str) -> None:
    if "EFFECTS" in os.environ:
        effect(text)


@agent
async def chatty(ctx: Context, text: str) -> str:
    """Says how many messages came before, after some calls if the text says so."""
    await ctx.step(write, text)
    if text == "long":
        for number in range(8):
            result = await ctx.call(noting, str(number))
            if result.kind != "ok":
                return result.kind
    before = [each for each in ctx.transcript() if each.text not in ("", None)]
    return f"{text} after {len(before)}"


@agent
async def listening(ctx: Context, messages: int) -> list[str]:
    """Asks, and then takes so many messages."""
    said = [await ctx.ask("Ready?")]
    for _ in range(messages):
        said.append(await ctx.receive())
        await ctx.step(write, said[-1])
    return said


@agent
async def quiet(ctx: Context, number: int) -> int:
    return number


async def mend() -> str:
    """Fail until a file says that it works."""
    if not Path(os.environ["EFFECTS"] + ".mended").exists():
        raise ValueError("not today")
    effect("mended")
    return "mended"


@agent
async def below(ctx: Context) -> str:
    """Does its work, and fails afterwards until it is mended."""
    await ctx.step(write, "below")
    return await ctx.step(mend)


@agent
async def broken(ctx: Context) -> str:
    return f"below {await ctx.run(below)}"


if "." in os.environ.get("DIES_IN", ""):  # a worker of a test
    die_where(*os.environ["DIES_IN"].rsplit(".", 1))
