"""A16: a batch is ordinary decisions with a result each; what a person did not read or may not decide stays."""

import anyio
import pytest
from dying import fork
from scenes import DamagedStore, deploy, effects, opened
from test_releasing import asks, asks_all, waiting

from supervisor import (
    Answer,
    Approve,
    Context,
    Deny,
    InvalidInput,
    MemoryStore,
    agent,
    allow,
    ask,
    deny,
    events as e,
)
from supervisor.core.approvals.people import ApproverRule, People, Person

pytestmark = pytest.mark.anyio
ANA = Approve(by="ana")


@agent
async def polls(ctx: Context, text: str) -> str:
    return str(await ctx.ask(text))


@agent(approval_expires_in=60.0)
async def asks_soon(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def hasty(ctx: Context, targets: list[str]) -> list[str]:
    children = [await ctx.spawn(asks, targets[0]), await ctx.spawn(asks_soon, targets[1])]
    return [await child.result() for child in children]


async def audited(supervisor, kind=e.ApprovalDecided):
    return [row for row in await supervisor.find_audit(limit=None) if isinstance(row.event, kind)]


@pytest.fixture
def store(new_store):
    return new_store


async def test_each_decision_of_a_batch_counts_by_itself_under_one_id(store):
    """One that was decided before, one that does not exist and one of another kind stop no other."""
    async with opened(store) as supervisor:
        run = await supervisor.start(asks_all, ["a", "b", "c"], session="s")
        first, second, third = [each.id for each in await waiting(supervisor, 3)]
        await supervisor.decide(first, Deny(by="ben"))
        given = [(first, ANA), ("x" * 42, ANA), (second, ANA), (third, Deny(by="ana", reason="no"))]
        results = await supervisor.decide_all(given, channel="web")
        assert [each.kind for each in results] == ["conflict", "unknown", "accepted", "accepted"]
        (batch,) = {each.batch for each in results}
        trail = await audited(supervisor)
        assert [row.event.batch for row in trail] == [None, batch, batch]
        assert await run.result() == ["denied", "ok", "denied"]


async def test_the_same_batch_again_says_already():
    """So a person may repeat it, whatever came of it the first time."""
    async with opened() as supervisor:
        await supervisor.start(asks_all, ["a", "b"], session="s")
        given = [(each.id, ANA) for each in await waiting(supervisor, 2)]
        await supervisor.decide_all(given)
        again = await supervisor.decide_all([*given, given[0]])
        assert [each.kind for each in again] == ["already"] * 3
        assert len(await audited(supervisor)) == 2


class Counting(MemoryStore):
    """Counts the decisions of each commit."""

    def __init__(self):
        super().__init__()
        self.commits = []

    def write(self, rows):
        super().write(rows)
        if found := sum(isinstance(row.event, e.ApprovalDecided) for row in rows):
            self.commits.append(found)


async def test_the_decisions_of_a_tree_are_one_append():
    """A tree has all of its decisions or none, wherever the process dies."""
    store = Counting()
    async with opened(store) as supervisor:
        await supervisor.start(asks_all, ["a", "b"], session="s")
        await supervisor.start(asks_all, ["c", "d", "e"], session="t")
        found = await waiting(supervisor, 5)
        await supervisor.decide_all([(each.id, ANA) for each in reversed(found)])
        assert sorted(store.commits) == [2, 3]


async def test_a_rule_that_one_decision_makes_decides_the_others_of_its_tree_once():
    """The second decision finds the call decided through the first, and makes no second rule."""
    async with opened() as supervisor:
        run = await supervisor.start(asks_all, ["x", "x"], session="s")
        wide = Approve(by="ana", scope="session")
        results = await supervisor.decide_all([(each.id, wide) for each in await waiting(supervisor, 2)])
        assert [each.kind for each in results] == ["accepted", "already"]
        assert results[0].released == (results[1].approval,)
        assert len(await supervisor.find_rules()) == 1
        assert await run.result() == ["ok", "ok"]
        assert effects == ["x", "x"]


async def test_a_call_with_another_digest_than_was_shown_stays():
    """The person has not seen it. The others are decided."""
    async with opened() as supervisor:
        await supervisor.start(asks_all, ["a", "b"], session="s")
        one, two = await waiting(supervisor, 2)
        shown = {one.id: "0" * 64, two.id: two.digest}
        results = await supervisor.decide_all([(one.id, ANA), (two.id, ANA)], shown=shown)
        assert [(each.kind, bool(each.why)) for each in results] == [("conflict", True), ("accepted", False)]
        assert [each.id for each in await supervisor.find_approvals()] == [one.id]


@pytest.mark.parametrize("decision", [ANA, Deny(by="ana"), Answer(value="tea", by="ana")])
async def test_a_question_is_never_decided_in_a_batch(decision):
    """Each has an answer of its own."""
    async with opened() as supervisor:
        await supervisor.start(polls, "tea?", session="q")
        (question,) = await waiting(supervisor, 1)
        (result,) = await supervisor.decide_all([(question.id, decision)])
        assert (result.kind, result.status) == ("refused", "pending")
        assert (await supervisor.get_approval(question.id)).status == "pending"


async def test_a_call_that_is_reserved_for_others_stays_and_the_attempt_is_in_the_audit_trail():
    """The refusal stops no other decision."""
    people = People(
        [Person(name=name, roles=("approver",)) for name in ("ana", "ben")],
        [ApproverRule(approvers=("ben",), rule=ask("deploy", '{"target":"prod"}'))],
    )
    async with opened(people=people) as supervisor:
        await supervisor.start(asks_all, ["prod", "test"], session="s")
        found = await waiting(supervisor, 2)
        results = await supervisor.decide_all([(each.id, ANA) for each in found])
        kinds = {each.arguments["target"]: result.kind for each, result in zip(found, results, strict=True)}
        assert kinds == {"prod": "refused", "test": "accepted"}
        (left,) = await supervisor.find_approvals()
        (refused,) = await audited(supervisor, e.DecisionRefused)
        assert (refused.event.approval, refused.event.by) == (left.id, "ana")


async def test_a_decision_that_does_not_fit_is_refused_and_stops_no_other():
    """A scope that was not offered, an edit that does not fit, an answer to a call."""
    async with opened() as supervisor:
        await supervisor.start(asks_all, ["a", "b", "c", "d"], session="s")
        wrong = [
            Approve(by="ana", scope="always", pattern="*"),
            Approve(by="ana", arguments={"other": 1}),
            Answer(by="ana", value=1),
            ANA,
        ]
        found = await waiting(supervisor, 4)
        results = await supervisor.decide_all([(each.id, said) for each, said in zip(found, wrong, strict=True)])
        assert [each.kind for each in results] == ["refused"] * 3 + ["accepted"]
        assert all(each.why for each in results[:3])
        assert len(await supervisor.find_approvals()) == 3


@pytest.mark.parametrize("how", ["a batch", "a rule", "a decision for always", "an acknowledgement"])
async def test_a_session_that_cannot_be_read_stays_and_stops_none_of_other_trees(how):
    async with opened(store := DamagedStore(), passivate_after=1) as supervisor:
        for name in ("a", "b", "c"):
            await supervisor.start(asks, "x", session=name)
        asked = {each.session: each.id for each in await waiting(supervisor, 3)}
        first, second, third = (asked[name] for name in ("a", "b", "c"))
        await anyio.sleep(5)
        store.damaged = "b"
        match how:
            case "a batch":
                results = await supervisor.decide_all([(each, ANA) for each in (first, second, third)])
                assert [each.kind for each in results] == ["accepted", "refused", "accepted"]
                assert results[1].why == "a journal entry cannot be read"
            case "a rule":
                await supervisor.add_rule(allow("deploy"), by="ana", pending=True)
            case "an acknowledgement":
                assert await supervisor.acknowledge([first, second, third], by="ana") == (first, third)
                return
            case _:
                await supervisor.decide(first, Approve(by="ana", scope="always"))
        assert [each.id for each in await waiting(supervisor, 1)] == [second]


async def test_a_batch_is_of_one_person_and_an_empty_one_is_nothing():
    """A decision without a name is refused before anything is decided."""
    async with opened() as supervisor:
        await supervisor.start(asks, "a", session="s")
        (one,) = await waiting(supervisor, 1)
        assert await supervisor.decide_all([]) == []
        for given in ([(one.id, ANA), (one.id, Deny(by="ben"))], [(one.id, Deny(by=" "))]):
            with pytest.raises(InvalidInput):
                await supervisor.decide_all(given)
        assert len(await supervisor.find_approvals()) == 1


async def test_an_expired_call_of_a_batch_is_closed_and_the_others_count():
    """Each is what it would be by itself."""
    async with opened() as supervisor:
        await supervisor.start(hasty, ["a", "b"], session="s")
        found = await waiting(supervisor, 2)
        late = [each.id for each in found if each.expires_at is not None]
        await anyio.sleep(120)
        results = await supervisor.decide_all([(each.id, ANA) for each in found])
        assert {each.approval: each.kind for each in results}[late[0]] == "closed"
        assert sorted(each.kind for each in results) == ["accepted", "closed"]


async def test_calls_decided_in_a_batch_run_in_a_later_process_once():
    """No process ran the trees."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(asks_all, ["a", "b"], session="s")
        found = await waiting(supervisor, 2)
    async with opened(fork(store), adopt=False) as supervisor:
        await supervisor.decide_all([(each.id, ANA) for each in found])
        run = await supervisor.resume("s")
        assert await run.result() == ["ok", "ok"]
        assert sorted(effects) == ["a", "b"]


async def test_a_rule_with_pending_decides_what_it_covers_in_every_tree(store):
    """Also where no process runs the tree. Without it, and after it was revoked, what waits goes on waiting."""
    async with opened(store) as supervisor:
        for session in "st":
            await supervisor.start(asks_all, ["x", "y"], session=session)
        await waiting(supervisor, 4)
        exact = '{"target":"x"}'
        await supervisor.add_rule(allow("deploy", exact), by="ana")
        await anyio.sleep(5)
        assert len(await supervisor.find_approvals()) == 4
        rule = await supervisor.add_rule(allow("deploy", exact), by="ana", pending=True)
        left = await waiting(supervisor, 2)
        assert {each.arguments["target"] for each in left} == {"y"}
        decided = [row.event for row in await audited(supervisor)]
        assert {(each.by, each.rule, each.through) for each in decided} == {("ana", rule.id, None)}
        with pytest.raises(InvalidInput):
            await supervisor.add_rule(ask("deploy"), by="ana", pending=True)


async def test_a_rule_with_pending_leaves_what_is_held():
    """An ask rule holds a call, and so does a deny rule."""
    async with opened(rules=[ask("deploy", '{"target":"x"}')]) as supervisor:
        await supervisor.start(asks_all, ["x", "y"], session="s")
        await waiting(supervisor, 2)
        await supervisor.add_rule(allow("deploy", '{"target":"x"}'), by="ana", pending=True)
        await supervisor.add_rule(deny("deploy", '{"target":"y"}'), by="ana", pending=True)
        (left,) = await waiting(supervisor, 1)
        assert left.arguments["target"] == "x"
