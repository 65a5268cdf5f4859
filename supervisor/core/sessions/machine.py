"""The transition tables of a run, an operation and an approval.

A table maps (state, symbol) to the next state. A pair that is not in the table is illegal: it raises, and changes
nothing. The code below only interprets the tables. Symbols are event names, with a suffix where one event has two
meanings.

Operations
    A call       -> requested -> executing -> finished          where no person is asked
                 -> asked -> approved -> executing -> finished  where a person is asked
                             denied, expired, withdrawn -> finished
    A question   -> posed -> settled -> finished            settled: answered, denied, expired or withdrawn
    A timer      -> waiting -> finished
    The others   -> finished, in one event: the journal has only their result
    Each operation in the journal may be abandoned: a scope of the agent's own ended it.
    An operation that a restart set aside with its result begins again when it is recalled (core/sessions/restarts.py).

No event leaves `finished` and `abandoned`: a call has exactly one result (T1). `executing` may begin again: a call of
an idempotent tool that was lost in a crash runs again; recovery finishes every other lost call before the agent runs
(R1).

Runs
    created -> open -> finished; a cancel in between makes it `stopping`, where nothing may begin that needs a person
    or a sub-agent (W8). A finished session may begin another run: a turn of a conversation. `passivated` is not a
    state: it follows from what the run waits for.
    created -> imported -> finished: a session from another program is imported in batches, and is then idle.
"""

from collections.abc import Mapping
from typing import Final, TypeVar, get_args

from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent

State = TypeVar("State", bound=str)

_CALL_OPEN: Final = ("requested", "asked", "approved", "denied", "expired", "withdrawn", "executing")
_QUESTION_OPEN: Final = ("posed", "settled")

OPERATION: Final[dict[tuple[str, str], str]] = {
    ("", "ToolCallRequested"): "requested",
    ("", "ToolCallRequested.asking"): "asked",
    ("asked", "ApprovalDecided.approve"): "approved",
    ("asked", "ApprovalDecided.deny"): "denied",
    ("asked", "ApprovalExpired"): "expired",
    ("asked", "ApprovalWithdrawn"): "withdrawn",
    ("requested", "ToolCallStarted"): "executing",
    ("approved", "ToolCallStarted"): "executing",
    ("executing", "ToolCallStarted"): "executing",
    **{(state, "ToolCallFinished"): "finished" for state in _CALL_OPEN if state != "asked"},
    **{(state, "OperationAbandoned"): "abandoned" for state in (*_CALL_OPEN, *_QUESTION_OPEN, "waiting")},
    ("", "QuestionAsked"): "posed",
    ("posed", "QuestionAnswered"): "settled",
    ("posed", "ApprovalDecided.deny"): "settled",
    ("posed", "ApprovalExpired"): "settled",
    ("posed", "ApprovalWithdrawn"): "settled",
    ("settled", "OperationFinished"): "finished",
    ("", "OperationStarted"): "waiting",
    ("", "OperationFinished"): "finished",
    ("waiting", "OperationFinished"): "finished",
    ("", "OperationRecalled"): "finished",
}

APPROVAL: Final[dict[tuple[str, str], str]] = {
    ("", "ToolCallRequested.asking"): "pending",
    ("", "QuestionAsked"): "pending",
    ("pending", "QuestionAnswered"): "answered",
    ("pending", "ApprovalExpired"): "expired",
    ("pending", "ApprovalDecided.approve"): "approved",
    ("pending", "ApprovalDecided.deny"): "denied",
    ("pending", "ApprovalWithdrawn"): "withdrawn",
    ("pending", "OperationAbandoned"): "withdrawn",
}

