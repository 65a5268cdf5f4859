"""The agents of the crash tests, and the effects that a tree of them must have when it has ended.

Every effect is a line of a file, on disk before the tool returns, so that a repeated effect is seen. A tree's lines
have its tag. The person's answer follows from a call's argument: "no" is denied, "edit" is approved with another
argument, "never" stays undecided, and every other one is approved.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from supervisor import Answer, Approval, Approve, Context, Deny, QuestionUnanswered, agent, tool

ROUNDS = 3
SESSIONS = 10
"""In one tree: the root, two children with a grandchild each, the saver, the impatient one, the stubborn one, the
talker and the lingerer."""
TOLD = ["b", "as you like", "expired", "news"]
"""What the talker is told, in the end."""


def record(line: str, name: str = "effects") -> None:
    """Add a line to a file of this story's folder, and sync it."""
    file = os.open(f"{os.environ['CRASH_FOLDER']}/{name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)


@tool(policy="allow")
async def safe(x: str) -> str:
    record(f"safe {x}")
    await checkpoint()
    return x


@tool
async def danger(x: str) -> str:
    record(f"danger {x}")
    await checkpoint()
    return x


async def look_around(tag: str) -> str:
    record(f"step {tag}")
    return tag


@agent
async def grandchild(ctx: Context, name: str) -> str:
    await ctx.sleep(0.02)
    return (await ctx.call(danger, x=f"{name} below")).kind


@agent
async def child(ctx: Context, name: str) -> list[str]:
    """Make calls in parallel, then run a sub-agent of its own. Take results in the order in which they come."""
    kinds: list[str] = []

    async def one(fn: Any, x: str) -> None:
        kinds.append((await ctx.call(fn, x=f"{name} {x}")).kind)

    async with anyio.create_task_group() as tasks:
        for fn, x in ((safe, "a"), (danger, "yes"), (danger, "no"), (safe, "b"), (danger, "edit")):
            tasks.start_soon(one, fn, x)
    return [*kinds, await ctx.run(grandchild, name)]


@agent
async def saver(ctx: Context, tag: str) -> int:
    """Make identical calls, counted over saves and lives."""
    done: int = ctx.saved or 0
    while done < ROUNDS:
        await ctx.call(safe, x=f"{tag} same")
        done += 1
        await ctx.save(done)
    return done


@agent
async def impatient(ctx: Context, tag: str) -> list[bool]:
    async with ctx.move_on_after(0.1) as short:
        await ctx.call(danger, x=f"{tag} never in time")
    async with ctx.move_on_after(3600) as long:
        await ctx.call(safe, x=f"{tag} in time")
    return [short.expired, long.expired]


async def fragile(tag: str) -> str:
    """Fail the first two times, over all lives."""
    record(tag, "fragile")
    if Path(os.environ["CRASH_FOLDER"], "fragile").read_text().splitlines().count(tag) <= 2:
        raise ConnectionError(tag)
    return tag


@agent(restart="transient", max_restarts=5, restart_delay=0.02)
async def stubborn(ctx: Context, tag: str) -> str:
    """Is restarted. Its operations after the failures, and in the end, are done once."""
    await ctx.call(safe, x=f"{tag} before")
    try:
        return await ctx.step(fragile, tag)
    finally:
        await ctx.call(safe, x=f"{tag} either way")


@agent
async def talker(ctx: Context, tag: str) -> list[str]:
    """Ask two questions at once, one of which stays unanswered, and receive messages meanwhile."""
    told: dict[str, str] = {}

    async def choose(inner: Context) -> None:
        told["which"] = await inner.ask(f"{tag} which?", choices=["a", "b"])

    async def wonder(inner: Context) -> None:
        told["how"] = await inner.ask(f"{tag} how?")

    async with ctx.task_group() as group:
        group.start_soon(choose)
        group.start_soon(wonder)
    try:
        told["when"] = await ctx.ask(f"{tag} never?", expires_in=0.05)
    except QuestionUnanswered as unanswered:
        told["when"] = unanswered.reason
    told["news"] = await ctx.receive()
    await ctx.send(f"{tag} heard {told['news']}")
    return [told["which"], told["how"], told["when"], told["news"]]


@agent
async def lingerer(ctx: Context, tag: str) -> None:
    await ctx.call(danger, x=f"{tag} never")


@agent
async def top(ctx: Context, tag: str) -> list[str]:
    await ctx.step(look_around, tag)
    lingering = await ctx.spawn(lingerer, tag)
    below = [await ctx.spawn(child, f"{tag} {n}") for n in range(2)]
    below += [await ctx.spawn(other, tag) for other in (saver, impatient, stubborn, talker)]  # type: ignore[list-item] # only awaited
    kinds: list[str] = []

    async def wait_for(n: int) -> None:
        kinds.append((await below[n].outcome()).kind)

    async with anyio.create_task_group() as tasks:
        for n in range(len(below)):
            tasks.start_soon(wait_for, n)
    await lingering.cancel("it was only waiting")
    kinds.append((await lingering.outcome()).kind)
    await ctx.call(safe, x=f"{tag} end")
    return kinds


def wanted(tag: str) -> Counter[str]:
    """Return the effects of a tree that runs to its end: each happens once, and there are no others."""
    lines = Counter({f"safe {tag} same": ROUNDS, f"safe {tag} in time": 1, f"safe {tag} end": 1})
    lines += Counter(f"safe {tag} {x}" for x in ("before", "either way"))
    for n in range(2):
        lines += Counter(f"safe {tag} {n} {x}" for x in "ab")
        lines += Counter(f"danger {tag} {n} {x}" for x in ("yes", "edit (edited)", "below"))
    return lines


def words_of(approval: Approval) -> str:
    """Return the text that tells a call or a question from the others."""
    return approval.question or str(approval.arguments["x"])


def answer_to(approval: Approval) -> Answer | Approve | Deny | None:
    """Return the person's answer to a call or a question; None if it stays undecided."""
    x = words_of(approval)
    if "never" in x:
        return None
    if approval.kind == "question":
        return Answer(value="b" if approval.choices else "as you like", by="ana")
    if x.endswith("no"):
        return Deny(by="ana", reason="not that one")
    return Approve(by="ana", arguments={"x": f"{x} (edited)"} if x.endswith("edit") else None)


@agent
async def suicidal(ctx: Context) -> None:
    """Die with its process before it has done anything."""
    record("attempt")
    os.kill(os.getpid(), 9)


@agent
async def asker(ctx: Context) -> str:
    return (await ctx.call(danger, x="asked")).kind


@agent
async def questioner(ctx: Context, count: int) -> list[str]:
    """Ask many questions at once."""
    kinds: list[str] = [""] * count

    async def one(n: int) -> None:
        kinds[n] = (await ctx.call(danger, x=f"question {n}")).kind

    async with anyio.create_task_group() as tasks:
        for n in range(count):
            tasks.start_soon(one, n)
    return kinds
