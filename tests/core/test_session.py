"""The fold, over journals that hypothesis generates: the live state always equals the replayed state."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from journals import AT, CALLS, CHILDREN, EVENTS, POSSIBLE, QUESTION, event_of, events_of, is_legal, journals, story

from supervisor.core import events as e
from supervisor.core.approvals.state import asked_by
from supervisor.core.errors import IllegalEvent, StoreUnreadable
from supervisor.core.events import symbol
from supervisor.core.sessions.machine import OPERATION, RUN
from supervisor.core.sessions.state import SessionState, replay_journal

FEW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def is_lawful(events, event, state):
    """Return whether an event may follow, by the tables and by the existing children."""
    if (state.phase, symbol(event)) not in RUN:
        return False
    if (message := getattr(event, "message", None)) and not isinstance(event, e.MessageReceived):
        told = [isinstance(other, e.MessageReceived) for other in events if getattr(other, "message", None) == message]
        if not told or not told[-1]:
            return False
    if isinstance(event, e.ChildEnded):
        lives = [other for other in of_this_run(events) if getattr(other, "child", None) == event.child]
        return bool(lives) and not any(isinstance(other, e.ChildEnded) for other in lives)
    if isinstance(event, (e.JobStarted, e.JobEnded)):
        lives = [type(other) for other in events if getattr(other, "job", None) == event.job]
        return lives == ([] if isinstance(event, e.JobStarted) else [e.JobStarted])
    if isinstance(event, e.StateSaved):
        return not any(is_forgotten(call, event) and state.operations[call].is_open for call in calls_of(state))
    if isinstance(event, e.RunRestarted):
        aside = [state.operations.get(name) for name in (*event.forgotten, *event.kept)]
        timers = [state.operations.get(name) for name in event.reopened]
        may_be_put_aside = all(record is not None and record.state not in ("asked", "executing") for record in aside)
        return may_be_put_aside and all(
            timer is not None and timer.request is not None and timer.kind in ("sleep", "timer") for timer in timers
        )
    if symbol(event) not in {name for _, name in OPERATION}:
        return True
    is_kept = event.operation in state.kept and event.operation not in state.operations
    if is_kept is not isinstance(event, e.OperationRecalled):
        return False
    record = state.operations.get(event.operation)
    return ("" if record is None else record.state, symbol(event)) in OPERATION


def of_this_run(events):
    """Return the events of the session's latest run, which has its own operations."""
    starts = [place for place, event in enumerate(events) if isinstance(event, e.RunStarted)]
    return events[starts[-1] :] if starts else []


DECIDING = (e.ApprovalDecided, e.QuestionAnswered, e.ApprovalExpired)


def calls_of(state):
    """Return the operations about which a person may be asked: calls and questions."""
    return [operation for operation, record in state.operations.items() if record.kind in ("call", "ask")]


def is_forgotten(operation, saved):
    """Return whether this operation is before a save, by the counts of the save."""
    key, _, count = operation.rpartition("#")
    return int(count) <= saved.counts.get(key, 0)


@FEW
@given(journals())
def test_an_event_is_applied_if_the_tables_allow_it_and_else_changes_nothing(events):
    """After a refusal each field of the state is as before."""
    before = replay_journal("s", events)
    for event in POSSIBLE:
        state = before.draft()
        if is_lawful(events, event, before):
            state.apply(event)
            assert state.length == len(events) + 1
        else:
            with pytest.raises(IllegalEvent):
                state.apply(event)
            assert state == before


@FEW
@given(journals())
def test_live_state_equals_replayed_state_after_every_event(events):
    """Also if the events come from disk."""
    live = SessionState(id="s")
    for length, event in enumerate(events, start=1):
        live.apply(event)
        from_disk = [e.decode_event(e.encode_event(event)) for event in events[:length]]
        assert live == replay_journal("s", from_disk)


@FEW
@given(
    journals(), st.dictionaries(st.sampled_from(["call:t:0", "ask:which:0", "step:f:0", "timer::0"]), st.integers(0, 3))
)
def test_a_save_forgets_exactly_what_its_counts_say(events, counts):
    """Later operations, and those that wait for a result, are kept in the same order; the rest of the state, too."""
    state, saved = replay_journal("s", events), event_of("StateSaved", counts=counts, state=msgspec.Raw(b"[8]"))
    if not is_lawful(events, saved, state):
        return
    kept = {operation: record for operation, record in state.operations.items() if not is_forgotten(operation, saved)}
    order = [operation for operation in state.order if operation in kept]
    expected = msgspec.structs.replace(
        state,
        operations=kept,
        order=order,
        kept={operation: at for operation, at in state.kept.items() if not is_forgotten(operation, saved)},
        saved=msgspec.Raw(b"[8]"),
        counts=counts,
        saves=state.saves + 1,
        length=state.length + 1,
        barren=0,
    )
    state.apply(saved)
    assert state == expected


