"""Events: the facts of a session, in past tense. The journal is a sequence of them, and the truth.

Rules
- Frozen, keyword-only, with `at` (aware UTC). Appended once, never changed; replaying them gives the live state.
- Values that the supervisor only passes on (inputs, arguments, results) stay raw JSON: they are decoded where the types
  are known, from the same bytes in every attempt.
- The tag is the class's name. An unknown tag refuses that session only, with an error: a newer program wrote it.
- The traits of a type, which hold for all its events, are at its class (core/events/facts.py) and nowhere else.

The classes are in the modules of this package, one for each subject.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeGuard, get_args

import msgspec

from supervisor.core.errors import IllegalEvent, InvalidInput, StoreUnreadable
from supervisor.core.events.asking import (
    ApprovalDecided as ApprovalDecided,
    ApprovalExpired as ApprovalExpired,
    ApprovalHushed as ApprovalHushed,
    ApprovalReminded as ApprovalReminded,
    ApprovalVoted as ApprovalVoted,
    ApprovalWithdrawn as ApprovalWithdrawn,
    CardBegun as CardBegun,
    CardEvent as CardEvent,
    CardFailed as CardFailed,
    CardPosted as CardPosted,
    CardRetired as CardRetired,
    CommandRefused as CommandRefused,
    CredentialsShown as CredentialsShown,
    DecisionRefused as DecisionRefused,
    EvidenceTaken as EvidenceTaken,
    EvidenceWanted as EvidenceWanted,
    QuestionAnswered as QuestionAnswered,
    QuestionAsked as QuestionAsked,
    ReminderBegun as ReminderBegun,
    ReminderSent as ReminderSent,
    RuleAdded as RuleAdded,
    RuleRevoked as RuleRevoked,
    RuleUsed as RuleUsed,
)
from supervisor.core.events.budgets import (
    BudgetAnswered as BudgetAnswered,
    BudgetNoticed as BudgetNoticed,
    BudgetRaised as BudgetRaised,
    UsageSpent as UsageSpent,
)
from supervisor.core.events.facts import (
    ANSWERS as ANSWERS,
    Event as Event,
    UnknownEvent as UnknownEvent,
    having as having,
)
from supervisor.core.events.kinds import BEGINS_CHILD
from supervisor.core.events.operations import (
    JobEnded as JobEnded,
    JobStarted as JobStarted,
    OperationAbandoned as OperationAbandoned,
    OperationFinished as OperationFinished,
    OperationRecalled as OperationRecalled,
    OperationStarted as OperationStarted,
    ToolCallFinished as ToolCallFinished,
    ToolCallRequested as ToolCallRequested,
    ToolCallStarted as ToolCallStarted,
    WaitKind as WaitKind,
)
from supervisor.core.events.runs import (
    Again as Again,
    AttemptSettled as AttemptSettled,
    AttemptStarted as AttemptStarted,
    CancelRequested as CancelRequested,
    ChildEnded as ChildEnded,
    PatchMarked as PatchMarked,
    Reported as Reported,
    RunBlocked as RunBlocked,
    RunFinished as RunFinished,
    RunPassivated as RunPassivated,
    RunRestarted as RunRestarted,
    RunStarted as RunStarted,
    RunUnblocked as RunUnblocked,
    StateSaved as StateSaved,
)
from supervisor.core.events.scheduling import (
    DeliveryPruned as DeliveryPruned,
    ScheduleAdded as ScheduleAdded,
    ScheduleChanged as ScheduleChanged,
    ScheduleDisputed as ScheduleDisputed,
    ScheduleHandled as ScheduleHandled,
)
from supervisor.core.events.sessions import (
    MESSAGE as MESSAGE,
    ForkTaken as ForkTaken,
    ImportFinished as ImportFinished,
    ImportStarted as ImportStarted,
    MessageImported as MessageImported,
    MessageReceived as MessageReceived,
    MessageSent as MessageSent,
    MessageShown as MessageShown,
    MessageUndelivered as MessageUndelivered,
    SessionCreated as SessionCreated,
    SessionForked as SessionForked,
    WordHeard as WordHeard,
)

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
    | ApprovalHushed
    | ApprovalReminded
    | ApprovalVoted
    | EvidenceTaken
    | EvidenceWanted
    | ApprovalWithdrawn
    | ToolCallStarted
    | ToolCallFinished
    | UsageSpent
    | BudgetRaised
    | BudgetNoticed
    | BudgetAnswered
    | JobStarted
    | JobEnded
    | ChildEnded
    | StateSaved
    | PatchMarked
    | Reported
    | CancelRequested
    | MessageReceived
    | MessageSent
    | MessageShown
    | WordHeard
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
    | ReminderBegun
    | ReminderSent
    | RuleAdded
    | RuleRevoked
    | RuleUsed
    | DecisionRefused
    | CommandRefused
    | CredentialsShown
    | SessionForked
    | ForkTaken
    | ScheduleAdded
    | ScheduleChanged
    | ScheduleDisputed
    | ScheduleHandled
    | DeliveryPruned
    | RunFinished
)

Ending = ApprovalDecided | QuestionAnswered | ApprovalExpired | ApprovalWithdrawn | OperationAbandoned
"""Events that end an approval (core/approvals/state.py)."""
SLEEPING: Final = (RunPassivated, RunRestarted)
"""Events that take a run out of memory, until something in `waiting_for` has come, or the instant `due_at`."""
BEGINS_RUN: Final = having("begins run")
"""Events that begin a run of their session, also its first; an import counts as one."""
_CARDS: Final = having("card")

_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[AnyEvent]] = msgspec.json.Decoder(AnyEvent)
_NAMES: Final = frozenset(each.__name__ for each in get_args(AnyEvent))


def encode_event(event: AnyEvent) -> bytes:
    return _encoder.encode(event)


def decode_event(body: bytes) -> AnyEvent:
    """Decode one journal entry; raises StoreUnreadable for an entry that this program does not know."""
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
    InvalidInput for JSON that is not an event, and for an event of a known type whose fields have other types.
    """
    try:
        fields = msgspec.json.decode(document, type=dict[str, Any])
        head = {name: fields.pop(name, None) for name in ("event", "at")}
        unknown = msgspec.convert({**head, "fields": fields}, UnknownEvent)
        return _decoder.decode(document) if unknown.event in _NAMES else unknown
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"this is not an event that can be read: {error}") from None


