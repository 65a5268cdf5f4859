"""An agent that asks for a journey, and then whether it may book it."""

from typing import Annotated, Literal

import msgspec

from supervisor import Context, agent, tool


class Stop(msgspec.Struct):
    city: Annotated[str, msgspec.Meta(min_length=2)]
    nights: Annotated[int, msgspec.Meta(ge=1, le=30, description="in a row")] = 1


class Journey(msgspec.Struct):
    kind: Literal["train", "bus"]
    stops: list[Stop]
    note: str | None = None


@tool
async def book(journey: Journey, seats: int) -> str:
    return f"{seats} to {', '.join(stop.city for stop in journey.stops)}"


@agent
async def traveller(ctx: Context) -> str:
    return (await ctx.call(book, await ctx.ask("Which journey?", schema=Journey), 1)).content
