"""Agents that run programs: JSON that says which operations an agent asks for (fuzz_programs.py).

A program is a list of operations, a dict each. An agent returns what each of them gave it, in the same shape, so that
fuzz_oracles.py can hold what came out against the program and against the journals.

Each effect is a line of a file outside the store; each value that an operation gives the agent is a line of `seen`.
"""

import json
import os
import zlib
from contextlib import nullcontext
from itertools import count
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from fuzz_records import process, record

from supervisor import (
    Budget,
    Context,
    QuestionUnanswered,
    RetryAfter,
    StepContext,
    StepFailed,
    ToolCall,
    Usage,
    agent,
    tool,
)

PATIENCE = 20.0  # seconds: no program is silent for so long by itself


def lines(name: str) -> list[str]:
    try:
        with open(f"{os.environ['FUZZ_FOLDER']}/{name}") as file:  # noqa: PTH123 # the loop is held as briefly as can be
            return file.read().splitlines()
    except FileNotFoundError:
        return []


# -- tools -------------------------------------------------------------------------------------------------------------


async def _act(x: str, seconds: float) -> str:
    record("effects", x)
    await (anyio.sleep(seconds) if seconds else checkpoint())
    return x


def limited(name: str) -> str | None:
    """Return the name of a limit, where there are limits: not on Temporal."""
    return None if "FUZZ_WITHOUT_LIMITS" in os.environ else name


@tool(policy="allow", limit=limited("tools"))
async def safe(x: str, seconds: float = 0.0) -> str:
    return await _act(x, seconds)


@tool(policy="allow", idempotent=True)
async def idem(x: str, seconds: float = 0.0) -> str:
    return await _act(x, seconds)


@tool
async def risky(x: str, seconds: float = 0.0) -> str:
    return await _act(x, seconds)


@tool(idempotent=True, limit=limited("tools"))
async def risky_idem(x: str, seconds: float = 0.0) -> str:
    return await _act(x, seconds)


def _world(x: str) -> str:
    return "changed" if x in lines("changed") else "as it was"


async def _world_of(x: str) -> str:
    return _world(x)


@tool(preview=None if "FUZZ_WITHOUT_LIMITS" in os.environ else _world_of)
async def watched(x: str, seconds: float = 0.0) -> str:
    """Act on what people change while it waits for them."""
    record("saw", f"{x} {_world(x)}")
    return await _act(x, seconds)


@tool(policy="allow")
async def fails(x: str, seconds: float = 0.0) -> str:
    await _act(x, seconds)
    raise OSError("the far side said no")


@tool(policy="allow", timeout=0.05)
async def late(x: str, seconds: float = 0.0) -> str:
    """Never end within its deadline."""
    await _act(x, seconds)
    await anyio.sleep_forever()
    return x


@tool(policy="allow", limit=limited("tools"))
async def cleans(x: str, seconds: float = 0.0) -> str:
    """Clean up, however it ends."""
    try:
        return await _act(x, seconds)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.03)


TOOLS = {each.name: each for each in (safe, idem, risky, risky_idem, watched, fails, late, cleans)}


async def flaky(step: StepContext, name: str, failures: int) -> str:
    """A step that fails the first times. It has spent each time."""
    if zlib.crc32(name.encode()) % 3 == 0 and name not in lines("busy"):
        record("busy", name)
        raise RetryAfter(0.01)
    before = sum(line == name for line in lines("steps"))
    record("steps", name)
    step.used(Usage(model="fuzz", input_tokens=3, output_tokens=2, usd=0.001))
    await checkpoint()
    if before < failures:
        raise OSError(f"the network was away for the {before + 1}. time")
    return name


# -- agents ------------------------------------------------------------------------------------------------------------


@agent(inactivity_timeout=PATIENCE, limit=limited("agents"), tools=[*TOOLS.values()])
async def helper(ctx: Context, program: list[Any]) -> list[Any]:
    """The sub-agent that models call as a tool."""
    return await _run(ctx, program)


@agent(inactivity_timeout=PATIENCE, limit=limited("agents"), tools=[*TOOLS.values(), helper])
async def worker(ctx: Context, program: list[Any]) -> list[Any]:
    return await _run(ctx, program)