def begins(event: Any) -> str | None:
    """Return the sub-agent that begins with this event, spawned or called as a tool; None if none does."""
    match event:
        case OperationFinished(kind=kind, child=child) if kind in BEGINS_CHILD:
            return child
        case ToolCallStarted(child=child):
            return child
        case _:
            return None


def is_of_card(event: AnyEvent) -> TypeGuard[CardEvent]:
    """Whether an event is about a card of an approval."""
    return type(event) in _CARDS


def answers(event: Any) -> str | None:
    """Return the key of an answer; None if the event answers nothing."""
    key = ANSWERS.get(type(event))
    return None if key is None else key(event)


def approval_in(event: Any) -> str | None:
    """Return the id of the approval or question that an event names; None if it names none."""
    approval: str | None = getattr(event, "approval", None)
    return approval


def symbol(event: Any) -> str:
    """Return the name of this event in the tables."""
    name = type(event).__name__
    if name == "ApprovalDecided":
        return f"{name}.{event.decision}"
    return "ToolCallRequested.asking" if name == "ToolCallRequested" and event.approval is not None else name


def advance(table: dict[tuple[str, str], str], state: str, event: AnyEvent) -> str:
    """Return the next state; raises IllegalEvent for a pair that is not in the table."""
    try:
        return table[state, symbol(event)]
    except KeyError:
        raise IllegalEvent(f"{symbol(event)} cannot follow {state or 'nothing'!r}: {event!r}") from None


def types_in(table: Mapping[tuple[str, str], str], state: str | None = None) -> frozenset[type[Event]]:
    """Return the event types in a table; with `state`, those that are legal in that state."""
    names = {symbol.partition(".")[0] for held, symbol in table if state is None or held == state}
    return frozenset(each for each in get_args(AnyEvent) if each.__name__ in names)
