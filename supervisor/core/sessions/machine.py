"""The transition tables of a run and an operation; that of an approval is in core/approvals/state.py.

A table maps (state, symbol) to the next state. A pair that is not in the table is illegal: it raises, and changes
nothing. Symbols are event names, with a suffix where one event has two meanings (core/events).

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

from typing import Final

from supervisor.core import events as e
from supervisor.core.approvals.state import APPROVAL
from supervisor.core.events import types_in

_CALL_OPEN: Final = ("requested", "asked", "approved", "denied", "expired", "withdrawn", "executing")
_QUESTION_OPEN: Final = ("posed", "settled")

_ENDS: Final = [(symbol, to) for (held, symbol), to in APPROVAL.items() if held == "pending"]
"""How an approval ends: that is the next state of its call, and settles its question."""
OPERATION: Final[dict[tuple[str, str], str]] = {
    ("", "ToolCallRequested"): "requested",
    ("", "ToolCallRequested.asking"): "asked",
    **{("asked", symbol): to for symbol, to in _ENDS if to != "answered"},
    ("requested", "ToolCallStarted"): "executing",
    ("approved", "ToolCallStarted"): "executing",
    ("executing", "ToolCallStarted"): "executing",
    **{(state, "ToolCallFinished"): "finished" for state in _CALL_OPEN if state != "asked"},
    ("", "QuestionAsked"): "posed",
    **{("posed", symbol): "settled" for symbol, to in _ENDS if to != "approved"},
    **{(state, "ApprovalVoted"): state for state in ("asked", "posed")},
    ("asked", "EvidenceTaken"): "asked",
    ("asked", "EvidenceWanted"): "asked",
    ("settled", "OperationFinished"): "finished",
    ("", "OperationStarted"): "waiting",
    ("", "OperationFinished"): "finished",
    ("waiting", "OperationFinished"): "finished",
    ("", "OperationRecalled"): "finished",
    **{(state, "OperationAbandoned"): "abandoned" for state in (*_CALL_OPEN, *_QUESTION_OPEN, "waiting")},
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
    "ReminderBegun",
    "ReminderSent",
    "StateSaved",
    "PatchMarked",
    "Reported",
    "MessageReceived",
    "MessageSent",
    "MessageShown",
    "WordHeard",
    "MessageUndelivered",
    "JobStarted",
    "JobEnded",
    "SessionForked",
    "ForkTaken",
    "RuleUsed",
)
_AFTERWARDS: Final = (
    *_CARDS,
    "UsageSpent",
    "BudgetRaised",
    "DecisionRefused",
    "CredentialsShown",
    "ReminderBegun",
    "ReminderSent",
    "MessageReceived",
    "MessageShown",
    "WordHeard",
    "JobEnded",
    "SessionForked",
    "ForkTaken",
    "RuleUsed",
)
_LIVING: Final = (
    *_ENDING,
    "AttemptStarted",
    "AttemptSettled",
    *(symbol for _, symbol in APPROVAL),
    "ApprovalHushed",
    "ApprovalReminded",
    "ApprovalVoted",
    "EvidenceTaken",
    "EvidenceWanted",
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


MOVES_OPERATION: Final = types_in(OPERATION)
"""Events that move an operation along its table."""
BEGINS_OPERATION: Final = types_in(OPERATION, "")
"""Events that begin an operation if no earlier event has."""
ENDS_OPERATION: Final = types_in({key: to for key, to in OPERATION.items() if to in ("finished", "abandoned")})
"""Events that are the result of an operation, or its end without one; some operations begin with it."""