@FEW
@given(journals(max_size=15), st.lists(st.sampled_from(POSSIBLE), max_size=12))
def test_a_run_is_asleep_until_one_of_its_answers_comes_or_it_is_woken_or_told_to_end(events, happening):
    """Cards, reminders and answers to other operations leave it asleep, also after a restart."""
    state = replay_journal("s", events)
    waiting_for = state.waiting_for
    for event in happening:
        if not is_legal(state, event):
            continue
        state.apply(event)
        is_woken = isinstance(event, (e.AttemptStarted, e.CancelRequested, e.RunFinished, e.SessionForked))
        is_woken |= isinstance(event, DECIDING) and event.operation in (waiting_for or ())
        is_woken |= isinstance(event, e.ChildEnded) and event.child in (waiting_for or ())
        is_woken |= isinstance(event, e.MessageReceived) and e.MESSAGE in (waiting_for or ())
        if isinstance(event, e.RunPassivated | e.RunRestarted):
            waiting_for = getattr(event, "waiting_for", ())  # in a back-off it waits for time only
        elif is_woken:
            waiting_for = None
        assert state.waiting_for == waiting_for


def is_pending(approval):
    return approval is not None and approval.status == "pending"


@FEW
@given(journals())
def test_an_approval_is_pending_exactly_while_its_call_or_question_is_asked(events):
    """The table by which stores keep their index, and the fold, never contradict each other."""
    asked = (*CALLS, QUESTION)
    status, saves = dict.fromkeys(asked), 0
    for length, event in enumerate(events, start=1):
        if isinstance(event, e.RunStarted):
            status = dict.fromkeys(asked)
        elif (operation := getattr(event, "operation", None)) in status:
            before = status[operation]
            status[operation] = asked_by(event) if before is None else before.apply(event)
        state = replay_journal("s", events[:length])
        saves += isinstance(event, e.StateSaved)
        pending = [(operation, f"approval of {operation}") for operation in asked if is_pending(status[operation])]
        assert saves or sorted(state.pending_approvals()) == sorted(pending)


@FEW
@given(journals())
def test_results_are_in_the_order_of_the_journal(events):
    """The replay order is computed from `order` and `answered`. That an operation was abandoned is a result, too."""
    state = replay_journal("s", events)
    places = [state.operations[operation].answered for operation in state.order]
    assert places == sorted(places)
    assert {*state.order} == {name for name, record in state.operations.items() if not record.is_open}
    assert all(events[record.begun].operation == name for name, record in state.operations.items())


@pytest.mark.parametrize("type_", EVENTS, ids=lambda type_: type_.__name__)
def test_an_event_is_read_from_disk_as_it_was_written(type_):
    """For all values of its fields; raw JSON keeps each byte."""

    @settings(deadline=None, max_examples=15)
    @given(events_of(type_))
    def round_trips(event):
        assert e.decode_event(e.encode_event(event)) == event

    round_trips()


@pytest.mark.parametrize(
    "body",
    [
        b'{"event":"RunTeleported","at":"2026-01-01T12:00:00Z"}',
        b'{"event":"AttemptSettled"}',
        b'{"at":"2026-01-01T12:00:00Z"}',
        b'{"event":"AttemptSettled","at":"yesterday"}',
        b'{"event":"AttemptSettled","at":"2026-01-01T12',
        b"",
    ],
    ids=["unknown", "a field is missing", "no tag", "a wrong value", "torn", "empty"],
)
def test_an_entry_that_this_program_does_not_know_is_refused(body):
    """A newer program wrote it, or it is damaged: nothing is guessed (A5)."""
    with pytest.raises(StoreUnreadable):
        e.decode_event(body)


def test_a_journal_that_contradicts_itself_is_refused_as_damaged():
    """An entry is missing in its middle: that session is not run, and others are (R1)."""
    with pytest.raises(StoreUnreadable):
        replay_journal("s", story("ToolCallStarted"))


