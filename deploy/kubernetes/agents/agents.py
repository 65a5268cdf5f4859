from supervisor import Context, agent, tool


@tool(policy="ask")
async def deploy(target: str) -> str:
    return f"deployed {target}"


@agent
async def releases(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).content