_CARDS: Final = tuple(each.__name__ for each in e.having("card"))
_ENDING: Final = (
    "OperationStarted",
    "OperationFinished",
    "OperationAbandoned",
    "OperationRecalled",
    "ApprovalWithdrawn",
    "ToolCallRequested",
    "ToolCallStarted",
    "ToolCallFinished",
    "UsageSpent",
    "BudgetNoticed",
    "ChildEnded",
    *_CARDS,
    "DecisionRefused",
    "CredentialsShown",
    "StateSaved",
    "PatchMarked",
    "Reported",
    "MessageReceived",
    "MessageSent",
    "MessageShown",
    "MessageUndelivered",
    "JobStarted",
    "JobEnded",
    "SessionForked",
    "ForkTaken",
)
_AFTERWARDS: Final = (
    *_CARDS,
    "UsageSpent",
    "BudgetRaised",
    "DecisionRefused",
    "CredentialsShown",
    "MessageReceived",
    "MessageShown",
    "JobEnded",
    "SessionForked",
    "ForkTaken",
)
_LIVING: Final = (
    *_ENDING,
    "AttemptStarted",
    "AttemptSettled",
    "ToolCallRequested.asking",
    "QuestionAsked",
    "QuestionAnswered",
    "ApprovalDecided.approve",
    "ApprovalDecided.deny",
    "ApprovalExpired",
    "ApprovalReminded",
    "RunPassivated",
    "RunRestarted",
    "RunBlocked",
    "RunUnblocked",
    "BudgetRaised",
    "BudgetAnswered",
)

RUN: Final[dict[tuple[str, str], str]] = {
    ("", "SessionCreated"): "created",
    ("created", "RunStarted"): "open",
    ("created", "ImportStarted"): "imported",
    ("imported", "MessageImported"): "imported",
    ("imported", "ImportFinished"): "finished",
    **{("open", symbol): "open" for symbol in _LIVING},
    ("open", "CancelRequested"): "stopping",
    **{("stopping", symbol): "stopping" for symbol in _ENDING},
    ("open", "RunFinished"): "finished",
    ("stopping", "RunFinished"): "finished",
    **{("finished", symbol): "finished" for symbol in _AFTERWARDS},
    ("finished", "RunStarted"): "open",
}


_TWOFOLD: Final = ("ToolCallRequested", "ApprovalDecided")


def symbol(event: e.AnyEvent) -> str:
    """Return the name of this event in the tables."""
    name = type(event).__name__
    if name in _TWOFOLD:
        match event:
            case e.ToolCallRequested(approval=str()):
                return "ToolCallRequested.asking"
            case e.ApprovalDecided(decision=decision):
                return f"ApprovalDecided.{decision}"
            case _:
                pass
    return name


def advance(table: dict[tuple[str, str], str], state: str, event: e.AnyEvent) -> str:
    """Return the next state; raises IllegalEvent for a pair that is not in the table."""
    try:
        return table[state, symbol(event)]
    except KeyError:
        raise IllegalEvent(f"{symbol(event)} cannot follow {state or 'nothing'!r}: {event!r}") from None


def types_in(table: Mapping[tuple[str, str], str], state: str | None = None) -> frozenset[type[e.Event]]:
    """Return the event types in a table; with `state`, those that are legal in that state."""
    names = {symbol.partition(".")[0] for held, symbol in table if state is None or held == state}
    return frozenset(each for each in get_args(e.AnyEvent) if each.__name__ in names)


def next_approval_status(status: str, event: e.AnyEvent) -> str:
    """Return the status of an approval after an event of its operation; unlike in `advance`, most events do not change
    it."""
    return APPROVAL.get((status, symbol(event)), status)


MOVES_OPERATION: Final = types_in(OPERATION)
"""Events that move an operation along its table."""
BEGINS_OPERATION: Final = types_in(OPERATION, "")
"""Events that begin an operation if no earlier event has."""
ENDS_OPERATION: Final = types_in({key: to for key, to in OPERATION.items() if to in ("finished", "abandoned")})
"""Events that are the result of an operation, or its end without one; some operations begin with it."""
ASKS: Final = types_in(APPROVAL, "")
"""Events that begin an approval, if a person is asked."""
ENDS_APPROVAL: Final = types_in(APPROVAL, "pending")
"""Events that end the approval that they name."""
