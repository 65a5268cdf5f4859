"""Timelines say what a run did when, from its journal alone, and where its watchdog stood still."""

import itertools
from datetime import timedelta

from hypothesis import given, strategies as st
from msgspec import Raw
from page_facts import NOW, approved, asked, at, began, done, ended, executing, finished, rows

from supervisor.channels.web.pages.timeline import LABEL, WIDTH, Interval, Lane, draw, lane
from supervisor.core import events as e


def told(*events: e.AnyEvent) -> list[tuple[tuple[str, ...], float]]:
    """What a run did, and for how many seconds."""
    found = lane("s", rows(*events), at(100)).intervals
    return [(each.kinds, (each.end - each.start).total_seconds()) for each in found]


def test_a_call_that_waits_for_a_person_and_then_runs():
    """Active, waiting for a person, waiting for its turn, running, active: and only `active` counts."""
    events = [*began(), asked(5), approved(30), executing(31), finished(40), ended(41)]
    assert told(*events) == [(("active",), 5), (("person",), 25), (("active",), 1), (("tool",), 9), (("active",), 1)]
    paused = [each.is_paused for each in lane("s", rows(*events), NOW).intervals]
    assert paused == [False, True, False, True, False]


@given(st.lists(st.floats(0.001, 10_000), min_size=2, max_size=30))
def test_no_name_on_the_axis_lies_over_another_or_says_the_same(lengths):
    """On a phone as on a screen: names of shortened stretches have room, and no second is named twice."""
    ends = list(itertools.accumulate(lengths))
    kinds = itertools.cycle([("active",), ("person",)])
    spans = zip([0.0, *ends], ends, kinds, strict=False)
    intervals = tuple(Interval(kinds=kind, start=at(start), end=at(end)) for start, end, kind in spans)
    drawn = draw([Lane(session="s", path=("a",), intervals=intervals)])
    names = [x for x, _ in drawn.labels]
    assert all(right - left >= LABEL for left, right in itertools.pairwise(names))
    assert bool(drawn.labels) == bool(drawn.cuts)
    seconds = [f"{tick.at:%H:%M:%S}" for tick in drawn.ticks]
    assert all(one != other for one, other in itertools.pairwise(seconds))


def test_two_things_at_once_are_both_told():
    """A pending approval hides no call that runs at the same time (W4)."""
    other = "call:make:2#1"
    events = [*began(), asked(1), executing(2, other), finished(4, other), approved(6), ended(6)]
    assert told(*events)[1:4] == [(("person",), 1), (("tool", "person"), 2), (("person",), 2)]


def test_a_wait_that_the_journal_knows_by_its_end_is_read_back():
    """From the last progress on, it waited for the sub-agent whose outcome was delivered."""
    spawned = done(2, "spawn", child="c")
    child_ended = e.ChildEnded(at=at(50), child="c", kind="succeeded")
    said = e.MessageReceived(at=at(20), message="m", text="hello", by="ana")
    events = [*began(), spawned, said, child_ended, done(51, "outcome", child="c"), ended(60)]
    assert told(*events) == [(("active",), 2), (("child",), 49), (("active",), 9)]


def test_a_step_during_a_sub_agent_is_activity_and_a_silent_run_waits_for_it():
    """A run that works while a sub-agent works, works; a silent one waits for it."""
    spawned = done(2, "spawn", child="c")
    assert told(*began(), spawned, done(30, "step")) == [(("active",), 30), (("child",), 70)]
    left = e.RunPassivated(at=at(60), waiting_for=(e.MESSAGE,))
    assert told(*began(), done(2, "step"), left) == [(("active",), 2), (("message",), 58), (("message",), 40)]


