"""The agents of the fixture stores in tests/store/formats, which name them: names and paths must not change."""

from supervisor import Context, agent, tool


@tool
async def deploy(target: str) -> str:
    return f"deployed {target}"


async def build(target: str) -> str:
    return f"{target}.tar"


@agent
async def release(ctx: Context, target: str) -> str:
    """Take a step, then wait for a person."""
    return (await ctx.call(deploy, await ctx.step(build, target))).content


@agent
async def greet(ctx: Context, name: str) -> str:
    return f"hello {name}"
