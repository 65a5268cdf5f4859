"""A19: allowances, which end by themselves: after so many calls, or at an instant."""

from datetime import UTC, datetime, timedelta
from itertools import count

import anyio
import pytest
from scenes import ForkingStore, deploy, effects, events, fork, opened, replayed
from test_releasing import asks, asks_all, waiting
from watching import next_of

from supervisor import (
    Approve,
    Context,
    Deny,
    InvalidInput,
    Limit,
    MemoryStore,
    NotEntitled,
    Rule,
    SqliteStore,
    agent,
    allow,
    deny,
    tool,
)
from supervisor.core import events as e
from supervisor.core.approvals.people import ApproverRule, People, Person
from supervisor.core.calls.rules import make_rule
from supervisor.core.ids import RULES
from supervisor.runtime.clock.clock import Clock
from supervisor.testing import wall_clock, wrapped

pytestmark = pytest.mark.anyio
X = '{"target":"x"}'
ENDS = [{"uses": 2}, {"minutes": 15}]


@agent
async def paced(ctx: Context, steps: list[str | float]) -> list[str]:
    """Make calls one after the other, and sleep in between."""
    kinds = []
    for step in steps:
        if isinstance(step, str):
            kinds.append((await ctx.call(deploy, step)).kind)
        else:
            await ctx.sleep(step)
    return kinds


async def begun(supervisor, steps, decision, session="s"):
    """Start the agent, and decide what it asks first. Return its run and the result."""
    run = await supervisor.start(paced, steps, session=session)
    asked = await next_of(run.watch_approvals())
    return run, await supervisor.decide(asked.id, decision)


async def the_only(supervisor):
    (rule,) = await supervisor.find_rules()
    return rule


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_the_next_calls_run_unasked_and_the_one_after_them_asks(scope):
    """The approved call itself is none of them. The card of the next one says which rule has ended; that is listed."""
    async with opened() as supervisor:
        run, result = await begun(supervisor, ["x"] * 4, Approve(by="ana", scope=scope, uses=2))
        again = await next_of(run.watch_approvals())
        assert (effects, again.why.endswith("it is used up")) == (["x"] * 3, True)
        rule = await the_only(supervisor)
        assert (rule.id, rule.uses, rule.used, rule.ended) == (result.rule, 2, 2, True)
        await supervisor.decide(again.id, Deny(by="ana"))
        assert await run.result() == ["ok", "ok", "ok", "denied"]


async def test_a_use_is_counted_in_the_journal_of_the_root_and_names_the_call():
    """One of a session in that of its root, also for a sub-agent; one for always in the store's."""
    store = MemoryStore()

    @agent
    async def above(ctx: Context) -> None:
        await ctx.call(deploy, "x")
        await ctx.run(paced, ["x", "x"])

    async with opened(store) as supervisor:
        run = await supervisor.start(above, session="s")
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana", uses=2))
        await run.result()
        child = next(each.id for each in await supervisor.find_sessions() if each.parent == "s")
        operations = [each.operation for each in events(store, child, e.ToolCallRequested)]
        assert [(each.session, each.operation) for each in events(store, "s", e.RuleUsed)] == [
            (child, each) for each in operations
        ]
        assert events(store, RULES, e.RuleUsed) == []
        await begun(supervisor, ["x", "x"], Approve(by="ana", scope="always", uses=1), session="other")
        await anyio.sleep(1)
        assert [each.session for each in events(store, RULES, e.RuleUsed)] == ["other"]


async def test_a_second_allowance_is_a_rule_of_its_own():
    """Each gives as many calls as it says; so does one that a person adds."""
    async with opened() as supervisor:
        run, first = await begun(supervisor, ["x"] * 6, Approve(by="ana", uses=1))
        second = await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana", uses=1))
        assert first.rule != second.rule
        await supervisor.decide((await next_of(run.watch_approvals())).id, Deny(by="ana"))
        assert [(rule.id, rule.used) for rule in await supervisor.find_rules()] == [(first.rule, 1), (second.rule, 1)]
        assert await next_of(run.watch_approvals())
        assert effects == ["x"] * 4


