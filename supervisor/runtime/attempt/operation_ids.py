"""How an attempt names its operations: the same in every attempt (R1), and what a save says of that.

An operation is named by its branch, what it does, and the how-many-th identical one it is. A save forgets what lies
behind the agent, but the counting goes on, or what comes then would be taken for what was before. So a save says how
many of each lie behind it: `floor` for all alike, no fewer than there have been of any, and `counts` where it is fewer,
since one of them does not. So a save is as long as what is under way, however long the run has lived.

Rules
- Behind the agent is what it was given, and what a scope of its own has cut off, though the journal may not know it.
- A save is of the instant in which the agent asks for it: what is named between that and its commit lies before it.
- From its commit on, the attempt that saves names as one that begins with that save would; not earlier, since what is
  committed before it is found by one that begins with the save before.
- Two tasks that are alive may not do the same: which of them is the first would change from attempt to attempt. A task
  is known by its coroutine, which anyio shows on both backends and which says whether it has ended. A reference to it
  keeps its identity from being used again.
"""

import inspect
from collections.abc import Iterable
from typing import Any

import anyio

from supervisor.core.errors import InvalidInput
from supervisor.core.ids import operation_id, operation_key, split_operation_id
from supervisor.core.replay_order import Asked
from supervisor.core.session import SessionState


class Names:
    __slots__ = ("_claimants", "_counts", "_floor", "_saving", "asked", "open")

    def __init__(self, state: SessionState) -> None:
        self._counts = dict(state.counts)
        self._floor = state.floor
        self._claimants: dict[str, Any] = {}
        """The coroutine of the task that did each operation last."""
        self._saving: dict[str, int] | None = None
        """Of a save that is about to be committed: how many lie behind it, where not all do."""
        self.asked: dict[str, tuple[str, str, Any]] | None = None
        """While an attempt replays: kind, name and arguments of what the agent asks for (divergence.py)."""
        self.open: dict[str, Asked | None] = {}
        """What does not lie behind the agent: operations, timed blocks and task groups; and of what is new to the
        journal, when the agent asked for it."""

    def of_operation(self, branch: str, kind: str, name: str, arguments: Any) -> str:
        """Return an operation's id. Raises InvalidInput if two live tasks do the same."""
        key = operation_key(branch, kind, name, arguments)
        self._claim(key, f"{kind} {name}")
        operation = self._next(key)
        if self.asked is not None:
            self.asked[operation] = kind, name, arguments
        return operation

    def of_block(self, branch: str, kind: str, arguments: Any) -> tuple[str, int]:
        """Return the id of a block, and how many identical ones it stands in: each depth counts for itself, since the
        outer ones end later. Raises InvalidInput as for an operation."""
        key, depth = operation_key(branch, kind, "", arguments), 0
        self._claim(key, kind)
        while operation_id(key, self._count(key)) in self.open:
            depth += 1
            key = operation_key(branch, kind, str(depth), arguments)
        return self._next(key), depth

    def begin_save(self) -> None:
        """What is open now, and what is named from now on, does not lie behind the save."""
        self._saving = {}
        for operation in self.open:
            self._put_before(operation, self._saving)

    def save(self, kept: Iterable[str]) -> tuple[dict[str, int], int]:
        """Return `counts` and `floor` of the save that began last, as it is committed. `kept`: what a restart has put
        aside for the agent to ask for again."""
        behind, self._saving = self._saving or {}, None
        for operation in kept:
            self._put_before(operation, behind)
        floor = max(self._floor, *self._counts.values(), 0)
        self._counts = {key: self._count(key) for key in behind}
        self._claimants = {key: claimant for key, claimant in self._claimants.items() if key in behind}
        self._floor = floor
        return behind, floor

    def drop_save(self) -> None:
        """The save that began last is not committed."""
        self._saving = None

    @staticmethod
    def _put_before(operation: str, behind: dict[str, int]) -> None:
        key, count = split_operation_id(operation)
        behind[key] = min(count - 1, behind.get(key, count))

    def _claim(self, key: str, what: str) -> None:
        current = anyio.get_current_task().coro
        if (claimant := self._claimants.setdefault(key, current)) is not current:
            if inspect.getcoroutinestate(claimant) != inspect.CORO_CLOSED:
                raise InvalidInput(
                    f"two tasks do the same at the same time: {what}; which of them is the first would change from "
                    "attempt to attempt: give each its own context with ctx.branch(name) or ctx.task_group()"
                )
            self._claimants[key] = current

    def _next(self, key: str) -> str:
        count = self._count(key)
        if self._saving is not None:
            self._saving.setdefault(key, count)
        self._counts[key] = count + 1
        operation = operation_id(key, count + 1)
        self.open[operation] = None
        return operation

    def _count(self, key: str) -> int:
        """Return how many have been named so."""
        return self._counts.get(key, self._floor)
