"""Replay order and barrier: however the tasks of an agent race, a replay is given the same, and never gets stuck."""

from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from journals import AT, event_of, story

from supervisor import agent
from supervisor.core.sessions.replay_order import ReplayOrder
from supervisor.core.sessions.restarts import Ended, next_restart
from supervisor.core.sessions.state import replay_journal


@agent(restart="transient", max_restarts=1000, restart_period=1e6)
async def transient(ctx) -> None: ...


class Racing(RuleBasedStateMachine):
    """An agent whose tasks ask, wait, stop waiting, save, crash, fail and stall in any order; its results come in any
    order, too. Its path depends on its results: what it asked for after n results, it asks for again after n."""

    def __init__(self):
        super().__init__()
        self.state = replay_journal("s", story())
        self.count = 0
        self.known = {}  # by operation: the results that the agent had been given when it asked for it
        self.live = []  # the results that the agent was given, in order
        self.crash()

    @precondition(lambda self: len(self.asked) > 2)
    @rule()
    def die(self):
        self.crash()

    def crash(self):
        self.replay = ReplayOrder(self.state)
        self.asked, self.given, self.over = set(), [], set()

    @precondition(lambda self: not self.replay.is_replaying)
    @rule()
    def ask(self):
        """The agent asks for a new operation; its entry may be journaled later."""
        self.count += 1
        operation = f"call:t{self.count}:0#1"
        self.known[operation] = self.replay.ask(self.state).given
        self.asked.add(operation)

    @precondition(lambda self: self.unwritten)
    @rule(data=st.data(), how=st.sampled_from(["ToolCallRequested", "OperationFinished", "fails"]))
    def write(self, data, how):
        """A call is journaled when it begins; a step with its result; a kept operation when it is asked for again."""
        operation = data.draw(st.sampled_from(self.unwritten))
        name = "OperationFinished" if how == "fails" else how
        error = {"error": ("ValueError", "no")} if how == "fails" else {}
        if operation in self.state.kept:
            name, error = "OperationRecalled", {}
        self.state.apply(event_of(name, operation, given=self.known[operation], **error))

    @precondition(lambda self: self.asked_again and not self.replay.is_replaying)
    @rule(data=st.data())
    def ask_anew(self, data):
        """An operation that a restart has forgotten or kept, or that was cut off before it was journaled, is asked for
        as if it were new."""
        operation = data.draw(st.sampled_from(self.asked_again))
        self.known[operation] = self.replay.ask(self.state).given
        self.asked.add(operation)

    @precondition(lambda self: self.failures and not self.replay.is_replaying)
    @rule(data=st.data())
    def fail(self, data):
        """Failures that the agent was given end the attempt, and cut off what is open while it unwinds."""
        failed = data.draw(st.sets(st.sampled_from(self.failures), min_size=1))
        for operation in [name for name, record in self.state.operations.items() if record.is_open]:
            self.state.apply(event_of("OperationAbandoned", operation))
        self.end(Ended(kind="failed", cause="no", failed=frozenset(failed)), min(map(self.given.index, failed)))

    @precondition(lambda self: len(self.asked) > 2 and not self.replay.is_replaying)
    @rule(does=st.booleans())
    def stall(self, does):
        """The agent is told to stop, and may ask for more while it unwinds."""
        stopped_at, late = self.state.length, set()
        if does and "step:out:0#1" not in {**self.state.operations, **self.state.kept}:
            late = {"step:out:0#1"}
            self.state.apply(event_of("OperationFinished", *late, given=len(self.given)))
        self.end(Ended(kind="stalled", cause="silence", stopped_at=stopped_at, asked_late=late), len(self.given))

    def end(self, ended, given):
        """Another attempt follows: it surely asks again only for what was asked for by then."""
        event, why_not = next_restart(self.state, transient, ended, AT, 0.5)
        assert event is not None, why_not
        self.state.apply(event)
        self.known = {name: count for name, count in self.known.items() if count <= given}
        assert {*self.state.operations} <= {*self.known}, "nothing is demanded that may not be asked for"
        self.crash()

    @precondition(lambda self: self.open)
    @rule(data=st.data(), how=st.sampled_from(["ToolCallFinished", "ToolCallFinished", "OperationAbandoned"]))
    def answer(self, data, how):
        operation = data.draw(st.sampled_from(self.open))
        self.state.apply(event_of(how, operation))  # one that was cut off is left at its turn, as any result is given

    @precondition(lambda self: self.again)
    @rule(data=st.data())
    def ask_again(self, data):
        """The agent asks again for what it had asked for by then, in any order, since its tasks race."""
        operation = data.draw(st.sampled_from(self.again))
        self.replay.claim(operation)
        self.asked.add(operation)

    @precondition(lambda self: self.replay.front(self.state) in self.asked)
    @rule()
    def take(self):
        """The waiter whose turn has come is given its result."""
        operation = self.replay.front(self.state)
        self.replay.give(operation)
        self.given.append(operation)
        self.over.add(operation)
        assert [*self.state.order[: len(self.given)]] == self.given, "in journal order"
        assert all(self.known[other] >= len(self.given) for other in self.replay.unclaimed), "nothing before its time"

    @precondition(lambda self: self.given and not self.replay.is_replaying)
    @rule()
    def save(self):
        """Completed operations are forgotten; the agent asked for them before everything that is still to come."""
        unwritten = self.unwritten
        completed = {name.partition("#")[0]: 1 for name in self.state.operations if name in self.over}
        self.state.apply(event_of("StateSaved", counts={**self.state.counts, **completed}))
        self.known = dict.fromkeys([*self.state.operations, *unwritten], 0)
        self.given = []

    @property
    def unwritten(self):
        return [name for name in self.known if name in self.asked and name not in self.state.operations]

    @property
    def asked_again(self):
        may = [name for name, count in self.known.items() if count <= len(self.given)]
        return [name for name in sorted({*may, *self.state.kept} - self.asked) if name not in self.state.operations]

    @property
    def failures(self):
        records = {name: self.state.operations[name] for name in self.given}
        return [name for name, record in records.items() if getattr(record.result, "error", None)]

    @property
    def open(self):
        return [name for name, record in self.state.operations.items() if record.is_open and name in self.asked]

    @property
    def again(self):
        """Return what the agent, whose path depends on its results, asks for now."""
        return [name for name in sorted(self.replay.unclaimed) if self.known[name] <= len(self.given)]

    @invariant()
    def never_stuck(self):
        """An operation can be asked for again, or a result be given, until the agent is at the end of its journal."""
        if self.replay.is_replaying:
            assert self.again or self.replay.front(self.state) in self.asked
        elif self.replay.front(self.state) is None:
            assert self.over.issuperset(self.state.order)


