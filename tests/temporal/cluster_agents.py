"""Agents of the tests on Temporal. What they do to the world, they write into the file EFFECTS."""

import importlib
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import anyio
import msgspec
from temporalio import activity

from supervisor import Context, ToolContext, agent, tool
from supervisor.tools import shell


def effect(text: str) -> None:
    with Path(os.environ["EFFECTS"]).open("a") as file:
        file.write(f"{text}\n")


def die_once(where: str) -> None:
    """Kill the worker, the first time that a test's call comes here."""
    mark = Path(os.environ["EFFECTS"] + f".{where}")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def die_where(module: str, name: str) -> None:
    """Kill the worker, the first time that a module of ours calls a function."""
    place = importlib.import_module(f"supervisor.temporal.{module}")
    code, caller = getattr(place, name).__code__, vars(place)

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is code and frame.f_back is not None and frame.f_back.f_globals is caller:
            die_once(name)

    sys.setprofile(watch)
    threading.setprofile(watch)  # workflows run in threads, which begin later


@tool
async def remove(path: str) -> str:
    effect(f"removed {path}")
    return f"removed {path}"


@tool(policy="allow", timeout=60)
async def dying(where: str) -> str:
    """Kill the worker before or after the effect."""
    if where == "before the effect":
        die_once(where)
    effect(where)
    if where == "after the effect":
        die_once(where)
    return where


@tool(policy="allow", timeout=60, idempotent=True)
async def reading(where: str) -> str:
    effect(where)
    die_once(where)
    return where


async def treading(where: str) -> str:
    effect(where)
    die_once(where)
    return where


@agent
async def commanding(ctx: Context) -> str:
    return (await ctx.call(shell, "echo begun $$ >> $EFFECTS; exec sleep 600")).kind


@agent
async def treader(ctx: Context, where: str) -> str:
    """Its worker dies in a step."""
    return await ctx.step(treading, where)


@tool(policy="allow", timeout=600)
async def holding(tool_context: ToolContext, name: str) -> None:
    """Hold a process, and say when it is gone."""
    process = await anyio.open_process(["sleep", "600"])
    effect(f"begun {name} {process.pid}")
    try:
        await process.wait()
    except anyio.get_cancelled_exc_class():
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()
        effect(f"gone {name} {process.pid}")
        raise


@tool(policy="allow")
async def noting(text: str) -> str:
    effect(f"noted {text}")
    return text


async def think(number: int) -> int:
    effect(f"thought {number}")
    return number + 1


@agent
async def janitor(ctx: Context, folders: list[str]) -> list[str]:
    """Thinks, asks, and removes folders."""
    await ctx.step(think, len(folders))
    async with ctx.task_group() as tasks:
        done: dict[str, str] = {}

        async def clean(own: Context, folder: str) -> None:
            done[folder] = (await own.call(remove, folder)).content

        for folder in folders:
            tasks.start_soon(clean, folder)
    await ctx.sleep(0.01)
    return [done[folder] for folder in folders]


@agent
async def mortal(ctx: Context, where: str) -> list[str]:
    """Its worker dies in a call."""
    result = await ctx.call(dying, where)
    return [result.kind, str(result.details["reason"])]


@agent
async def rereading(ctx: Context, where: str) -> str:
    return (await ctx.call(reading, where)).content


@agent
async def expiring(ctx: Context, seconds: float) -> str:
    return await ctx.ask("Well?", expires_in=seconds)


@agent
async def deep(ctx: Context, level: int) -> None:
    """Sub-agents below each other, and a call that runs at each level."""
    async with ctx.task_group() as tasks:

        async def hold(own: Context, number: int) -> None:
            await own.call(holding, f"{level}.{number}")

        for number in range(2):
            tasks.start_soon(hold, number)
        if level > 1:
            await ctx.run(deep, level - 1)


class Paths(msgspec.Struct):
    """An argument whose worker dies as it is read there, so before the call is executing."""

    where: str

    def __post_init__(self) -> None:
        if activity.in_activity():
            die_once("before the mark")


@tool(policy="allow", timeout=60)
async def moving(paths: Paths) -> str:
    effect(f"moved {paths.where}")
    return paths.where


@agent
async def mover(ctx: Context, where: str) -> str:
    return (await ctx.call(moving, Paths(where))).content


@agent
async def racing(ctx: Context, number: int) -> list[str]:
    """Races asks, sleeps and calls in branches, and cancels the losers."""
    won: list[str] = []

    async def race(own: Context, name: str) -> None:
        async with own.move_on_after(0.3) as timer:
            if name.endswith("0"):
                await own.ask(f"{name}?")
            await own.call(holding, name)
        won.append(f"{name} {timer.expired}")

    async with ctx.task_group() as tasks:
        for each in range(number):
            tasks.start_soon(race, f"race{each}")
    return sorted(won)


@tool(policy="allow")
async def measuring(text: str) -> int:
    return len(text)


@agent
async def crowding(ctx: Context, numbers: list[int]) -> int:
    """Makes so many calls at once, with texts of so many letters."""
    number, size = numbers
    sizes: list[int] = []

    async def measure(own: Context, letter: str) -> None:
        sizes.append((await own.call(measuring, letter * size)).value)

    async with ctx.task_group() as tasks:
        for each in range(number):
            tasks.start_soon(measure, chr(ord("a") + each))
    return sum(sizes)


@agent
async def cleaning(ctx: Context, number: int) -> int:
    """One timer cancels several questions, at two depths, and each of their tasks begins a call as it cleans up."""
    cleaned: list[str] = []

    async def question(own: Context, name: str) -> None:
        try:
            await own.ask(f"{name}?")
        finally:
            with anyio.CancelScope(shield=True):
                cleaned.append((await own.call(noting, name)).content)

    async with ctx.move_on_after(0.3), ctx.task_group() as tasks:
        for each in range(number):
            tasks.start_soon(question, f"question{each}")
        async with ctx.branch("inner").task_group() as inner:
            for each in range(number):
                inner.start_soon(question, f"inner{each}")
    return len(cleaned)


@agent
async def enduring(ctx: Context, rounds: int) -> list[str]:
    """Calls in rounds, next to a sub-agent that asks, a question of its own, and a timer."""
    child = await ctx.spawn(expiring, 3600.0)
    said: list[str] = []

    async def question(own: Context) -> None:
        said.append(await own.ask("Parent?"))

    async def calls(own: Context) -> None:
        said.extend([(await own.call(noting, f"round {number}")).content for number in range(rounds)])

    async with ctx.move_on_after(3600) as timer, ctx.task_group() as tasks:
        tasks.start_soon(question)
        tasks.start_soon(calls)
    said.append(await child.result())
    return [*sorted(said), str(timer.expired)]


if (_place := {"pack": "workflow.moving", "unpack": "workflow.journal"}.get(os.environ.get("DIES_IN", ""))) is not None:
    die_where(_place, os.environ["DIES_IN"])  # as a tree leaves its workflow, or begins its next one