@pytest.mark.parametrize("name", ["ApprovalDecided.approve", "ApprovalDecided.deny", "ApprovalWithdrawn"])
def test_an_answer_to_another_approval_does_not_count_for_this_one(name):
    """A2: an answer names its approval."""
    state = replay_journal("s", story("ToolCallRequested.asking"))
    with pytest.raises(IllegalEvent):
        state.apply(event_of(name, approval="another"))
    assert state == replay_journal("s", story("ToolCallRequested.asking"))


def test_a_save_does_not_forget_a_call_that_has_no_result():
    """T1: a forgotten call could never get its one result."""
    state = replay_journal("s", story("ToolCallRequested.asking"))
    with pytest.raises(IllegalEvent):
        state.apply(event_of("StateSaved", counts={"call:t:0": 1}))
    assert state == replay_journal("s", story("ToolCallRequested.asking"))


def test_attempts_that_append_nothing_are_counted_and_anything_else_ends_the_count():
    """R5: this count bounds a crash loop."""
    barren = replay_journal("s", story("AttemptStarted", "AttemptStarted", "AttemptStarted"))
    barren.apply(event_of("ForkTaken"))
    assert (barren.barren, barren.attempts) == (3, 3)
    barren.apply(event_of("AttemptSettled"))
    assert (barren.barren, barren.attempts) == (0, 3)


def test_edited_arguments_are_those_that_run():
    """A8: they replace all of the call's arguments."""
    edit = event_of("ApprovalDecided.approve", arguments=msgspec.Raw(b'{"n":2}'))
    asked = [event_of("ToolCallRequested.asking", arguments=msgspec.Raw(b'{"n":1}'))]
    assert (
        bytes(replay_journal("s", story(*asked, "ApprovalDecided.approve")).operations[CALLS[0]].arguments)
        == b'{"n":1}'
    )
    assert bytes(replay_journal("s", story(*asked, edit)).operations[CALLS[0]].arguments) == b'{"n":2}'


def test_a_child_is_open_from_its_spawn_to_its_outcome():
    """W9: its parent learns of it once."""
    (spawn, child), _ = CHILDREN.items()
    state = replay_journal("s", story(event_of("OperationFinished", spawn, kind="spawn", child=child)))
    assert (state.open_children, state.is_answered(child)) == ([child], False)
    state.apply(event_of("ChildEnded", child=child))
    assert (state.open_children, state.is_answered(child)) == ([], True)
    with pytest.raises(IllegalEvent):
        state.apply(event_of("ChildEnded", child=child))


@pytest.mark.parametrize("taken_by", ["receive", "turn"])
def test_a_message_leaves_the_inbox_once(taken_by):
    """R7: to a receive or to the turn that it begins, never to both; and only a message that was sent."""
    takes = {
        "receive": [event_of("OperationFinished", "receive::0#1", kind="receive", message="message1"), "RunFinished"],
        "turn": ["RunFinished", event_of("RunStarted", message="message1"), "RunFinished"],
    }
    state = replay_journal("s", story("MessageReceived", *takes[taken_by]))
    with pytest.raises(IllegalEvent):
        state.apply(event_of("RunStarted", message="message1"))
    assert (state.inbox, state.is_open) == ({}, False)


def test_a_turn_begins_without_operations_and_keeps_unreceived_messages():
    """The agent does not ask again for the operations of the run before."""
    spoken = [event_of("MessageReceived", message=message) for message in ("message1", "message2")]
    turn = event_of("RunStarted", message="message1", input=msgspec.Raw(b'"go on"'))
    state = replay_journal("s", story(*spoken, "OperationFinished", "StateSaved", "RunFinished", turn))
    assert (state.runs, bytes(state.input), [*state.inbox]) == (2, b'"go on"', ["message2"])
    assert (state.operations, state.order, state.saved, state.counts, state.outcome) == ({}, [], None, {}, None)


@pytest.mark.parametrize(
    ("event", "key"),
    [
        ("ApprovalDecided.deny", CALLS[0]),
        ("ChildEnded", "child1"),
        ("MessageReceived", e.MESSAGE),
        ("CardPosted", None),
        ("ApprovalWithdrawn", None),
    ],
)
def test_a_waiting_run_knows_an_answer_by_its_key(event, key):
    """Cards and withdrawals wake no run."""
    assert e.answers(event_of(event)) == key


def test_a_session_without_a_beginning_raises():
    """Nothing is invented for a missing entry."""
    with pytest.raises(IllegalEvent):
        _ = SessionState(id="s").facts
    assert replay_journal("s", story()).facts.at == AT
