"""Agents whose calls take disk space or time."""

from supervisor import Context, agent
from supervisor.tools import shell


@agent
async def filling(ctx: Context, count: int) -> int:
    for number in range(count):
        await ctx.call(shell, command=f"echo x >> effects; head -c 20000 /dev/zero | tr '\\0' x; echo {number}")
    return count


@agent
async def slow(ctx: Context) -> list[str | None]:
    command = "echo begun >> effects; while [ ! -e go ]; do sleep 0.02; done"
    result = await ctx.call(shell, command=command, timeout=60)
    return [result.kind, result.details["reason"]]


@agent
async def with_job(ctx: Context) -> str:
    result = await ctx.call(shell, command="while [ ! -e go ]; do sleep 0.02; done; exit 3", background=True)
    await ctx.sleep(1000)
    return result.content
