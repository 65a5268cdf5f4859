"""The agents of the recorded stores, which name them: no name or path here may change, nor what an agent does.

A new crossing adds agents here. What they do to the world is a line in `effects`, which the tests count.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Literal

import anyio

from supervisor import Context, QuestionUnanswered, agent, ask, tool
from supervisor.tools import shell

effects: list[str] = []
"""What has happened in this process."""


@tool
async def deploy(target: str, count: int = 1) -> str:
    effects.append(f"deploy {target} {count}")
    return f"deployed {target}"


@tool(secret=["token"])
async def publish(name: str, token: str) -> str:
    effects.append(f"publish {name}")
    return f"published {name}"


@tool(policy="allow")
async def note(text: str) -> str:
    effects.append(f"note {text}")
    return text


async def build(target: str) -> str:
    effects.append(f"build {target}")
    return f"{target}.tar"


# -- calls


@agent
async def caller(ctx: Context, target: str) -> list[str]:
    result = await ctx.call(deploy, target)
    return [result.kind, result.content]


@agent
async def builder(ctx: Context, target: str) -> str:
    """Takes a step, notes the hour and a number, and asks."""
    made = await ctx.step(build, target)
    await ctx.now()
    await ctx.random()
    return (await ctx.call(deploy, made, count=2)).content


@agent
async def publisher(ctx: Context) -> str:
    return (await ctx.call(publish, "site", token="hunter2")).content


@agent
async def helper(ctx: Context, target: str) -> str:
    return (await ctx.call(note, target)).content


@agent(rules=[ask(helper)])
async def chief(ctx: Context, target: str) -> str:
    """Its rule asks before the sub-agent starts."""
    return (await ctx.call(helper, target)).content


@agent
async def parent(ctx: Context, targets: list[str]) -> list[list[str]]:
    """Sub-agents that ask, next to each other."""
    children = [await ctx.spawn(caller, target) for target in targets]
    return [await child.result() for child in children]


@agent
async def brancher(ctx: Context) -> list[str]:
    """Calls in the branches of a group, in a branch of its own, and with a name; two of them are the same call."""
    done: list[str] = []

    async def one(own: Context, target: str) -> None:
        done.append((await own.call(deploy, target)).content)

    async with ctx.task_group() as tasks:
        tasks.start_soon(one, "same")
        tasks.start_soon(one, "same")
        tasks.start_soon(one, "other")
        tasks.start_soon(one_in_branch, done)
    return sorted(done)


async def one_in_branch(own: Context, done: list[str]) -> None:
    done.append((await own.branch("side").named("the call").call(deploy, "named")).content)


@agent
async def mover(ctx: Context, target: str) -> str:
    """Asks if it must not wait any longer."""
    async with ctx.move_on_after(3600) as timer:
        await ctx.call(deploy, target)
    return f"expired {timer.expired}"


@agent
async def sleeper(ctx: Context) -> str:
    await ctx.sleep(3600)
    return (await ctx.call(note, "slept")).content


@agent
async def saver(ctx: Context, target: str) -> str:
    """Saves, and goes on from there: it makes no first step again."""
    if ctx.saved is None:
        made = await ctx.step(build, target)
        await ctx.save({"made": made, "round": 1})
    return (await ctx.call(deploy, ctx.saved["made"])).content


@agent
async def worker(ctx: Context, text: str) -> str:
    """One call a turn."""
    return f"{ctx.run_number}: {(await ctx.call(deploy, text)).content}"


@agent
async def talker(ctx: Context) -> str:
    """Says something, reports, waits for a message, and asks."""
    await ctx.report("text", "I begin")
    await ctx.send("What shall I deploy?")
    return (await ctx.call(deploy, await ctx.receive())).content


@agent
async def repeater(ctx: Context, target: str) -> list[str]:
    """The same call twice, with a message in between."""
    first = (await ctx.call(deploy, target)).content
    return [first, await ctx.receive(), (await ctx.call(deploy, target)).content]


@agent(version="2", versions={})
async def patcher(ctx: Context, target: str) -> str:
    """Has a patch, which all recorded runs took."""
    made = await ctx.step(build, target) if await ctx.patched("build first") else target
    return (await ctx.call(deploy, made)).content


@agent
async def follower(ctx: Context, target: str) -> str:
    """Has changed once: its program steps where `is_changed`, and calls else. Then its run is blocked."""
    if is_changed:
        await ctx.sleep(1)
    await ctx.call(note, "before")
    return (await ctx.call(deploy, target)).content


is_changed = False


@agent
async def commander(ctx: Context) -> str:
    """Starts two jobs, of which the second one ends, and asks."""
    for command in ("sleep 600", "sleep 0.3; exit 7"):
        await ctx.call(shell, command, background=True)
    return (await ctx.call(deploy, "after the jobs")).content


@agent
async def failer(ctx: Context, target: str) -> str:
    await ctx.call(note, target)
    raise ValueError(target)


# -- questions


@dataclass
class Release:
    channel: Literal["stable", "beta"]
    version: str
    on: dt.date
    copies: int
    loud: bool


@agent
async def asker(ctx: Context) -> str:
    return await ctx.ask("Which environment?")


@agent
async def chooser(ctx: Context) -> str:
    return await ctx.ask("Which one?", choices=["staging", "production"])


@agent
async def releaser(ctx: Context) -> str:
    found = await ctx.ask("Which release?", schema=Release)
    return f"{found.channel} {found.version} {found.on} {found.copies} {found.loud}"


@agent
async def expirer(ctx: Context) -> str:
    try:
        return await ctx.ask("Well?", expires_in=3600)
    except QuestionUnanswered:
        return "no answer"


@agent
async def cleaner(ctx: Context, targets: list[str]) -> list[str]:
    """Makes one call after the other, and cleans up in a shield."""
    try:
        return [(await ctx.call(deploy, target)).content for target in targets]
    finally:
        with anyio.CancelScope(shield=True):
            await ctx.call(note, "cleaned")


@agent
async def counter(ctx: Context, rounds: int) -> str:
    """So many calls, and then one that asks, next to a sub-agent that asks. On Temporal it goes on in new workflows."""
    child = await ctx.spawn(asker)
    for each in range(rounds):
        await ctx.call(note, f"round {each}")
    done = await ctx.call(deploy, "counted")
    return f"{done.content} {await child.result()}"
