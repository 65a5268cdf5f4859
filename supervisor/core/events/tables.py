"""Transition tables, and how they are read.

A table maps (state, symbol) to the next state. A pair that is not in the table is illegal: it raises, and changes
nothing. Symbols are event names, with a suffix where one event has two meanings.
"""

from collections.abc import Mapping
from typing import Any, get_args

from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent


def symbol(event: Any) -> str:
    """Return the name of this event in the tables."""
    name = type(event).__name__
    if name == "ApprovalDecided":
        return f"{name}.{event.decision}"
    return "ToolCallRequested.asking" if name == "ToolCallRequested" and event.approval is not None else name


def advance(table: dict[tuple[str, str], str], state: str, event: e.AnyEvent) -> str:
    """Return the next state; raises IllegalEvent for a pair that is not in the table."""
    try:
        return table[state, symbol(event)]
    except KeyError:
        raise IllegalEvent(f"{symbol(event)} cannot follow {state or 'nothing'!r}: {event!r}") from None


def types_in(table: Mapping[tuple[str, str], str], state: str | None = None) -> frozenset[type[e.Event]]:
    """Return the event types in a table; with `state`, those that are legal in that state."""
    names = {symbol.partition(".")[0] for held, symbol in table if state is None or held == state}
    return frozenset(each for each in get_args(e.AnyEvent) if each.__name__ in names)
