"""A17: where two people must decide, each yes is a vote for one digest, on disk, and one no is enough."""

from datetime import UTC, datetime

import anyio
import pytest
from dying import fork
from hypothesis import given, strategies as st
from scenes import deploy, effects, opened
from test_releasing import asks, asks_all, waiting

from supervisor import (
    Answer,
    Approve,
    Context,
    Deny,
    InvalidInput,
    MemoryStore,
    NotEntitled,
    agent,
    allow,
    ask,
    events as e,
    tool,
)
from supervisor.channels import Channel
from supervisor.core.approvals.facts import facts_of
from supervisor.core.approvals.people import ApproverRule, People, Person
from supervisor.core.approvals.state import PENDING, read_names
from supervisor.testing import virtual_asyncio

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("ana", "ben", "cleo")


def people(quorum=2, **reservation):
    persons = [Person(name=name, roles=("approver",)) for name in (*NAMES, "dan")]
    rule = ApproverRule(approvers=NAMES, quorum=quorum, **(reservation or {"rule": ask("deploy")}))
    return People([*persons, Person(name="olga", roles=("operator",)), Person(name="rita")], [rule])


@pytest.fixture
def store(new_store):
    return new_store


def said_on_card(approval):
    return [fact.text for fact in facts_of(approval, approval.created_at) if fact.name == "votes"]


async def test_the_second_person_decides_and_the_card_says_who_was_the_first(store):
    """The vote is on disk and in the audit trail; the decision names both."""
    async with opened(store, people=people()) as supervisor:
        run = await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        first = await supervisor.decide(asked.id, Approve(by="ana"), channel="web")
        assert (first.kind, first.status, first.missing, effects) == ("counted", "pending", 1, [])
        now = await supervisor.get_approval(asked.id)
        assert said_on_card(now) == ["1 of 2: ana"]
        second = await supervisor.decide(asked.id, Approve(by="ben"))
        assert (second.kind, await run.result()) == ("accepted", "ok")
        ended = await supervisor.get_approval(asked.id)
        assert (ended.by, ended.with_votes_of, ended.votes) == ("ben", ("ana",), ())
        trail = [type(row.event) for row in await supervisor.find_audit(limit=None)]
        assert trail.index(e.ApprovalVoted) < trail.index(e.ApprovalDecided)


class Wall(Channel):
    """Keeps what its cards say."""

    name = "wall"

    def __init__(self):
        self.posts = []

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    async def post(self, approval, card):
        self.posts.append((card, *said_on_card(approval)))
        return "card"

    async def retire(self, approval, card):
        self.posts.append(("retired", *approval.with_votes_of, approval.by))


async def test_each_card_is_edited_when_a_person_has_voted():
    """The vote wakes neither the run nor its reminders."""
    wall = Wall()
    async with opened(people=people(), channels=[wall]) as supervisor:
        run = await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        await anyio.sleep(5)
        await supervisor.decide(asked.id, Approve(by="ana"))
        await anyio.sleep(5)
        assert wall.posts == [(None,), ("card", "1 of 2: ana")]
        await supervisor.decide(asked.id, Approve(by="ben"))
        await run.outcome()
    assert wall.posts[2:] == [("retired", "ana", "ben")]


async def test_escalation_adds_people_and_does_not_lower_the_number():
    """A person to whom it was escalated has a vote, as any other."""
    names = {"escalate_after": 60.0, "escalate_to": ["dan"]}
    async with opened(people=people(), channels=[Wall()], **names) as supervisor:
        await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        await anyio.sleep(61)
        assert (await supervisor.decide(asked.id, Approve(by="dan"))).kind == "counted"
        assert (await supervisor.decide(asked.id, Approve(by="ana"))).kind == "accepted"


async def test_one_person_counts_once_on_whichever_surface():
    """The same vote again is the same one, and writes nothing."""
    async with opened(people=people()) as supervisor:
        await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        for channel in ("web", "slack", None):
            result = await supervisor.decide(asked.id, Approve(by="ana"), channel=channel)
            assert (result.kind, result.missing) == ("counted", 1)
        rows = await supervisor.find_entries("s", limit=None)
        assert sum(isinstance(row.event, e.ApprovalVoted) for row in rows) == 1


async def test_an_edit_opens_a_second_digest_and_votes_do_not_add_up():
    """A person has one vote, the latest; the card says both."""
    async with opened(people=people()) as supervisor:
        run = await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        edited = {"target": "y"}
        for decision in (Approve(by="ana"), Approve(by="ben", arguments=edited)):
            assert (await supervisor.decide(asked.id, decision)).missing == 1
        one, two = said_on_card(await supervisor.get_approval(asked.id))
        assert one == "1 of 2: ana"
        assert two.startswith("1 of 2: ben (")
        assert (await supervisor.decide(asked.id, Approve(by="ana", arguments=edited))).kind == "accepted"
        assert (await run.result(), effects) == ("ok", ["y"])


