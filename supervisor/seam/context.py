"""What an agent gets: the operations through which it acts on the world."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from supervisor.core.declarations.agent_spec import AgentSpec, AgentWithoutInput
from supervisor.core.declarations.tool_context import StepContext
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.usage import Usage
from supervisor.core.values import Message, ReportKind, ToolCall, ToolResult, Urgency
from supervisor.seam.runs import ChildRun, TaskGroup, Timer

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Operations(ABC):
    """The operations that an agent may name itself, with `Context.named`. A Context names them by their arguments."""

    @overload
    @abstractmethod
    async def call(
        self, tool: ToolCall, /, *, because: str = "", urgency: Urgency | None = None
    ) -> ToolResult[Any]: ...
    @overload
    @abstractmethod
    async def call(
        self, tool: ToolSpec[P, R] | AgentSpec[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> ToolResult[R]: ...
    @overload
    @abstractmethod
    async def call(
        self,
        tool: ToolSpec[..., R] | AgentSpec[..., R],
        /,
        *args: Any,
        because: str,
        urgency: Urgency | None = None,
        **kwargs: Any,
    ) -> ToolResult[R]: ...
    @overload
    @abstractmethod
    async def call(
        self, tool: ToolSpec[..., R] | AgentSpec[..., R], /, *args: Any, urgency: Urgency, **kwargs: Any
    ) -> ToolResult[R]: ...
    @abstractmethod
    async def call(
        self, tool: ToolCall | ToolSpec[..., Any] | AgentSpec[..., Any], /, *args: Any, **kwargs: Any
    ) -> ToolResult[Any]:
        """Call a tool once. If its policy is to ask, wait for a person, for days if need be. A failure or a denial is a
        result and raises nothing. Raises InvalidInput for arguments that JSON cannot hold, before anything is
        journaled.

        An agent is called as a sub-agent: rules apply to the call, and its outcome is the call's result.
        A ToolCall is a call that a model emitted. It is looked up among the agent's `tools` and sub-agents. If it is
        invalid, its result says why.

        `because`: your words to the person who is asked, if one is: why the call is needed. Cards show and mark them as
        the agent's own. No rule sees them, and they are no part of what identifies the call.
        `urgency`: the most urgency that the call has, "low" or "normal". It lowers what rules and the configuration say
        of the call, and never raises it: "high" changes nothing.
        A tool with a parameter of one of these two names gets it as that argument.
        """

    @overload
    @abstractmethod
    async def ask(
        self, question: str, /, *, expires_in: float | None = None, urgency: Urgency | None = None
    ) -> str: ...
    @overload
    @abstractmethod
    async def ask(
        self,
        question: str,
        /,
        *,
        choices: Sequence[str],
        expires_in: float | None = None,
        urgency: Urgency | None = None,
    ) -> str: ...
    @overload
    @abstractmethod
    async def ask(
        self, question: str, /, *, schema: type[T], expires_in: float | None = None, urgency: Urgency | None = None
    ) -> T: ...
    @abstractmethod
    async def ask(
        self,
        question: str,
        /,
        *,
        choices: Sequence[str] | None = None,
        schema: Any = None,
        expires_in: float | None = None,
        urgency: Urgency | None = None,
    ) -> Any:
        """Ask a person for one of `choices`, a value of the type `schema`, or free text. A question lives like an
        approval.

        `schema`: a type that JSON can hold (`bool`, a dataclass, a Struct). Answers are checked against its JSON
        schema, so that they can be given in a process that cannot import the type.
        `expires_in`: seconds after which the question cannot be answered; default: the agent's `approval_expires_in`.
        `urgency`: as in `call`.
        Raises QuestionUnanswered if the question ends without an answer, and InvalidInput if the answer fits the schema
        but not the type.
        """

    @overload
    @abstractmethod
    async def step(
        self, fn: Callable[Concatenate[StepContext, P], Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    @abstractmethod
    async def step(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    @abstractmethod
    async def step(self, fn: Callable[Concatenate[StepContext, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    @abstractmethod
    async def step(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @abstractmethod
    async def step(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function of the agent's own, at least once, and journal its result. Raises StepFailed if it raises.

        If its first parameter is annotated as StepContext, the function gets one. The result comes back as the
        function's annotation says: values of JSON, dataclasses, and objects with `model_dump`, as those of the OpenAI
        and Anthropic SDKs. Raises InvalidInput, before the function runs, for an annotation that cannot be read back.
        A function without `async` runs in a thread, with the caller's context variables. If it returns an awaitable,
        that is awaited in the loop. One that does not end when its run stalls or is cancelled is left after 2 s (T3),
        and does not begin again before it has ended.
        """


