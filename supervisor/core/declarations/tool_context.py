"""What a tool can read and report about the call that it serves, and a step about itself."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from supervisor.core.usage import Usage
from supervisor.core.values import JobView, ToolResult


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A background job that is about to begin: its id, its warden (pid and start time), its log's path, and whether its
    session gets a message when it has ended."""

    id: str
    command: str
    guard: int
    guard_started_at: float | None
    log: str
    notify: bool = False


class StepContext(ABC):
    """What a step can read and report about itself; a step gets one by naming the type on its first parameter."""

    operation: str
    """The step's id, the same in every attempt: an idempotency key for the remote side."""

    @abstractmethod
    def heartbeat(self) -> None:
        """Show progress, as `Context.heartbeat` does (W5). Raises RunStopping, as `stream` does, in a function that was
        left, since it had not ended in time (T3)."""

    @abstractmethod
    def stream(self, piece: str, /) -> None:
        """Show a piece of text that is being written, as `Context.stream` does. On Temporal it only shows progress."""

    @abstractmethod
    def used(self, usage: Usage, /) -> None:
        """Say what a request to a model took (B1). It is journaled with the step's result, or alone if there is none.
        Without a price it gets that of now. Raises InvalidInput for what is no Usage; RunStopping as above."""


class ToolContext(ABC):
    """What a tool can read and report about its call; a tool gets one by naming the type on its first parameter.

    It is not the agent's Context: with it a tool cannot ask people, spawn agents, or write to the journal.
    """

    operation: str
    """The call's id, the same in every attempt: an idempotency key for the remote side."""
    session: str
    requester: str
    cwd: str
    """The folder in which the call runs unless its own arguments name another: the session's, as its card shows it,
    whichever process runs it. Relative paths are relative to it, not to the process's own folder (A9)."""

    @property
    @abstractmethod
    def is_allowed(self) -> bool:
        """Whether a person or a rule has allowed this very call. Otherwise the tool's own policy did."""

    @property
    @abstractmethod
    def is_cancelled(self) -> bool:
        """Whether the run was told to stop, or the call's deadline has passed. A function without async looks at it,
        and ends: 2 s later it is left (T3)."""

    @abstractmethod
    def heartbeat(self) -> None:
        """Show a sign of life to subscribers; never extends the call's deadline (W7). Raises RunStopping in a function
        that was left, since it had not ended in time (T3); so do the properties and methods below."""

    @abstractmethod
    def used(self, usage: Usage, /) -> None:
        """Say what a request to a model took, as `StepContext.used` does: it is journaled with the call's result."""

    @abstractmethod
    def leave(self, result: ToolResult[Any]) -> None:
        """Set what to journal if the call is cancelled: its output so far. Call it before you re-raise."""


class ProcessToolContext(ToolContext):
    """The context of a tool that starts processes. A tool declares that it does by naming this type on its first
    parameter; its call then counts as executing from `started` on, and not before (T9)."""

    @property
    def given(self) -> Collection[str] | None:
        """The names of the arguments that the caller has passed, or an approver has edited; the others have their
        default values. None if that is not known here."""
        return None

    @property
    @abstractmethod
    def jobs(self) -> Mapping[str, JobView]:
        """The background jobs of the call's session by id, in the order in which they began, including ended ones. A
        job is `running` here until its end is journaled."""

    @property
    @abstractmethod
    def job_folder(self) -> str:
        """Where the folders of background jobs are kept: next to the store, so that a later process finds them."""

    @abstractmethod
    async def started(self, pid: int, started_at: float | None, job: NewJob | None = None) -> None:
        """Commit `executing` with the process that is about to begin (T9), and with its background job, if it is one
        (T6). `started_at`: the process's start time as the operating system gives it.

        Raises RunStopping, or the cancellation, if the call may not begin; the process must not begin then.
        """
