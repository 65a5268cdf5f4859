"""The instants at which agents go on. They are noted here and not in the agents: a worker of Temporal allows their own
code no clock."""

from time import perf_counter

import anyio

went_on: dict[str, float] = {}
"""The instant when the agent of each note went on with the result of its call."""
news: list[anyio.Event] = []
"""Set when one of the agents goes on."""


def note_that_it_went_on(note: str) -> None:
    went_on[note] = perf_counter()
    for event in news:
        event.set()
