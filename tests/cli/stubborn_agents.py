"""Agents and tools that do not end when they are told to, each in its own way. Each prints when it begins to."""

import atexit
import hashlib
import threading
import time
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from supervisor import Context, agent, tool


def begin() -> None:
    Path("begun").touch()


@tool(policy="allow")
async def quick() -> None:
    begin()


@tool(policy="allow", timeout=None)
async def shielding() -> None:
    begin()
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()


@tool(policy="allow")
async def blocking() -> None:
    begin()
    time.sleep(1000)


@tool(policy="allow")
async def computing() -> None:
    begin()
    while True:
        pass


@tool(policy="allow")
async def native() -> None:
    """Run native code that neither returns nor checks for signals."""
    begin()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)


@tool(policy="allow", timeout=None)
async def threading_for_ever() -> None:
    begin()
    await anyio.to_thread.run_sync(threading.Event().wait)


@tool(policy="allow", timeout=None)
async def leaving_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(1000,)).start()
    begin()
    await anyio.sleep_forever()


@tool(policy="allow", timeout=None)
async def leaving_an_exit_handler() -> None:
    atexit.register(time.sleep, 1000)
    begin()
    await anyio.sleep_forever()


TOOLS = {
    each.name: each
    for each in (shielding, blocking, computing, native, threading_for_ever, leaving_a_thread, leaving_an_exit_handler)
}


@agent
async def calling(ctx: Context, name: str) -> None:
    await ctx.call(TOOLS[name])


@agent
async def swallowing(ctx: Context, name: str) -> None:
    """Go on, whatever its waits or its calls raise."""
    begin()
    while True:
        with suppress(BaseException):
            await (ctx.call(quick) if name == "calls" else anyio.sleep(0.05))
