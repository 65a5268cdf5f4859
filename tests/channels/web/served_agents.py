"""Agents that the tests' daemons offer."""

from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from supervisor import Context, agent, tool
from supervisor.tools import shell


@tool
async def note(text: str, file: str) -> str:
    with Path(file).open("a") as notes:
        notes.write(f"{text}\n")
    return f"noted {text}"


@agent
async def noting(ctx: Context, notes: dict[str, str]) -> str:
    """Notes each text into its file, one after the other; a person is asked for each."""
    return ", ".join([(await ctx.call(note, text, file)).content for text, file in notes.items()])


@agent
async def asking_many(ctx: Context, count: int) -> int:
    """Asks for all of them at once, by sub-agents."""
    children = [await ctx.spawn(noting, {f"{number}": "/dev/null"}) for number in range(count)]
    return len([await child.outcome() for child in children])


@agent
async def chatting(ctx: Context, text: str) -> str:
    return f"{len(ctx.transcript())} before {text}"


@agent
async def listening(ctx: Context, text: str) -> str:
    """Listens until it is told to end; a later text begins its next turn."""
    while text != "end":
        text = await ctx.receive()
    return text


@agent
async def writing(ctx: Context) -> None:
    """Writes a text, and says another one when it is told to; then it writes on."""
    for piece in ("The <b>tide</b> is \x1b[31mlow", "\u202e and so on."):
        ctx.stream(piece)
    await ctx.send(f"said: {await ctx.receive()}")
    ctx.stream("And more")
    await ctx.receive()


@agent
async def wondering(ctx: Context, drinks: list[str]) -> str:
    """Asks three questions: one of several, yes or no, in one's own words."""
    drink = await ctx.ask("What to drink?", choices=drinks)
    sure = await ctx.ask(f"Really {drink}?", schema=bool)
    return f"{drink}, {sure}, {await ctx.ask('Why?')}"


@agent
async def chief(ctx: Context, notes: dict[str, str]) -> str:
    return await ctx.run(noting, notes)


@agent
async def counting(ctx: Context) -> int:
    """Asks for numbers."""
    return sum(await ctx.ask("Which ones?", schema=list[int]))


@agent
async def running(ctx: Context, command: str) -> str:
    """Runs a command; a person is asked."""
    return (await ctx.call(shell, command=command)).kind


class Stop(msgspec.Struct):
    city: Annotated[str, msgspec.Meta(min_length=2, description="Where to sleep")]
    nights: Annotated[int, msgspec.Meta(ge=1, le=30)] = 1


class Trip(msgspec.Struct):
    """A journey."""

    traveller: str
    leaves: date
    kind: Literal["train", "bus"]
    luggage: bool
    stops: list[Stop]
    note: str | None = None
    budget: Annotated[float, msgspec.Meta(ge=0, description="In euros")] = 99.5
    home: Stop | None = None
    tags: dict[str, int] = {}


@tool
async def book(trip: Trip, seats: int, pay: bool) -> str:
    return f"{seats} for {trip.traveller} to {', '.join(stop.city for stop in trip.stops)}"


@agent
async def booking(ctx: Context, trip: Trip) -> str:
    """Books a journey, and asks whether it is the right one."""
    wanted = await ctx.ask("Which journey?", schema=Trip) if not trip.stops else trip
    return (await ctx.call(book, wanted, seats=1, pay=False)).content
