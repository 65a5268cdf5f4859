"""Kinds of operations: one table says what an operation of each kind means to all who read it in a journal.

The name of a kind is in the ids of its operations and in their events, so it never changes. A name without a row has
OTHER: a newer program may have written it, and nothing is known of it but its result.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Effect = Literal["none", "journal", "again", "once"]
"""What an operation does, apart from its result. none: nothing, so that it is done anew after a restart. journal: its
entries are the effect. again: a function runs, and may run again. once: a function runs, at most once (T1)."""
Wait = Literal["active", "tool", "person", "child", "message", "timer"]
"""What a run waits for in it; active: it does not wait."""
CALL: Final = "call"
ASK: Final = "ask"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `start`: how a start with an instant is told. `words`: how its end is told; {name} is the operation's
    own, {child} that of a sub-agent, {said} a person's message."""

    effect: Effect = "journal"
    lane: Wait = "active"
    is_begun: bool = False
    """Whether the journal has its start, and not only its end."""
    child: Literal["begins", "ends"] | None = None
    """What it does to the sub-agent that it names."""
    start: str = "waits until"
    words: str = "did {kind} {child}"


OTHER: Final = Kind()
KINDS: Final[Mapping[str, Kind]] = {
    CALL: Kind(effect="once", lane="tool", is_begun=True),
    ASK: Kind(lane="person", is_begun=True, words="received the end of its question"),
    "step": Kind(effect="again", words="step {name} gave {value}"),
    "spawn": Kind(child="begins", words="started a sub-agent, {name} [{session}]"),
    "outcome": Kind(effect="none", lane="child", words="received the outcome of {child}"),
    "cancel": Kind(effect="none", lane="child", child="ends", words="cancelled {child}"),
    "send": Kind(words="sent its message"),
    "receive": Kind(lane="message", words="received {said}"),
    "sleep": Kind(effect="none", lane="timer", is_begun=True, start="sleeps until", words="sleep is over"),
    "timer": Kind(effect="none", is_begun=True, start="set a timer until", words="timer is over"),
    "now": Kind(effect="none", words="noted now {value}"),
    "random": Kind(effect="none", words="noted random {value}"),
    "used": Kind(words="noted what it spent"),
}


BEGINS_CHILD: Final = frozenset(name for name, kind in KINDS.items() if kind.child == "begins")
"""Operations with which a sub-agent begins."""


def kind_of(name: str) -> Kind:
    """Return the row of a kind."""
    return KINDS.get(name, OTHER)