async def test_an_edit_that_changes_nothing_is_a_vote_for_the_call_as_it_was_asked():
    async with opened(people=people()) as supervisor:
        await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert (await supervisor.decide(asked.id, Approve(by="ben", arguments={"target": "x"}))).kind == "accepted"


async def test_the_requester_does_not_count_and_an_operator_counts_once():
    """A person who asked for it may say no."""
    async with opened(people=people()) as supervisor:
        await supervisor.start(asks, "x", session="s", requester="ana")
        await supervisor.start(asks, "y", session="t", requester="olga")
        mine, operators = sorted(await waiting(supervisor, 2), key=lambda each: each.root_session)
        for asked, by in ((mine, "ana"), (operators, "olga")):
            with pytest.raises(NotEntitled, match="is none of them"):
                await supervisor.decide(asked.id, Approve(by=by))
        assert (await supervisor.decide(mine.id, Approve(by="olga"))).kind == "counted"
        assert (await supervisor.decide(mine.id, Approve(by="olga"))).kind == "counted"
        assert (await supervisor.decide(mine.id, Approve(by="ben"))).kind == "accepted"
        assert (await supervisor.decide(operators.id, Deny(by="olga"))).kind == "accepted"


async def test_one_entitled_denial_ends_it():
    """Whatever was voted before."""
    async with opened(people=people()) as supervisor:
        run = await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        await supervisor.decide(asked.id, Approve(by="ana"))
        with pytest.raises(NotEntitled):
            await supervisor.decide(asked.id, Deny(by="dan"))
        assert (await supervisor.decide(asked.id, Deny(by="ben"))).kind == "accepted"
        assert (await run.result(), effects) == ("denied", [])


async def test_a_scope_wider_than_once_needs_the_same_number_for_the_same_rule():
    """A vote for once is none for the session."""
    async with opened(people=people(agent="asks")) as supervisor:
        await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        wide = [Approve(by=by, scope="session") for by in ("ben", "cleo")]
        given = [Approve(by="ana"), *wide]
        assert [(await supervisor.decide(asked.id, each)).kind for each in given] == ["counted", "counted", "accepted"]
        assert len(await supervisor.find_rules()) == 1


async def test_a_rule_of_one_person_decides_nothing_that_two_must():
    """Not by a decision elsewhere, not by a rule with `pending`, and not for good."""
    async with opened(people=people(agent="asks")) as supervisor:
        await supervisor.start(asks, "x", session="s", requester="rita")
        await supervisor.start(other, "x", session="o", requester="rita")
        one, two = sorted(await waiting(supervisor, 2), key=lambda each: each.root_session)
        assert (await supervisor.decide(one.id, Approve(by="ana", scope="always"))).kind == "counted"
        await supervisor.add_rule(allow("deploy", '{"target":"x"}'), by="olga", pending=True)
        await anyio.sleep(5)
        assert two.id in [each.id for each in await supervisor.find_approvals()]


