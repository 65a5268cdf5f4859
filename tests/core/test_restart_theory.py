"""Restarts: which failures another attempt repairs, what it forgets, and when it begins."""

from datetime import timedelta

import pytest
from journals import AT, CALLS, event_of, story
from msgspec import Raw

from supervisor import agent
from supervisor.core.errors import RunFailed, StepFailed
from supervisor.core.sessions.restarts import Ended, failed_steps, next_restart
from supervisor.core.sessions.state import replay_journal

STEPS = ("step:f:0#1", "step:f:0#2", "step:g:0#1")


@agent(restart="transient", max_restarts=2, restart_period=100, restart_delay=4, max_restart_delay=6)
async def transient(ctx) -> None: ...


def failure(step=STEPS[0]):
    return StepFailed(step, "f", "ValueError", "no")


def raised(act):
    try:
        act()
    except Exception as error:
        return error


def wrapped(how):
    try:
        raise failure()
    except StepFailed as error:
        if how == "cause":
            raise ValueError from error
        if how == "context":
            raise ValueError  # noqa: B904 # its context is the failure
        raise ValueError from None


@pytest.mark.parametrize(
    ("error", "steps"),
    [
        (failure(), {STEPS[0]}),
        (raised(lambda: wrapped("cause")), {STEPS[0]}),
        (raised(lambda: wrapped("context")), {STEPS[0]}),
        (raised(lambda: wrapped("none")), set()),
        (ExceptionGroup("two", [failure(), ExceptionGroup("more", [failure(STEPS[1])])]), {*STEPS[:2]}),
        (RunFailed("failed", "StepFailed: of a child"), set()),
        (None, set()),
    ],
    ids=["itself", "cause", "context", "from None", "groups", "a child's", "nothing"],
)
def test_failed_steps_are_found_in_the_chain_of_an_exception(error, steps):
    """The same chain as in a traceback; an exception raised `from None` is not linked to the one being handled."""
    assert failed_steps(error) == steps


def ended(*failed):
    return Ended(kind="failed", cause="no", failed=frozenset(failed))


def failed_at(*steps):
    return [event_of("OperationFinished", step, error=("E", "no"), given=n) for n, step in enumerate(steps)]


def test_operations_before_the_first_failure_stay_and_later_ones_do_not():
    """Of several failures the first that was answered counts."""
    before, between, after = (event_of("ToolCallRequested", name, given=n) for n, name in enumerate(CALLS))
    first, second = failed_at(*STEPS[:2])
    finished = [event_of("ToolCallFinished", name) for name in CALLS]
    state = replay_journal("s", story(before, first, between, second, after, *finished))
    event, _ = next_restart(state, transient, ended(*STEPS[:2]), AT, 0.0)
    assert {*event.forgotten} == {*STEPS[:2]}
    assert {*event.kept} == {*CALLS[1:]}
    state.apply(event)
    assert state.order == [CALLS[0]]


def test_a_question_that_was_answered_after_the_failure_stays_answered():
    """No person is asked twice: neither if the agent was not given the answer yet, nor if the answer is pending."""
    asked = [event_of("QuestionAsked", f"ask:{which}:0#1", given=1) for which in "ab"]
    state = replay_journal("s", story(*failed_at(STEPS[0]), *asked, event_of("QuestionAnswered", "ask:a:0#1")))
    event, _ = next_restart(state, transient, ended(STEPS[0]), AT, 0.0)
    assert (event.forgotten, event.kept) == ((STEPS[0],), ())


def test_after_a_stall_only_the_steps_are_forgotten_that_failed_by_being_stopped():
    """The agent is given earlier failures again; its path after them depends on them."""
    events = [*failed_at(STEPS[0]), event_of("ToolCallRequested", given=1), event_of("ToolCallFinished")]
    state = replay_journal("s", story(*events))
    stopped_at = state.length
    state.apply(event_of("OperationFinished", STEPS[1], error=("Cancelled", "stopped"), given=2))
    event, _ = next_restart(state, transient, Ended(kind="stalled", cause="silence", stopped_at=stopped_at), AT, 0.0)
    assert (event.forgotten, event.kept) == ((STEPS[1],), ())


def test_operations_without_effects_begin_anew_after_the_failure():
    """Timers, `now` and `random`: their results belonged to a run that had failed."""
    late = [event_of("OperationFinished", f"{kind}::0#1", kind=kind, given=1) for kind in ("now", "send", "random")]
    state = replay_journal("s", story(*failed_at(STEPS[0]), *late))
    event, _ = next_restart(state, transient, ended(STEPS[0]), AT, 0.0)
    assert event.kept == ("send::0#1",)


@pytest.mark.parametrize("end", ["OperationAbandoned", "OperationFinished"])
def test_a_timer_that_began_before_the_failure_and_ended_after_it_is_open_again(end):
    """Operations in its block stay, and are reached through the timer only; it keeps its due instant."""
    left = {"value": Raw(b"false")} if end == "OperationFinished" else {}
    timers = [event_of("OperationStarted", f"timer::0#{n}", kind="timer", given=n) for n in (0, 1)]
    ends = [event_of(end, f"timer::0#{n}", kind="timer", **left) for n in (0, 1)]
    state = replay_journal("s", story(timers[0], *failed_at(STEPS[0]), timers[1], *ends))
    event, _ = next_restart(state, transient, ended(STEPS[0]), AT, 0.0)
    assert event.reopened == ("timer::0#0",)
    assert {*event.forgotten} == {STEPS[0], "timer::0#1"}
    state.apply(event)
    assert state.order == []
    assert state.timers == [(event.due_at, event.at)]
    state.apply(event_of("AttemptStarted"))
    assert min(state.timers)[0] == timers[0].due_at


def test_restarts_within_the_period_are_counted_and_each_waits_longer():
    """At most two in a hundred seconds; the delay doubles up to its bound, and chance takes off up to half of it."""
    state = replay_journal("s", story(*failed_at(STEPS[0])))
    delays, now = [], AT
    for chance in (0.0, 1.0, 1.0):
        event, _ = next_restart(state, transient, ended(STEPS[0]), now, chance)
        if event is not None:
            delays.append((event.due_at - now).total_seconds())
            state.apply(event)
            state.apply(failed_at(STEPS[0])[0])
            now += timedelta(seconds=20)
    assert delays == [2.0, 6.0]
    event, _ = next_restart(state, transient, ended(STEPS[0]), AT + timedelta(seconds=101), 1.0)
    assert (event.due_at - event.at).total_seconds() == 6.0  # the second one is still in the period
    assert event.number == 3


def test_the_delay_is_finite_after_any_number_of_restarts():
    """An agent with large limits may be restarted thousands of times in its period."""
    patient = agent(restart="transient", max_restarts=5000, restart_period=1e9)(transient.fn)
    state = replay_journal("s", story(*failed_at(STEPS[0])))
    state.restarts = (AT,) * 2000
    event, _ = next_restart(state, patient, ended(STEPS[0]), AT, 1.0)
    assert (event.due_at - AT).total_seconds() == patient.max_restart_delay


@pytest.mark.parametrize(
    "limits",
    [
        {"restart": "always"},
        {"max_restarts": -1},
        {"restart_delay": 0},
        {"restart_period": 7.0},
        {"max_restarts": 9, "restart_delay": 20},
    ],
    ids=str,
)
def test_limits_that_never_end_or_make_no_sense_are_refused_in_the_declaration(limits):
    """Delays that fill the period would let it restart for ever."""
    with pytest.raises(ValueError):
        agent(**{"restart": "transient", **limits})(transient.fn)
