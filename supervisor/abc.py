"""The seams: the interfaces between the parts, and what each of them promises.

    agents use Context             channels, commands and programs use Supervisor and Run
    tools use ToolContext          a store of journals implements Store
    surfaces where people answer implement Channel

All code above a seam works with any implementation below it. One test suite runs over every Store.

The module is longer than 400 lines because half of it is the documentation of these interfaces.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

import msgspec

from supervisor.core.agent_spec import AgentSpec, AgentWithoutInput
from supervisor.core.chat_words import ChatResult
from supervisor.core.errors import InvalidInput, SupervisorError
from supervisor.core.people import People
from supervisor.core.rows import Counts, JournalEntry, Owner, SessionRow, TreeView
from supervisor.core.rules import Rule
from supervisor.core.tool_spec import ToolSpec
from supervisor.core.toolcontext import StepContext, ToolContext
from supervisor.core.trees import Origin, PruneResult
from supervisor.core.values import (
    AgentView,
    Approval,
    Decision,
    DecisionResult,
    Fork,
    JobView,
    Message,
    ReportKind,
    SendResult,
    SessionStatus,
    SessionView,
    ToolCall,
    ToolResult,
)
from supervisor.handles import ActivityWatch, ChildRun, Page, Run, SessionImport, TaskGroup, TextWatch, Timer, Watch
from supervisor.storage import Store

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

__all__ = [
    "ActivityWatch",
    "CardGone",
    "Channel",
    "ChildRun",
    "Context",
    "Counts",
    "JournalEntry",
    "Operations",
    "Owner",
    "Page",
    "Run",
    "SessionImport",
    "SessionRow",
    "StepContext",
    "Store",
    "StoreSupervisor",
    "Supervisor",
    "TaskGroup",
    "TextWatch",
    "Timer",
    "ToolContext",
    "TreeView",
    "Watch",
    "Webhook",
    "WebhookReply",
]


class Operations(ABC):
    """The operations that an agent may name itself, with `Context.named`. A Context names them by their arguments."""

    @overload
    @abstractmethod
    async def call(self, tool: ToolCall, /) -> ToolResult[Any]: ...
    @overload
    @abstractmethod
    async def call(
        self, tool: ToolSpec[P, R] | AgentSpec[P, R], /, *args: P.args, **kwargs: P.kwargs
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
        """

    @overload
    @abstractmethod
    async def ask(self, question: str, /, *, expires_in: float | None = None) -> str: ...
    @overload
    @abstractmethod
    async def ask(self, question: str, /, *, choices: Sequence[str], expires_in: float | None = None) -> str: ...
    @overload
    @abstractmethod
    async def ask(self, question: str, /, *, schema: type[T], expires_in: float | None = None) -> T: ...
    @abstractmethod
    async def ask(
        self,
        question: str,
        /,
        *,
        choices: Sequence[str] | None = None,
        schema: Any = None,
        expires_in: float | None = None,
    ) -> Any:
        """Ask a person for one of `choices`, a value of the type `schema`, or free text. A question lives like an
        approval.

        `schema`: a type that JSON can hold (`bool`, a dataclass, a Struct). Answers are checked against its JSON
        schema, so that they can be given in a process that cannot import the type.
        `expires_in`: seconds after which the question cannot be answered; default: the agent's `approval_expires_in`.
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
    @abstractmethod
    async def step(self, fn: Callable[..., Awaitable[Any]], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function of the agent's own, at least once, and journal its result. Raises StepFailed if it raises.

        If its first parameter is annotated as StepContext, the function gets one.
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
    def model_call(self) -> AbstractAsyncContextManager[None]:
        """Watch a block with `first_progress_timeout` until its first heartbeat, `inactivity_timeout` after that
        (W5)."""

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
    async def save(self, state: Any, /) -> None:
        """Journal a state to resume from. Completed operations are dropped from the run's memory; their ids are not
        used again. Raises InvalidInput for a state that JSON cannot hold, before anything is journaled."""


class WebhookReply(msgspec.Struct, frozen=True):
    """The answer of a webhook, which the daemon sends to the platform as it is."""

    status: int = 200
    """The status of HTTP."""
    body: bytes = b""
    media_type: str = "application/json"
    """The Content-Type of the body."""


class Webhook(msgspec.Struct, frozen=True):
    """A path to which a platform posts. It begins with "/", and is below /channels/NAME of the daemon. `receive` gets
    the headers (names in lower case) and the body, and first verifies the platform's signature. It returns within the
    platform's bound (3 s); longer work belongs into a task of `Channel.serve`."""

    path: str
    receive: Callable[[Mapping[str, str], bytes], Awaitable[WebhookReply]]