async def test_a_rule_that_is_added_twice_before_it_is_used_is_one():
    """A request may come twice. After its first use, the same allowance gives so many calls more."""
    async with opened() as supervisor:
        one = await supervisor.add_rule(allow("deploy", X, uses=1), by="ana")
        assert (await supervisor.add_rule(allow("deploy", X, uses=1), by="ana")).id == one.id
        assert (await supervisor.add_rule(allow("deploy", X, uses=1), by="ben")).id != one.id
        await (await supervisor.start(paced, ["x", "x"])).result()
        assert (await supervisor.add_rule(allow("deploy", X, uses=1), by="ana")).id != one.id


async def test_the_minutes_of_an_allowance_are_judged_when_a_call_is_asked_for():
    """Before their end calls run, and after it they ask."""
    async with opened() as supervisor:
        run, _ = await begun(supervisor, ["x", 800.0, "x", 200.0, "x"], Approve(by="ana", minutes=15))
        again = await next_of(run.watch_approvals())
        assert (effects, again.why.endswith("its time is over")) == (["x", "x"], True)
        rule = await the_only(supervisor)
        assert (rule.until - rule.added_at, rule.uses, rule.ended) == (timedelta(minutes=15), None, True)


@pytest.mark.parametrize("end", ENDS, ids=str)
@pytest.mark.parametrize(("then", "kind"), [("time passes", "ok"), ("revoked", "denied"), ("denied", "denied")])
async def test_an_allowance_holds_from_the_request_to_the_effect_unless_it_is_revoked_or_denied(end, then, kind):
    """A9: meanwhile the call waits for a place of a limit. What it has used stays used."""
    opens = anyio.Event()

    @tool(limit="one", timeout=None)
    async def slow(name: str) -> None:
        effects.append(name)
        if name == "holds":
            await opens.wait()

    @agent
    async def calls(ctx: Context, names: list[str]) -> list[str]:
        return [(await ctx.call(slow, name)).kind for name in names]

    async with opened(limits=[Limit("one", 1)], rules=[allow("slow", '{"name":"holds"}')]) as supervisor:
        ends = {"until": supervisor._runner.clock.now() + timedelta(minutes=15)} if "minutes" in end else {"uses": 1}
        rule = await supervisor.add_rule(allow("slow", '{"name":"a"}', **ends), by="ana")
        await supervisor.start(calls, ["holds"])
        run = await supervisor.start(calls, ["a"])
        await anyio.sleep(3600)
        if then == "revoked":
            await supervisor.revoke_rule(rule.id, by="ben")
        elif then == "denied":
            await supervisor.add_rule(deny("slow"), by="ben")
        opens.set()
        assert (await run.result(), effects) == ([kind], ["holds", *["a"] * (kind == "ok")])
        assert [each.used for each in await supervisor.find_rules() if each.uses] == [1] * (
            "uses" in end and then != "revoked"
        )


async def test_two_processes_never_spend_the_last_use_twice(tmp_path):
    """Two programs on one store, each with calls at once; what is left over asks."""
    first, second = (SqliteStore(tmp_path / "state.db") for _ in range(2))
    async with opened(first) as one, opened(second) as other:
        await one.add_rule(allow("deploy", X, uses=5), by="ana")
        await one.start(asks_all, ["x"] * 4, session="a")
        await other.start(asks_all, ["x"] * 4, session="b")
        await anyio.sleep(5)
        assert (len(effects), len(await one.find_approvals())) == (5, 3)
        assert (await the_only(other)).used == 5


async def test_a_lost_call_has_used_one_and_a_replay_uses_none():
    """At each commit the process dies: no later process lets more calls run than the allowance has."""
    store = ForkingStore(lambda: len(effects))
    async with opened(store) as supervisor:
        run, _ = await begun(supervisor, ["x"] * 4, Approve(by="ana", uses=2))
        await next_of(run.watch_approvals())
    for copy, ran in store.copies:
        effects.clear()
        left = replayed(copy, "s") if copy.journal("s") else None
        if left is None or not events(copy, "s", e.ApprovalDecided):
            continue
        async with opened(copy) as supervisor:
            await supervisor.resume("s")
            await waiting(supervisor, 1)
            asked = len(events(copy, "s", e.RuleUsed))
            assert (asked, ran + len(effects) <= 3) == (2, True)
            assert (await the_only(supervisor)).used == 2


