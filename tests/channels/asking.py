"""A program whose agents each ask once, at the terminal. Arguments: backend, store, a name for each sub-agent."""

import json
import os
import sys

import anyio

from supervisor import Context, agent, open_supervisor, tool
from supervisor.channels import Terminal


@tool
async def note(name: str, count: int = 1) -> str:
    return f"noted {name} {count}"


@agent
async def asker(ctx: Context, name: str) -> str:
    return (await ctx.call(note, name)).content


@agent
async def parent(ctx: Context, names: list[str]) -> list[str]:
    children = [await ctx.spawn(asker, name) for name in names]
    return [await child.result() for child in children]


async def main(store: str, names: list[str]) -> None:
    async with open_supervisor(store, channels=[Terminal(by="ana", settle=0, store=store)]) as supervisor:
        run = await supervisor.start(parent, names, session=os.environ.get("SESSION", "asking"))
        print(json.dumps(await run.result()), flush=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[2], sys.argv[3:], backend=sys.argv[1])
