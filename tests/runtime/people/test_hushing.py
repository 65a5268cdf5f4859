"""A10: a person is on it, hears nothing of it until later, or is quiet; and how urgent it is."""

from datetime import UTC, datetime, time, timedelta, timezone

import anyio
import pytest
from scenes import events, opened
from test_escalation import Phone
from test_gathered import HOUR, Board, deploys

from supervisor import Approve, Deny, MemoryStore, NotEntitled, NotFound, SqliteStore
from supervisor.channels import EscalationStep
from supervisor.core import events as e
from supervisor.core.approvals.people import ApproverRule, People, Person, Quiet, UrgencyRule
from supervisor.core.approvals.routes import Route
from supervisor.core.values import Approval, HushedBy

pytestmark = pytest.mark.anyio
STEPS = [EscalationStep(after=HOUR / 6, repeat=11)]
NIGHT = Quiet(time(22), time(7), timezone(timedelta(hours=2)))


def people(**more):
    ana = Person(name="ana", roles=("approver",), identities={"phone": "a"}, **more)
    ben = Person(name="ben", roles=("approver",), identities={"phone": "b"})
    return People([ana, ben, Person(name="eve")], [ApproverRule(approvers=("ana", "ben"), agent="deploys")])


async def deny_all(supervisor):
    for approval in await supervisor.find_approvals():
        await supervisor.decide(approval.id, Deny(by="ana"))


@pytest.mark.parametrize("make", [lambda path: MemoryStore(), lambda path: SqliteStore(str(path / "s.db"))])
async def test_an_acknowledgement_is_on_disk_and_no_decision(make, tmp_path):
    """Who may decide may be on it; it gives no right, and what it does not name is not hushed."""
    store = make(tmp_path)
    async with opened(store, people=people()) as supervisor:
        for name in ("s", "t"):
            await supervisor.start(deploys, name, session=name)
        while len(await supervisor.find_approvals()) < 2:
            await anyio.sleep(0.01)
        first, second = sorted(await supervisor.find_approvals(), key=lambda each: each.session)
        with pytest.raises(NotEntitled):
            await supervisor.acknowledge([first.id], by="eve")
        with pytest.raises(NotFound):
            await supervisor.acknowledge(["nothing"], by="ana")
        for _ in range(2):
            assert await supervisor.acknowledge([first.id], by="ana", channel="c") == (first.id,)
        until = datetime(2100, 1, 1, tzinfo=UTC)
        assert await supervisor.snooze([first.id], until, by="ben") == (first.id,)
        found = [await supervisor.get_approval(each.id) for each in (first, second)]
        assert [each.acknowledged and each.acknowledged.by for each in found] == ["ana", None]
        assert (found[0].status, found[0].snoozed) == ("pending", (HushedBy("ben", until),))
        assert [event.by for event in events(store, "s", e.ApprovalHushed)] == ["ana", "ben"]
        assert (await supervisor.decide(first.id, Approve(by="ben"))).is_accepted
        assert await supervisor.acknowledge([first.id], by="ana") == ()
        await deny_all(supervisor)


async def test_steps_pause_for_half_an_hour_while_a_person_is_on_it():
    """The steps of that time are one, at its end; what was asked later goes on."""
    board = Board()
    async with opened(channels=[board], escalation=STEPS) as supervisor:
        await supervisor.start(deploys, "x")
        await anyio.sleep(HOUR / 6 + 120)
        (approval,) = await supervisor.find_approvals()
        await supervisor.acknowledge([approval.id], by="ana")
        await supervisor.start(deploys, "y")
        await anyio.sleep(HOUR / 2 - 10)
        assert [what for _, what in board.told()] == [["x"], ["y"], ["y"]]
        await anyio.sleep(HOUR / 12)
        assert [sorted(what) for _, what in board.told()[3:]] == [["x", "y"]]
        await deny_all(supervisor)


async def test_each_card_is_edited_when_a_person_is_on_it():
    """So the others see it where they were asked; no message makes a sound."""

    class Shown(Board):
        def face(self, approval, *, is_notice=False):
            return f"{approval.id} {approval.acknowledged}"

        async def post(self, approval, card):
            if approval.acknowledged is not None:
                self.said.append((self.now(), [card, approval.acknowledged.by]))
            return await super().post(approval, card)

    board = Shown()
    async with opened(channels=[board], escalation=STEPS) as supervisor:
        await supervisor.start(deploys, "x")
        await anyio.sleep(60)
        (approval,) = await supervisor.find_approvals()
        await supervisor.acknowledge([approval.id], by="ana")
        await anyio.sleep(60)
        assert [what for _, what in board.said] == [["card"], ["card of x", "ana"]]
        await deny_all(supervisor)