class Context(Operations):
    """The only way in which an agent acts on the world. Every awaited method but `report` is an operation: the journal
    holds its result, and a resumed agent gets it from there (docs/explanation/how-resuming-works.md).

    - An agent that does all its I/O in operations takes the same path in every attempt. It may race operations:
      everything that follows from one result without waiting for I/O happens before the next result is given. The order
      is not defined for a task after a wait that is no operation; for two tasks that the same result wakes; for the
      clean-up of a cancelled tool that waits for I/O; and, in a chain of steps without a wait, after the first
      thousand.
    - After a cancel or a stall, `spawn`, `ask` and calls that need a person raise RunStopping.
    - Two live tasks may not do identical operations or open task groups at once: use `branch` or `task_group`.
    """

    session: str
    """The id of the session that the agent works on."""

    @property
    @abstractmethod
    def cwd(self) -> str:
        """The folder in which the session's calls run, the same in every process."""

    @property
    @abstractmethod
    def run_number(self) -> int:
        """The number of this run in its session: 1 for the first, the same in every attempt."""

    @property
    @abstractmethod
    def is_durable(self) -> bool:
        """Whether the session outlives this process: its store is on disk."""

    @property
    @abstractmethod
    def saved(self) -> Any:
        """The state of this run's last `save`, as plain JSON values; None if there was none."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The version of the agent with which the run began (`@agent(version=...)`). All its attempts use it."""

    @abstractmethod
    async def patched(self, name: str, /) -> bool:
        """Return whether the run takes the new path of a named change of the agent's code.

        True for a run that has not reached this point with the older code: then the replay is over here, and the run is
        marked. False for a run whose journal continues from here on the old path. The first answer holds for the whole
        attempt, in all branches and loops. `save` keeps marks; sub-agents and turns have their own marks. When no run
        of the old path is left, remove the call and the old path.
        """

    @overload
    @abstractmethod
    async def spawn(self, agent: AgentSpec[P, R], /, *args: P.args, **kwargs: P.kwargs) -> ChildRun[R]: ...
    @overload
    @abstractmethod
    async def spawn(self, agent: AgentWithoutInput[R], /, *, cwd: str | None) -> ChildRun[R]: ...
    @overload
    @abstractmethod
    async def spawn(self, agent: AgentSpec[[T], R], input: T, /, *, cwd: str | None) -> ChildRun[R]: ...
    @abstractmethod
    async def spawn(self, agent: Any, /, *args: Any, **kwargs: Any) -> ChildRun[Any]:
        """Start a sub-agent on a session of its own.

        `cwd`: the folder in which its calls run; a relative one is below this session's folder, and None is that
        folder. Rules that name no folder hold in it. An agent whose input is named `cwd` takes its input by position.
        Raises LimitExceeded; InvalidInput if `cwd` is no folder. Both are journaled instead of the session, so that
        every attempt raises the same.
        """

    @overload
    @abstractmethod
    async def run(self, agent: AgentSpec[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    @abstractmethod
    async def run(self, agent: AgentWithoutInput[R], /, *, cwd: str | None) -> R: ...
    @overload
    @abstractmethod
    async def run(self, agent: AgentSpec[[T], R], input: T, /, *, cwd: str | None) -> R: ...
    @abstractmethod
    async def run(self, agent: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Spawn a sub-agent and wait for its result. `cwd`: as in `spawn`."""

    @abstractmethod
    async def sleep(self, seconds: float, /) -> None:
        """Sleep durably: a passivated or restarted run wakes at the same instant. The sleep is no inactivity (W5).

        A process measures the sleep on its monotonic clock, even if the wall clock is set. After a restart only wall
        time is known."""

    @abstractmethod
    def move_on_after(self, seconds: float, /) -> AbstractAsyncContextManager[Timer]:
        """Cancel a block after `seconds`; durable, like `sleep`. `expired` says whether the block was cancelled."""

    @abstractmethod
    async def now(self) -> datetime:
        """Return the wall time, aware UTC. A replay returns the same instant."""

    @abstractmethod
    async def random(self) -> float:
        """Return a random number in [0, 1). A replay returns the same number."""

    @abstractmethod
    async def receive(self) -> str:
        """Wait for a message to the session. A message that is not received begins the next turn. Raises InvalidInput
        if another live task of this branch receives, too."""

    @abstractmethod
    async def send(self, text: str, /) -> None:
        """Send a message to the session's readers, once. Raises InvalidInput if another live task of this branch sends
        the same text."""

    @abstractmethod
    def transcript(self) -> tuple[Message, ...]:
        """Return the messages before this run, with each approval where it was asked, and its answer (A15).

        This is no operation: it reads the journal each time, and returns the same in every attempt.
        """

    @abstractmethod
    def named(self, name: str, /) -> Operations:
        """Return the operations call, ask and step, each of which is identified by a name instead of by its arguments.

        So the arguments of a step may be anything, also what JSON cannot hold or what differs in each attempt, and its
        function may be a closure. A name is used for one operation of a branch: a second one raises InvalidInput. After
        `save` a new operation may have it. Raises InvalidInput for an empty name, and for one with "/", "#" or ":".
        """

    @abstractmethod
    def saved_before(self) -> tuple[Any, ...]:
        """Return the last saved state of each earlier run of the session, oldest first, as plain JSON values. A run
        that saved none is left out.

        So an agent that is talked with remembers its earlier turns. This is no operation: it reads the journal each
        time, and returns the same in every attempt.
        """

    @abstractmethod
    def branch(self, name: str, /) -> "Context":
        """Return a context whose operation ids contain the name, for tasks that do identical operations. Raises
        InvalidInput as `named` does for a name."""

    @abstractmethod
    def task_group(self) -> AbstractAsyncContextManager[TaskGroup]:
        """Open a task group whose children are numbered in program order, each with its own branch. Entering raises
        InvalidInput if another live task has opened one in this branch: their order could change."""

    @abstractmethod
    def model_call(
        self,
        *,
        reserve: Usage | None = None,
        limit: str | None = None,
        at_entry: bool = False,
        on_silence: Callable[[str], bool] | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Watch a block with `first_progress_timeout` until its first heartbeat, `inactivity_timeout` after that
        (W5).

        The block is one request to a model, for which budgets wait (B2). `reserve`: the most that it may use, as far as
        you know, such as `Usage(output_tokens=4096)`; None: as much as the largest request so far. `requests=0`: it is
        none, and is only watched.
        `limit`: the name of a Limit. The new steps in the block wait for a place of it, and hold it to their end (L1).
        `at_entry`: the block asks the model itself, without steps: it waits at its entry. Without it, the block waits
        there only if no other operation of the agent is under way.
        `on_silence` is called with the cause when a budget of silence is used up. If it returns True, it has ended what
        was silent: the run does not stall, and the budget begins anew. If it raises, the run stalls.
        """

    @abstractmethod
    def heartbeat(self) -> None:
        """Show progress (W5)."""

    @abstractmethod
    def stream(self, piece: str, /) -> None:
        """Show the next piece of a text that is being written, to all who watch the session: on its page, in the
        terminal, in its chat, by the API (`Supervisor.watch_text`). This is no operation: nothing is journaled, and
        nothing is shown again in a replay. It shows progress (W5).

        Say the whole with `send`, or with `report`: that replaces the pieces. The text is in the memory of the process
        that runs the session, its last 65,536 characters, and ends with the attempt. A session has one text: pieces of
        two tasks mix. Raises InvalidInput for what is no text.
        """

    @abstractmethod
    def keepalive(self) -> None:
        """Show that the peer of a model call is alive. This counts only before the call's first progress (W6)."""

    @abstractmethod
    async def report(
        self,
        kind: ReportKind,
        text: str,
        /,
        *,
        tool: str | None = None,
        call: str | None = None,
        is_error: bool = False,
    ) -> None:
        """Record what the agent says of itself: what it said ("text") and thought, what it plans, and the calls that it
        made by itself, with their results. People see it marked as the agent's own words: no rule was asked, and the
        supervisor ran nothing. This is no operation; it shows progress (W5), and records nothing during a replay.

        `tool`, `call`: the agent's name of the tool, and its id of the call or of the message. Pieces of one message,
        with one kind, tool and call, are one entry; a plan is whole. A report needs no sync of its own: it is written
        with the run's next entry, or after 5 s, so SIGKILL may lose the last ones. The entry of a text over 64 KiB ends
        there, and says how much is missing. Raises InvalidInput for another kind.
        """

    @abstractmethod
    async def used(self, usage: Usage, /, *, is_operation: bool = True) -> None:
        """Say what a request to a model took that the agent made outside of steps and calls; in those, say it by
        `StepContext.used` and `ToolContext.used` (B1). A replay adds nothing. Raises InvalidInput for what is no Usage,
        and if another live task of this branch says the same.

        `is_operation=False`: for an agent that says it of another program, which no replay runs again: like `report`,
        it is no operation, and says nothing during a replay."""

    @abstractmethod
    async def save(self, state: Any, /) -> None:
        """Journal a state to resume from. Completed operations are dropped from the run's memory; their ids are not
        used again. Raises InvalidInput for a state that JSON cannot hold, before anything is journaled."""
