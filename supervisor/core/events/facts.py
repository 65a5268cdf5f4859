"""The base of every event: a fact with its instant, and the traits of its type.

A trait is a fact about all events of one type: the audit shows them, or a fork does not copy them. It is written once,
at the class. A module that treats many types alike asks for them by their traits (`having`), so that a new event is
added in one place. What an event may follow, and what it moves, is not a trait: the tables of core/sessions/machine.py
say so.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Literal, TypeVar

import msgspec

Trait = Literal[
    "audited",  # the audit shows it: who asked, who was shown what, who decided what, and what then ran (A15)
    "told",  # a person who watches a run in a terminal reads it as progress
    "trouble",  # that person reads it next to a tree of runs, too, where it stays on the screen
    "own",  # the run itself did it; everything else in a journal happens to the run
    "begins run",  # the session's first run begins, or the next one; an import counts as one
    "ends block",  # if the run was blocked, it is not any more
    "wakes",  # it ends a passivation, whatever the run was waiting for
    "no progress",  # it does not say how far an attempt has come: after each crash a daemon posts its cards again
    "card",  # a card of an approval is posted, changed or retired
    "of its row",  # a row that shows an approval in short says it already, or says better what follows from it
    "reminds",  # people are shown again an approval that is still pending
    "evidence",  # it says what a call that waits for a person would do
    "votes",  # a person's yes to an approval that needs more people, and is still pending
    "of schedules",  # it says what becomes of a schedule
    "not copied",  # a fork does not take it over: it is a fact of the source alone
    "last append",  # it may be in one append with the end of a run
    "unwinding",  # a run journals it on its way out, before its end
]

TRAITS: Final[dict[type["Event"], frozenset[Trait]]] = {}
"""The traits of every type that has any."""
ANSWERS: Final[dict[type["Event"], Callable[[Any], str]]] = {}
"""The events for which a waiting run may wait, and the key by which it knows the answer (RunPassivated.waiting_for)."""

EventType = TypeVar("EventType", bound=type["Event"])


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True, omit_defaults=True, gc=False):
    """A journaled fact. It refers to nothing that could refer to it, so the garbage collector can ignore it: there are
    more events than other objects."""

    at: datetime

    def __repr__(self) -> str:
        """Without raw JSON: text of agents, tools and people must not get into logs and error messages."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = (f"{name}={value!r}" for name, value in fields if not isinstance(value, msgspec.Raw))
        return f"{type(self).__name__}({', '.join(shown)})"


class UnknownEvent(Event, frozen=True, kw_only=True, tag=False):
    """An event of a type that a newer program has: a reader of another program's journal gets this for it. A store
    never contains one; it refuses an event that it does not know."""

    event: str
    """The name of its type."""
    fields: dict[str, Any]
    """Its other fields, as plain JSON values."""

    def __repr__(self) -> str:
        return f"UnknownEvent(at={self.at!r}, event={self.event!r})"


def event_traits(*names: Trait, answers: Callable[[Any], str] | None = None) -> Callable[[EventType], EventType]:
    """Give an event type its traits. `answers`: a waiting run may wait for it, under the key that this returns."""

    def mark(event: EventType) -> EventType:
        TRAITS[event] = frozenset(names)
        if answers is not None:
            ANSWERS[event] = answers
        return event

    return mark


def having(*wanted: Trait) -> frozenset[type[Event]]:
    """Return the event types that have any of these traits; import it from core/events, which knows all types."""
    return frozenset(event for event, known in TRAITS.items() if not known.isdisjoint(wanted))
