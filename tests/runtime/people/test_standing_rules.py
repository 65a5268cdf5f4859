"""A1, A3, A5, A7, A9, A13, A14, A15: decisions that hold for longer than one call, and the rules that they make."""

import os

import anyio
import pytest
from scenes import ForkingStore, deploy, effects, events, fork, opened
from watching import next_of

from supervisor import Approve, Context, Deny, InvalidInput, MemoryStore, NotFound, Rule, agent, allow, deny, tool
from supervisor.core import events as e
from supervisor.core.approvals.people import People, Person
from supervisor.core.calls.rules import make_rule
from supervisor.core.cursors import make_cursor
from supervisor.core.declarations.tool_context import ProcessToolContext
from supervisor.core.errors import NotEntitled
from supervisor.core.ids import RULES

pytestmark = pytest.mark.anyio
STAGING, PRODUCTION = '{"target":"staging"}', '{"target":"production"}'


@agent
async def deploys(ctx: Context, targets: list[str]) -> list[str]:
    """Make deploys one after the other, the last one by a sub-agent."""
    *first, last = targets
    kinds = [(await ctx.call(deploy, target)).kind for target in first]
    return kinds + (await ctx.run(deploys, [last]) if first else [(await ctx.call(deploy, last)).kind])


async def first_asked(supervisor, targets, session=None):
    """Start the agent. Return its run and its first approval."""
    run = await supervisor.start(deploys, targets, session=session)
    return run, await next_of(run.watch_approvals())


async def test_an_approval_for_the_session_holds_in_its_tree_only():
    """A7, A14: it holds for the exact call at any depth. Other arguments and other sessions ask."""
    async with opened() as supervisor:
        run, asked = await first_asked(supervisor, ["staging", "staging", "production", "staging"])
        assert [option.scope for option in asked.options] == ["once", "session", "always"]
        result = await supervisor.decide(asked.id, Approve(by="ana", scope="session"))
        again = await next_of(run.watch_approvals())
        assert (again.arguments, effects) == ({"target": "production"}, ["staging", "staging"])
        await supervisor.decide(again.id, Deny(by="ana"))
        assert await run.result() == ["ok", "ok", "denied", "ok"]
        (rule,) = await supervisor.find_rules()
        assert (rule.id, rule.session, rule.pattern, rule.approval) == (result.rule, run.session, STAGING, asked.id)
        assert (rule.by, rule.origin) == ("ana", "decision")
        other, same = await first_asked(supervisor, ["staging"])
        await supervisor.decide(same.id, Deny(by="ana"))
        assert await other.result() == ["denied"]


