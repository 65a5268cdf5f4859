"""Agents of the scenes that are the same on every Supervisor. Tools and steps are at the top, as Temporal needs it."""

import os

import anyio
import msgspec
from remote_agents import effects, note

from supervisor import (
    Context,
    InvalidInput,
    QuestionUnanswered,
    RunError,
    StepFailed,
    ToolContext,
    agent,
    allow,
    ask,
    deny,
    tool,
)

LONG = 3600.0

# -- tools and steps ---------------------------------------------------------------------------------------------------


@tool(policy="allow")
async def reading(text: str) -> str:
    return f"read {text}"


@tool(policy="allow", timeout=LONG)
async def holding(tool_context: ToolContext, name: str) -> None:
    """Runs until it is cancelled."""
    effects.append(f"{name} runs")
    try:
        await anyio.sleep_forever()
    finally:
        effects.append(f"{name} has ended")


@tool(policy="allow", timeout=0.3)
async def slow() -> None:
    await anyio.sleep_forever()


class Pair(msgspec.Struct):
    name: str
    number: int


async def pairing(name: str) -> Pair:
    effects.append(f"paired {name}")
    return Pair(name, len(name))


async def breaking(text: str) -> None:
    raise ValueError(text)


async def idle() -> None:
    await anyio.sleep_forever()


async def telling(text: str) -> None:
    effects.append(text)


# -- timers ------------------------------------------------------------------------------------------------------------


@agent
async def sleeper(ctx: Context, seconds: float) -> float:
    """Sleeps, and says how long."""
    begun = await ctx.now()
    await ctx.sleep(seconds)
    return (await ctx.now() - begun).total_seconds()


@agent
async def hasty(ctx: Context) -> list[bool]:
    """Waits a moment for an answer, and long for a call that is quick."""
    async with ctx.move_on_after(0.2) as short:
        await ctx.ask("Well?")
    async with ctx.move_on_after(LONG) as long:
        await ctx.call(reading, "a")
    return [short.expired, long.expired]


@agent(approval_expires_in=0.2)
async def unheard(ctx: Context) -> list[str]:
    """Asks a question and about a call, both of which expire."""
    try:
        await ctx.ask("Well?", expires_in=0.1)
    except QuestionUnanswered as unanswered:
        said = unanswered.reason
    result = await ctx.call(note, "bread")
    return [said, result.kind, result.details["reason"]]


@agent
async def overdue(ctx: Context) -> list[str]:
    """Makes a call that does not end within its deadline, and another one."""
    result = await ctx.call(slow)
    return [result.kind, result.details["reason"], (await ctx.call(reading, "a")).content]


@agent(inactivity_timeout=0.5)
async def stuck(ctx: Context) -> None:
    await ctx.step(idle)


# -- steps -------------------------------------------------------------------------------------------------------------


@agent
async def stepping(ctx: Context, name: str) -> list[str]:
    """Takes a step that returns a value of a type, and one that fails."""
    pair = await ctx.step(pairing, name)
    try:
        await ctx.step(breaking, "no more")
    except StepFailed as failed:
        return [type(pair).__name__, f"{pair.name} {pair.number}", failed.error_type, failed.error]
    return []


@agent
async def naming(ctx: Context) -> list[str]:
    """Takes two steps with the same arguments under two names, and a third one under a name that was used."""
    pairs = [await ctx.named(each).step(pairing, "ann") for each in ("first", "second")]
    try:
        await ctx.named("first").step(pairing, "ann")
    except InvalidInput:
        return [pair.name for pair in pairs]
    return []


@agent
async def chancy(ctx: Context) -> list[str]:
    """Says an instant and a random number, and fails until the test lets it work."""
    found = [(await ctx.now()).isoformat(), str(await ctx.random())]
    await ctx.step(telling, " ".join(found))
    await ctx.step(failing_first)
    return found


async def failing_first() -> None:
    if "SCENES_WORK" not in os.environ:
        raise ValueError("not today")


# -- cancels -----------------------------------------------------------------------------------------------------------


@agent
async def impatient(ctx: Context) -> list[str]:
    """Leaves a call that runs, and makes another one."""
    async with ctx.move_on_after(0.5) as scope:
        await ctx.call(holding, "call")
    return [str(scope.expired), (await ctx.call(reading, "a")).content]


@agent
async def racing(ctx: Context) -> str:
    """Asks two questions at once, and takes the first answer; a call runs meanwhile."""
    won: list[str] = []

    async def ask(own: Context, name: str) -> None:
        won.append(await own.ask(f"{name}?"))
        race.cancel()

    async def hold(own: Context) -> None:
        await own.call(holding, "call")

    with anyio.CancelScope() as race:
        async with ctx.task_group() as tasks:
            tasks.start_soon(ask, "left")
            tasks.start_soon(ask, "right")
            tasks.start_soon(hold)
    return f"{won} {(await ctx.call(reading, 'a')).content}"


