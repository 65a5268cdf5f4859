"""The two walks that a reader of the code takes are short: from a press on a card to the tool, and from `ctx.spawn` to
the sub-agent's first line.

How to read a failure: the message names each file with the functions that ran in it. Ask of a new one whether it
decides something on this way, or only passes it on: what only passes it on belongs into its caller. A walk that must be
longer for what a person gains raises its number here, with the reason in the commit. Neither has as many functions as
before each idea had one home: 329 in 62 files, and 220 in 38.
"""

import sys
import threading
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from fake_slack import SECRET, TOKEN, FakeSlack, serving
from platform_scenes import ANA, opened, people, until

import supervisor
from supervisor import Context, MemoryStore, agent, open_supervisor, tool
from supervisor.channels.slack import Slack

HOUSE = f"{Path(supervisor.__file__).resolve().parent}/"
PRESS, SPAWN = (320, 62), (219, 36)
"""The most functions, and files, of each."""


class Walk:
    """The functions of the package that run between `begin` and `end`, in all threads, by their files."""

    def __init__(self):
        self.found = defaultdict(dict)
        self.is_under_way = False

    def begin(self):
        self.is_under_way = True

    def end(self):
        self.is_under_way = False

    def see(self, frame, event, _):
        code = frame.f_code
        if self.is_under_way and event == "call" and code.co_filename.startswith(HOUSE):
            self.found[code.co_filename.removeprefix(HOUSE)][code] = code.co_qualname

    def told(self):
        return "\n".join(f"{file}: {', '.join(names.values())}" for file, names in sorted(self.found.items()))


walk = Walk()


@contextmanager
def seen():
    """Watch every call."""
    walk.__init__()
    for each in (threading, sys):
        each.setprofile(walk.see)
    try:
        yield
    finally:
        for each in (threading, sys):
            each.setprofile(None)


async def check(take, most):
    """Take a walk, and again if it is too long: on a busy machine other work of a channel may fall into it."""
    for _ in range(3):
        with seen():
            await take()
        functions, files = sum(map(len, walk.found.values())), len(walk.found)
        if functions <= most[0] and files <= most[1]:
            return
    raise AssertionError(f"{functions} functions in {files} files:\n{walk.told()}")


@tool
async def deploy(target: str, count: int = 1) -> str:
    """Be where the first walk ends."""
    walk.end()
    return f"deployed {target}"


@agent
async def deployer(ctx: Context, target: str) -> str:
    """Ask for it."""
    return (await ctx.call(deploy, target)).content


@agent
async def child(ctx: Context) -> None:
    """Be where the second walk ends."""
    walk.end()


@agent
async def parent(ctx: Context) -> None:
    """Spawn it."""
    walk.begin()
    await (await ctx.spawn(child)).result()


async def press_a_button():
    with serving(FakeSlack()) as slack:
        chat = Slack(token=TOKEN, signing_secret=SECRET, conversation="C1", people=people("slack"), base_url=slack.url)
        async with opened(chat, platform="slack") as supervisor:
            run = await supervisor.start(deployer, "x")
            card = (await until(lambda: slack.messages.get("C1")))[0]
            await anyio.wait_all_tasks_blocked()
            walk.begin()
            await chat.webhooks()[0].receive(*slack.press(card, "approve.0", ANA))
            assert await run.result() == "deployed x"


async def start_a_parent():
    async with open_supervisor(MemoryStore()) as supervisor:
        await (await supervisor.start(parent)).result()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_the_walk_from_a_press_to_the_tool_is_short():
    """Trio schedules at random, so its number varies."""
    await check(press_a_button, PRESS)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_the_walk_from_spawn_to_the_sub_agent_is_short():
    """In memory, where no database adds to it."""
    await check(start_a_parent, SPAWN)
