"""What is handed out: a run, a task group, a timer, a watch. The other seams are in abc.py, which offers these, too."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from supervisor.core.activity import Activity
from supervisor.core.values import Approval, Outcome

R_co = TypeVar("R_co", covariant=True)


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

    is_new: bool = False
    """Whether this `Supervisor.start` has made the session, rather than found it. Of several at once one has."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether the outcome is written."""

    @abstractmethod
    def approvals(self) -> AsyncIterator[Approval]:
        """Iterate over what it and its sub-agents ask; ends when the run does."""


class TaskGroup(Protocol):
    """Tasks of an agent that use operations of their own: each child gets a context with its own branch."""

    def start_soon(self, fn: Callable[..., Coroutine[Any, Any, Any]], /, *args: Any) -> None:
        """Run `fn(context, *args)` in a task."""


class Timer(Protocol):
    """What `Context.move_on_after` gives."""

    @property
    def expired(self) -> bool:
        """Whether the time was over before the block was left; the same in every attempt."""


class InboxWatch(AsyncIterator[Approval], ABC):
    """Approvals as they change; `cursor` is where to go on from behind the last one that it gave."""

    cursor: int


class Activities(ABC):
    """What the sessions of some trees are doing now, for whoever draws them."""

    @abstractmethod
    def look(self, *, wholly: bool = False) -> list[Activity]:
        """Return every session of the trees, parents before children. Each look reads on where the last one ended.

        A look is bounded: of many sessions, some are known at a later one only. `wholly`: all of them now.
        """
