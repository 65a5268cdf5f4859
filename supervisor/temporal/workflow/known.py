"""The rules for all sessions that a tree knows. They come with its start, by a read, or from a body that found others.

Rules
- The body of each call takes the version along, and the worker compares it just before the effect (worker/bodies.py).
- They are confirmed when they were read or compared, and not when the tree heard of it: a body may run for hours.
- Other calls have no body. For them the rules are read each time.
"""

from datetime import datetime

from msgspec.structs import replace
from temporalio import workflow

from supervisor.core.calls.rules import Rule
from supervisor.temporal.rulebook import can_travel
from supervisor.temporal.wire import KnownRules, Start, from_wire


class Known:
    """What a tree knows of the rules: at first what its start says, if it says something."""

    def __init__(self, start: Start) -> None:
        self._known = start.rules
        if start.rules is not None and start.rules.at is None:
            self._known = replace(start.rules, at=workflow.info().start_time)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return () if self._known is None else self._known.rules

    @property
    def version(self) -> str:
        """The version for a body; "" is that of no rules, so that the body says which there are."""
        return "" if self._known is None else self._known.version

    def is_younger_than(self, seconds: float) -> bool:
        """Whether the rules were confirmed so lately."""
        if self._known is None or self._known.at is None:
            return False
        return (workflow.now() - self._known.at).total_seconds() < seconds

    def take(self, document: object, at: datetime) -> None:
        """Know what was read. `at`: when it was asked for."""
        self._known = replace(from_wire(document, KnownRules), at=at)

    def confirm(self, version: str, at: datetime) -> None:
        """Note that the rules were of a version after an instant."""
        if self._known is not None and self._known.version == version:
            self._known = replace(self._known, at=max(at, self._known.at or at))

    def to_carry(self) -> KnownRules | None:
        """Return what goes along into the next workflow; None: it reads them."""
        known = self._known
        return known if known is not None and known.at is not None and can_travel(known) else None
