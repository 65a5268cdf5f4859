"""A10: people are reminded of an approval once, and after a longer wait more people may decide it."""

import anyio
import pytest
from scenes import events, opened
from watching import next_of

from supervisor import Approve, Context, InvalidInput, MemoryStore, NotEntitled, agent, open_supervisor, tool
from supervisor.channels import Channel
from supervisor.core import events as e
from supervisor.core.approvals.people import ApproverRule, People, Person

pytestmark = pytest.mark.anyio
HOUR = 3600.0
OPTIONS = {"remind_after": HOUR, "escalate_after": HOUR, "escalate_to": ["ops", "cto"]}


@tool
async def deploy() -> str:
    return "done"


@agent
async def deploys(ctx: Context) -> str:
    return (await ctx.call(deploy)).kind


class Wall(Channel):
    """A channel that records what it shows."""

    name = "wall"

    def __init__(self) -> None:
        self.posts: list[tuple[str | None, bool, tuple[str, ...]]] = []

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    async def post(self, approval, card):
        self.posts.append((card, approval.reminded_at is not None, approval.escalated_to))
        return "card"

    async def retire(self, approval, card):
        pass


async def test_a_waiting_approval_is_shown_again_once_and_then_to_more_people():
    """Its existing card is used, the run stays passivated, and there is no further reminder."""
    wall, store = Wall(), MemoryStore()
    async with opened(store, channels=[wall], passivate_after=60, **OPTIONS) as supervisor:
        run = await supervisor.start(deploys)
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(1.5 * HOUR)
        assert wall.posts == [(None, False, ()), ("card", True, ())]
        assert store.get_session(run.session).is_asleep
        await anyio.sleep(100 * HOUR)
        assert wall.posts[2:] == [("card", True, ("ops", "cto"))]
        assert store.get_session(run.session).is_asleep
        assert store.get_approval(approval.id).escalated_to == ("ops", "cto")
        await supervisor.decide(approval.id, Approve(by="ops"))
        assert await run.result() == "ok"


class Faceless(Wall):
    def face(self, approval, *, is_notice=False):
        raise LookupError("of another author")


async def test_a_channel_whose_face_raises_is_reminded_all_the_same():
    """Whether its card has changed is not known then, as with a channel that cannot say it."""
    wall = Faceless()
    async with opened(MemoryStore(), channels=[wall], **OPTIONS) as supervisor:
        run = await supervisor.start(deploys)
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(1.5 * HOUR)
        assert wall.posts == [(None, False, ()), ("card", True, ())]
        await supervisor.decide(approval.id, Approve(by="ops"))
        assert await run.result() == "ok"


async def test_an_approval_that_is_decided_in_time_has_no_reminder():
    """Without the setting there is no reminder either."""
    for options in (OPTIONS, {}):
        wall = Wall()
        async with opened(channels=[wall], **options) as supervisor:
            run = await supervisor.start(deploys)
            approval = await next_of(run.watch_approvals())
            await anyio.sleep(HOUR / 2 if options else 100 * HOUR)
            await supervisor.decide(approval.id, Approve(by="ana"))
            await run.result()
            await anyio.sleep(100 * HOUR)
            assert events(supervisor.store, run.session, e.ApprovalReminded) == []
            assert len(wall.posts) == 1


async def test_a_reminder_is_a_message_of_its_own_and_is_tried_again():
    """Once for each reminder, whatever happens to the card later; a card that is posted after it needs none."""
    wall, reminded = Wall(), []

    async def remind(approval, card):
        reminded.append((round((anyio.current_time() - began) / HOUR), approval.escalated_to))
        if len(reminded) == 1:
            raise ConnectionRefusedError

    wall.remind = remind
    async with opened(channels=[wall], **OPTIONS) as supervisor:
        began = anyio.current_time() // HOUR
        run = await supervisor.start(deploys)
        await anyio.sleep(100 * HOUR)
        assert reminded == [(1, ()), (1, ()), (2, ("ops", "cto"))]
        await supervisor.cancel(run.session)


async def test_a_restart_neither_repeats_nor_delays_a_reminder():
    """The journal holds the reminders."""
    store = MemoryStore()
    reminded: list[list[bool]] = []
    for hours in (1.5, 0.2, 5.0, 5.0):
        wall = Wall()
        async with opened(store, channels=[wall], **OPTIONS) as supervisor:
            if not reminded:
                await supervisor.start(deploys, session="s")
            await supervisor.resume("s")
            await anyio.sleep(hours * HOUR)
        reminded.append([bool(event.escalated_to) for event in events(store, "s", e.ApprovalReminded)])
    assert reminded == [[False], [False], [False, True], [False, True]]


async def test_a_person_to_whom_it_is_escalated_may_decide_it():
    """A4: the person was no approver before. They may decide it once, but make no rule."""
    async with opened(channels=[Wall()], **OPTIONS) as supervisor:
        people = [Person(name="ops", roles=("approver",))]
        supervisor.people = People(people, [ApproverRule(approvers=("zoe",), agent="deploys")])
        run = await supervisor.start(deploys)
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(1.5 * HOUR)
        with pytest.raises(NotEntitled):
            await supervisor.decide(approval.id, Approve(by="ops"))
        await anyio.sleep(HOUR)
        with pytest.raises(NotEntitled):
            await supervisor.decide(approval.id, Approve(by="ops", scope="session"))
        await supervisor.decide(approval.id, Approve(by="ops"))
        assert await run.result() == "ok"


@pytest.mark.parametrize(
    "options",
    [{"remind_after": 0}, {"escalate_after": 5}, {"escalate_to": ["ops"]}, {"escalate_after": 5, "escalate_to": [" "]}],
)
async def test_an_incomplete_escalation_is_refused(options):
    """An escalation needs a time and names."""
    with pytest.raises(InvalidInput):
        async with open_supervisor(MemoryStore(), **options):
            pass