class CardGone(SupervisorError):
    """The card that a channel is to renew does not exist any more, or cannot be reached: a person has deleted it, or
    has removed the app."""


class Channel(ABC):
    """A surface where people see approvals and answer.

    - For a reminder, `post` is called again with its card and with `reminded_at` set, and then `remind` (A10). `remind`
      is not called if `post` returns another id for the card: then the channel has reminded people by itself.
    - `post` and `retire` may be called again for the same approval. After a restart they get the card that the earlier
      process left, and the card may be as it should be. The caller bounds their time. If `post` raises, the approval
      also goes to the next channel, and this one is tried again later, until it takes the approval or the approval is
      decided.
    - A card is posted again, after a restart too, only if its `face` differs from that of the last post. If the card is
      gone, `post` and `notify` raise CardGone; then they are called without it.
    - A card that cannot show an approval whole has no button that approves it.
    - A channel decides through the Supervisor that `serve` gets, with the approval's id, never "what waits" (A2).
    - Text of agents and tools is hostile: `supervisor.channels.sdk` has what makes it harmless.
    - Routes (`[[routes]]`) post to several places: `at` returns the channel of one place, whose `post`, `notify`,
      `find_card`, `remind` and `retire` are called. Only the channel itself serves.
    """

    name: str
    """In the configuration the NAME of its table [channels.NAME]. Journals, identities and webhooks have it."""
    card_timeout: float = 30.0
    """Seconds that finding, showing or retiring one card may take."""
    people: "People | None" = None
    """The people whom it authenticates; None if it authenticates no people."""
    keeps_cards: bool = False
    """Whether its cards outlive the process. If so, CardBegun is journaled before a card is posted."""
    only_notifies: bool = False
    """Whether its cards only say that an approval waits, and where: no person can decide by them. Each approval also
    goes to the next channel."""
    down: str | None = None
    """Why people cannot be reached here now, in one line without secrets; None if they can, as far as is known. The
    supervisor sets it by `check`. The log, metrics and /ready show it."""
    opens_cards: bool = False
    """Whether a new card has no buttons until `post` is called once more, with the card, after it was recorded. For a
    platform that cannot be searched for cards: a card that no process knows of does not look live."""

    @property
    def asks(self) -> bool:
        """Whether a person can answer on this channel now. If not, an approval also goes to the next channel, and is
        not journaled as shown here."""
        return not self.only_notifies

    def at(self, place: str) -> "Channel":
        """Return a channel whose cards go to another place: a conversation by its id, or "@" and the identity of a
        person for a direct message. Contacts nothing. `copy.copy(self)` with another conversation is enough.

        Raises InvalidInput for a text that names no place here, which `supervisor check` reports. By default a channel
        has one place.
        """
        raise InvalidInput(f"{self.name} has one place only: write {self.name!r}, without {place!r}")

    async def check(self) -> str:
        """Ask the platform whether the channel can work: its token, its rights, and its place there. Return what it
        found, in one line, such as "@supervisor in #ops". It sends no message, and works without `serve`, too.

        Raises SupervisorError, which says what to change; OSError if the platform cannot be reached. Neither has a
        secret in it. A supervisor asks at the start and every minute, and `supervisor check --online` asks once. By
        default there is nothing to ask.
        """
        return ""

    @abstractmethod
    async def serve(self, supervisor: "Supervisor") -> None:
        """Listen for answers until cancelled."""

    @abstractmethod
    async def post(self, approval: Approval, card: str | None) -> str:
        """Show an approval, and return the id of its card. `card`: the id that an earlier post returned.

        Raises CardGone if `card` does not exist any more; OSError if it is not known whether the approval is shown;
        ConnectionRefusedError, or any other exception, if it is not shown.
        """

    def face(self, approval: Approval, *, is_notice: bool = False) -> str | None:
        """Return what `post` (with `is_notice`: `notify`) would show now, such as the message as JSON. Two cards with
        the same text look the same. None: not known, so that cards are renewed at each start."""
        return None

    async def notify(self, approval: Approval, card: str | None) -> str:
        """Say that an approval waits and where (a link), without buttons; otherwise as `post`, which a channel that
        only notifies uses for it. Raises InvalidInput if the channel cannot do that."""
        if not self.only_notifies:
            raise InvalidInput(f"{self.name} cannot notify without asking: write it under `ask`")
        return await self.post(approval, card)

    async def remind(self, approval: Approval, card: str) -> None:  # noqa: B027 # a channel may do nothing
        """Notify people of an approval that still waits (`reminded_at`, `escalated_to`), if a changed card does not
        do that on this platform. After a restart this is called again: a message that is there is not sent twice.
        Raises as `post` does; then it is called again later."""

    async def find_card(self, approval: Approval, since: datetime, until: datetime) -> str | None:
        """Return a card that an earlier process may have posted between two instants, before it died without noting it.
        None if there is no such card, or if the channel cannot search for cards."""
        return None

    def shows_whole(self, approval: Approval) -> bool:
        """Return whether the card shows the whole approval. If not, the card has no button that approves with one
        press, and a bare "yes" in the conversation decides nothing (A11, A12)."""
        return True

    def webhooks(self) -> Sequence[Webhook]:
        """Return the webhooks that the channel's platform calls at a daemon; none by default."""
        return ()

    @abstractmethod
    async def retire(self, approval: Approval, card: str) -> None:
        """Show on the card what was decided and by whom, so that it does not look live any more (R3)."""