@agent(
    inactivity_timeout=PATIENCE,
    limit=limited("agents"),
    restart="transient",
    restart_delay=0.01,
    max_restart_delay=0.02,
    max_restarts=1000,
    tools=[*TOOLS.values(), helper],
)
async def restarter(ctx: Context, program: list[Any]) -> list[Any]:
    """Does not catch its failed steps: the next attempt repeats them."""
    return await _run(ctx, program)


@agent(inactivity_timeout=0.3, tools=[*TOOLS.values(), helper])
async def silent(ctx: Context, program: list[Any]) -> list[Any]:
    """Becomes silent when its program is done."""
    await _run(ctx, program)
    await anyio.sleep_forever()
    return []


@agent(
    inactivity_timeout=PATIENCE,
    limit=limited("agents"),
    budget=Budget(calls=2, requests=1),
    tools=[*TOOLS.values(), helper],
)
async def thrifty(ctx: Context, program: list[Any]) -> list[Any]:
    """Has a budget of its own, about which people are asked."""
    return await _run(ctx, program)


@agent(inactivity_timeout=PATIENCE, budget=Budget(calls=3, on_exhausted="end"), tools=[*TOOLS.values(), helper])
async def ending(ctx: Context, program: list[Any]) -> list[Any]:
    """Ends when its budget is used up."""
    return await _run(ctx, program)


@agent(inactivity_timeout=PATIENCE, limit=limited("agents"))
async def ticker(ctx: Context, words: list[str]) -> list[str]:
    """Begins by the clock."""
    return [(await ctx.call(tool, x=f"m{ctx.session}{tool.name}")).kind for tool in (safe, risky)]


@agent(inactivity_timeout=PATIENCE)
async def talker(ctx: Context, text: str) -> list[str]:
    """A conversation: each message begins a turn, unless the turn before it has received it."""
    kinds = [(await ctx.call(safe, x=text)).kind, (await ctx.call(risky, x=f"{text}risky")).kind]
    return [*kinds, await ctx.receive()] if text.endswith(("1", "2", "3")) else kinds


AGENTS = {each.name: each for each in (worker, restarter, silent, thrifty, ending)}


async def _run(ctx: Context, program: list[Any]) -> list[Any]:
    """Run a whole program, from after its last save."""
    values: list[Any] = ctx.saved or []
    while len(values) < len(program):
        op = program[len(values)]
        if op["op"] == "save":
            values.append("saved")
            await ctx.save(values)
        else:
            values.append(await _do(ctx, op))
    return values


async def _body(ctx: Context, ops: list[Any]) -> list[Any]:
    return [await _do(ctx, op) for op in ops]


_instants = count()


async def _do(ctx: Context, op: dict[str, Any]) -> Any:
    begun = next(_instants)
    value = await _DO[op["op"]](ctx, op)
    seen = {"session": ctx.session, "pid": process(), "id": op["id"], "op": op["op"], "value": value}
    record("seen", json.dumps({**seen, "begun": begun, "ended": next(_instants)}))
    return value


async def _call(ctx: Context, op: dict[str, Any], suffix: str = "") -> str:
    arguments = {"x": op["id"] + suffix, "seconds": op.get("seconds", 0.0)}
    if op.get("emitted"):
        return (await ctx.call(ToolCall(op["id"], op["tool"], arguments))).kind
    return (await ctx.call(TOOLS[op["tool"]], **arguments)).kind


async def _hire(ctx: Context, op: dict[str, Any]) -> str:
    return (await ctx.call(ToolCall(op["id"], "helper", {"program": op["program"]}))).kind


async def _step(ctx: Context, op: dict[str, Any]) -> str:
    try:
        async with ctx.model_call(limit=limited("models")) if op.get("asks") else nullcontext():
            return await ctx.step(flaky, op["id"], op.get("failures", 0))
    except StepFailed:
        if op.get("raises"):
            raise
        return "failed"


