"""A form that a person fills in, now or next week: each field is checked, and a bad answer changes nothing.

supervisor run form.py:book 'the autumn meeting'
supervisor answer ID '{"place": "Lyon", "days": 2}'    # from another shell, a browser, Slack or Discord
"""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from supervisor import Context, QuestionUnanswered, agent


@dataclass
class Trip:
    place: str
    days: Annotated[int, Meta(ge=1, le=14)]
    by_train: bool = True


@agent
async def book(ctx: Context, occasion: str) -> str:
    trip = await ctx.ask(f"Where to, and for how long, for {occasion}?", schema=Trip)
    way = "by train" if trip.by_train else "by plane"
    summary = f"{trip.place} for {trip.days} days, {way}"
    try:
        sure = await ctx.ask(f"Book {summary}?", choices=["book it", "leave it"], expires_in=3 * 24 * 3600)
    except QuestionUnanswered as error:
        return f"not booked: {error.reason}"
    return f"booked: {summary}" if sure == "book it" else "not booked: a person left it"