async def test_an_approval_for_always_holds_everywhere_and_after_a_restart():
    """A7, A14: always means every tree of the store, even if a sub-agent asked."""
    store = MemoryStore()

    @agent
    async def parent(ctx: Context, target: str) -> list[str]:
        return await ctx.run(deploys, [target])

    async with opened(store) as supervisor:
        run = await supervisor.start(parent, "staging")
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana", scope="always", pattern=STAGING))
        await run.result()
    async with opened(fork(store), unattended="deny") as supervisor:
        assert await (await supervisor.start(deploys, ["staging", "staging"])).result() == ["ok", "ok"]
        assert effects == ["staging"] * 3


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_the_rule_is_on_disk_with_its_decision_or_neither_is(scope):
    """A1: so it is after a kill at any commit."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        run, asked = await first_asked(supervisor, ["staging"])
        await supervisor.decide(asked.id, Approve(by="ana", scope=scope))
        await run.result()
    seen = [(len(events(copy, run.session, e.ApprovalDecided)), len(copy.journal(RULES))) for copy, _ in store.copies]
    assert set(seen) == {(0, 0), (1, 1)}


async def test_only_the_winner_writes_a_rule_and_the_same_is_the_same_scope_and_pattern():
    """A3: one of several decisions at once wins, and only its rule is written. Another scope is another decision."""
    results = []

    async def click(supervisor, asked, scope):
        results.append((scope, await supervisor.decide(asked.id, Approve(by=scope, scope=scope))))

    async with opened() as supervisor:
        run, asked = await first_asked(supervisor, ["staging"])
        async with anyio.create_task_group() as tasks:
            for scope in ["once", "session", "always"] * 5:
                tasks.start_soon(click, supervisor, asked, scope)
        ((winner, first),) = [(scope, result) for scope, result in results if result.kind == "accepted"]
        assert all(result.kind in ("accepted", "already") for scope, result in results if scope == winner)
        assert all(result.kind == "conflict" for scope, result in results if scope != winner)
        assert {result.rule for _, result in results} == {first.rule}
        assert [rule.id for rule in await supervisor.find_rules()] == ([] if winner == "once" else [first.rule])
        decided = (await supervisor.find_approvals(pending=False))[0]
        assert (decided.scope, decided.rule) == (winner, first.rule)
        await run.result()


async def test_always_offers_the_pattern_that_is_meant_and_it_is_revoked_by_itself():
    """A7: `mix test *` covers the next file; after it is revoked, the same command asks again."""
    ran = []

    @tool(command="command")  # it starts no process, for which a virtual clock would not wait
    async def run_command(command: str) -> None:
        ran.append(command)

    @agent
    async def tests(ctx: Context, files: list[str]) -> list[str]:
        return [(await ctx.call(run_command, f"mix test {file}")).kind for file in files]

    async with opened() as supervisor:
        run = await supervisor.start(tests, ["a.exs", "b.exs", "--require=c.exs"])
        asked = await next_of(run.watch_approvals())
        assert "mix test *" in [option.pattern for option in asked.options if option.scope == "always"]
        result = await supervisor.decide(asked.id, Approve(by="ana", scope="always", pattern="mix test *"))
        again = await next_of(run.watch_approvals())
        assert (ran, again.arguments) == (["mix test a.exs", "mix test b.exs"], {"command": "mix test --require=c.exs"})
        assert "mix test *" not in [option.pattern for option in again.options]
        await supervisor.decide(again.id, Deny(by="ana"))
        await run.result()
        await supervisor.revoke_rule(result.rule, by="ana")
        later = await supervisor.start(tests, ["a.exs"])
        await supervisor.decide((await next_of(later.watch_approvals())).id, Deny(by="ana"))
        assert await later.result() == ["denied"]


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_a_pattern_of_a_list_makes_a_rule_for_each_command_and_each_is_revoked_by_itself(scope):
    """A7, A13: they are one decision, which also decides what waits, and two rules."""

    @tool(command="command")  # it starts no process, for which a virtual clock would not wait
    async def run_command(command: str) -> None:
        return

    @agent
    async def checks(ctx: Context, commands: list[str]) -> list[str]:
        async def call(command):
            kinds[command] = (await ctx.call(run_command, command)).kind

        kinds = {}
        async with anyio.create_task_group() as tasks:
            for command in commands:
                tasks.start_soon(call, command)
        kinds["later"] = (await ctx.call(run_command, commands[0])).kind
        return [kinds[name] for name in (*commands, "later")]

    both = ["npm run check 2>&1 | tail -20", "npm run check && tail -5 log"]
    async with opened() as supervisor:
        run = await supervisor.start(checks, both)
        asked = await next_of(run.watch_approvals())
        meant = Approve(by="ana", scope=scope, pattern="npm run check *\ntail *")
        while len(await supervisor.find_approvals(session=run.session)) < 2:
            await anyio.sleep(1)
        result = await supervisor.decide(asked.id, meant)
        assert (result.kind, len(result.released)) == ("accepted", 1)
        assert await run.result() == ["ok"] * 3
        rules = await supervisor.find_rules()
        assert [(rule.id, rule.pattern) for rule in rules] == [
            (result.rules[0], "npm run check *"),
            (result.rules[1], "tail *"),
        ]
        decided = await supervisor.find_approvals(pending=False)
        assert [(each.pattern, each.rules) for each in decided] == [(meant.pattern, result.rules)] * 2
        assert (await supervisor.decide(asked.id, meant)).kind == "already"
        assert (await supervisor.decide(asked.id, Approve(by="ana", scope=scope))).kind == "conflict"
        await supervisor.revoke_rule(result.rules[1], by="ana")
        assert [rule.pattern for rule in await supervisor.find_rules()] == ["npm run check *"]


async def test_another_pattern_is_another_decision():
    """A3: one of two offered patterns for the same scope wins. A decision without a pattern means the exact one."""

    @tool(command="command")  # it starts no process, for which a virtual clock would not wait
    async def run(command: str) -> str:
        return command

    @agent
    async def looks(ctx: Context) -> str:
        return (await ctx.call(run, "git status -s")).kind

    store = MemoryStore()
    async with opened(store) as supervisor:
        asked = await next_of((await supervisor.start(looks)).watch_approvals())
    exact, prefix = dict.fromkeys(option.pattern for option in asked.options if option.pattern)
    async with opened(fork(store)) as supervisor:
        patterns = [exact, prefix, None, exact]
        decisions = [Approve(by="ana", scope="always", pattern=pattern) for pattern in patterns]
        kinds = [(await supervisor.decide(asked.id, decision)).kind for decision in decisions]
    assert kinds == ["accepted", "conflict", "already", "already"]


async def test_a_denial_makes_no_rule_and_a_lost_race_neither():
    """A3: the rule of a decision that came too late is not written."""
    async with opened() as supervisor:
        run, asked = await first_asked(supervisor, ["staging"])
        await supervisor.decide(asked.id, Deny(by="ben"))
        assert (await supervisor.decide(asked.id, Approve(by="ana", scope="always"))).kind == "conflict"
        assert list(await supervisor.find_rules()) == []
        assert await run.result() == ["denied"]


@pytest.mark.parametrize(
    "decision",
    [
        {"scope": "always", "pattern": PRODUCTION},
        {"scope": "for ever"},
        {"pattern": STAGING},
        {"scope": "session", "arguments": {"target": "production"}},
    ],
    ids=["pattern", "scope", "once with a pattern", "edited"],
)
async def test_a_rule_that_was_not_offered_is_refused_and_the_approval_stays_pending(decision):
    """A5, A8: only an offered rule can be made, and none from edited arguments."""
    async with opened() as supervisor:
        run, asked = await first_asked(supervisor, ["staging"])
        with pytest.raises(InvalidInput):
            await supervisor.decide(asked.id, Approve(by="ana", **decision))
        assert [approval.id for approval in await supervisor.find_approvals()] == [asked.id]
        assert list(await supervisor.find_rules()) == []
        await supervisor.decide(asked.id, Deny(by="ana"))
        await run.result()


async def test_a_deny_that_comes_while_a_call_is_asked_wins_over_its_approval():
    """A9: the rules are checked again before the effect. The approval itself stays with the person."""
    async with opened() as supervisor:
        run, asked = await first_asked(supervisor, ["production"])
        await supervisor.add_rule(deny(deploy, PRODUCTION), by="ben")
        assert len(await supervisor.find_approvals()) == 1
        assert (await supervisor.decide(asked.id, Approve(by="ana"))).kind == "accepted"
        assert (await run.result(), effects) == (["denied"], [])


async def test_an_asked_call_stays_asked_when_a_rule_comes_that_would_allow_it():
    """A13: what waits is decided by people. A rule that was made apart from a decision is for later calls."""

    @agent
    async def both(ctx: Context) -> list[str]:
        kinds = []

        async def one(context: Context) -> None:
            kinds.append((await context.call(deploy, "staging")).kind)

        async with ctx.task_group() as tasks:
            tasks.start_soon(one)
            tasks.start_soon(one)
        return kinds

    async with opened() as supervisor:
        run = await supervisor.start(both)
        async with run.watch_approvals() as approvals:
            first, second = await anext(approvals), await anext(approvals)
            rule = await supervisor.add_rule(allow("deploy"), by="ana")
            assert [approval.id for approval in await supervisor.find_approvals()] == [first.id, second.id]
            for each in (first, second):
                await supervisor.decide(each.id, Approve(by="ana"))
            assert await run.result() == ["ok", "ok"]
            assert [each.id for each in await supervisor.find_rules()] == [rule.id]


async def test_a_revoked_rule_covers_no_later_call():
    """A7: it is revoked by its id, once. An unknown rule raises."""
    async with opened() as supervisor:
        rule = await supervisor.add_rule(allow(deploy, STAGING), by="ana")
        assert await supervisor.add_rule(allow(deploy, STAGING), by="ben") == rule
        assert await (await supervisor.start(deploys, ["staging"])).result() == ["ok"]
        await supervisor.revoke_rule(rule.id, by="ben")
        run, asked = await first_asked(supervisor, ["staging"])
        await supervisor.decide(asked.id, Deny(by="ana"))
        assert await run.result() == ["denied"]
        with pytest.raises(NotFound):
            await supervisor.revoke_rule(rule.id, by="ben")
        assert list(await supervisor.find_rules()) == []


async def test_a_call_that_a_rule_allowed_does_not_begin_after_a_crash_without_the_rule():
    """A9: no person approved it, so the rule must still hold when the call begins."""

    @tool(name="deploy")
    async def late(context: ProcessToolContext, target: str) -> str:
        effects.append(target)
        return target

    @agent
    async def deploys_late(ctx: Context) -> str:
        return (await ctx.call(late, "staging")).kind

    store = ForkingStore()
    async with opened(store) as supervisor:
        rule = await supervisor.add_rule(allow("deploy", STAGING), by="ana")
        run = await supervisor.start(deploys_late)
        assert await run.result() == "ok"
    left = next(copy for copy, _ in store.copies if events(copy, run.session, e.ToolCallRequested))
    effects.clear()
    async with opened(left) as supervisor:
        await supervisor.revoke_rule(rule.id, by="ben")
        resumed = await supervisor.resume(run.session)
        assert (await resumed.result(), effects) == ("denied", [])


async def test_a_deny_that_comes_while_a_process_is_being_made_stops_the_call():
    """A9: the rules are checked inside the commit of `executing`, the last step before the effect."""

    @tool(name="deploy")
    async def slow(context: ProcessToolContext, target: str) -> str:
        await supervisor.add_rule(deny("deploy"), by="ben")
        await context.started(os.getpid(), None)
        effects.append(target)
        return target

    @agent
    async def deploys_slowly(ctx: Context) -> str:
        return (await ctx.call(slow, "staging")).kind

    async with opened() as supervisor:
        run = await supervisor.start(deploys_slowly)
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert (await run.result(), effects) == ("denied", [])
        assert events(supervisor.store, run.session, e.ToolCallStarted) == []


async def test_a_resumed_run_keeps_its_programs_denies_and_not_its_allows():
    """R4: another process may resume it without rules of its own. In doubt it has the least privilege."""
    store = MemoryStore()
    async with opened(store, rules=[allow(deploy, STAGING), deny(deploy, PRODUCTION)]) as supervisor:
        await supervisor.start(deploys, ["staging", "other", "staging", "production"], session="s")
        assert effects == []
    async with opened(fork(store)) as supervisor:
        run = await supervisor.resume("s")
        async with run.watch_approvals() as approvals:
            for wanted in ("other", "staging"):
                asked = await anext(approvals)
                assert asked.arguments == {"target": wanted}
                await supervisor.decide(asked.id, Approve(by="ana"))
            assert await run.result() == ["ok", "ok", "ok", "denied"]


async def test_the_audit_trail_says_who_added_and_who_revoked_and_by_which_rule_a_call_ran():
    """A15: rules are listed in order with the calls that they allow."""
    async with opened() as supervisor:
        rule = await supervisor.add_rule(make_rule("allow", deploy, STAGING, "command line"), by="ana")
        await (await supervisor.start(deploys, ["staging"])).result()
        await supervisor.revoke_rule(rule.id, by="ben")
        found = [row.event for row in await supervisor.find_audit()]
        added, called, *_, revoked = found
        assert (added.by, added.rule.id, added.rule.origin) == ("ana", rule.id, "command line")
        assert (called.tool, called.rule, called.approval) == ("deploy", rule.id, None)
        assert (revoked.by, revoked.rule) == ("ben", rule.id)


@pytest.mark.parametrize(
    "rule",
    [
        Rule(kind="allow", tool="shell", pattern="python *"),
        Rule(kind="deny", tool=" "),
        Rule(kind="never", tool="deploy"),
        allow(deploy, session="nosuch"),
    ],
    ids=["unsafe", "no tool", "no kind", "no session"],
)
async def test_an_invalid_rule_is_not_stored(rule):
    """A5: a rule made by hand is checked as `allow`, `deny` and `ask` check theirs. Its session must exist."""
    async with opened() as supervisor:
        with pytest.raises((InvalidInput, NotFound)):
            await supervisor.add_rule(rule, by="ana")
        assert list(await supervisor.find_rules()) == []


async def test_a_rule_needs_a_person_who_adds_it():
    """A4: an empty identity adds and revokes nothing."""
    async with opened() as supervisor:
        rule = await supervisor.add_rule(deny(deploy), by="ana")
        for refused in (supervisor.add_rule(allow(deploy), by=" "), supervisor.revoke_rule(rule.id, by="")):
            with pytest.raises(InvalidInput):
                await refused
        assert list(await supervisor.find_rules()) == [rule]


async def test_only_operators_change_rules_if_people_have_roles():
    """A4: the core enforces this for every surface."""
    async with opened() as supervisor:
        supervisor.people = People([Person(name="ana", roles=("operator",)), Person(name="ben", roles=("approver",))])
        rule = await supervisor.add_rule(deny(deploy), by="ana")
        for by in ("ben", "eve"):
            for refused in (supervisor.add_rule(allow(deploy, STAGING), by=by), supervisor.revoke_rule(rule.id, by=by)):
                with pytest.raises(NotEntitled):
                    await refused
        assert list(await supervisor.find_rules()) == [rule]
        await supervisor.revoke_rule(rule.id, by="ana")
        assert list(await supervisor.find_rules()) == []


async def test_the_cursor_of_the_rules_is_of_what_they_show():
    """An entry that is on disk, but whose commit is not live yet, comes after it: a stream from there shows it."""

    class Ahead(MemoryStore):
        by = 0

        def last_position(self):
            return super().last_position() + self.by

    store = Ahead()
    async with opened(store) as supervisor:
        await supervisor.add_rule(allow(deploy, STAGING), by="ben")
        page, last = await supervisor.find_rules(), supervisor.store.last_position()
        assert page.cursor == make_cursor(supervisor.store.id, last)
        store.by = 1
        assert await supervisor.find_rules() == page