async def test_edited_arguments_are_no_allowance():
    """Nothing was offered for them."""
    async with opened() as supervisor:
        await supervisor.start(paced, ["x"])
        (asked,) = await waiting(supervisor, 1)
        with pytest.raises(InvalidInput):
            await supervisor.decide(asked.id, Approve(by="ana", arguments={"target": "y"}, uses=2))
        with pytest.raises(InvalidInput):
            await supervisor.decide(asked.id, Approve(by="ana", pattern='{"target":"y"}', uses=2))
        assert [each.id for each in await supervisor.find_approvals()] == [asked.id]


async def test_a_call_that_can_be_approved_only_once_has_no_allowance():
    """A rule asks about it, so none is offered and none is made."""
    async with opened(rules=[make_rule("ask", "deploy", None, "code")]) as supervisor:
        await supervisor.start(paced, ["x"])
        (asked,) = await waiting(supervisor, 1)
        assert asked.allowances == ()
        with pytest.raises(InvalidInput):
            await supervisor.decide(asked.id, Approve(by="ana", uses=1))


@pytest.mark.parametrize(
    "end",
    [
        *({"uses": each} for each in (0, -1, True, 1.0, "3", 10**9)),
        *({"minutes": each} for each in (0, -1, True, "15", float("nan"), float("inf"), 10**9)),
        {"until": datetime(2030, 1, 1)},  # noqa: DTZ001 # that is what is refused
        {"until": "2030-01-01"},
        {"until": datetime(2020, 1, 1, tzinfo=UTC)},
        {"until": datetime(9000, 1, 1, tzinfo=UTC), "minutes": 1},
    ],
    ids=str,
)
async def test_an_end_that_is_none_decides_nothing(end):
    """A bool, a fraction, a past instant and one without a time zone are refused, and the call waits on."""
    async with opened() as supervisor:
        await supervisor.start(paced, ["x"])
        (asked,) = await waiting(supervisor, 1)
        with pytest.raises(InvalidInput):
            await supervisor.decide(asked.id, Approve(by="ana", **end))
        if "minutes" not in end:
            with pytest.raises(InvalidInput):
                await supervisor.add_rule(Rule(kind="allow", tool="deploy", pattern=X, **end), by="ana")
        assert (len(await supervisor.find_approvals()), list(await supervisor.find_rules())) == (1, [])


async def test_only_an_allow_ends_by_itself_and_no_code_is_counted():
    """A deny with an end would be lifted unseen; a rule in code has no store that counts it."""
    until = datetime(2100, 1, 1, tzinfo=UTC)
    async with opened() as supervisor:
        for rule in (Rule(kind="deny", tool="deploy", until=until), Rule(kind="ask", tool="deploy", uses=1)):
            with pytest.raises(InvalidInput):
                await supervisor.add_rule(rule, by="ana")
    with pytest.raises(InvalidInput):
        async with opened(rules=[allow("deploy", X, uses=1)]):
            pass
    counted = agent(name="counted", rules=[allow("deploy", X, uses=1)])(paced.fn)
    async with opened() as supervisor:
        with pytest.raises(InvalidInput):
            await supervisor.start(counted, ["x"])


async def test_a_person_who_may_decide_once_only_gives_no_allowance():
    """A requester, and one to whom it was escalated."""
    people = People([Person(name="rita"), Person(name="ana", roles=("approver",))])
    async with opened(people=people) as supervisor:
        await supervisor.start(paced, ["x"], requester="rita")
        (asked,) = await waiting(supervisor, 1)
        for end in ENDS:
            with pytest.raises(NotEntitled):
                await supervisor.decide(asked.id, Approve(by="rita", **end))
        assert (await supervisor.decide(asked.id, Approve(by="rita"))).kind == "accepted"


