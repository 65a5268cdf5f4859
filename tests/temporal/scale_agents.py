"""Agents of the tests of scale: one waits for a person, and one runs a program."""

from supervisor import Context, agent, tool


@tool
async def touching(name: str) -> str:
    return f"touched {name}"


@agent
async def waiting(ctx: Context, name: str) -> str:
    return (await ctx.call(touching, name)).content
