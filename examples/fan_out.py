"""Many sub-agents at once: the failed and the late ones are reported, and do not end the others.

supervisor run fan_out.py:survey '["/usr", "/var", "/nowhere"]'
supervisor top    # in another shell: what each of them does
"""

from pathlib import Path

import anyio

from supervisor import ChildRun, Context, agent, tool


@tool(policy="allow", timeout=3600)
async def count_files(folder: str) -> int:
    return await anyio.to_thread.run_sync(lambda: sum(1 for path in Path(folder).resolve(strict=True).rglob("*")))


@agent
async def measure(ctx: Context, folder: str) -> str:
    result = await ctx.call(count_files, folder)
    if result.is_error:
        raise ValueError(result.content)
    return f"{result.value} files"


async def collect(ctx: Context, child: ChildRun[str], folder: str, found: dict[str, str]) -> None:
    outcome = await child.outcome()
    found[folder] = outcome.value or f"{outcome.kind}: {outcome.cause}"


@agent
async def survey(ctx: Context, folders: list[str]) -> dict[str, str]:
    children = {folder: await ctx.spawn(measure, folder) for folder in folders}
    found: dict[str, str] = {}
    async with ctx.move_on_after(1800), ctx.task_group() as group:
        for folder, child in children.items():
            group.start_soon(collect, child, folder, found)
    for folder, child in children.items():
        if folder not in found:
            await child.cancel("too late")
    return {folder: found.get(folder, "too late") for folder in folders}
