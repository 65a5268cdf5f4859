"""The transition tables, cell by cell, written down a second time as a person would read them."""

import pytest
from journals import AT, CALLS, EVENTS, SYMBOLS, event_of, story

from supervisor.core import events as e
from supervisor.core.approvals.state import APPROVAL, PENDING, ApprovalState
from supervisor.core.errors import IllegalEvent
from supervisor.core.events import advance, symbol
from supervisor.core.sessions.machine import OPERATION, RUN
from supervisor.core.sessions.state import replay_journal

OPERATION_CELLS = """
                          -         requested asked     approved  denied    withdrawn expired   executing waiting
ToolCallRequested         requested .         .         .         .         .         .         .         .
ToolCallRequested.asking  asked     .         .         .         .         .         .         .         .
ApprovalDecided.approve   .         .         approved  .         .         .         .         .         .
ApprovalDecided.deny      .         .         denied    .         .         .         .         .         .
ApprovalVoted             .         .         asked     .         .         .         .         .         .
EvidenceTaken             .         .         asked     .         .         .         .         .         .
EvidenceWanted            .         .         asked     .         .         .         .         .         .
ApprovalExpired           .         .         expired   .         .         .         .         .         .
ApprovalWithdrawn         .         .         withdrawn .         .         .         .         .         .
ToolCallStarted           .         executing .         executing .         .         .         executing .
ToolCallFinished          .         finished  .         finished  finished  finished  finished  finished  .
OperationStarted          waiting   .         .         .         .         .         .         .         .
OperationFinished         finished  .         .         .         .         .         .         .         finished
OperationAbandoned        .         abandoned abandoned abandoned abandoned abandoned abandoned abandoned abandoned
OperationRecalled         finished  .         .         .         .         .         .         .         .

                          -         posed     settled
QuestionAsked             posed     .         .
QuestionAnswered          .         settled   .
ApprovalDecided.deny      .         settled   .
ApprovalVoted             .         posed     .
ApprovalExpired           .         settled   .
ApprovalWithdrawn         .         settled   .
OperationFinished         finished  .         finished
OperationAbandoned        .         abandoned abandoned
"""

APPROVAL_CELLS = """
                          -         pending
ToolCallRequested.asking  pending   .
ApprovalDecided.approve   .         approved
ApprovalDecided.deny      .         denied
ApprovalExpired           .         expired
ApprovalWithdrawn         .         withdrawn
QuestionAsked             pending   .
QuestionAnswered          .         answered
OperationAbandoned        .         withdrawn
"""

RUN_CELLS = """
                          -         created   imported  open      stopping  finished
SessionCreated            created   .         .         .         .         .
RunStarted                .         open      .         .         .         open
AttemptStarted            .         .         .         open      .         .
AttemptSettled            .         .         .         open      .         .
OperationStarted          .         .         .         open      stopping  .
OperationFinished         .         .         .         open      stopping  .
OperationAbandoned        .         .         .         open      stopping  .
ToolCallRequested         .         .         .         open      stopping  .
ToolCallRequested.asking  .         .         .         open      .         .
ApprovalDecided.approve   .         .         .         open      .         .
ApprovalDecided.deny      .         .         .         open      .         .
ApprovalExpired           .         .         .         open      .         .
ApprovalReminded          .         .         .         open      .         .
ApprovalHushed            .         .         .         open      .         .
ApprovalVoted             .         .         .         open      .         .
EvidenceTaken             .         .         .         open      .         .
EvidenceWanted            .         .         .         open      .         .
ApprovalWithdrawn         .         .         .         open      stopping  .
QuestionAsked             .         .         .         open      .         .
QuestionAnswered          .         .         .         open      .         .
ToolCallStarted           .         .         .         open      stopping  .
ToolCallFinished          .         .         .         open      stopping  .
ChildEnded                .         .         .         open      stopping  .
StateSaved                .         .         .         open      stopping  .
PatchMarked               .         .         .         open      stopping  .
Reported                  .         .         .         open      stopping  .
CancelRequested           .         .         .         stopping  .         .
OperationRecalled         .         .         .         open      stopping  .
RunPassivated             .         .         .         open      .         .
RunRestarted              .         .         .         open      .         .
RunBlocked                .         .         .         open      .         .
RunUnblocked              .         .         .         open      .         .
CardBegun                 .         .         .         open      stopping  finished
CardPosted                .         .         .         open      stopping  finished
CardFailed                .         .         .         open      stopping  finished
CardRetired               .         .         .         open      stopping  finished
DecisionRefused           .         .         .         open      stopping  finished
CredentialsShown          .         .         .         open      stopping  finished
ReminderBegun             .         .         .         open      stopping  finished
ReminderSent              .         .         .         open      stopping  finished
RunFinished               .         .         .         finished  finished  .
SessionForked             .         .         .         open      stopping  finished
ForkTaken                 .         .         .         open      stopping  finished
RuleUsed                  .         .         .         open      stopping  finished
MessageReceived           .         .         .         open      stopping  finished
MessageSent               .         .         .         open      stopping  .
MessageShown              .         .         .         open      stopping  finished
WordHeard                 .         .         .         open      stopping  finished
MessageUndelivered        .         .         .         open      stopping  .
UsageSpent                .         .         .         open      stopping  finished
BudgetRaised              .         .         .         open      .         finished
BudgetNoticed             .         .         .         open      stopping  .
BudgetAnswered            .         .         .         open      .         .
JobStarted                .         .         .         open      stopping  .
JobEnded                  .         .         .         open      stopping  finished
ImportStarted             .         imported  .         .         .         .
MessageImported           .         .         imported  .         .         .
ImportFinished            .         .         finished  .         .         .
"""

