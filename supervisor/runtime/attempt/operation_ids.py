"""Operation ids: an attempt names its operations the same in every attempt (R1), and a save keeps their counters.

The id of an operation holds its branch, what it does, and a counter of identical operations. A save drops completed
operations but keeps their counters, so that later operations get new ids. It has a counter for each key with an
operation that is still open (`counts`: the number of completed ones before it). All other keys share one number,
`floor`: the largest counter of any key. So the size of a save depends on the operations under way, and not on the age
of the run.

Rules
- An operation is completed if the agent was given its result, or if a scope of the agent cancelled it. The journal may
  not know the second kind.
- An operation with a name of its own is identified by that name, whatever its arguments. Between two saves a name is
  used once in its branch.
- A save is of the instant at which the agent asks for it. An operation that is named between that instant and the
  commit of the save is not completed by it.
- From the commit of a save on, the attempt names operations as a new attempt that begins with that save would. It does
  not do so earlier, since entries before that commit may be replayed by an attempt that begins with the previous save.
- Two live tasks may not do the same operation: which of them is first would change from attempt to attempt. A task is
  identified by its coroutine, which anyio shows on both backends, and which knows whether it has ended. The reference
  to the coroutine keeps its identity from being reused.
"""

import inspect
from collections.abc import Iterable, MutableMapping
from typing import Any, NamedTuple, TypeAlias

import anyio

from supervisor.core.errors import InvalidInput
from supervisor.core.events.kinds import CALL
from supervisor.core.ids import named_key, operation_id, operation_key, split_operation_id
from supervisor.core.sessions.overlay import EMPTY, map_with
from supervisor.core.sessions.replay_order import Asked
from supervisor.core.sessions.state import SessionState


class Named(NamedTuple):
    """The place of an operation that the agent names itself."""

    branch: str
    name: str


Place: TypeAlias = str | Named
"""Where an agent does an operation: a branch, perhaps with the operation's own name."""


class Names:
    __slots__ = ("_claimants", "_counts", "_floor", "_named", "_saving", "asked", "open")

    def __init__(self, state: SessionState) -> None:
        self._counts = dict(state.counts)
        self._floor = state.floor
        self._claimants: dict[str, Any] = {}
        """The coroutine of the task that last did an operation, by key."""
        self._named: MutableMapping[Named, str] = EMPTY
        """The keys of operations that the agent named itself."""
        self._saving: dict[str, int] | None = None
        """The `counts` of a save that is about to be committed."""
        self.asked: dict[str, tuple[str, str, Any]] | None = None
        """During a replay: kind, name and arguments of each operation that the agent asks for (divergence.py)."""
        self.open: dict[str, Asked | None] = {}
        """The operations, timed blocks and task groups that are not completed. For an operation that is new to the
        journal, the value says when the agent asked for it."""

    def of_operation(self, place: Place, kind: str, name: str, arguments: Any) -> str:
        """Return a new operation's id. Raises InvalidInput if another live task does the same operation, or if the
        agent has used its name before."""
        if isinstance(place, Named):
            if place in self._named:
                raise InvalidInput(
                    f"the agent names two operations {place.name!r}: give each operation another name, or its own "
                    "branch with ctx.branch(name)"
                )
            key = named_key(place.branch, kind, place.name, name if kind == CALL else "")
            self._named = map_with(self._named, place, key)
            name, arguments = place.name, None
        else:
            key = operation_key(place, kind, name, arguments)
        self._claim(key, f"{kind} {name}")
        operation = self._next(key)
        if self.asked is not None:
            self.asked[operation] = kind, name, arguments
        return operation

    def of_block(self, branch: str, kind: str, arguments: Any) -> tuple[str, int]:
        """Return the id of a block, and the number of identical blocks around it. Each depth has its own counter, since
        the outer blocks end later. Raises InvalidInput as for an operation."""
        key, depth = operation_key(branch, kind, "", arguments), 0
        self._claim(key, kind)
        while operation_id(key, self._count(key)) in self.open:
            depth += 1
            key = operation_key(branch, kind, str(depth), arguments)
        return self._next(key), depth

    def begin_save(self) -> None:
        """Begin a save: operations that are open now, or are named from now on, are not completed by it."""
        self._saving = {}
        for operation in self.open:
            self._put_before(operation, self._saving)

    def save(self, kept: Iterable[str]) -> tuple[dict[str, int], int]:
        """Return `counts` and `floor` of the save that began last. Called in its commit. `kept`: the operations that a
        restart keeps for the agent to ask for again."""
        counts, self._saving = self._saving or {}, None
        for operation in kept:
            self._put_before(operation, counts)
        floor = max(self._floor, *self._counts.values(), 0)
        self._counts = {key: self._count(key) for key in counts}
        self._claimants = {key: claimant for key, claimant in self._claimants.items() if key in counts}
        self._named = {place: key for place, key in self._named.items() if key in counts}
        self._floor = floor
        return counts, floor

    def drop_save(self) -> None:
        """Drop the save that began last: it is not committed."""
        self._saving = None

    @staticmethod
    def _put_before(operation: str, counts: dict[str, int]) -> None:
        key, count = split_operation_id(operation)
        counts[key] = min(count - 1, counts.get(key, count))

    def drop(self, operation: str) -> None:
        """Forget an operation that the agent asked for, and that was refused. Its number stays used."""
        self.open.pop(operation, None)
        if self.asked is not None:
            self.asked.pop(operation, None)

    def _claim(self, key: str, what: str) -> None:
        current = anyio.get_current_task().coro
        if (claimant := self._claimants.setdefault(key, current)) is not current:
            if inspect.getcoroutinestate(claimant) != inspect.CORO_CLOSED:
                raise InvalidInput(
                    f"two tasks do the same operation at the same time: {what}; their order could change from attempt "
                    "to attempt, so give each task its own context with ctx.branch(name) or ctx.task_group()"
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
        """Return the number of operations with this key so far."""
        return self._counts.get(key, self._floor)
