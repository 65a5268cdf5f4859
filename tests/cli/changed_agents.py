"""Texts of files with agents. A test writes such a file again when it deploys changed code."""

RELEASE = """
from supervisor import Context, agent, tool

@tool
async def deploy(target: str) -> str:
    return target

@agent
async def release(ctx: Context, target: str) -> str:
    {first}
    return (await ctx.call(deploy, target)).content
"""
"""Asks for one call. `first`: a line before it, line 10 of the file."""

NOTES = """
from supervisor import Context, agent, tool

@tool(policy="allow")
async def note(name: str) -> str:
    with open("noted", "a") as file:
        print(name, file=file)
    return name

@tool
async def deploy(name: str) -> str:
    return await note.fn(name)

@agent
async def works(ctx: Context) -> str:
    noted = await ctx.call(note, "once")
    {then}
"""
"""Notes "once" in the file `noted`. `then`: what it does next; it has to return."""
