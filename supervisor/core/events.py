"""Events: the facts of a session, in past tense. The journal is a sequence of them, and the truth.

Rules
- Frozen, keyword-only, with `at` (aware UTC). Appended once, never changed; live state is what replaying them gives.
- Values that the supervisor only hands on (inputs, arguments, results) stay raw JSON: they are decoded where the types
  are known, from the same bytes in every attempt.
- The tag is the class's name. An unknown tag refuses that session only, loudly: a newer program wrote it.
- What is true of all events of a type, its traits, stands at its class (core/facts.py) and nowhere else.

The module is longer than 400 lines because a reader of the journal wants all of its events in one place.
"""

from datetime import datetime
from operator import attrgetter
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Raw

from supervisor.core.asking import (
    ApprovalDecided as ApprovalDecided,
    ApprovalExpired as ApprovalExpired,
    ApprovalReminded as ApprovalReminded,
    ApprovalWithdrawn as ApprovalWithdrawn,
    CardBegun as CardBegun,
    CardFailed as CardFailed,
    CardPosted as CardPosted,
    CardRetired as CardRetired,
    DecisionRefused as DecisionRefused,
    QuestionAnswered as QuestionAnswered,
    QuestionAsked as QuestionAsked,
)
from supervisor.core.blocking import RunBlocked as RunBlocked, RunUnblocked as RunUnblocked
from supervisor.core.errors import InvalidInput, StoreUnreadable
from supervisor.core.facts import (
    ANSWERS as ANSWERS,
    Event as Event,
    UnknownEvent as UnknownEvent,
    having as having,
    traits,
)
from supervisor.core.forked import ForkTaken as ForkTaken, SessionForked as SessionForked
from supervisor.core.restarted import (
    Again as Again,
    OperationRecalled as OperationRecalled,
    RunRestarted as RunRestarted,
)
from supervisor.core.rules import Rule
from supervisor.core.standing import RuleAdded as RuleAdded, RuleRevoked as RuleRevoked
from supervisor.core.values import OutcomeKind, ResultKind

WaitKind = Literal["sleep", "timer"]
"""Operations that the journal knows from their start, since they have an instant at which they are due."""
MESSAGE: Final = "message"
"""What a run that receives waits for, in RunPassivated.waiting_for; no operation and no session has this name."""


@traits("told")
class SessionCreated(Event, frozen=True, kw_only=True):
    """The first event of every session. `agent` is "module:name", `file` where that module was read."""

    agent: str
    file: str | None
    path: tuple[str, ...]
    root: str
    requester: str
    cwd: str
    rules: tuple[Rule, ...] = ()
    """What the declarations of the agents from the root to this one say; never wider than their parents' (A14)."""
    takes_text: bool = False
    """Whether the agent's input may be text: then a message to the session at rest begins a turn."""
    parent: str | None = None
    parent_operation: str | None = None


@traits("begins run")
class RunStarted(Event, frozen=True, kw_only=True):
    """A run begins, with an empty memory: the session's first, or a turn that `message` began."""

    input: Raw
    message: str | None = None
    again: Again | None = None
    """Of a retry: the run has the memory of the one before it, but for what it does again."""


@traits("wakes", "not copied", "no progress")
class AttemptStarted(Event, frozen=True, kw_only=True):
    """The agent function is about to be invoked. Attempts in a row that append nothing else are bounded (R5)."""

    host: str
    pid: int
    version: str = "1"
    """Of the code that runs it. That of a run's first attempt is the version of the run (R10)."""


@traits("not copied")
class AttemptSettled(Event, frozen=True, kw_only=True):
    """An attempt after the first asked again for everything its journal holds, and waits: no crash loop (R5)."""


@traits("own")
class OperationStarted(Event, frozen=True, kw_only=True):
    """A durable timer began; `due_at` holds in every attempt."""

    operation: str
    kind: WaitKind
    due_at: datetime
    given: int | None = None
    """How many results the agent had been given, since its last save, when it asked for the operation. It may be less
    than lie before this event: a result that came in between may have been what ended the operation."""


@traits("own")
class OperationFinished(Event, frozen=True, kw_only=True):
    """An operation other than a call has its result; `error` is (exception type, text) where it failed."""

    operation: str
    kind: str
    value: Raw = Raw(b"null")
    error: tuple[str, str] | None = None
    traceback: str = ""
    """Where a step raised, for people; no agent reads it (runtime/tracebacks.py)."""
    child: str | None = None
    message: str | None = None
    """The message that a `receive` took."""
    given: int | None = None
    """As in OperationStarted."""


@traits("told", "unwinding")
class OperationAbandoned(Event, frozen=True, kw_only=True):
    """A scope of the agent's own ended the operation. For a call this is its `interrupted` result, and `content` what
    it had put out; an approval that it was waiting for is withdrawn by it."""

    operation: str
    kind: str
    approval: str | None = None
    """The approval that is withdrawn by it."""
    content: str = ""
    details: Raw = Raw(b"{}")