async def test_two_people_must_agree_on_the_end():
    """A17: a vote for the next two is none for the next ten, for fifteen minutes, or for always."""
    names = ("ana", "ben", "cleo")
    rule = ApproverRule(approvers=names, quorum=2, rule=make_rule("ask", "deploy", None, "code"))
    people = People([*(Person(name=name, roles=("approver",)) for name in names), Person(name="rita")], [rule])
    async with opened(people=people) as supervisor:
        run = await supervisor.start(paced, ["x", "x"], session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        for by, end in (("ana", {"uses": 2}), ("ben", {"uses": 10}), ("cleo", {"minutes": 15})):
            assert (await supervisor.decide(asked.id, Approve(by=by, **end))).kind == "counted"
        assert (await supervisor.decide(asked.id, Approve(by="ben", scope="session"))).kind == "counted"
        await anyio.sleep(60)
        assert (await supervisor.decide(asked.id, Approve(by="ana", minutes=15))).kind == "accepted"
        assert await run.result() == ["ok", "ok"]


async def test_an_allowance_releases_as_many_equal_calls_as_it_has_uses():
    """A13: the oldest first, each spends one, and a batch of the same decisions makes one rule."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(asks_all, ["x"] * 5, session="s")
        first, *others = await waiting(supervisor, 5)
        results = await supervisor.decide_all([(each.id, Approve(by="ana", uses=2)) for each in (first, *others[:2])])
        assert [each.kind for each in results] == ["accepted", "already", "already"]
        assert results[0].released == tuple(each.id for each in others[:2])
        assert len(await waiting(supervisor, 2)) == 2
        assert ((await the_only(supervisor)).used, len(events(store, "s", e.RuleUsed))) == (2, 2)


async def test_a_rule_that_decides_what_waits_spends_a_use_for_each():
    """In all trees together as many as it has."""
    async with opened() as supervisor:
        for name in "abcd":
            await supervisor.start(asks, "x", session=name)
        await waiting(supervisor, 4)
        rule = await supervisor.add_rule(allow("deploy", X, uses=3), by="ana", pending=True)
        await waiting(supervisor, 1)
        await anyio.sleep(1)
        assert ((await the_only(supervisor)).used, rule.uses, len(effects)) == (3, 3, 3)


async def test_an_allowance_for_always_releases_in_other_trees_no_more_than_it_has():
    """The owner of those trees does it later, in appends of its own."""
    async with opened() as supervisor:
        for name in "abcde":
            await supervisor.start(asks, "x", session=name)
        first, *_ = await waiting(supervisor, 5)
        await supervisor.decide(first.id, Approve(by="ana", scope="always", uses=2))
        await waiting(supervisor, 2)
        await anyio.sleep(60)
        assert ((await the_only(supervisor)).used, len(effects)) == (2, 3)


async def test_a_repeated_decision_is_the_same_and_another_end_is_a_conflict():
    """A3: so a request that comes twice makes one rule."""
    async with opened() as supervisor:
        run, first = await begun(supervisor, ["x"], Approve(by="ana", minutes=15))
        again = [Approve(by="ana", minutes=15), Approve(by="ana", minutes=5), Approve(by="ana", uses=2)]
        again += [Approve(by="ana", scope="session"), Approve(by="ana", uses=1, minutes=15)]
        kinds = [(await supervisor.decide(first.approval, each)).kind for each in again]
        assert kinds == ["already", "conflict", "conflict", "conflict", "conflict"]
        assert (await the_only(supervisor)).id == first.rule
        await run.result()


async def test_a_call_that_needs_no_allowance_uses_none():
    """Another rule allows it, or its tool's own policy does."""

    @tool(policy="allow")
    async def free() -> None:
        effects.append("free")

    @agent
    async def calls(ctx: Context) -> None:
        await ctx.call(free)
        await ctx.call(deploy, "x")

    async with opened(rules=[allow("deploy", X)]) as supervisor:
        for rule in (allow("deploy", X, uses=1), allow("free", uses=1)):
            await supervisor.add_rule(rule, by="ana")
        await (await supervisor.start(calls)).result()
        assert [(rule.uses, rule.used) for rule in await supervisor.find_rules()] == [(None, 0), (1, 0), (1, 0)]


@pytest.mark.parametrize("scope", ["session", "always"])
@pytest.mark.parametrize("back", [3600, 900])
async def test_a_clock_that_is_set_back_gives_no_time(back, scope):
    """Before the latest instant in the journal an allowance of some minutes allows nothing, also if it was added before
    that. Once the clock is there again, it holds."""
    steps = ["x", 1200.0, "x", 10.0, "x", 1000.0, "x"]
    with wall_clock() as clock:
        async with opened() as supervisor:
            run, _ = await begun(supervisor, steps, Approve(by="ana", minutes=60, scope=scope))
            while len(effects) < 2:
                await anyio.sleep(1)
            clock.ahead = -back
            asked = await next_of(run.watch_approvals())
            assert (asked.why[-16:], effects) == ("its time is over", ["x", "x"])
            if back == 900:
                await supervisor.decide(asked.id, Approve(by="ana"))
                assert await run.result() == ["ok"] * 4


async def test_a_fork_has_no_allowance_of_its_source():
    """It is another session: its calls ask."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run, _ = await begun(supervisor, ["x", "x", "x"], Approve(by="ana", uses=2))
        await run.result()
        *_, third = (n for n, each in enumerate(events(store, "s"), 1) if type(each) is e.ToolCallRequested)
        copy = await supervisor.fork("s", before=third, by="ana")
        await waiting(supervisor, 1)
        assert (len(effects), events(store, copy.session, e.RuleUsed)) == (3, [])
        assert len(events(store, copy.session, e.ToolCallRequested)) == 3


async def test_a_retry_goes_on_with_what_is_left():
    """A call that it makes anew uses another one."""
    fails = [True]

    @tool
    async def shaky() -> None:
        effects.append("shaky")

    @agent
    async def tries(ctx: Context) -> int:
        for _ in range(3):
            await ctx.call(shaky)
        if fails.pop():
            raise ValueError
        return len(effects)

    async with opened() as supervisor:
        await supervisor.add_rule(allow("shaky", uses=3), by="ana")
        run = await supervisor.start(tries, session="s")
        await run.outcome()
        fails.append(False)
        again = await supervisor.retry("s", by="ana")
        with anyio.move_on_after(60):
            await again.outcome()
        asked = len(await supervisor.find_approvals())
        assert (len(effects), (await the_only(supervisor)).used) == (3, 3), asked


@pytest.mark.parametrize("end", [*ENDS, {"scope": "session"}])
async def test_a_removed_tree_takes_its_rules_along(end):
    """At each commit the process may die. A later session with its id asks; a rule for always stays."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        run, _ = await begun(supervisor, ["x", "x"], Approve(by="ana", **end))
        await run.result()
        kept = await supervisor.add_rule(allow("deploy", '{"target":"y"}'), by="ana")
    async with opened(store) as supervisor:
        await supervisor.prune(datetime.now(UTC) + timedelta(days=365))
        assert len(await supervisor.find_sessions()) == 0
        copies = [copy for copy, _ in store.copies if not copy.journal("s") and copy.journal(RULES)]
        assert copies
        assert all(events(copy, RULES, e.RuleRevoked) for copy in copies)
        assert [rule.id for rule in await supervisor.find_rules()] == [kept.id]
        assert [(event.by, event.session) for event in events(store, RULES, e.RuleRevoked)] == [("", "s")]
        run = await supervisor.start(paced, ["y", "x"], session="s")
        assert (await next_of(run.watch_approvals())).arguments == {"target": "x"}


async def test_a_rule_of_a_tree_that_was_removed_before_ends_with_the_next_prune():
    """A former version has left it."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run, _ = await begun(supervisor, ["x"], Approve(by="ana", uses=2))
        await run.result()
    store = fork(store)
    assert store.begin()
    store.remove("s")
    store.commit()
    async with opened(store) as supervisor:
        assert (await the_only(supervisor)).ended
        await supervisor.prune(datetime.now(UTC))
        assert len(await supervisor.find_rules()) == 0


async def test_a_list_of_commands_uses_each_allowance_that_covers_a_part_once():
    """Of the rules that allow parts of a list, each that is counted spends one use for the whole call."""
    ran = []

    @tool(command="command")
    async def sh(command: str) -> None:
        ran.append(command)

    @agent
    async def runs(ctx: Context, commands: list[str]) -> None:
        for command in commands:
            await ctx.call(sh, command)

    async with opened() as supervisor:
        for pattern in ("git status", "git log"):
            await supervisor.add_rule(allow(sh, pattern, uses=2), by="ana")
        await supervisor.start(runs, ["git status && git log", "git status && git status", "git log; git status"])
        await waiting(supervisor, 1)
        assert [rule.used for rule in await supervisor.find_rules()] == [2, 1]
        assert ran == ["git status && git log", "git status && git status"]


async def test_a_deny_beats_an_allowance_and_spends_nothing():
    """A7."""
    async with opened() as supervisor:
        await supervisor.add_rule(allow("deploy", X, uses=2), by="ana")
        await supervisor.add_rule(deny("deploy"), by="ben")
        assert await (await supervisor.start(paced, ["x"])).result() == ["denied"]
        assert [rule.used for rule in await supervisor.find_rules()] == [0, 0]


async def test_a_revoked_allowance_lets_nothing_run():
    """It is not listed any more; what it has left is gone."""
    async with opened() as supervisor:
        run, result = await begun(supervisor, ["x", 10.0, "x"], Approve(by="ana", uses=9))
        await supervisor.revoke_rule(result.rule, by="ben")
        await next_of(run.watch_approvals())
        assert (effects, list(await supervisor.find_rules())) == (["x"], [])


@pytest.mark.parametrize("end", ENDS)
async def test_an_allowance_survives_a_restart(end):
    """What is on disk is counted on: another process knows what is left."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await begun(supervisor, ["x", "x", 30.0, "x", "x"], Approve(by="ana", **end))
        await anyio.sleep(5)
    async with opened(fork(store)) as supervisor:
        run = await supervisor.resume("s")
        if "uses" in end:
            await waiting(supervisor, 1)
            assert (effects, (await the_only(supervisor)).used) == (["x"] * 3, 2)
        else:
            assert await run.result() == ["ok"] * 4


async def test_an_allowance_holds_in_its_tree_over_turns_and_in_no_other():
    """Each turn of a conversation goes on with what is left."""

    @agent
    async def turn(ctx: Context, text: str) -> str:
        return (await ctx.call(deploy, "x")).kind

    async with opened() as supervisor:
        run = await supervisor.start(turn, "hello", session="s")
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana", uses=2))
        for _ in range(3):
            await run.outcome()
            await supervisor.send("s", "again", by="ana")
            await anyio.sleep(1)
        assert ((await the_only(supervisor)).used, len(effects)) == (2, 3)
        await supervisor.start(turn, "hello", session="other")
        assert len(await waiting(supervisor, 2)) == 2


@pytest.mark.parametrize("end", ["expired", "cancelled", "denied"])
async def test_a_late_decision_gives_no_allowance(end):
    """A3: the approval had ended in another way, and nothing is allowed."""
    short = agent(name="short", approval_expires_in=60)(paced.fn)
    async with opened() as supervisor:
        await supervisor.start(short, ["x"], session="s")
        (asked,) = await waiting(supervisor, 1)
        if end == "denied":
            await supervisor.decide(asked.id, Deny(by="ben"))
        elif end == "cancelled":
            await supervisor.cancel("s", by="ben")
        await anyio.sleep(100)
        late = await supervisor.decide(asked.id, Approve(by="ana", uses=2))
        assert (late.kind, late.rule) == ("conflict" if end == "denied" else "closed", None)
        assert list(await supervisor.find_rules()) == []


async def test_an_allowance_ends_at_the_first_of_its_ends():
    """With uses left, its time may be over; and an ask that is added meanwhile beats it."""
    async with opened() as supervisor:
        run, _ = await begun(supervisor, ["x", "x", 1000.0, "x"], Approve(by="ana", uses=5, minutes=15))
        await next_of(run.watch_approvals())
        rule = await the_only(supervisor)
        assert (rule.used, rule.uses, rule.ended) == (1, 5, True)
        await supervisor.add_rule(allow("deploy", '{"target":"y"}', uses=3), by="ana")
        await supervisor.add_rule(make_rule("ask", "deploy", None, "code"), by="ben")
        await supervisor.start(paced, ["y"])
        await waiting(supervisor, 2)
        assert [each.used for each in await supervisor.find_rules()] == [1, 0, 0]


@pytest.mark.parametrize("seconds", range(6))
async def test_no_call_that_an_allowance_lets_run_is_journaled_at_its_end_or_later(seconds):
    """The instant of the request is the one at which the rule was judged. The clock goes on by a second each time that
    it is read."""
    start, readings = datetime.now(UTC), count()
    with wrapped(Clock, "now", lambda now, clock: start + timedelta(seconds=next(readings))):
        until = start + timedelta(seconds=seconds)
        async with opened(rules=[allow("deploy", until=until)]) as supervisor:
            await supervisor.start(paced, ["x"], session="s")
            await anyio.sleep(1)
            (asked,) = events(supervisor.store, "s", e.ToolCallRequested)
            assert (asked.approval is None) == (asked.at < until)
