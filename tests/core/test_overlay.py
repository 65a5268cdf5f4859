"""Drafts of a session, which have changes only, compared with full copies and with a replay of the journal."""

import sys

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from journals import POSSIBLE, event_of, journals

from supervisor.core.errors import IllegalEvent
from supervisor.core.sessions import overlay
from supervisor.core.sessions.overlay import ListOverlay, MapOverlay
from supervisor.core.sessions.state import replay_journal
from supervisor.testing import replaced

FEW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
GROWING = ("operations", "order", "children", "inbox", "kept", "jobs")
PLANS = st.lists(st.sampled_from(POSSIBLE), min_size=1, max_size=5)
BATCHES = st.lists(
    st.tuples(st.lists(PLANS, min_size=1, max_size=3), st.sampled_from(["landed", "refused"])), max_size=6
)


@pytest.fixture(params=["overlaid", "copied"], scope="module", autouse=True)
def drafts(request):
    """Overlay even the small sessions of these tests."""
    with replaced(overlay, "SMALL", -1 if request.param == "overlaid" else overlay.SMALL):
        yield request.param


def full_copy(state):
    """Return a copy that shares no map and no list with a state."""
    held = {name: dict(getattr(state, name)) for name in GROWING if name != "order"}
    return msgspec.structs.replace(state, order=[*state.order], **held)


def take(state, events):
    """Apply a plan's events; return those before a refusal, and whether there was one."""
    for place, event in enumerate(events):
        try:
            state.apply(event)
        except IllegalEvent:
            return events[:place], True
    return events, False


def assert_same(state, other):
    """Assert that they are equal, read and iterate alike, and have equal lengths."""
    assert state == other
    for name in GROWING:
        ours, theirs = getattr(state, name), getattr(other, name)
        assert [*ours] == [*theirs]
        assert len(ours) == len(theirs)
    assert [state.order[place] for place in range(len(state.order))] == [*other.order]
    assert [*state.operations.items()] == [*other.operations.items()]
    assert all(name in state.operations for name in other.operations)
    assert state.live_children == len(other.open_children)


@FEW
@given(journals(), BATCHES)
def test_a_draft_equals_a_full_copy_and_changes_nothing_before_it_lands(events, batches):
    """A3, A5: also if a plan is refused half-way, or the store refuses the commit."""
    live = replay_journal("s", events)
    for plans, becomes in batches:
        before, draft, copied, taken = full_copy(live), live.draft(), full_copy(live), []
        for plan in plans:
            done, is_refused = take(draft, plan)
            assert take(copied, plan) == (done, is_refused)
            if is_refused:  # the batch goes on without this plan
                draft, copied = live.draft(), full_copy(live)
                assert (take(draft, taken), take(copied, taken)) == ((taken, False), (taken, False))
            else:
                taken = [*taken, *done]
            assert_same(draft, copied)
            assert_same(live, before)
        if becomes == "landed":
            draft.land()
            live, events = draft, [*events, *taken]
        assert_same(live, replay_journal("s", events))


@FEW
@given(journals(), PLANS, PLANS)
def test_a_draft_that_has_landed_has_plain_maps_and_accepts_later_events(events, plan, notes):
    """The live state is mostly read; deferred entries, and entries of other processes, are applied to it."""
    live = replay_journal("s", events).draft()
    events = [*events, *(event for event in plan if take(live, [event])[0])]
    live.land()
    assert not any(isinstance(getattr(live, name), MapOverlay | ListOverlay) for name in GROWING)
    events += [event for event in notes if take(live, [event])[0]]
    assert_same(live, replay_journal("s", events))


BEGINNING = [event_of(name) for name in ("SessionCreated", "RunStarted", "JobStarted")]
KEYS = st.integers(0, 4)
CHANGES = st.lists(st.tuples(st.sampled_from(["set", "delete", "setdefault", "pop"]), KEYS, st.integers()), max_size=12)


@FEW
@given(st.dictionaries(KEYS, st.integers()), CHANGES)
def test_an_overlay_over_a_map_is_a_changed_copy_in_the_same_order(base, changes):
    """A key that is set again keeps its place; a key that was removed in between is at the end."""
    before, overlay, copied = [*base.items()], MapOverlay(base), base.copy()
    for what, key, value in changes:
        for changed in (overlay, copied):
            if what == "set":
                changed[key] = value
            elif what == "setdefault":
                changed.setdefault(key, value)
            elif key in changed:
                changed.pop(key) if what == "pop" else changed.__delitem__(key)
        assert [*overlay.items()] == [*copied.items()]
        assert len(overlay) == len(copied)
        assert [overlay.get(each) for each in range(5)] == [copied.get(each) for each in range(5)]
        assert [*base.items()] == before
    assert overlay.merge() is base
    assert [*base.items()] == [*copied.items()]


def count_calls(work):
    """Return how many functions a piece of work calls."""
    calls = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, what, arg: calls.append(what) if what in ("call", "c_call") else None)
    try:
        work()
    finally:
        sys.setprofile(before)
    return len(calls)


def test_a_draft_of_a_short_session_is_made_and_lands_without_a_call_for_each_map(drafts):
    """Every commit does so. A long session has an overlay for each map that is not empty, also of its jobs."""
    started = event_of("JobStarted")
    few, many = replay_journal("s", BEGINNING), replay_journal("s", BEGINNING)
    for number in range(60):
        many.apply(msgspec.structs.replace(started, job=str(number)))
    draft = many.draft()
    assert isinstance(draft.jobs, MapOverlay)
    draft.apply(msgspec.structs.replace(started, job="new"))
    assert (len(draft.jobs), len(many.jobs)) == (62, 61)
    if drafts == "copied":
        assert count_calls(lambda: few.draft().land()) <= 5