WAYS = {
    "-": [],
    "requested": ["ToolCallRequested"],
    "asked": ["ToolCallRequested.asking"],
    "approved": ["ToolCallRequested.asking", "ApprovalDecided.approve"],
    "denied": ["ToolCallRequested.asking", "ApprovalDecided.deny"],
    "withdrawn": ["ToolCallRequested.asking", "ApprovalWithdrawn"],
    "expired": ["ToolCallRequested.asking", "ApprovalExpired"],
    "posed": ["QuestionAsked"],
    "settled": ["QuestionAsked", "QuestionAnswered"],
    "executing": ["ToolCallRequested", "ToolCallStarted"],
    "waiting": ["OperationStarted"],
    "finished": ["OperationFinished"],
    "abandoned": ["ToolCallRequested", "OperationAbandoned"],
}
"""How an operation gets into each of its states."""


def cells(text):
    """Read a table: {(state, symbol): next state}, every symbol in every state and in the final states."""
    found, states = {}, {}
    for part in text.strip("\n").split("\n\n"):
        header, *rows = part.splitlines()
        states |= dict.fromkeys(header.split())
        for name, *next_states in (row.split() for row in rows):
            found |= {(state, name): to for state, to in zip(header.split(), next_states, strict=True)}
    ends = {to for to in found.values() if to != "."} - {*states}
    return {(state, name): found.get((state, name), ".") for state in (*states, *sorted(ends)) for name in SYMBOLS}


@pytest.mark.parametrize(
    ("rules", "text"),
    [(OPERATION, OPERATION_CELLS), (APPROVAL, APPROVAL_CELLS), (RUN, RUN_CELLS)],
    ids=["operation", "approval", "run"],
)
def test_every_cell_of_a_table_is_as_written_here(rules, text):
    """Legal events advance; every other one raises."""
    visited = cells(text)
    for (state, name), to in visited.items():
        if to == ".":
            with pytest.raises(IllegalEvent):
                advance(rules, state.strip("-"), event_of(name))
        else:
            assert advance(rules, state.strip("-"), event_of(name)) == to
    assert {state or "-" for state, _ in rules} | {*rules.values()} == {state for state, _ in visited}


ON_OPERATIONS = [
    (*cell, to) for cell, to in cells(OPERATION_CELLS).items() if cell[1] in {name for _, name in OPERATION}
]


@pytest.mark.parametrize(("state", "name", "to"), ON_OPERATIONS)
def test_an_operation_follows_its_table_or_does_not_change(state, name, to):
    """An illegal event raises, and changes nothing of the session."""
    session, before = replay_journal("s", story(*WAYS[state])), replay_journal("s", story(*WAYS[state]))
    if to == ".":
        with pytest.raises(IllegalEvent):
            session.apply(event_of(name))
        assert session == before
    else:
        if name == "OperationRecalled":  # legal for an operation that a restart has kept, with its result
            session = replay_journal("s", story("OperationFinished", event_of("RunRestarted", kept=CALLS[:1])))
        session.apply(event_of(name))
        assert session.operations[CALLS[0]].state == to


def test_every_event_has_its_place_in_the_table_of_runs():
    """An event that no run accepts would never be written."""
    of_the_store = {"RuleAdded", "RuleRevoked", "CommandRefused"}  # journals of the store itself, of no session
    of_the_store |= {"ScheduleAdded", "ScheduleChanged", "ScheduleDisputed", "ScheduleHandled", "DeliveryPruned"}
    assert {name for _, name in RUN} == {*SYMBOLS} - of_the_store
    assert {symbol(event_of(name)) for name in SYMBOLS} == {*SYMBOLS}
    assert {type(event_of(name)) for name in SYMBOLS} == {*EVENTS}


@pytest.mark.parametrize(
    ("table", "ends"),
    [(OPERATION, {"finished", "abandoned"}), (APPROVAL, {"approved", "denied", "answered", "expired", "withdrawn"})],
    ids=["operation", "approval"],
)
def test_no_event_leaves_a_final_state(table, ends):
    """A call has exactly one result, and an approval one answer (T1, A3)."""
    assert {*table.values()} - {state for state, _ in table} == ends


@pytest.mark.parametrize("table", [OPERATION, APPROVAL, RUN], ids=["operation", "approval", "run"])
def test_every_state_can_be_reached(table):
    """A state that no event leads to is a mistake."""
    reached = {""}
    while more := {to for (state, _), to in table.items() if state in reached} - reached:
        reached |= more
    assert {state for state, _ in table} <= reached


@pytest.mark.parametrize("name", SYMBOLS)
def test_an_event_outside_the_table_does_not_change_an_approvals_status(name):
    """When a person has answered, no later event of the call changes the answer."""
    assert PENDING.apply(event_of(name)).status == APPROVAL.get(("pending", name), "pending")
    assert ApprovalState("denied").apply(event_of(name)).status == "denied"


@pytest.mark.parametrize(
    "event",
    [
        event_of("ToolCallRequested.asking", CALLS[1]),
        event_of("ApprovalDecided.approve"),
        event_of("RunPassivated"),
        event_of("AttemptStarted"),
    ],
    ids=symbol,
)
def test_a_run_that_was_told_to_stop_neither_asks_nor_sleeps(event):
    """W8: these events are legal before the cancel, and not after it."""
    replay_journal("s", story("ToolCallRequested.asking", event))
    with pytest.raises(IllegalEvent):
        replay_journal("s", story("ToolCallRequested.asking", "CancelRequested")).apply(event)


def test_an_unknown_event_is_illegal_everywhere():
    """An event that the tables do not have raises; it is never ignored."""

    class Rumour(e.Event, frozen=True, kw_only=True):
        pass

    with pytest.raises(IllegalEvent):
        replay_journal("s", story()).apply(Rumour(at=AT))
