"""Watchdog arithmetic, compared with a model that counts every second (W1-W7, W11)."""

import pytest
from hypothesis import given, settings, strategies as st

from supervisor.core.errors import IllegalEvent
from supervisor.core.sessions.inactivity import Inactivity

BUDGET, FIRST_BUDGET, TICK = 6, 15, 0.2


class Model:
    """The rules, second by second: `left` decreases whenever the clock does not stand."""

    def __init__(self, active_timeout):
        self.pauses, self.steps, self.calls, self.unheard = {}, 0, set(), set()
        self.active_left = active_timeout
        self.left = BUDGET

    def live(self, seconds):
        """Return after how many of these seconds it is stalled; None if it is not."""
        for second in range(seconds):
            if self.is_due:
                return second
            at_work = self.steps + len(self.calls) > 0
            waits = "wait" in self.pauses.values()
            self.left -= at_work or not self.pauses
            if self.active_left is not None:
                self.active_left -= at_work or not waits or "call" in self.pauses.values()
        return seconds if self.is_due else None

    @property
    def is_due(self):
        stands = self.pauses and not self.steps + len(self.calls)
        return (self.left == 0 and not stands) or self.active_left == 0

    def do(self, action, *args):
        stood = self.pauses and not self.steps + len(self.calls)
        counts = self.unheard and (not args or args[0] in (None, *self.unheard))
        is_progress = action in ("progress", "end step", "end model call", "heartbeat", "model call")
        if action == "pause":
            self.pauses[args[0]] = args[1]
        elif action == "resume":
            del self.pauses[args[0]]
            is_progress = not self.pauses
        elif action.endswith("step"):
            self.steps += -1 if action.startswith("end") else 1
        elif action == "model call":
            self.calls.add(args[0])
            self.unheard.add(args[0])
        elif action == "end model call":
            self.calls.discard(args[0])
            self.unheard.discard(args[0])
        elif action == "heartbeat":
            self.unheard -= self.calls if args[0] is None else {args[0]}
        if is_progress or (action == "step" and stood) or (action == "keepalive" and counts):
            self.left = FIRST_BUDGET if self.unheard else BUDGET

    def possible(self):
        """Return the events that may happen next."""
        found = [("progress",), ("step",), *[("model call", call) for call in "xy" if call not in self.calls]]
        found += [(sign, call) for sign in ("heartbeat", "keepalive") for call in (None, *sorted(self.calls))]
        found += [("end step",)] * (self.steps > 0) + [("end model call", call) for call in sorted(self.calls)]
        found += [("resume", reason) for reason in self.pauses]
        found += [("pause", f"{kind}{n}", kind) for n in (1, 2) for kind in ("wait", "call")]
        return [action for action in found if action[0] != "pause" or action[1] not in self.pauses]


def tell(inactivity, now, action, *args):
    """Apply to an Inactivity what was applied to the model."""
    if action == "heartbeat":
        inactivity.beat = now
        inactivity.hear(*args)
    elif action.endswith(("step", "model call")):
        (inactivity.end_work if action.startswith("end") else inactivity.begin_work)(now, *args)
    elif action == "keepalive":
        inactivity.keepalive(now, *args)
    else:
        getattr(inactivity, action)(*args, now)


@settings(deadline=None, max_examples=300)
@given(data=st.data(), active_timeout=st.none() | st.integers(1, 40))
def test_a_run_is_due_in_the_second_in_which_its_rules_say_so(data, active_timeout):
    """W2-W6: pauses as a set, work in flight, first budgets, keepalive and active time, in any order."""
    now, model = 100, Model(active_timeout)
    inactivity = Inactivity(now, BUDGET, FIRST_BUDGET, active_timeout)
    for _ in range(data.draw(st.integers(1, 14))):
        seconds = data.draw(st.integers(0, 9))
        due = inactivity.due_at(0)
        stalled_after = model.live(seconds)
        assert (due is not None and due <= now + seconds) == (stalled_after is not None)
        if stalled_after is not None:
            assert due == now + stalled_after
            return
        now += seconds
        action = data.draw(st.sampled_from(model.possible()))
        model.do(*action)
        tell(inactivity, now, *action)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.floats(0, 3), st.booleans(), st.floats(0, TICK)), min_size=1, max_size=8))
def test_a_coarse_heartbeat_adds_its_budget_and_at_most_one_tick(happened):
    """W11: never earlier than the budget after the last sign of progress, and at most one tick later."""
    now = last = 100.0
    inactivity = Inactivity(now, BUDGET, FIRST_BUDGET, None)
    for seconds, is_heartbeat, staleness in happened:
        last = now = now + seconds
        if is_heartbeat:
            inactivity.beat = now - staleness
        else:
            inactivity.progress(now)
    assert last + BUDGET - 1e-9 <= inactivity.due_at(TICK) <= last + BUDGET + TICK + 1e-9