async def _child(ctx: Context, op: dict[str, Any]) -> Any:
    child = await ctx.spawn(AGENTS[op["agent"]], op["program"])
    beside = await _body(ctx, op.get("beside", []))
    if op["how"] == "leave":
        return {"beside": beside}
    if op["how"] == "cancel":
        await child.cancel("not wanted any more")
    outcome = await child.outcome()
    return {"beside": beside, "kind": outcome.kind, "value": outcome.value}


async def _sleep(ctx: Context, op: dict[str, Any]) -> None:
    await ctx.sleep(op["seconds"])


async def _now(ctx: Context, op: dict[str, Any]) -> str:
    return str(await ctx.now())


async def _random(ctx: Context, op: dict[str, Any]) -> float:
    return await ctx.random()


async def _ticks(ctx: Context, op: dict[str, Any]) -> None:
    """Run the agent's own code, which waits for nothing."""
    for _ in range(op["n"]):
        await checkpoint()


async def _report(ctx: Context, op: dict[str, Any]) -> None:
    for n in range(op["n"]):
        await ctx.report(op["kind"], f"{op['id']}.{n} ")


async def _timer(ctx: Context, op: dict[str, Any]) -> Any:
    values: list[Any] = []
    async with ctx.move_on_after(op["seconds"]) as timer:
        for each in op["body"]:
            values.append(await _do(ctx, each))  # noqa: PERF401 # it may be cut off between two
    return {"expired": timer.expired, "values": values, "then": await _then(ctx, op, timer.expired)}


async def _race(ctx: Context, op: dict[str, Any]) -> Any:
    first: list[int] = []

    async def branch(inner: Context, number: int, body: list[Any]) -> None:
        await _body(inner, body)
        if not first:
            first.append(number)
            if op["cancels"]:
                scope.cancel()

    with anyio.CancelScope() as scope:
        async with ctx.task_group() as group:
            for number, body in enumerate(op["branches"]):
                group.start_soon(branch, number, body)
    return {"first": first[0], "then": await _then(ctx, op, first[0])}


async def _then(ctx: Context, op: dict[str, Any], what: Any) -> Any:
    """Make a call to which only this path leads."""
    return await _call(ctx, op["then"], f".{what}") if op.get("then") else None


async def _all(ctx: Context, op: dict[str, Any]) -> list[Any]:
    values: list[Any] = [None] * len(op["branches"])

    async def branch(inner: Context, number: int, body: list[Any]) -> None:
        values[number] = await _body(inner, body)

    async with ctx.task_group() as group:
        for number, body in enumerate(op["branches"]):
            group.start_soon(branch, number, body)
    return values


async def _guard(ctx: Context, op: dict[str, Any]) -> Any:
    """Run a block whose clean-up is an operation."""
    try:
        return await _body(ctx, op["body"])
    finally:
        with anyio.CancelScope(shield=True):
            await _body(ctx, op["cleanup"])


async def _receive(ctx: Context, op: dict[str, Any]) -> str:
    return await ctx.receive()


async def _send(ctx: Context, op: dict[str, Any]) -> None:
    await ctx.send(op["id"])


async def _ask(ctx: Context, op: dict[str, Any]) -> str:
    try:
        if op.get("choices"):
            return await ctx.ask(op["id"], choices=["a", "b"], expires_in=op.get("expires_in"))
        return await ctx.ask(op["id"], expires_in=op.get("expires_in"))
    except QuestionUnanswered:
        return "unanswered"


async def _model(ctx: Context, op: dict[str, Any]) -> None:
    async with ctx.model_call(limit=limited("models")):
        for _ in range(op["beats"]):
            ctx.heartbeat()
            await anyio.sleep(0.001)


async def _raise(ctx: Context, op: dict[str, Any]) -> None:
    raise LookupError(op["id"])


_DO = {
    "call": _call,
    "step": _step,
    "child": _child,
    "hire": _hire,
    "sleep": _sleep,
    "now": _now,
    "random": _random,
    "ticks": _ticks,
    "report": _report,
    "timer": _timer,
    "race": _race,
    "all": _all,
    "guard": _guard,
    "receive": _receive,
    "send": _send,
    "ask": _ask,
    "model": _model,
    "raise": _raise,
}
