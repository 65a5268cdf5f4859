"""The replay order and its barrier, by which a replay takes the path of the attempt before it (R1).

Why: "How a result comes to an agent" in docs/project/architecture.md. One ReplayOrder serves one attempt.
It knows which operations of the journal the agent asked for again, and which results it was given.

Rules
- A result is given when its turn has come: every earlier result of the journal was given (or the task that waited for
  it is gone), and every operation that had begun before it was asked for again.
- A new operation begins only when everything in the journal was asked for again. An agent that gets no further before
  that is blocked (core/blocking.py).
"""

from collections.abc import MutableMapping
from operator import itemgetter
from sys import maxsize
from typing import Final, NamedTuple

from supervisor.core.sessions.overlay import EMPTY, map_with
from supervisor.core.sessions.state import SessionState

HELD: Final = ""
"""A member of `unclaimed` while no new operation may begin; no operation has this name."""


class Asked(NamedTuple):
    """When the agent asked for a new operation: after how many saves, how many results it had been given since the last
    save, and how many in all."""

    saves: int
    given: int
    gifts: int


class ReplayOrder:
    """What one attempt has asked for, and which results it was given."""

    __slots__ = ("_begun", "_first_saves", "_gifts", "_given", "_next", "_old", "_oldest", "_saves", "unclaimed")

    def __init__(self, state: SessionState) -> None:
        begun = ((record.begun, operation) for operation, record in state.operations.items())
        self._begun = tuple(sorted(begun, key=itemgetter(0)))
        """The operations in the journal when the attempt began, in the order in which they began."""
        self.unclaimed: MutableMapping[str, None] = dict.fromkeys(state.operations) or EMPTY
        self._oldest = 0
        self._given: MutableMapping[str, int] = EMPTY
        """The number of each result that was given, counting from 0."""
        self._gifts = 0
        self._next = 0
        self._saves = self._first_saves = state.saves
        self._old = len(state.order)
        """How many results the journal held when the attempt began."""

    def owes(self, state: SessionState) -> bool:
        """Return whether the agent was not given a result yet that the journal held when the attempt began."""
        if not self._old or state.saves != self._first_saves:
            return False
        self.front(state)
        if self._next >= self._old:
            self._old = 0
        return bool(self._old)

    @property
    def is_replaying(self) -> bool:
        return bool(self.unclaimed)

    def hold(self) -> None:
        """Let no new operation begin: the agent is only to show that it follows its journal."""
        self.unclaimed = map_with(self.unclaimed, HELD, None)

    @property
    def has_followed(self) -> bool:
        """Whether the agent has asked again for everything in the journal."""
        return not self.unclaimed or [*self.unclaimed] == [HELD]

    def claim(self, operation: str) -> None:
        """The agent asked for this operation (again)."""
        if operation in self.unclaimed:
            del self.unclaimed[operation]

    def give(self, operation: str) -> None:
        """The result was given to the agent, or the task that waited for it is gone."""
        if operation not in self._given:
            self._given = map_with(self._given, operation, self._gifts)
        self._gifts += 1

    def was_given(self, operation: object) -> bool:
        """Return whether the result was given, or its task is gone."""
        return operation in self._given

    def front(self, state: SessionState) -> str | None:
        """Return the operation whose result may be given now; None if another request or result must come first."""
        if self._saves != state.saves:
            self._saves, self._next = state.saves, 0
            self._given = {name: number for name, number in self._given.items() if name in state.operations}
        while self._next < len(state.order) and state.order[self._next] in self._given:
            self._next += 1
        if self._next == len(state.order):
            return None
        operation = state.order[self._next]
        if self.unclaimed and self._oldest_unclaimed() < state.operations[operation].answered:
            return None
        return operation

    def oldest_unclaimed(self, state: SessionState) -> str | None:
        """Return the oldest operation that the agent did not ask for again, except those that it abandoned itself."""
        for _, operation in self._begun:
            if operation in self.unclaimed and state.operations[operation].state != "abandoned":
                return operation
        return None

    def ask(self, state: SessionState) -> Asked:
        """The agent asks for a new operation."""
        self.front(state)
        return Asked(state.saves, self._next, self._gifts)

    def given_when(self, asked: Asked, state: SessionState) -> int:
        """Return how many of the remaining results the agent had been given when it asked for something. A save may
        have happened since: it forgets only results that the agent had been given when it asked for the save."""
        if asked.saves == state.saves:
            return asked.given
        later = (self._given.get(operation, asked.gifts) >= asked.gifts for operation in state.order)
        return next((place for place, is_later in enumerate(later) if is_later), len(state.order))

    def _oldest_unclaimed(self) -> int:
        while self._oldest < len(self._begun) and self._begun[self._oldest][1] not in self.unclaimed:
            self._oldest += 1
        return self._begun[self._oldest][0] if self._oldest < len(self._begun) else maxsize
