"""A process that runs the trees of a store on PostgreSQL; its arguments: the URL, and how many sessions it starts."""

import os
import socket
import sys
from pathlib import Path

import anyio

if machine := os.environ.get("OTHER_MACHINE"):
    socket.gethostname = lambda: machine  # before the package asks for it

from supervisor import Context, StoreDied, agent, allow, open_supervisor, tool
from supervisor.tools import shell


@tool(policy="ask")
async def deploy(target: str) -> str:
    return target


@agent
async def sleeping(ctx: Context, seconds: float) -> str:
    await ctx.sleep(seconds)
    return "slept"


@agent
async def asking(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def working(ctx: Context, folder: str) -> str:
    """Runs a command that says its pid, and never ends by itself."""
    return (await ctx.call(shell, "echo $$ > pid; exec sleep 1000", cwd=folder)).kind


AGENTS = {each.name: each for each in (sleeping, asking, working)}


async def main(url: str, *started: str) -> None:
    async with open_supervisor(
        url, agents=[*AGENTS.values()], adopt=True, rules=[allow(shell)], passivate_after=0.5
    ) as supervisor:
        for each in started:
            name, _, given = each.partition(":")
            value: object = float(given) if name == "sleeping" else given
            if name == "asking" and "*" in given:
                word, _, count = given.partition("*")
                for number in range(int(count)):
                    await supervisor.start(AGENTS[name], word, session=f"{word}-{number}")
            else:
                await supervisor.start(AGENTS[name], value, session=f"{name}-{Path(given).name}")
        print("ready", flush=True)
        await supervisor.wait_until_broken()


if __name__ == "__main__":
    try:
        anyio.run(main, *sys.argv[1:])
    except* StoreDied as died:
        print(f"died: {died.exceptions[0]}", flush=True)
        raise SystemExit(3) from None