def test_the_watchdog_is_paused_until_the_last_of_two_waits_ends():
    """W2: pauses are a set; when the last one goes, the full budget starts again."""
    inactivity = Inactivity(0, BUDGET, FIRST_BUDGET, None)
    inactivity.pause("a", "wait", 1)
    inactivity.pause("b", "wait", 2)
    inactivity.resume("a", 1000)
    assert (inactivity.is_paused, inactivity.due_at(TICK)) == (True, None)
    inactivity.resume("b", 2000)
    assert (inactivity.is_paused, inactivity.due_at(TICK)) == (False, 2000 + BUDGET)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda inactivity: inactivity.resume("b", 5),
        lambda inactivity: inactivity.pause("a", "call", 5),
        lambda inactivity: inactivity.end_work(5),
        lambda inactivity: inactivity.end_work(5, "model call"),
    ],
    ids=["resume", "pause twice", "end a step", "end a model call"],
)
def test_an_unknown_reason_is_an_error_and_changes_nothing(wrong):
    """W2: it is never ignored."""
    inactivity = Inactivity(0, BUDGET, FIRST_BUDGET, None)
    inactivity.pause("a", "wait", 1)
    with pytest.raises(IllegalEvent):
        wrong(inactivity)
    assert (inactivity.pauses, inactivity.due_at(TICK), inactivity.active_time(9)) == ({"a": "wait"}, None, 1)


def test_the_end_of_a_step_does_not_end_a_model_call():
    """The two are counted separately, so that a step that did not begin cannot end in place of a model call."""
    inactivity = Inactivity(0, BUDGET, FIRST_BUDGET, None)
    inactivity.begin_work(1, "model call")
    with pytest.raises(IllegalEvent):
        inactivity.end_work(2)


def test_a_slow_first_token_is_no_stall_however_busy_its_siblings_are():
    """W5: a sibling's result is not the first progress of the model call; a heartbeat shortens its budget."""
    inactivity = Inactivity(0, BUDGET, FIRST_BUDGET, None)
    inactivity.begin_work(1, "slow")
    inactivity.begin_work(1, "fast")
    inactivity.begin_work(2)
    inactivity.end_work(3)
    inactivity.beat = 3
    inactivity.hear("fast")
    inactivity.end_work(4, "fast")
    assert inactivity.due_at(TICK) == 4 + FIRST_BUDGET
    inactivity.beat = 5
    inactivity.hear("slow")
    assert inactivity.due_at(TICK) == 5 + TICK + BUDGET


def test_keepalive_does_not_hide_a_stream_that_hangs():
    """W6: after the first progress it has no effect."""
    inactivity = Inactivity(0, BUDGET, FIRST_BUDGET, None)
    inactivity.begin_work(1, "call")
    inactivity.keepalive(10, "call")
    assert inactivity.due_at(0) == 10 + FIRST_BUDGET
    inactivity.beat = 11
    inactivity.hear("call")
    inactivity.keepalive(16, "call")
    assert inactivity.due_at(0) == 11 + BUDGET


def test_a_siblings_approval_does_not_hide_a_hung_model_call():
    """W2: the clock runs while a step or a model call is in flight, and stands again when it has ended."""
    inactivity = Inactivity(0, BUDGET, FIRST_BUDGET, None)
    inactivity.pause("approval", "wait", 1)
    inactivity.begin_work(50)
    assert inactivity.due_at(TICK) == 50 + BUDGET
    inactivity.end_work(52)
    assert inactivity.due_at(TICK) is None


def test_an_executing_call_pauses_the_watchdog_but_is_active_time():
    """W5: its own deadline watches it, and `active_timeout` counts it; waits for people count nowhere."""
    inactivity = Inactivity(0, BUDGET, FIRST_BUDGET, 100)
    inactivity.pause("approval", "wait", 10)
    assert (inactivity.active_time(70), inactivity.due_at(TICK)) == (10, None)
    inactivity.pause("call", "call", 70)
    assert (inactivity.active_time(80), inactivity.due_at(TICK)) == (20, 160)
    inactivity.resume("call", 90)
    assert (inactivity.active_time(1000), inactivity.due_at(TICK)) == (30, None)


@pytest.mark.parametrize("active_timeout", [5, None])
def test_the_cause_of_a_stall_names_the_budget_that_was_used_up(active_timeout):
    """W5: `active_timeout` is a cause of its own."""
    inactivity = Inactivity(0, BUDGET, FIRST_BUDGET, active_timeout)
    assert inactivity.cause(inactivity.due_at(0)).startswith("active_timeout") == (active_timeout is not None)


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 100)), min_size=1, max_size=6), st.floats(0, 1000))
def test_rounding_does_not_change_the_cause_of_a_stall(happened, now):
    """W5: the cause is not 2 s without progress if `active_timeout` was reached."""
    inactivity = Inactivity(now, BUDGET, FIRST_BUDGET, 30)
    for active, waiting in happened:
        inactivity.pause("a", "wait", now := now + active)
        inactivity.resume("a", now := now + waiting)
    while inactivity.cause(due := inactivity.due_at(TICK)).startswith("no progress"):
        assert due >= inactivity.last_progress + BUDGET
        inactivity.progress(due - 1)