@traits("audited", "own")
class ToolCallRequested(Event, frozen=True, kw_only=True):
    """A call is journaled, with its approval where a person must decide it: one event, one append (A1)."""

    operation: str
    approval: str | None = None
    tool: str
    arguments: Raw
    digest: str
    idempotent: bool = False
    """Whether it may run again if it is lost in a crash."""
    patterns: tuple[str | None, ...] = ()
    """What may be granted for more than once, for the session and for always (core/rules.py); None: exactly these
    arguments."""
    rule: str | None = None
    """The rule that said whether a person is asked: its id, or where it comes from."""
    expires_at: datetime | None = None
    secret: tuple[str, ...] = ()
    """Names of the arguments that only the effect may see (core/masking.py)."""
    given: int | None = None
    """As in OperationStarted."""


@traits("audited", "told", "own")
class ToolCallStarted(Event, frozen=True, kw_only=True):
    """Executing: committed before the effect begins. `process` and `process_started_at` name its process (T9), `child`
    the session of the sub-agent that it is a call of: committed with that."""

    operation: str
    host: str
    pid: int
    process: int | None = None
    process_started_at: float | None = None
    child: str | None = None


@traits("audited", "told", "own", "last append")
class ToolCallFinished(Event, frozen=True, kw_only=True):
    """The one result of a call."""

    operation: str
    kind: ResultKind
    content: str
    value: Raw = Raw(b"null")
    details: Raw = Raw(b"{}")
    traceback: str = ""
    """Where the tool raised, for people; no agent reads it (runtime/tracebacks.py)."""


@traits("audited", "not copied")
class JobStarted(Event, frozen=True, kw_only=True):
    """A call began a background job: committed with its `executing`, before the job begins (T6).

    Pid and start time identify the job's process, and the warden that stands guard over it, on `host` only. `keep`: it
    does not end with its root session.
    """

    job: str
    operation: str
    command: str
    host: str
    process: int
    process_started_at: float | None
    guard: int
    guard_started_at: float | None
    log: str
    keep: bool = False


@traits("audited", "not copied")
class JobEnded(Event, frozen=True, kw_only=True):
    """A background job is over: told to its session once.

    `exited`: by itself; `ended`: by us, because of `by`; `failed`: it could not begin; `lost`: it is gone, and nobody
    knows how it ended. `duration` is seconds from its beginning.
    """

    job: str
    how: Literal["exited", "ended", "failed", "lost"]
    exit_code: int | None = None
    signal: int | None = None
    duration: float | None = None
    by: str | None = None


@traits("last append", "unwinding", answers=attrgetter("child"))
class ChildEnded(Event, frozen=True, kw_only=True):
    """In the parent's journal: a sub-agent has its outcome. Delivered when the parent asks for it."""

    child: str
    kind: OutcomeKind
    value: Raw = Raw(b"null")
    cause: str | None = None
    partial: Raw = Raw(b"null")


@traits("own")
class StateSaved(Event, frozen=True, kw_only=True):
    """What a later attempt begins with. The first `floor` of each operation lie before it and are forgotten; where
    `counts` names it, so many (runtime/naming.py)."""

    state: Raw
    counts: dict[str, int]
    floor: int = 0


class PatchMarked(Event, frozen=True, kw_only=True):
    """The run takes the path of a named change of its code (Context.patched). No operation: nothing waits for it."""

    name: str


@traits("audited", "told", "wakes", "last append", "unwinding")
class CancelRequested(Event, frozen=True, kw_only=True):
    """Somebody cancelled `origin`, and with it everything below it, this session included (W8)."""

    by: str
    origin: str
    reason: str | None = None


@traits(answers=lambda _: MESSAGE)
class MessageReceived(Event, frozen=True, kw_only=True):
    """Somebody said something to the session: it is kept until the agent receives it, or a turn begins with it (R7)."""

    message: str
    text: str
    by: str


@traits("told", "last append")
class MessageUndelivered(Event, frozen=True, kw_only=True):
    """The run ended without receiving the message, and none will follow that could: its sender is owed that (R7)."""

    message: str
    text: str
    by: str


@traits("own", "last append", "unwinding")
class MessageSent(Event, frozen=True, kw_only=True):
    """The session said something to whoever watches, once: by `send`, or as a turn's result."""

    text: str
    operation: str | None = None


@traits("begins run")
class ImportStarted(Event, frozen=True, kw_only=True):
    """The session took place elsewhere, and its messages follow: none of it ran here, nobody decided any of it here.

    From here on the session is at rest. `format`, `source` (the file's own id of the session) and `digest` (of its
    bytes) say whether another import is the same one.
    """

    format: str
    source: str
    file: str
    digest: str

    @property
    def cause(self) -> str:
        """What stands for an outcome until the session goes on here."""
        return f"imported from {self.format}"