@agent
async def level(ctx: Context, depth: int) -> None:
    """Sub-agents below each other, the deepest of which makes a call that runs."""
    if depth:
        await ctx.run(level, depth - 1)
    await ctx.call(holding, "deepest")


# -- sub-agents --------------------------------------------------------------------------------------------------------


@agent
async def worker(ctx: Context, text: str) -> str:
    """Asks what to do."""
    if text == "bad":
        raise ValueError("a bad text")
    return f"{text} {await ctx.ask(f'What of {text}?')}"


@agent
async def speaking(ctx: Context) -> None:
    """Says something, and fails."""
    await ctx.send("the port is wrong")
    raise ValueError("and now?")


@agent
async def boss(ctx: Context, texts: list[str]) -> list[str]:
    """Spawns a worker for each text, and says how each has ended."""
    children = [await ctx.spawn(worker, text) for text in texts]
    outcomes = [await child.outcome() for child in children]
    return [outcome.value if outcome.kind == "succeeded" else outcome.kind for outcome in outcomes]


@agent
async def strict(ctx: Context) -> list[str]:
    """Cancels a worker that it has spawned, and waits for one that fails."""
    child = await ctx.spawn(worker, "a")
    await child.cancel("not needed")
    outcome = await child.outcome()
    try:
        await ctx.run(worker, "bad")
    except RunError as error:
        return [outcome.kind, outcome.cause or "", type(error).__name__, error.cause or ""]
    return []


@agent(rules=[ask(sleeper)])
async def delegating(ctx: Context) -> list[str]:
    """Calls a sub-agent as a tool: a person is asked first."""
    result = await ctx.call(sleeper, 0.0)
    return [result.kind, type(result.value).__name__]


# -- messages ----------------------------------------------------------------------------------------------------------


@agent
async def listening(ctx: Context, count: int) -> list[str]:
    """Receives messages, and says each again."""
    heard = []
    for _ in range(count):
        heard.append(await ctx.receive())
        await ctx.send(f"heard {heard[-1]}")
    return heard


@agent
async def hearing(ctx: Context) -> list[str]:
    """Lets a sub-agent receive a message."""
    return await ctx.run(listening, 1)


@agent
async def occupied(ctx: Context, text: str) -> list[str]:
    """Asks about a call before it receives a message. A message begins a turn of it, too."""
    if ctx.run_number > 1:
        return [text]
    return [(await ctx.call(note, text)).content, await ctx.receive()]


@agent
async def remembering(ctx: Context, text: str) -> list[str]:
    """Saves its text, after those of earlier turns."""
    await ctx.save([*(ctx.saved or []), text])
    return [*(each for saved in ctx.saved_before() for each in saved), *ctx.saved]


@agent
async def resuming(ctx: Context) -> list[int]:
    """Saves what it has done, and fails until the test lets it work."""
    begun = ctx.saved or 0
    for number in range(begun, 2):
        await ctx.step(telling, f"did {number}")
        await ctx.save(number + 1)
    await ctx.step(failing_first)
    return [begun, ctx.saved]


# -- questions, calls and rules ----------------------------------------------------------------------------------------


@agent
async def polling(ctx: Context) -> list[str]:
    """Asks for one of several words, for a value of a type, and for free text."""
    chosen = await ctx.ask("Which?", choices=["tea", "coffee"])
    pair = await ctx.ask("Whose?", schema=Pair)
    try:
        return [chosen, f"{pair.name} {pair.number}", await ctx.ask("Why?")]
    except QuestionUnanswered as unanswered:
        return [chosen, f"{pair.name} {pair.number}", unanswered.reason, unanswered.why or ""]


@agent
async def noting_one(ctx: Context, text: str) -> list[str]:
    """Notes, and says how that has ended."""
    result = await ctx.call(note, text)
    return [result.kind, result.content]


@agent(rules=[deny(reading), allow(note)])
async def ruled(ctx: Context) -> list[str]:
    """One tool is denied, and the other one allowed, also to its sub-agent."""
    denied = await ctx.call(reading, "a")
    return [denied.kind, *(await ctx.run(noting_one, "bread"))]


@agent
async def noting_twice(ctx: Context, text: str) -> list[str]:
    """Lets a sub-agent note, and notes the same itself."""
    return [*(await ctx.run(noting_one, text)), *(await ctx.run(noting_one, text))]


@agent
async def costly(ctx: Context) -> str:
    """Notes, and fails until the test lets it work."""
    noted = (await ctx.call(note, "bread")).content
    await ctx.step(failing_first)
    return noted


SCENES = (
    *(
        sleeper,
        hasty,
        unheard,
        overdue,
        stuck,
        stepping,
        naming,
        chancy,
        impatient,
        racing,
        level,
        boss,
        strict,
        speaking,
    ),
    *(
        delegating,
        listening,
        occupied,
        remembering,
        resuming,
        polling,
        noting_one,
        ruled,
        noting_twice,
        costly,
        worker,
        hearing,
    ),
)