def test_a_run_that_left_memory_still_waits_for_the_same():
    """Passivated, for whatever it named; the wake-up ends it."""
    slept = [e.RunPassivated(at=at(65), waiting_for=("call:shell:1#1",)), approved(80)]
    awake = e.AttemptStarted(at=at(81), host="box", pid=2)
    found = lane("s", rows(*began(), asked(5), *slept, awake, ended(90)), NOW).intervals
    assert [(each.kinds, each.is_asleep) for each in found][1:3] == [(("person",), False), (("person",), True)]
    decided_and_nobody_there = told(*began(), asked(5), *slept)[-1]
    assert decided_and_nobody_there == (("away",), 20)


def test_a_back_off_is_a_timer_in_which_nothing_runs():
    """Between two attempts of a restarted run; what its children do meanwhile is on their lanes."""
    again = e.RunRestarted(at=at(10), kind="failed", cause="no", number=1, due_at=at(40))
    events = [*began(), again, e.AttemptStarted(at=at(40), host="box", pid=2), ended(45)]
    found = lane("s", rows(*events), NOW).intervals
    assert [(each.kinds, each.is_asleep) for each in found][1] == (("timer",), True)
    assert told(*events) == [(("active",), 10), (("timer",), 30), (("active",), 5)]


def test_a_process_that_died_is_no_activity():
    """The journal does not say when an attempt died, so the time after its last entry counts as without a process."""
    again = e.AttemptStarted(at=at(50), host="box", pid=2)
    assert told(*began(), done(10, "step"), again, ended(60)) == [(("active",), 10), (("away",), 40), (("active",), 10)]


def test_an_open_interval_ends_now_and_a_conversation_is_idle_between_turns():
    """An open wait grows; a finished run does not."""
    assert told(*began(), asked(5))[-1] == (("person",), 95)
    message = e.MessageReceived(at=at(40), message="m", text="more", by="ana")
    turn = e.RunStarted(at=at(40), input=Raw(b'"more"'), message="m")
    assert told(*began(), ended(10), message, turn)[1] == (("rest",), 30)
    assert told(*began(), ended(10)) == [(("active",), 10)]


MAKERS = {
    "ask": asked,
    "approve": approved,
    "run": executing,
    "end": finished,
    "sleep": lambda now: e.OperationStarted(at=at(now), operation="sleep::1#1", kind="sleep", due_at=at(now)),
    "away": lambda now: e.AttemptStarted(at=at(now), host="box", pid=2),
    "spawn": lambda now: done(now, "spawn", child="c"),
    "step": lambda now: done(now, "step"),
}
steps = st.lists(st.tuples(st.floats(0, 1e6), st.sampled_from(list(MAKERS))))


@given(steps, st.integers(1, 3))
def test_a_lane_has_no_holes_and_no_overlaps_and_is_drawn_inside_its_width(steps, lanes):
    """Whatever a journal says, every instant is told once, and every bar can be seen."""
    events, now = began(), 0.0
    for length, what in steps:
        now += length
        events.append(MAKERS[what](now))
    made = [lane("s", rows(*events[: len(events) // (n + 1) + 3]), at(now + 1)) for n in range(lanes)]
    for each in made:
        ends = [at(0), *(interval.end for interval in each.intervals)]
        assert [interval.start for interval in each.intervals] == ends[:-1]
        assert ends[-1] == at(now + 1)
    for _, bars in draw(made).lanes:
        for bar in bars:
            assert -0.01 <= bar.x <= bar.x + bar.width <= WIDTH + 0.05
            assert bar.width > 0


def test_a_long_quiet_stretch_is_shortened_and_said():
    """Two days of waiting do not squeeze the ten seconds around them out of sight."""
    events = [*began(), asked(5), approved(172805), executing(172806), finished(172812), ended(172815)]
    drawn = draw([lane("s", rows(*events), NOW)])
    ((_, bars),) = drawn.lanes
    assert bars[0].width > 5
    ((_, length),) = drawn.cuts
    assert length == timedelta(days=2)


def test_an_empty_tree_is_an_empty_timeline():
    """Nothing has happened yet: nothing is drawn, and nothing fails."""
    assert draw([Lane(session="s", path=(), intervals=())]).ticks == ()
