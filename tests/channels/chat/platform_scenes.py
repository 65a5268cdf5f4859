"""What the tests of chat platforms share: an agent that asks, people who may and may not answer, and patience."""

from contextlib import asynccontextmanager

import anyio

from supervisor import Context, MemoryStore, agent, open_supervisor, tool
from supervisor.core.approvals.people import People, Person

ANA, EVE, STRANGER = "U-ANA", "U-EVE", "U-NOBODY"
"""The identities of an operator, of a known person who may not decide, and of a stranger."""

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
async def opened(channel, store=None, platform=None, gather=0.0, **options):
    """Open a supervisor that asks on one channel, and on nothing else. `gather`: seconds for which reminders are
    gathered."""
    ran.clear()
    channel.gather = channel.gather_again = gather
    with anyio.fail_after(60):
        options = {"people": None if platform is None else people(platform), **options}
        async with open_supervisor(store or MemoryStore(), channels=[channel], **options) as supervisor:
            await until(lambda: channel._tasks is not None)  # before, the platform is told to try again
            yield supervisor


async def until(condition):
    """Wait until `find` returns something, and return it: other tasks and threads cause it."""
    with anyio.fail_after(60):
        while not (found := condition()):
            await anyio.sleep(0.01)
    return found


async def store_with_a_card(channel, people):
    """Return a store with a session `s` that asks, and whose card is noted. A reminder that is due before the card is
    posted is no message of its own."""
    store = MemoryStore()
    async with opened(channel, store, people=people) as supervisor:
        await supervisor.start(deployer, "x", session="s")
        while not any(approval.shown for approval in await supervisor.find_approvals()):
            await anyio.sleep(0.01)
    return store