class Supervisor(ABC):
    """The interface of channels, commands and programs. Every method may be called from any task, in any process that
    has the store open. A method that needs the tree's owner records the request, and its result says so.

    `get_x` raises NotFound; `find_xs` returns a Page. The result of one call is of one instant; the results of two
    calls are not. In a list of more than 100 items, each hundred is of one instant. A watch after the page's `cursor`
    returns all changes since the page was begun. A `watch_x` is opened by `async with`.

    `after`: the `next` or the `cursor` of a page, or the `cursor` of a watch; None: from the beginning. Cursors are
    opaque. Raises CursorUnknown for a cursor of another store or beyond the end, InvalidInput for a text that is no
    cursor. `limit`: the largest number of items in a page; None: all.
    """

    where: str
    """What messages call it: the path or URL of the store, or the URL of the server."""
    decided: Mapping[str, int]
    """The number of decisions made through this process since it opened the store, by `DecisionResult.kind`."""
    cards_failed: Mapping[str, int]
    """How often this process could not show a card since it opened the store, by channel."""

    @overload
    @abstractmethod
    async def start(
        self,
        agent: AgentWithoutInput[R],
        /,
        *,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
    ) -> Run[R]: ...
    @overload
    @abstractmethod
    async def start(
        self,
        agent: AgentSpec[[T], R],
        input: T,
        /,
        *,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
    ) -> Run[R]: ...
    @overload
    @abstractmethod
    async def start(
        self,
        agent: str,
        input: Any = ...,
        /,
        *,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
    ) -> Run[Any]: ...
    @abstractmethod
    async def start(
        self,
        agent: Any,
        /,
        *args: Any,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
    ) -> Run[Any]:
        """Start an agent, or continue its session: idempotent by the session's id. A finished run returns its outcome.

        `agent`: its declaration, or the name of an agent with which the supervisor was opened. For a name, input and
        result are plain JSON. `cwd`: the folder in which the calls of the session run, journaled without links; a
        relative one is below this program's working directory, which is also the default. Only a process that has the
        store open chooses it. `by`: the person who starts it; None: this program. `requester`: the person on whose
        behalf the agent works; None: the same person. Raises UnknownAgent for any other name; InvalidInput for an input
        that does not fit or a `cwd` that is no folder, before anything is journaled; SessionConflict if the session has
        another agent, input or folder; TreeOwned if another process runs it; NotEntitled for a person who is no
        operator, if people have roles.
        """

    @abstractmethod
    async def resume(self, session: str, *, by: str | None = None) -> Run[Any]:
        """Claim the tree of a session and run it. Return the root's run. `by`: the person who asks for it; None: this
        program.

        Raises NotFound; TreeOwned; NotEntitled for a person who is no operator.
        """

    @abstractmethod
    async def resume_all(self, *, by: str | None = None) -> list[Run[Any]]:
        """Claim and run every open tree that no process owns. Return the roots' runs. `by`: as in `resume`."""

    @overload
    @abstractmethod
    async def get_run(self, session: str, *, number: int | None = None, agent: None = None) -> Run[Any]: ...
    @overload
    @abstractmethod
    async def get_run(self, session: str, *, number: int | None = None, agent: AgentSpec[..., R]) -> Run[R]: ...
    @abstractmethod
    async def get_run(
        self, session: str, *, number: int | None = None, agent: AgentSpec[..., Any] | None = None
    ) -> Run[Any]:
        """Return the latest run of a session, or run `number`, counted from 1. `agent` gives the type of its result;
        without it the result is plain JSON. Raises NotFound."""

    @abstractmethod
    async def decide(self, approval: str, decision: Decision, *, channel: str | None = None) -> DecisionResult:
        """Decide an approval or answer a question, once. The first decision wins (A3). If its scope is wider than once,
        its rule is written together with it. `channel`: where it was made, for the audit trail.
        If no process runs the session and this program has declared its agent, this process runs it from now on (R2).
        Otherwise `DecisionResult.running` is false, and the decision counts when a process runs the session.

        Raises InvalidInput, and decides nothing, for edited arguments or an answer that do not fit, a scope or pattern
        that was not offered, an answer to a call, an approval of a question (Deny leaves it unanswered), or an empty
        identity. Raises NotEntitled for a person who may not decide this; that is in the audit trail.
        """

    @abstractmethod
    async def note_refusal(self, approval: str, *, by: str, reason: str, channel: str | None = None) -> None:
        """Note in the audit trail that a channel has refused a person's decision; nothing else changes (A15).

        The refusal is noted once for each person and approval, even if the person tries again. Raises InvalidInput over
        HTTP: a server notes itself what it refuses.
        """

    @abstractmethod
    async def note_shown(self, session: str, mark: str, *, channel: str) -> None:
        """Note that a channel has shown people a piece of what a session said, for a platform that does not let the
        channel read what stands there. `mark` identifies the piece (`Piece.mark`). Raises NotFound;
        InvalidInput over HTTP."""

    @abstractmethod
    async def add_rule(self, rule: Rule, *, by: str | None = None) -> Rule:
        """Add a rule for calls that begin from now on, in every process. Return it with its id.

        If a rule with the same meaning holds already, that one is returned. `rule.session`: a session, for its whole
        tree. Raises InvalidInput; NotFound for an unknown session; NotEntitled for a person who is no operator, if
        people have roles.
        """

    @abstractmethod
    async def revoke_rule(self, rule: str, *, by: str | None = None) -> Rule:
        """Revoke a rule of the store by its id, and return it. It does not apply to calls that begin from now on.

        Raises NotFound; NotEntitled as `add_rule`.
        """

    @abstractmethod
    async def retry(self, session: str, *, by: str | None = None) -> Run[Any]:
        """Begin a new run of an idle root session whose latest run failed, stalled or was abandoned. It has that run's
        operations and version (R10). Operations that led to the end are done again, and so are operations that the end
        cancelled before they had an effect: approvals are asked anew, and cancelled sub-agents go on. All other results
        stay. This is one append, in the audit trail.

        Raises NotFound; InvalidInput for every other session, saying what to do instead; NotEntitled for a person who
        is no operator.
        """

    @abstractmethod
    async def fork(
        self, session: str, *, before: int, new: str | None = None, version: str | None = None, by: str | None = None
    ) -> Fork:
        """Copy a session's whole tree as it was before the append of an entry, and run the copy as a new tree (R10).

        Finished operations keep their results; open ones, decided or not, are asked anew. State, marks, unread
        messages, instants of timers, requester, folder and rules from code are copied; session rules, jobs, cards and
        approvals are not. The source does not change, except for an entry that names the fork. This is one append, in
        the audit trail. The same fork again, by its id `new`, returns the existing one.

        `before`: the number of the entry in the journal of `session`, from 1. `new`: the id of the new root. `version`:
        the version of the root's code; None for the current one. Sub-agents go on with their current versions.

        Raises NotFound; InvalidInput if the entry does not exist or has no entry before it; SessionConflict if another
        session has the id `new`; UnknownAgent if the agent has no such version; NotEntitled for a person who is no
        operator.
        """

    @abstractmethod
    async def cancel(
        self, session: str, *, reason: str | None = None, by: str | None = None, run: int | None = None
    ) -> None:
        """Cancel a session and all sessions below it (W8). Return when that is on disk.

        `reason`: why, for people; it is journaled, and part of the outcome's `cause`. `by`: the person who asks for it;
        None: this program. `run`: do nothing unless the run with this number is the open one. None: whichever is open.
        Raises NotFound; NotEntitled as `resume`.
        """

    @abstractmethod
    async def send(self, session: str, text: str, *, by: str | None = None) -> SendResult:
        """Send a message to a session in any state. The result says whether it is delivered, kept, or begins a turn. As
        with `decide`, a program that has declared the agent runs the session if no other process does (R2).

        Raises NotFound; InvalidInput if no run could ever receive it; NotEntitled for a person who is no operator, if
        people have roles.
        """

    @abstractmethod
    async def chat(
        self,
        session: str,
        text: str,
        *,
        by: str | None = None,
        shown_before: datetime | None = None,
        channel: str | None = None,
        shown: Collection[str] | None = None,
    ) -> ChatResult:
        """Act on a text that a person writes to a session: a chat word decides, and any other text is sent (A12).

        A bare "yes" or "no" decides the only approval that waits for this person in the session or below it. "approve
        all" approves the calls that wait for them there. Both count only approvals that the person had been shown
        before: by a card that was posted before `shown_before` (None: now), on `channel` if that is given. `shown`: the
        ids of the approvals that the caller itself showed. With a `channel`, only cards of these approvals count;
        without one, these approvals count as shown, over HTTP those of them that the server has given to this person.
        With a `channel`, a text also answers a question that is the only approval that waits for this person, and that
        they had been shown whole, if it fits the question. Raises as `decide` and `send` do.
        """

    @abstractmethod
    async def get_session(self, session: str) -> SessionView:
        """Return a session as it is now. Raises NotFound."""

    @abstractmethod
    async def get_tree(self, session: str, *, entries: int | None = 5000) -> TreeView:
        """Return the tree of a session, and the journals of the session and of those below it, up to its cursor.

        A tree of more than 100 sessions or entries is read in pieces: its sessions may then be shown as they are a
        moment after the cursor; a watch that continues from it returns these changes again.
        The session's own journal is complete. Complete journals of sessions below it follow, until the result has
        `entries` entries; None: all of them. Raises NotFound.
        """

    @abstractmethod
    async def get_approval(self, approval: str) -> Approval:
        """Return an approval in any state. Raises NotFound."""

    @abstractmethod
    async def get_transcript(self, session: str) -> tuple[Message, ...]:
        """Return the messages of a session, with each approval where it was asked. Raises NotFound."""

    @abstractmethod
    async def get_counts(self) -> Counts:
        """Return the numbers of sessions and approvals, from the index alone. Cheap."""

    @abstractmethod
    async def find_sessions(
        self,
        *,
        is_open: bool | None = None,
        status: SessionStatus | None = None,
        agent: str | None = None,
        root: str | None = None,
        newest_first: bool = False,
        after: str | None = None,
        limit: int | None = 100,
    ) -> Page[SessionView]:
        """Return sessions, parents before children; with `newest_first` in reverse order.

        `is_open`, `status`, `agent`, `root`: only matching sessions. `root`: the id of a tree's root.
        """

    @abstractmethod
    async def find_approvals(
        self, *, pending: bool = True, session: str | None = None, after: str | None = None, limit: int | None = 100
    ) -> Page[Approval]:
        """Return approvals, oldest first. `pending`: only pending ones. `session`: of this session and all below it.

        Raises NotFound for an unknown session.
        """

    @abstractmethod
    async def find_entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = 1000
    ) -> Page[JournalEntry]:
        """Return the entries of a session's journal, in order; with `tree` also those of all sessions below it. Raises
        NotFound."""

    @abstractmethod
    async def find_audit(self, *, after: str | None = None, limit: int | None = 1000) -> Page[JournalEntry]:
        """Return the audit trail in order: approvals asked, shown, decided and withdrawn, calls, and rules (A15)."""

    @abstractmethod
    async def find_rules(self) -> Page[Rule]:
        """Return all rules that hold: this program's, then the store's, oldest first. Raises StoreUnreadable."""

    @abstractmethod
    async def find_agents(self) -> Page[AgentView]:
        """Return all agents that `start` finds by name, sorted by name."""

    @abstractmethod
    async def find_jobs(self, *, running: bool = True) -> Page[JobView]:
        """Return all background jobs, oldest first. `running`: only those that run (T6)."""

    @abstractmethod
    async def find_owners(self) -> Page[Owner]:
        """Return all living processes that have owned trees of this store."""

    @abstractmethod
    def watch_inbox(self, *, session: str | None = None, after: str | None = None) -> Watch[Approval]:
        """Watch all pending approvals, and then every approval that is asked, decided or withdrawn.

        `session`: only those of this session and below it. `after`: a cursor; then the watch begins with the changes
        since, without the pending approvals. Opening it raises NotFound, CursorUnknown; over
        HTTP its first item raises CursorUnknown.
        """

    @abstractmethod
    def watch_approvals(self, *, session: str | None = None) -> Watch[Approval]:
        """Watch pending approvals, each once, beginning with those that are pending now. `session`: of this session and
        all below it.

        Opening it raises NotFound.
        """

    @abstractmethod
    def watch_session(self, session: str, *, after: str | None = None, stay: bool = False) -> Watch[JournalEntry]:
        """Watch a session's journal after a cursor, without gaps. The watch ends with the run, unless `stay` is true.

        Opening it raises NotFound, CursorUnknown; over HTTP its first item raises CursorUnknown.
        """

    @abstractmethod
    def watch_activity(self, session: str | None = None) -> ActivityWatch:
        """Watch the activity of a session's tree, or of every open tree. Opening it raises NotFound."""

    @abstractmethod
    def watch_text(self, session: str) -> TextWatch:
        """Watch the text that a session's agent is writing (`Context.stream`): the text as it is, whenever it has
        changed, first as it is now. Only the process that runs the session knows it, and its API; elsewhere the text
        stays empty, and so it does on Temporal. Opening it raises NotFound."""

    @abstractmethod
    async def check(self) -> None:
        """Raise StoreError if the store cannot be read, or has died for this process. Over HTTP, raise ServerError if
        the server cannot be reached or does not answer as a supervisor of this API, and NotAuthenticated."""


