"""The seams: what can be plugged in, and what each promises.

    agents          see Context                people, channels, commands  see Supervisor and Run
    tools           see ToolContext            whoever keeps the journal   implements Store
    surfaces where people answer implement Channel

Everything above these seams works on any implementation below them; one test suite runs over every Store.

The module is longer than 400 lines because half of it says what each seam promises.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, overload

from supervisor.core.agent_spec import AgentSpec
from supervisor.core.people import People
from supervisor.core.rows import Counts, JournalEntry, Owner, SessionRow, TreeView
from supervisor.core.rules import Rule
from supervisor.core.tool_spec import ToolSpec
from supervisor.core.toolcontext import ToolContext
from supervisor.core.trees import Origin, PruneResult
from supervisor.core.values import (
    AgentView,
    Approval,
    Decision,
    DecisionResult,
    Fork,
    JobView,
    Message,
    SendResult,
    SessionStatus,
    SessionView,
    ToolCall,
    ToolResult,
)
from supervisor.core.words import ChatResult
from supervisor.handles import ActivityWatch, ChildRun, Page, Run, SessionImport, TaskGroup, Timer, Watch
from supervisor.storage import Store

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

__all__ = [
    "ActivityWatch",
    "Channel",
    "ChildRun",
    "Context",
    "Counts",
    "JournalEntry",
    "Owner",
    "Page",
    "Run",
    "SessionImport",
    "SessionRow",
    "Store",
    "StoreSupervisor",
    "Supervisor",
    "TaskGroup",
    "Timer",
    "ToolContext",
    "TreeView",
    "Watch",
    "Webhook",
    "WebhookReply",
]


class Context(ABC):
    """How an agent touches the world. Every method that is awaited is an operation: its result is in the journal, and a
    resumed agent gets it from there (README.md "What an agent does").

    - The agent takes the same path in every attempt, if it does its I/O in operations. It may race them: all that
      follows from one result without waiting for I/O has happened before the next one is given. Not ordered: what a
      task does after a wait that is no operation; two tasks that the same result wakes; the clean-up of a cancelled
      tool that waits for I/O; and of steps that follow each other without a wait what comes after the first thousand.
    - After a cancel or a stall: `spawn`, `ask` and calls that need a person raise RunStopping.
    - Identical operations, and task groups, of two tasks that are alive at once are refused: use `branch` or
      `task_group`.
    """

    session: str
    """The id of the session that the agent works on."""

    @property
    @abstractmethod
    def saved(self) -> Any:
        """What the last `save` of this run kept, as plain JSON values; None if there was none."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The version of the agent that the run began with (`@agent(version=...)`); every attempt runs that one."""

    @abstractmethod
    async def patched(self, name: str, /) -> bool:
        """Return whether the run takes the path of a named change of the agent's code.

        True for a run that has not come to this point with the older code: the journal holds nothing then that is still
        to be asked for again, and the run is marked. False for a run whose journal goes on from here on the old path.
        The first answer holds for the whole attempt, in all branches and loops; `save` keeps marks; sub-agents and
        turns have their own. When no run of the old path is left, remove the call and the old path.
        """

    @overload
    @abstractmethod
    async def call(self, tool: ToolCall, /) -> ToolResult[Any]: ...
    @overload
    @abstractmethod
    async def call(self, tool: ToolSpec[P, R], /, *args: P.args, **kwargs: P.kwargs) -> ToolResult[R]: ...
    @abstractmethod
    async def call(self, tool: ToolCall | ToolSpec[..., Any], /, *args: Any, **kwargs: Any) -> ToolResult[Any]:
        """Call a tool, once; waits for a person if its rule says so, for days if need be. Never raises for a failure or
        a denial: they are results. Raises InvalidInput for arguments that JSON cannot hold, before anything is
        journaled.

        A ToolCall is what a model emitted: it is looked up among the agent's `tools`, sub-agents too, and whatever is
        wrong with it is its result.
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
        """Ask a person, with the life of an approval: for one of `choices`, a value of the type `schema`, or free text.

        `schema`: a type that JSON can hold (`bool`, a dataclass, a Struct); answers are checked against its JSON
        schema, so that they can be given where the type cannot be imported.
        `expires_in`: seconds after which nobody can answer any more; default: the agent's `approval_expires_in`.
        Raises QuestionUnanswered if nobody answers, and InvalidInput if the answer fits the schema, but not the type.
        """

    @abstractmethod
    async def step(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function of the agent's own, at least once, and remember its result. Raises StepFailed if it raises."""

    @abstractmethod
    async def spawn(self, agent: AgentSpec[P, R], /, *args: P.args, **kwargs: P.kwargs) -> ChildRun[R]:
        """Start a sub-agent on a session of its own. Raises LimitExceeded, the same in every attempt."""

    @abstractmethod
    async def run(self, agent: AgentSpec[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Spawn a sub-agent and wait for its result."""

    @abstractmethod
    async def sleep(self, seconds: float, /) -> None:
        """Sleep; durable: a passivated or restarted run wakes at the same instant. No inactivity (W5).

        A process goes by its monotonic clock, whatever the wall clock is set to; after a restart only wall time is
        known."""

    @abstractmethod
    def move_on_after(self, seconds: float, /) -> AbstractAsyncContextManager[Timer]:
        """Give a block so much time; durable, like `sleep`. Afterwards `expired` says whether it was cut off."""

    @abstractmethod
    async def now(self) -> datetime:
        """Return the wall clock's time, aware UTC, remembered."""

    @abstractmethod
    async def random(self) -> float:
        """Return a random number in [0, 1), remembered."""

    @abstractmethod
    async def receive(self) -> str:
        """Wait for what somebody says to the session; what is not received begins the next turn."""

    @abstractmethod
    async def send(self, text: str, /) -> None:
        """Say something to whoever watches the session, once."""

    @abstractmethod
    def transcript(self) -> tuple[Message, ...]:
        """Return what was said before this run began, each approval where it was asked, with its answer (A15).

        It is no operation: it reads the journal each time, and finds the same in every attempt.
        """

    @abstractmethod
    def branch(self, name: str, /) -> "Context":
        """Return a context whose operations carry the name: for tasks that do identical things."""

    @abstractmethod
    def task_group(self) -> AbstractAsyncContextManager[TaskGroup]:
        """Open a task group whose children are numbered in program order, each with its own branch."""

    @abstractmethod
    def model_call(self) -> AbstractAsyncContextManager[None]:
        """Watch a block with `first_progress_timeout` until its first heartbeat, `inactivity_timeout` after that
        (W5)."""

    @abstractmethod
    def heartbeat(self) -> None:
        """Show progress (W5)."""

    @abstractmethod
    def keepalive(self) -> None:
        """Show only that the peer of a model call lives. It counts before the call's first progress alone (W6)."""

    @abstractmethod
    async def save(self, state: Any, /) -> None:
        """Remember a state to resume from; what was answered before it is forgotten."""


@dataclass(frozen=True)
class WebhookReply:
    """What a webhook answers."""

    status: int = 200
    body: bytes = b""
    media_type: str = "application/json"


@dataclass(frozen=True)
class Webhook:
    """A path, beginning with "/", that a platform posts to, below /channels/NAME of the daemon; `receive` gets the
    headers (names in lower case) and the body, and verifies the platform's signature before anything else. It is
    answered within the platform's bound (3 s): what takes longer belongs into a task of `Channel.serve`."""

    path: str
    receive: Callable[[Mapping[str, str], bytes], Awaitable[WebhookReply]]


class Channel(ABC):
    """A surface where people see approvals and answer.

    - `post` is called again with its card, and `reminded_at` set, when people are reminded (A10).
    - `post` and `retire` may be called again for the same approval, also after a restart, and by then with the card
      that an earlier process left. They are bounded from outside. When `post` raises, the approval goes to the next
      channel as well, and this one is asked again later, until it takes the approval or nobody needs to decide it.
    - A card that cannot show an approval whole offers no approval of it.
    - A channel decides through the Supervisor that `serve` is given, with the approval's id, never "what waits" (A2).
    """

    name: str
    card_timeout: float = 30.0
    """Seconds that finding, showing or retiring one card may take."""
    people: "People | None" = None
    """Whom it hears, where it authenticates people."""
    keeps_cards: bool = False
    """Whether its cards outlive the process: then it is journaled that one is about to be posted."""

    @property
    def asks(self) -> bool:
        """Whether somebody can answer there, now. What is said where nobody can goes to the next channel as well, and
        the journal does not call it shown."""
        return True

    @abstractmethod
    async def serve(self, supervisor: "Supervisor") -> None:
        """Listen for answers until cancelled."""

    @abstractmethod
    async def post(self, approval: Approval, card: str | None) -> str:
        """Show an approval and return what finds its card again. `card`: what an earlier post returned.

        Raises OSError if nobody knows whether it is shown, ConnectionRefusedError or anything else if it is not.
        """

    async def find_card(self, approval: Approval, since: datetime, until: datetime) -> str | None:
        """Return the card that a process may have posted between two instants, and died before it could note it; None
        if there is none, or none can be looked for."""
        return None

    def shows_whole(self, approval: Approval) -> bool:
        """Whether its card shows all of what is asked. Where it does not, the card offers nothing that says yes with
        one press, and a bare "yes" in the conversation decides nothing (A11, A12)."""
        return True

    def webhooks(self) -> Sequence[Webhook]:
        """Return what the platform behind the channel calls over HTTP, where a daemon serves; none by default."""
        return ()

    @abstractmethod
    async def retire(self, approval: Approval, card: str) -> None:
        """Make the card say what was decided, by whom; it must not look live any more (R3)."""


class Supervisor(ABC):
    """What channels, commands and programs talk to. Every method may be called from any task, in any process that has
    the store open; what needs the tree's owner is recorded and says so.

    `get_x` raises NotFound, `find_xs` returns a Page. What one call returns is of one instant; what two calls return is
    not. Of a list of more than 100 that goes for each hundred; a watch after the page's `cursor` gives all that has
    changed since it was begun. A `watch_x` is opened by `async with`.

    `after`: the `next` or the `cursor` of a page, or the `cursor` of a watch; None: from the beginning. Cursors are
    opaque. Raises CursorUnknown for one of another store or from beyond the end, InvalidInput for what is no cursor.
    `limit`: the most that a page has; None: all.
    """

    where: str
    """Which store it is, for messages: a path or a URL."""
    decided: Mapping[str, int]
    """How many decisions people have made through this process since it opened the store, by `DecisionResult.kind`."""

    @overload
    @abstractmethod
    async def start(
        self,
        agent: AgentSpec[[], R],
        /,
        *,
        session: str | None = None,
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
        requester: str | None = None,
        by: str | None = None,
    ) -> Run[Any]: ...
    @abstractmethod
    async def start(
        self,
        agent: AgentSpec[..., R] | str,
        /,
        *args: Any,
        session: str | None = None,
        requester: str | None = None,
        by: str | None = None,
    ) -> Run[R]:
        """Start an agent, or go on with a session: idempotent by its id. A finished one gives its outcome.

        `agent`: its declaration, or the name of one that the supervisor was opened with; the input of a name is plain
        JSON, and so is its result. `by`: the person who starts it; None: this program. `requester`: on whose behalf the
        agent works; None: that of the same person. Raises UnknownAgent for any other name, InvalidInput for an input
        that does not fit, SessionConflict for another agent or input, TreeOwned if another process runs it, and
        NotEntitled, where people have roles, for a person who is not an operator.
        """

    @abstractmethod
    async def resume(self, session: str, *, by: str | None = None) -> Run[Any]:
        """Take up the tree of a session; returns its root's run. `by`: the person who asks for it; None: this
        program.

        Raises NotFound, TreeOwned; NotEntitled for somebody who is no operator.
        """

    @abstractmethod
    async def resume_all(self, *, by: str | None = None) -> list[Run[Any]]:
        """Take up every open tree that nobody owns; returns their roots' runs. `by`: as in `resume`."""

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
        """Return the latest run of a session, or the one of a number, counted from 1. `agent` types its result; without
        it the result is plain JSON. Raises NotFound."""

    @abstractmethod
    async def decide(self, approval: str, decision: Decision, *, channel: str | None = None) -> DecisionResult:
        """Decide an approval or answer a question, once; the first decision wins (A3). The rule that a wider scope
        stands for is written with the decision, by the one that wins. `channel`: where it was made, for the audit.
        If nobody runs the session and this program has declared its agent, it runs it from here on (R2); otherwise
        `DecisionResult.running` is false, and the decision counts when somebody does.

        Raises InvalidInput, deciding nothing, for edited arguments or an answer that do not fit, a scope or pattern
        that was not offered, an answer to a call, an approval of a question (Deny leaves it unanswered), or an empty
        identity; NotEntitled for somebody who may not decide this, which is in the audit trail.
        """

    @abstractmethod
    async def note_refusal(self, approval: str, *, by: str, reason: str, channel: str | None = None) -> None:
        """Note in the audit trail that a channel has refused somebody's decision; nothing else changes (A15).

        Once for each person and approval, however often they try.
        """

    @abstractmethod
    async def add_rule(self, rule: Rule, *, by: str | None = None) -> Rule:
        """Add a standing rule, for calls that begin from now on, in every process; returns it with its id.

        One of the same meaning that stands already is returned instead. `rule.session`: a session, for its whole tree.
        Raises InvalidInput; NotFound for an unknown session; where people have roles, NotEntitled but for operators.
        """

    @abstractmethod
    async def revoke_rule(self, rule: str, *, by: str | None = None) -> Rule:
        """Take back a rule of the store, by its id, and return it; it does not cover what begins from now on.

        Raises NotFound; NotEntitled as `add_rule`.
        """

    @abstractmethod
    async def retry(self, session: str, *, by: str | None = None) -> Run[Any]:
        """Begin a new run of a root session at rest whose latest run failed, stalled or was abandoned, with that run's
        memory and version (R10). What led to the end is done again, and what the end cut off without effect: approvals
        are asked anew, sub-agents that were cancelled go on. All other results stay. One append, in the audit trail.

        Raises NotFound; InvalidInput, saying what to do instead, for every other session; NotEntitled for somebody who
        is no operator.
        """

    @abstractmethod
    async def fork(
        self, session: str, *, before: int, new: str | None = None, version: str | None = None, by: str | None = None
    ) -> Fork:
        """Begin a new tree with a copy of a session's whole tree as it was before the append of an entry, and run it
        (R10). Finished operations keep their results; open ones, decided or not, are asked anew. State, marks, unread
        messages, instants of timers, requester, folder and rules from code are copied; session rules, jobs, cards and
        approvals are not. The source does not change; both name each other. One append, in the audit trail.

        `before`: the number of the entry in the journal of `session`, from 1. `new`: the id of the new root. `version`:
        of the root's code; None: the current one. Sub-agents go on with their current versions.

        The same fork again, by its id `new`, is the one that is there.

        Raises NotFound; InvalidInput for an entry that is not there, or before which nothing lies; SessionConflict if
        there is another session `new`; UnknownAgent if the agent has no such version; NotEntitled for somebody who is
        no operator.
        """

    @abstractmethod
    async def cancel(self, session: str, *, reason: str | None = None, by: str | None = None) -> None:
        """Cancel a session and everything below it (W8); returns once that is on disk.

        `by`: the person who asks for it; None: this program. Raises NotFound; NotEntitled as `resume`.
        """

    @abstractmethod
    async def send(self, session: str, text: str, *, by: str | None = None) -> SendResult:
        """Say something to a session in any state; it is delivered, kept, or begins a turn, and the receipt says which.
        As with `decide`, a program that has declared the agent runs the session if nobody does (R2).

        Raises NotFound; InvalidInput if it could never be heard; NotEntitled, where people have roles, for somebody who
        is no operator.
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
        """Take what a person says where an agent works: a chat word decides, and everything else is sent (A12).

        A bare "yes" or "no" decides what alone waits for them in the session or below it, and "approve all" the calls
        that wait for them there, if they had been shown it before they said so: by a card that was posted before
        `shown_before` (None: now), on `channel` if that is given. `shown`: ids of the approvals that the caller itself
        showed them; with a `channel` only those of its cards count, without one these count whatever cards there are.
        Raises as `decide` and `send` do.
        """

    @abstractmethod
    async def get_session(self, session: str) -> SessionView:
        """Return a session as it is now. Raises NotFound."""

    @abstractmethod
    async def get_tree(self, session: str, *, entries: int | None = 5000) -> TreeView:
        """Return the tree that a session is in, and what happened in the session and below it, all of one instant.

        The session's own journal is there as a whole. Journals of sessions below it follow, each as a whole, until
        there are so many `entries` in all; None: all of them. Raises NotFound.
        """

    @abstractmethod
    async def get_approval(self, approval: str) -> Approval:
        """Return an approval in whatever state it is. Raises NotFound."""

    @abstractmethod
    async def get_transcript(self, session: str) -> tuple[Message, ...]:
        """Return what was said in a session, each approval where it was asked. Raises NotFound."""

    @abstractmethod
    async def get_counts(self) -> Counts:
        """Return how much there is, from the index alone. Cheap."""

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
        """Return sessions, parents before children; with `newest_first` the other way round.

        `is_open`, `status`, `agent`, `root`: only those; `root` is the id of a tree's root.
        """

    @abstractmethod
    async def find_approvals(
        self, *, pending: bool = True, session: str | None = None, after: str | None = None, limit: int | None = 100
    ) -> Page[Approval]:
        """Return approvals, oldest first: the pending ones, or all; of a session and all below it.

        Raises NotFound for an unknown session.
        """

    @abstractmethod
    async def find_entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = 1000
    ) -> Page[JournalEntry]:
        """Return what a session's journal holds, in order; with `tree` also the journals of all below it. Raises
        NotFound."""

    @abstractmethod
    async def find_audit(self, *, after: str | None = None, limit: int | None = 1000) -> Page[JournalEntry]:
        """Return what was asked, shown, decided, withdrawn and run, and rules as they came and went, in order (A15)."""

    @abstractmethod
    async def find_rules(self) -> Page[Rule]:
        """Return all rules that stand: this program's, then the store's, oldest first. Raises StoreUnreadable."""

    @abstractmethod
    async def find_agents(self) -> Page[AgentView]:
        """Return all agents that `start` finds by their names, in the order of these."""

    @abstractmethod
    async def find_jobs(self, *, running: bool = True) -> Page[JobView]:
        """Return all background jobs, oldest first: those that run, or also those that have ended (T6)."""

    @abstractmethod
    async def find_owners(self) -> Page[Owner]:
        """Return all living processes that have owned trees of this store."""

    @abstractmethod
    def watch_inbox(self, *, session: str | None = None, after: str | None = None) -> Watch[Approval]:
        """Watch a snapshot of what is pending, then every approval that is asked, decided or withdrawn.

        `session`: only its own and those below it. `after`: a cursor; then what has changed since, without a snapshot.
        Opening it raises NotFound, CursorUnknown.
        """

    @abstractmethod
    def watch_approvals(self, *, session: str | None = None) -> Watch[Approval]:
        """Watch pending approvals, each once, those of now first; of a session and all below it.

        Opening it raises NotFound.
        """

    @abstractmethod
    def watch_session(self, session: str, *, after: str | None = None, stay: bool = False) -> Watch[JournalEntry]:
        """Watch a session's journal after a cursor, without gaps; ends with the run, unless told to stay.

        Opening it raises NotFound, CursorUnknown.
        """

    @abstractmethod
    def watch_activity(self, session: str | None = None) -> ActivityWatch:
        """Look at the tree of a session, or at every tree that is open. Opening it raises NotFound."""

    @abstractmethod
    async def check(self) -> None:
        """Raise StoreError if the store cannot be read, or has died for this process."""


class StoreSupervisor(Supervisor):
    """A Supervisor in a process that has the store itself open: it can do more than one that is reached over HTTP."""

    people: People | None
    """Who may decide what; None: every process that can open the store may decide everything (A4)."""

    @property
    @abstractmethod
    def refusals(self) -> Mapping[str, str]:
        """Why sessions that this process was asked to run are not running, by their ids."""

    @abstractmethod
    def import_session(
        self, session: str, origin: Origin, *, agent: AgentSpec[Any, Any] | None = None
    ) -> AbstractAsyncContextManager[SessionImport]:
        """Import a session of another program in batches; a second import of it goes on where the first one ended.

        `agent`: goes on with the session when a message comes. Raises InvalidInput for one that takes no text. Entering
        raises SessionConflict if there is another session of this id, TreeOwned if another process imports it.
        """

    @abstractmethod
    async def prune(
        self, before: datetime, *, only: Collection[str] | None = None, dry_run: bool = False
    ) -> PruneResult:
        """Remove the trees that have ended and were silent since `before`, and the logs of their background jobs.

        `only`: the ids of the roots that may be removed; None: every one. `dry_run`: find them, and remove nothing.
        Also removes logs that an interrupted prune has left, and gives free space back to the disk. Raises NotEntitled
        in a process that a supervised call started.
        """

    @abstractmethod
    async def wait_until_broken(self) -> None:
        """Wait until the store cannot be trusted any more in this process, then raise StoreDied."""
