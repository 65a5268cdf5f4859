"""What is handed out: a page, a run, a task group, a timer, a watch. The other seams are in abc.py."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, overload

from supervisor.core.activity import Activity
from supervisor.core.events import MessageImported
from supervisor.core.values import Approval, Outcome

T_co = TypeVar("T_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class Page(Sequence[T_co]):
    """A part of a list, or all of it: a sequence, and where to go on.

    A page may be short, and even empty: `next` alone says whether the list goes on.
    """

    items: tuple[T_co, ...]
    next: str | None
    """What to give as `after` for the page that follows; None at the end."""
    cursor: str
    """The instant at which it was read: a watch after it gives all that came later."""

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
    """A sub-agent as the agent that spawned it sees it: one piece of work, from start to exactly one outcome.

    It offers only what a replay sees again.
    """

    session: str

    @abstractmethod
    async def outcome(self) -> Outcome[R_co]:
        """Wait for how it ends. Giving up waiting is not its death (W10)."""

    @abstractmethod
    async def result(self) -> R_co:
        """Wait for what it returns; raises the RunError of its kind if it does not succeed.

        The error's `__cause__` is what the agent raised, if the run ended in this process while the caller held this
        handle; never inside an agent, since a replay has no exception. People find the traceback in the journal.
        """

    @abstractmethod
    async def cancel(self, reason: str | None = None) -> None:
        """Cancel it and everything below it; returns once that is on disk (W8). Of a finished run: nothing."""


class Run(ChildRun[R_co]):
    """A run as the program that started or resumed it sees it. Stays valid while the run is passivated."""

    number: int
    """Which run of its session it is, counted from 1."""
    is_new: bool = False
    """Whether this `Supervisor.start` has made the session, rather than found it. Of several at once one has."""

    @abstractmethod
    async def find_outcome(self) -> Outcome[R_co] | None:
        """Return how it ended, None while it has not."""

    @abstractmethod
    def watch_approvals(self) -> "Watch[Approval]":
        """Watch what it and its sub-agents ask; ends when the run does."""


class TaskGroup(Protocol):
    """Tasks of an agent that use operations of their own: each child gets a context with its own branch."""

    def start_soon(self, fn: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> None:
        """Run `fn(context, *args)` in a task."""


class Timer(Protocol):
    """What `Context.move_on_after` gives."""

    @property
    def expired(self) -> bool:
        """Whether the time was over before the block was left; the same in every attempt."""


class Watch(AsyncIterator[T_co], AbstractAsyncContextManager["Watch[T_co]"], ABC):
    """What comes, one after the other; ends when the supervisor is left.

    async with supervisor.watch_inbox() as watch:
        async for approval in watch: ...
    """

    @property
    @abstractmethod
    def cursor(self) -> str:
        """Where to go on from: give it as `after` to another watch of the same kind, in any process."""

    @abstractmethod
    async def __aenter__(self) -> "Watch[T_co]":
        """Open it: from here on it misses nothing. Raises as the method that gave it says."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""


class ActivityWatch(AbstractAsyncContextManager["ActivityWatch"], ABC):
    """What the sessions of some trees are doing now. Costs nothing between two looks; to be opened by `async with`."""

    @abstractmethod
    async def __aenter__(self) -> "ActivityWatch":
        """Open it. Raises as the method that gave it says."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""

    @abstractmethod
    async def look(self, *, wholly: bool = False) -> list[Activity]:
        """Return every session of the trees, parents before children. Each look reads on where the last one ended.

        A look is bounded: of many sessions, some are known at a later one only. `wholly`: all of them now.
        """


class SessionImport(ABC):
    """An import under way: messages are added in their order, and `finish` says that there are no more."""

    session: str
    """The session's id in this store."""
    present: int
    """How many messages earlier imports have added: leave them out."""
    is_finished: bool
    """Whether an earlier import has added all of them."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many messages the store holds now."""

    @abstractmethod
    async def add(self, messages: Sequence[MessageImported]) -> None:
        """Add the next messages: all of them or, if it raises, none."""

    @abstractmethod
    async def finish(self, left_out: int) -> None:
        """Note that all messages were added. `left_out`: lines of the file that are none, or cannot be read."""
