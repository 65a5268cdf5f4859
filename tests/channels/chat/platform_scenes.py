"""What the tests of chat platforms share: an agent that asks, people who may and may not answer, and patience."""

from contextlib import asynccontextmanager

import anyio

from supervisor import Context, MemoryStore, agent, open_supervisor, tool
from supervisor.core.people import People, Person

ANA, EVE, STRANGER = "U-ANA", "U-EVE", "U-NOBODY"
"""An operator; somebody who is known and may not decide; and nobody's identity."""

ran: list[str] = []


def people(platform):
    return People(
        [
            Person(name="ana", roles=("operator",), identities={platform: ANA}),
            Person(name="eve", identities={platform: EVE}),
        ]
    )


@tool
async def deploy(target: str, count: int = 1) -> str:
    ran.append(f"{target} {count}")
    return f"deployed {target}"


@agent
async def deployer(ctx: Context, target: str) -> list[str]:
    result = await ctx.call(deploy, target)
    return [result.kind, result.content]


@agent
async def asker(ctx: Context, choices: list[str] | None) -> str:
    return await ctx.ask("Which environment?", choices=choices)


@agent
async def failer(ctx: Context, text: str) -> str:
    raise ValueError(text)


@asynccontextmanager
async def opened(channel, store=None, platform=None):
    """Open a supervisor that asks on one channel, and on nothing else."""
    ran.clear()
    with anyio.fail_after(60):
        known = None if platform is None else people(platform)
        async with open_supervisor(store or MemoryStore(), channels=[channel], people=known) as supervisor:
            await until(lambda: channel._tasks is not None)  # before, the platform is told to try again
            yield supervisor


async def until(condition):
    """Return what there is once there is something: it happens in other tasks and threads, which tell nobody."""
    with anyio.fail_after(60):
        while not (found := condition()):
            await anyio.sleep(0.01)
    return found