TestRacing = Racing.TestCase
TestRacing.settings = settings(deadline=None, max_examples=100, stateful_step_count=40)


@settings(deadline=None, max_examples=100)
@given(st.permutations(range(4)), st.sets(st.integers(0, 3)))
def test_a_waiter_that_is_gone_does_not_delay_others(turns, gone):
    """The turn of a cancelled waiter counts as taken, before or after its result has come."""
    operations = [f"call:t{n}:0#1" for n in turns]
    state = replay_journal("s", story(*(event_of("ToolCallRequested", name, given=0) for name in operations)))
    order = ReplayOrder(replay_journal("s", story()))
    for place in gone:
        order.give(operations[place])
    for name in operations:
        state.apply(event_of("ToolCallFinished", name))
    for name in [name for place, name in enumerate(operations) if place not in gone]:
        assert order.front(state) == name
        order.give(name)
    assert order.front(state) is None


def test_nothing_new_begins_before_the_whole_journal_was_asked_for_again():
    """The barrier: also for operations without a result, and for those that a scope of the agent's own ended."""
    asked = [event_of("ToolCallRequested", f"call:t{n}:0#1", given=0) for n in (1, 2, 3)]
    ended = [event_of("OperationAbandoned", "call:t2:0#1"), event_of("ToolCallFinished", "call:t3:0#1")]
    order = ReplayOrder(replay_journal("s", story(*asked, *ended)))
    for n in (3, 1, 2):
        assert order.is_replaying
        order.claim(f"call:t{n}:0#1")
    assert not order.is_replaying


def test_an_operation_journaled_late_is_asked_for_before_the_results_in_between():
    """The place of an operation is where the agent asked for it, wherever its entry is."""
    step, call = event_of("OperationFinished", "step:f:0#1", given=0), event_of("ToolCallRequested", given=1)
    late = event_of("ToolCallRequested", "call:late:0#1", given=0)
    state = replay_journal("s", story(step, call, late))
    order = ReplayOrder(state)
    order.claim("step:f:0#1")
    assert order.front(state) is None
    order.claim("call:late:0#1")
    assert order.front(state) == "step:f:0#1"


def test_an_operation_asked_for_during_a_save_comes_before_later_results():
    """The save forgets the results that the agent had been given by then. The result that it was given meanwhile is not
    among them: a replay gives it after the request."""
    first, second, third = (f"call:{name}:0#1" for name in "abc")
    asked = [event_of("ToolCallRequested", name, given=0) for name in (first, second)]
    state = replay_journal("s", story(*asked, *(event_of("ToolCallFinished", name) for name in (first, second))))
    order = ReplayOrder(state)
    for name in (first, second):
        order.claim(name)
    order.give(first)
    place = order.ask(state)
    order.give(second)
    state.apply(event_of("StateSaved", counts={first.partition("#")[0]: 1}))
    assert order.given_when(place, state) == state.order.index(second) == 0
    state.apply(event_of("ToolCallRequested", third, given=order.given_when(place, state)))
    again = ReplayOrder(state)
    assert (again.claim(second), again.front(state)) == (None, None), "not before the third was asked for"
    assert (again.claim(third), again.front(state)) == (None, second)


def test_children_awaited_in_turn_that_end_in_reverse_do_not_wait_for_each_other():
    """A result that arrives before it is asked for has its place in the order when it is delivered."""
    spawned = [
        event_of("OperationFinished", f"spawn:a:0#{n}", kind="spawn", child=f"child{n}", given=0) for n in (1, 2)
    ]
    ended = [event_of("ChildEnded", child=child) for child in ("child2", "child1")]
    awaited = [event_of("OperationFinished", f"outcome:child{n}:0#1", kind="outcome", given=n + 1) for n in (1, 2)]
    state = replay_journal("s", story(*spawned, *ended, *awaited))
    order = ReplayOrder(state)
    for name in ("spawn:a:0#1", "spawn:a:0#2", "outcome:child1:0#1", "outcome:child2:0#1"):
        order.claim(name)
        if name != "spawn:a:0#1":
            assert order.front(state) == name
        else:
            assert order.front(state) is None
        order.give(name)