async def test_a_message_that_was_due_waits_while_a_person_is_on_it():
    """It was being gathered. Nothing is lost if there is no later step."""
    board = Board()
    async with opened(channels=[board], remind_after=HOUR) as supervisor:
        await supervisor.start(deploys, "x")
        await anyio.sleep(HOUR + 30)
        (approval,) = await supervisor.find_approvals()
        await supervisor.acknowledge([approval.id], by="ana")
        await anyio.sleep(HOUR / 2 - 60)
        assert board.told() == []
        await anyio.sleep(120)
        assert [what for _, what in board.told()] == [["x"]]
        await deny_all(supervisor)


async def test_a_snooze_silences_one_person_until_it_ends():
    """Others hear of it. At its end the person hears of it, too."""
    phone = Phone()
    async with opened(
        channels=[phone], escalation=STEPS[:1], people=people(), routes=[Route(ask=("phone:@approvers",))]
    ) as supervisor:
        await supervisor.start(deploys, "x")
        await anyio.sleep(60)
        (approval,) = await supervisor.find_approvals()
        until = approval.created_at + timedelta(hours=1)
        await supervisor.snooze([approval.id], until, by="ana")
        await anyio.sleep(HOUR - 120)
        assert {place: bool(each.told()) for place, each in phone.boards.items() if place} == {"@a": False, "@b": True}
        await anyio.sleep(120)
        assert [what for _, what in phone.boards["@a"].told()] == [["x"]]
        await deny_all(supervisor)


@pytest.mark.parametrize(
    ("urgency", "first", "second"), [("low", False, False), ("normal", True, True), ("high", True, True)]
)
async def test_low_urgency_waits_until_the_quiet_hours_of_a_person_end(urgency, first, second):
    """A rule says how urgent a call is; the highest counts."""
    now = datetime.now(UTC)
    quiet = Quiet((now - timedelta(hours=1)).time(), (now + timedelta(hours=3)).time(), UTC)
    phone, known = Phone(), people(quiet=quiet)
    known.urgencies = (UrgencyRule(urgency="low"), UrgencyRule(urgency=urgency, agent="deploys"))
    async with opened(
        channels=[phone], escalation=STEPS, people=known, routes=[Route(ask=("phone:@approvers",))]
    ) as supervisor:
        await supervisor.start(deploys, "x")
        await anyio.sleep(HOUR / 6 + (5 if urgency == "high" else 65))
        assert bool(phone.boards["@a"].told()) is first
        assert bool(phone.boards["@b"].told()) is True
        await anyio.sleep(HOUR)
        assert bool(phone.boards["@a"].told()) is second
        await anyio.sleep(4 * HOUR)
        assert phone.boards["@a"].told()
        await deny_all(supervisor)


def test_quiet_hours_are_hours_of_the_zone_of_the_person():
    """They may go over midnight; their end is in the next morning then."""
    asked = datetime(2026, 11, 27, tzinfo=UTC)
    found = {hour: NIGHT.until(asked.replace(hour=hour)) for hour in (3, 5, 12, 19, 20, 23)}
    ends = {3: asked.replace(hour=5), 20: asked.replace(day=28, hour=5), 23: asked.replace(day=28, hour=5)}
    assert found == {3: None, 5: None, 12: None, 19: None, 20: None, 23: None} | ends


def asked_at(step):
    """Return an approval whose escalation came to a step."""
    facts = dict.fromkeys(
        ("id", "session", "root_session", "agent", "operation", "tool", "digest", "cwd", "requester"), "x"
    )
    now = datetime(2026, 11, 27, tzinfo=UTC)
    return Approval(**facts, path=("x",), arguments={}, options=(), status="pending", created_at=now, step=step)


def test_the_first_step_goes_out_if_all_who_may_decide_are_quiet():
    """The later ones wait."""
    now = datetime(2026, 11, 27, 1, tzinfo=UTC)
    known = People([Person(name=name, roles=("approver",), quiet=NIGHT) for name in ("ana", "ben")], urgency="low")
    asked = asked_at(step=1)
    assert known.held_until("ana", asked, now) is None
    assert known.held_until("ana", asked_at(step=2), now) == now.replace(hour=5)
    awake = People([*known, Person(name="cleo", roles=("approver",))], urgency="low")
    assert awake.held_until("ana", asked, now) == now.replace(hour=5)
