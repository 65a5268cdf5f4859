"""A13: a rule that a decision makes also decides the equal calls that wait, and nothing else does."""

import anyio
import pytest
from scenes import deploy, effects, opened

from supervisor import Approve, Context, Deny, MemoryStore, agent, allow, ask, tool
from supervisor.core.approvals.people import ApproverRule, People, Person
from supervisor.testing import wall_clock

pytestmark = pytest.mark.anyio


@agent
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def asks_all(ctx: Context, targets: list[str]) -> list[str]:
    children = [await ctx.spawn(asks, target) for target in targets]
    return [await child.result() for child in children]


async def waiting(supervisor, count, **only):
    """Return what waits, once that is so many approvals."""
    with anyio.fail_after(60):
        while len(found := await supervisor.find_approvals(**only)) != count:
            await anyio.sleep(0.01)
    return list(found)


@pytest.mark.parametrize(
    ("decision", "kind"), [(Approve(by="ana", scope="session"), "ok"), (Deny(by="ana", scope="session"), "denied")]
)
async def test_a_decision_for_the_session_decides_equal_calls_of_its_tree_in_one_append(decision, kind):
    """They name the person, the rule and the approval whose decision it was; the result names them."""
    async with opened() as supervisor:
        run = await supervisor.start(asks_all, ["x", "x", "y", "x"], session="s")
        first, *others = await waiting(supervisor, 4)
        result = await supervisor.decide(first.id, decision)
        left = await supervisor.find_approvals()
        assert [each.arguments["target"] for each in left] == ["y"]
        equal = [each.id for each in others if each.id != left[0].id]
        assert set(result.released) == set(equal)
        for each in equal:
            now = await supervisor.get_approval(each)
            assert (now.by, now.rule, now.through) == ("ana", result.rule, first.id)
        await supervisor.decide(left[0].id, Approve(by="ben"))
        assert await run.result() == [kind, kind, "ok", kind]


async def test_a_decision_for_always_decides_equal_calls_of_other_trees():
    """The owner of those trees does it; a decision for the session leaves them."""
    async with opened() as supervisor:
        runs = [await supervisor.start(asks, "x", session=name) for name in "abc"]
        await waiting(supervisor, 3)
        (one,) = await supervisor.find_approvals(session="a")
        await supervisor.decide(one.id, Approve(by="ana", scope="session"))
        await anyio.sleep(5)
        two, three = await waiting(supervisor, 2)
        await supervisor.decide(two.id, Approve(by="ana", scope="always"))
        assert [await run.result() for run in runs] == ["ok", "ok", "ok"]
        now = await supervisor.get_approval(three.id)
        assert (now.status, now.by, now.through) == ("approved", "ana", two.id)


@pytest.mark.parametrize("set_by", [-3600.0, 3600.0])
async def test_calls_of_other_trees_are_decided_though_the_wall_clock_was_set(set_by):
    """What asked before the decision is told by positions: no clock says it."""
    with wall_clock() as wall:
        async with opened() as supervisor:
            runs = [await supervisor.start(asks, "x", session=name) for name in "ab"]
            one, _ = await waiting(supervisor, 2)
            wall.ahead = set_by
            await supervisor.decide(one.id, Approve(by="ana", scope="always"))
            assert [await run.result() for run in runs] == ["ok", "ok"]


