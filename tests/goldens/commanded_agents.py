"""The agents of the golden commands (golden_commands.py)."""

from supervisor import Context, agent, tool


@tool
async def note(text: str, loudly: bool = False) -> str:
    return f"noted {text}"


@agent
async def noting(ctx: Context, texts: list[str]) -> list[str]:
    return [(await ctx.call(note, text)).content for text in texts]


@agent
async def asking(ctx: Context) -> str:
    return await ctx.ask("Tea or coffee?", choices=["tea", "coffee"])


@agent
async def failing(ctx: Context) -> None:
    raise ValueError("not today")


@agent
async def hearing(ctx: Context) -> str:
    return await ctx.receive()
