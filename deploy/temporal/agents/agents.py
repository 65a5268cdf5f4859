"""An agent whose calls run where they need to: one of its tools asks for the workers with a GPU."""

from supervisor import Context, agent, tool


@tool(policy="allow", timeout=600, queue="gpu")
async def render(scene: str) -> str:
    """Render a scene, on a worker that has a GPU."""
    return f"{scene}, rendered"


@tool
async def publish(picture: str) -> str:
    """Publish a picture: a person decides."""
    return f"{picture} is published"


@agent
async def painter(ctx: Context, scene: str) -> str:
    picture = (await ctx.call(render, scene)).value
    return (await ctx.call(publish, picture)).content