class StoreSupervisor(Supervisor):
    """A Supervisor in a process that has the store open. It can do more than a Supervisor over HTTP."""

    people: People | None
    """The people and their roles; None: every process that can open the store may decide everything (A4)."""

    @property
    @abstractmethod
    def refusals(self) -> Mapping[str, str]:
        """By session id: why a session that this process was asked to run does not run."""

    @abstractmethod
    def import_session(
        self, session: str, origin: Origin, *, agent: AgentSpec[Any, Any] | None = None
    ) -> AbstractAsyncContextManager[SessionImport]:
        """Import a session of another program in batches. A second import continues where the first one ended.

        `origin`: which session of which program it was; journaled, and compared by a second import. `agent`: the agent
        that continues the session when a message comes. Raises InvalidInput for an agent that takes no text. Entering
        raises SessionConflict if another session has this id, TreeOwned if another process imports it.
        """

    @abstractmethod
    async def prune(
        self, before: datetime, *, only: Collection[str] | None = None, dry_run: bool = False
    ) -> PruneResult:
        """Remove the trees that have ended and have no entry since `before`, and the logs of their background jobs.

        `before`: an aware instant. `only`: the ids of the roots that may be removed; None: all. `dry_run`: find them,
        and remove nothing. This also removes logs that an interrupted prune has left, and gives free space back to the
        disk. Raises NotEntitled in a process that a supervised call started.
        """

    @abstractmethod
    def listen(self, listener: Callable[[Sequence[JournalEntry]], object]) -> None:
        """Call `listener` with the entries of each commit from now on, in order, those of other processes too.

        It is called in the loop and must neither raise nor take long: what it has to wait for belongs into a task.
        """

    @abstractmethod
    async def wait_until_broken(self) -> None:
        """Wait until this process can no longer trust the store, then raise StoreDied."""