async def test_a_decision_releases_equal_calls_of_other_trees_though_an_equal_rule_stood_before():
    """It confirms that rule, which nothing else would tell the owners of those trees; also after a restart."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        runs = [await supervisor.start(asks, "x", session=name) for name in "abc"]
        one, two, _ = await waiting(supervisor, 3)
        stood = await supervisor.add_rule(allow("deploy", '{"target":"x"}'), by="ben")
        await anyio.sleep(5)
        assert len(await supervisor.find_approvals()) == 3
    left = store.copy()
    async with opened(left) as supervisor:
        await supervisor.resume("a")
        made = await supervisor.decide(one.id, Approve(by="ana", scope="always"))
        assert (made.rule, len(await supervisor.find_rules())) == (stood.id, 1)
    async with opened(left.copy()) as supervisor:
        runs = [await supervisor.resume(name) for name in "abc"]
        assert [await run.result() for run in runs] == ["ok", "ok", "ok"]
        now = await supervisor.get_approval(two.id)
        assert (now.by, now.rule, now.through) == ("ana", stood.id, one.id)
        await supervisor.revoke_rule(stood.id, by="ana")
        assert list(await supervisor.find_rules()) == []


async def test_an_ask_rule_of_a_path_holds_an_equal_call_that_leads_there(tmp_path):
    """Where a path leads is settled when a rule releases a call, too."""

    @tool(path="file")
    async def change(file: str) -> str:
        return file

    @agent
    async def changes(ctx: Context, file: str) -> str:
        return (await ctx.call(change, file)).kind

    @agent
    async def changes_twice(ctx: Context, file: str) -> None:
        for child in [await ctx.spawn(changes, file), await ctx.spawn(changes, file)]:
            await child.outcome()

    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    async with opened() as supervisor:
        await supervisor.start(changes_twice, str(tmp_path / "link" / "a"))
        first, second = await waiting(supervisor, 2)
        await supervisor.add_rule(ask("change", f"{tmp_path}/kept/**"), by="ben")
        await supervisor.decide(first.id, Approve(by="ana", scope="session"))
        await anyio.sleep(5)
        assert [each.id for each in await supervisor.find_approvals()] == [second.id]


async def test_a_call_of_a_tree_that_no_process_runs_is_decided_when_it_is_loaded():
    """So it is after a restart. A rule that was revoked meanwhile decides nothing."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        for name in ("left", "gone"):
            await supervisor.start(asks, name, session=name)
        await waiting(supervisor, 2)
    copy = store.copy()
    async with opened(copy) as supervisor:
        run = await supervisor.start(asks_all, ["left", "gone"], session="new")
        for each in await waiting(supervisor, 2, session="new"):
            made = await supervisor.decide(each.id, Approve(by="ana", scope="always"))
        await supervisor.revoke_rule(made.rule, by="ana")
        assert await run.result() == ["ok", "ok"]
        last = (await supervisor.get_approval(each.id)).arguments["target"]
        assert len(await supervisor.find_approvals()) == 2
        await supervisor.resume("left" if last == "gone" else "gone")
        await supervisor.resume(last)
        (held,) = await waiting(supervisor, 1)
        assert held.session == last


@pytest.mark.parametrize("rule", [allow("deploy"), allow("deploy", '{"target":"x"}')])
async def test_a_rule_that_no_decision_made_leaves_what_waits(rule):
    """It is for later calls."""
    async with opened() as supervisor:
        await supervisor.start(asks_all, ["x", "x"], session="s")
        await waiting(supervisor, 2)
        await supervisor.add_rule(rule, by="ana")
        await anyio.sleep(5)
        assert len(await supervisor.find_approvals()) == 2


async def test_an_ask_rule_holds_an_equal_call():
    """Ask beats allow: the call waits for a decision of its own."""
    async with opened() as supervisor:
        await supervisor.start(asks_all, ["x", "x"], session="s")
        first, second = await waiting(supervisor, 2)
        await supervisor.add_rule(ask("deploy"), by="ben")
        result = await supervisor.decide(first.id, Approve(by="ana", scope="always"))
        await anyio.sleep(5)
        assert (result.released, [each.id for each in await supervisor.find_approvals()]) == ((), [second.id])


async def test_a_reserved_call_is_not_decided_by_the_rule_of_another_person():
    """A4: what the other agent asks is for cleo."""

    @agent(name="reserved")
    async def reserved(ctx: Context, target: str) -> str:
        return (await ctx.call(deploy, target)).kind

    people = People(
        [Person(name=name, roles=("approver",)) for name in ("ana", "cleo")],
        [ApproverRule(approvers=("cleo",), agent="reserved")],
    )
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(reserved, "x", session="b")
        await waiting(supervisor, 1)
    store = store.copy()
    async with opened(store) as supervisor:
        run = await supervisor.start(asks, "x", session="a")
        (mine,) = await waiting(supervisor, 1, session="a")
        await supervisor.decide(mine.id, Approve(by="ana", scope="always"))
        assert await run.result() == "ok"
    async with opened(store.copy()) as supervisor:
        supervisor.people = people
        await supervisor.resume("b")
        await anyio.sleep(5)
        assert [each.session for each in await supervisor.find_approvals()] == ["b"]


async def test_a_released_call_counts_as_approved_for_whoever_comes_later():
    """A3: a plain approval is `already`; one that would make another rule is a conflict, as its rule is not made."""
    async with opened() as supervisor:
        run = await supervisor.start(asks_all, ["x", "x"], session="s")
        first, second = await waiting(supervisor, 2)
        await supervisor.decide(first.id, Approve(by="ana", scope="session"))
        late = [
            Approve(by="ben"),
            Approve(by="ben", scope="session"),
            Approve(by="ben", scope="always"),
            Deny(by="ben"),
        ]
        kinds = [(await supervisor.decide(second.id, each)).kind for each in late]
        assert kinds == ["already", "already", "conflict", "conflict"]
        assert (await run.result(), effects) == (["ok", "ok"], ["x", "x"])