class MessageImported(Event, frozen=True, kw_only=True):
    """One message of a session that took place elsewhere; `at` is when it was imported, `said_at` when it was said.

    Of a call, `text` is its arguments as JSON; `call` is the id that its result has too, unique in its file at best.
    """

    role: Literal["user", "assistant", "call", "result"]
    text: str
    said_at: datetime | None = None
    tool: str | None = None
    call: str | None = None
    is_error: bool = False
    is_lost: bool = False
    """The file has no result of this call: this one was put in its place, as a repair does."""


class ImportFinished(Event, frozen=True, kw_only=True):
    """All of it is here. `left_out` counts what was not a message: torn lines, results without a call."""

    messages: int
    left_out: int = 0


@traits("not copied")
class RunPassivated(Event, frozen=True, kw_only=True):
    """The run left memory. Valid until an event follows that answers one of `waiting_for`, or a cancel."""

    waiting_for: tuple[str, ...]
    due_at: datetime | None = None
    """When the earliest of its timers wakes it."""


@traits("told", "own", "wakes", "last append")
class RunFinished(Event, frozen=True, kw_only=True):
    """The outcome, exactly once (W9)."""

    kind: OutcomeKind
    value: Raw = Raw(b"null")
    cause: str | None = None
    partial: Raw = Raw(b"null")
    traceback: str = ""
    """Where the agent raised, for people; its parent is not told (runtime/tracebacks.py)."""
    led_by: tuple[str, ...] = ()
    """Operations whose failures led to the end: a retry does them again (core/retrying.py)."""
    stopped_at: int = 0
    """Of a stall: the length of the journal when the run was told to stop."""


AnyEvent = (
    SessionCreated
    | RunStarted
    | AttemptStarted
    | AttemptSettled
    | OperationStarted
    | OperationFinished
    | OperationAbandoned
    | ToolCallRequested
    | QuestionAsked
    | QuestionAnswered
    | ApprovalDecided
    | ApprovalExpired
    | ApprovalReminded
    | ApprovalWithdrawn
    | ToolCallStarted
    | ToolCallFinished
    | JobStarted
    | JobEnded
    | ChildEnded
    | StateSaved
    | PatchMarked
    | CancelRequested
    | MessageReceived
    | MessageSent
    | MessageUndelivered
    | ImportStarted
    | MessageImported
    | ImportFinished
    | RunPassivated
    | RunRestarted
    | RunBlocked
    | RunUnblocked
    | OperationRecalled
    | CardBegun
    | CardPosted
    | CardFailed
    | CardRetired
    | RuleAdded
    | RuleRevoked
    | DecisionRefused
    | SessionForked
    | ForkTaken
    | RunFinished
)

SLEEPING: Final = (RunPassivated, RunRestarted)
"""What takes a run out of memory, until something in `waiting_for` has come, or the instant `due_at`."""
BEGINS_RUN: Final = having("begins run")
"""What begins a run of its session, its first among them; an import counts as one."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[AnyEvent]] = msgspec.json.Decoder(AnyEvent)
_NAMES: Final = frozenset(each.__name__ for each in get_args(AnyEvent))


def encode_event(event: AnyEvent) -> bytes:
    return _encoder.encode(event)


def decode_event(body: bytes) -> AnyEvent:
    """Decode one journal entry; raises StoreUnreadable for one that this program does not know."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StoreUnreadable(
            f"a journal entry cannot be read ({error}): a newer program wrote it, or it is damaged; "
            "it was left untouched"
        ) from None


def read_event(document: bytes) -> AnyEvent | UnknownEvent:
    """Read an event that another program, which may be a newer one, gives to its readers as a JSON object.

    A type that this program does not know becomes an UnknownEvent; fields that it does not know are left out. Raises
    InvalidInput for what is no event, and for an event of a known type whose fields have other types.
    """
    try:
        fields = msgspec.json.decode(document, type=dict[str, Any])
        head = {name: fields.pop(name, None) for name in ("event", "at")}
        unknown = msgspec.convert({**head, "fields": fields}, UnknownEvent)
        return _decoder.decode(document) if unknown.event in _NAMES else unknown
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"this is no event that can be read: {error}") from None


def begins(event: Any) -> str | None:
    """Return the sub-agent that begins with this event, spawned or called as a tool; None if none does."""
    match event:
        case OperationFinished(kind="spawn", child=child) | ToolCallStarted(child=child):
            return child
        case _:
            return None


def answers(event: Any) -> str | None:
    """Return the key of an answer, None if an event answers nothing."""
    key = ANSWERS.get(type(event))
    return None if key is None else key(event)


def approval_in(event: Any) -> str | None:
    """Return the id of the approval or question that an event names; None if it names none."""
    approval: str | None = getattr(event, "approval", None)
    return approval