@agent
async def other(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


async def test_batches_and_unattended_give_no_vote():
    """A denial in a batch counts."""
    async with opened(people=people(), unattended="allow") as supervisor:
        await supervisor.start(asks_all, ["x", "y"], session="s", requester="rita")
        one, two = await waiting(supervisor, 2)
        await anyio.sleep(5)
        results = await supervisor.decide_all([(one.id, Approve(by="ana"))])
        assert (results[0].kind, (await supervisor.get_approval(one.id)).votes) == ("refused", ())
        (denied,) = await supervisor.decide_all([(two.id, Deny(by="ana"))])
        assert denied.kind == "accepted"


@agent(approval_expires_in=60.0)
async def hasty(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


async def test_expiry_and_withdrawal_void_votes():
    """The second vote comes too late."""
    async with opened(people=people()) as supervisor:
        late = await supervisor.start(hasty, "x", session="s", requester="rita")
        gone = await supervisor.start(asks, "y", session="t", requester="rita")
        found = await waiting(supervisor, 2)
        for each in found:
            await supervisor.decide(each.id, Approve(by="ana"))
        await gone.cancel()
        await anyio.sleep(61)
        assert [(await supervisor.decide(each.id, Approve(by="ben"))).kind for each in found] == ["closed"] * 2
        assert [(await supervisor.get_approval(each.id)).votes for each in found] == [(), ()]
        assert ((await late.outcome()).value, effects) == ("denied", [])


async def test_a_vote_of_a_person_who_may_not_decide_any_more_does_not_count():
    """Roles are asked at the last vote, in the process that takes it."""
    store = MemoryStore()
    async with opened(store, people=people()) as supervisor:
        await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        await supervisor.decide(asked.id, Approve(by="ana"))
    persons = [Person(name=name, roles=("approver",)) for name in ("ben", "cleo")]
    rest = People(persons, [ApproverRule(approvers=("ben", "cleo"), rule=ask("deploy"), quorum=2)])
    async with opened(fork(store), people=rest) as supervisor:
        assert (await supervisor.decide(asked.id, Approve(by="ben"))).missing == 1
        assert (await supervisor.decide(asked.id, Approve(by="cleo"))).kind == "accepted"


async def test_a_vote_outlives_the_process(store):
    """It is read back as it was, and the next process completes it."""
    async with opened(store, people=people()) as supervisor:
        await supervisor.start(asks, "x", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        await supervisor.decide(asked.id, Approve(by="ana"))
    again = fork(store) if isinstance(store, MemoryStore) else store
    async with opened(again, people=people()) as supervisor:
        assert said_on_card(await supervisor.get_approval(asked.id)) == ["1 of 2: ana"]
        assert (await supervisor.decide(asked.id, Approve(by="ben"))).kind == "accepted"
        run = await supervisor.resume("s")
        assert (await run.result(), effects) == ("ok", ["x"])


@tool(secret=["token"])
async def login(token: str, host: str) -> str:
    effects.append(token)
    return "in"


@agent
async def logs_in(ctx: Context, host: str) -> str:
    return (await ctx.call(login, "t0k3n", host)).kind


async def test_an_edit_may_not_change_what_the_others_cannot_see():
    """A secret argument stays as it is; the others may change."""
    async with opened(people=people(rule=ask("login"))) as supervisor:
        run = await supervisor.start(logs_in, "a", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        with pytest.raises(InvalidInput, match="could not see"):
            await supervisor.decide(asked.id, Approve(by="ana", arguments={"token": "mine", "host": "a"}))
        for by in ("ana", "ben"):
            await supervisor.decide(asked.id, Approve(by=by, arguments={**asked.arguments, "host": "b"}))
        assert (await run.result(), effects) == ("ok", ["t0k3n"])


@agent
async def polls(ctx: Context, text: str) -> str:
    return str(await ctx.ask(text))


async def test_a_question_needs_the_same_answer_of_two_people():
    """Where the reservation is of an agent."""
    async with opened(people=people(agent="polls")) as supervisor:
        run = await supervisor.start(polls, "tea?", session="s", requester="rita")
        (asked,) = await waiting(supervisor, 1)
        given = [Answer(value="tea", by="ana"), Answer(value="milk", by="ben"), Answer(value="tea", by="cleo")]
        assert [(await supervisor.decide(asked.id, each)).kind for each in given] == ["counted", "counted", "accepted"]
        assert await run.result() == "tea"


@pytest.mark.parametrize(
    ("approvers", "quorum"), [(("ana",), 2), (("ana", "ana"), 2), (("ana", "nobody"), 2), (("ana",), 0), ((), 2)]
)
def test_a_reservation_that_names_fewer_people_than_it_needs_is_refused(approvers, quorum):
    with pytest.raises(InvalidInput, match="quorum"):
        People([Person(name="ana")], [ApproverRule(approvers=approvers, agent="x", quorum=quorum)])


@given(
    number=st.integers(2, 3),
    votes=st.lists(
        st.tuples(st.sampled_from([*NAMES, "olga", "rita", "dan"]), st.sampled_from(["x", "y", None, "no"])), max_size=8
    ),
)
def test_a_call_runs_if_and_only_if_so_many_people_have_said_yes_to_the_same(number, votes):
    """Against a model: the last yes of each entitled person but the requester, by what would run; one no ends it."""

    async def main():
        async with opened(people=people(number)) as supervisor:
            await supervisor.start(asks, "x", session="s", requester="rita")
            (asked,) = await waiting(supervisor, 1)
            latest: dict[str, str] = {}
            for by, what in votes:
                decision = Deny(by=by) if what == "no" else Approve(by=by, arguments=what and {"target": what})
                if by in ("rita", "dan"):
                    with pytest.raises(NotEntitled):
                        await supervisor.decide(asked.id, decision)
                    continue
                result = await supervisor.decide(asked.id, decision)
                if what == "no":
                    assert result.kind == "accepted"
                    return
                latest[by] = what or "x"
                same = sum(each == latest[by] for each in latest.values())
                assert (result.kind, result.missing) == (
                    ("accepted", 0) if same == number else ("counted", number - same)
                )
                if same == number:
                    return
            assert (await supervisor.get_approval(asked.id)).status == "pending"

    backend, options = virtual_asyncio()
    anyio.run(main, backend=backend, backend_options=options)


def test_the_end_of_an_approval_voids_its_votes():
    """The fold keeps the last vote of each person while it is pending."""

    def vote(by, digest):
        return e.ApprovalVoted(at=NOW, operation="o", approval="a", by=by, digest=digest, quorum=2)

    state = PENDING.apply(vote("ana", "1")).apply(vote("ben", "1")).apply(vote("ana", "2"))
    assert [(each.by, each.digest) for each in state.votes] == [("ben", "1"), ("ana", "2")]
    ended = state.apply(e.ApprovalExpired(at=NOW, operation="o", approval="a"))
    assert (ended.votes, ended.apply(vote("cleo", "1"))) == ((), ended)
    indexed = PENDING.apply(vote("+a: b:", "1"), 5).apply(vote("ben", "1"), 6)
    assert [(each.by, each.digest, each.quorum) for each in read_names(indexed.votes).votes] == [
        ("+a: b:", "1", 2),
        ("ben", "1", 2),
    ]
