"""The objects that the other interfaces return: pages, runs, task groups, timers, watches."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from supervisor.core.events import MessageImported
from supervisor.core.sessions.activity import Activity, StreamedText
from supervisor.core.values import Approval, Outcome

T_co = TypeVar("T_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class Page(Sequence[T_co]):
    """A part of a list, or all of it: a sequence, with the cursor at which the list continues.

    A page may be short, and even empty: only `next` says whether the list continues.
    """

    items: tuple[T_co, ...]
    next: str | None
    """The `after` of the next page; None at the end of the list."""
    cursor: str
    """The instant at which the page was read: a watch after it returns all later changes."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        return self.items[index]


class ChildRun(ABC, Generic[R_co]):
    """A sub-agent as its parent sees it: one run, from its start to exactly one outcome.

    It has only methods whose results a replay gets again.
    """

    session: str

    @abstractmethod
    async def outcome(self) -> Outcome[R_co]:
        """Wait for its outcome. If the caller stops waiting, the run goes on (W10).

        The `Run` of a program raises RunBlocked if today's code cannot follow the journal of the run or of one below
        it; StoreDied; ServerUnavailable if the server cannot be reached; and SupervisorError if the session is not
        running because this process may not or cannot run it, or if the supervisor was closed.
        """

    @abstractmethod
    async def result(self) -> R_co:
        """Wait for its result. Raises the RunError of its kind if the run does not succeed, and as `outcome` does.

        The error's `__cause__` is the agent's exception, if the run ended in this process while the caller held this
        handle. Inside an agent it is never set, since a replay has no exception. The journal holds the traceback for
        people.
        """

    @abstractmethod
    async def cancel(self, reason: str | None = None) -> None:
        """Cancel the run and all runs below it. Return when that is on disk (W8). Does nothing to a finished run.

        `reason`: why, for people; it is journaled, and part of the outcome's `cause`.
        """


class Run(ChildRun[R_co]):
    """A run as the program that started or resumed it sees it. The handle stays valid while the run is passivated."""

    number: int
    """The run's number in its session, counted from 1."""
    is_new: bool = False
    """Whether this `Supervisor.start` made the session, and did not find it. It is true for one of several callers.
    Over HTTP it is false for a start that was repeated after a lost answer."""

    @abstractmethod
    async def find_outcome(self) -> Outcome[R_co] | None:
        """Return its outcome; None while it has not ended."""

    @abstractmethod
    def watch_approvals(self) -> "Watch[Approval]":
        """Watch the approvals of the run and its sub-agents. The watch ends when the run ends."""


class TaskGroup(Protocol):
    """A task group of an agent. Each child task gets a context with its own branch, and does operations of its own."""

    def start_soon(self, fn: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> None:
        """Run `fn(context, *args)` in a task: its first argument is the context of its branch. Raises TypeError for a
        function that does not take them."""


class Timer(Protocol):
    """The timer of a `Context.move_on_after` block."""

    @property
    def expired(self) -> bool:
        """Whether the timer expired before the block ended; the same in every attempt."""


class Watch(AsyncIterator[T_co], AbstractAsyncContextManager["Watch[T_co]"], ABC):
    """An iterator over changes, in order. It ends when the supervisor closes.

    async with supervisor.watch_inbox() as watch:
        async for approval in watch: ...
    """

    _is_open = False

    @property
    @abstractmethod
    def cursor(self) -> str:
        """The cursor after the last item that the watch returned: the `after` of another watch of the same kind, in any
        process."""

    async def __aenter__(self) -> Self:
        """Open the watch: from now on it misses no change. Raises as documented at the method that returned it."""
        await self._open()
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self._is_open = False

    async def __anext__(self) -> T_co:
        """Return the next item, as soon as there is one."""
        if not self._is_open:
            raise RuntimeError("a watch is opened by `async with` before it is iterated over")
        return await self._next()

    @abstractmethod
    async def _open(self) -> None:
        """Open it, for an implementation."""

    @abstractmethod
    async def _next(self) -> T_co:
        """Return the next item. Raises StopAsyncIteration at the end."""


class ActivityWatch(AbstractAsyncContextManager["ActivityWatch"], ABC):
    """What the sessions of some trees are doing now. Open it by `async with`. Between two looks it costs nothing."""

    @abstractmethod
    async def __aenter__(self) -> "ActivityWatch":
        """Open it. Raises as documented at the method that returned it."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""

    @abstractmethod
    async def look(self, *, after: str | None = None, limit: int | None = 1000, wholly: bool = False) -> Page[Activity]:
        """Return the sessions of the trees as they are now, parents before children: those after a cursor, `limit` at
        most; None: all. Raises CursorUnknown.

        A look is bounded: of many sessions, some are known only at a later look. `wholly`: all of them now.
        """


class TextWatch(AsyncIterator[StreamedText], AbstractAsyncContextManager["TextWatch"], ABC):
    """The text that an agent is writing, whenever it has changed, a few times a second. Open it by `async with`.

    A slow reader gets fewer states of the text, and always the latest. It ends when the supervisor closes.
    """

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Open it. Raises as documented at the method that returned it."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""

    @abstractmethod
    async def __anext__(self) -> StreamedText:
        """Return the text, once it is another than the last one that was returned; the first time at once. Giving up
        waiting for it loses nothing."""


class SessionImport(ABC):
    """An import under way: messages are added in order, and `finish` ends it."""

    session: str
    """The session's id in this store."""
    present: int
    """The number of messages that earlier imports have added: leave them out."""
    is_finished: bool
    """Whether an earlier import has added all messages."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of messages that the store holds now."""

    @abstractmethod
    async def add(self, messages: Sequence[MessageImported]) -> None:
        """Add the next messages: all of them or, if it raises, none."""

    @abstractmethod
    async def finish(self, left_out: int) -> None:
        """Note that all messages were added. `left_out`: the number of lines that are no messages or are unreadable."""
