"""A10: the steps of what stays undecided, and who tells people of them."""

import anyio
import pytest
from scenes import events, knowing_no_agents, opened
from test_gathered import HOUR, Board, deploys

from supervisor import Approve, Deny, InvalidInput, MemoryStore, SqliteStore
from supervisor.channels import EscalationStep
from supervisor.core import events as e
from supervisor.core.approvals.people import ApproverRule, People, Person

pytestmark = pytest.mark.anyio
PEOPLE = People(
    [
        Person(name="ana", roles=("approver",), identities={"phone": "1"}),
        Person(name="ben", roles=("approver",), identities={"phone": "2"}),
        Person(name="cleo", roles=("approver",)),
    ],
    [ApproverRule(approvers=("ana",), agent="deploys")],
)


class Phone(Board):
    """A channel of many places."""

    name = "phone"

    def __init__(self, place: str = "", boards: "dict[str, Phone] | None" = None) -> None:
        super().__init__()
        self.boards = {} if boards is None else boards
        self.boards[place] = self

    def at(self, place):
        return self.boards.get(place) or Phone(place, self.boards)


async def test_a_step_tells_the_people_whom_it_names_where_it_says():
    """They may decide from then on; the place where they are told has no card, and hears of many in one message."""
    board, phone = Board(), Phone()
    steps = [
        EscalationStep(after=HOUR, repeat=1),
        EscalationStep(after=HOUR, whom=("ben",), by=("phone:@approvers",)),
    ]
    async with opened(channels=[board, phone], escalation=steps, people=PEOPLE) as supervisor:
        for number in range(3):
            await supervisor.start(deploys, str(number))
        await anyio.sleep(2.5 * HOUR)
        assert [(at // HOUR, len(what)) for at, what in board.told()] == [(1, 3), (2, 3)]
        assert [each.said for each in phone.boards.values()] == [[], [], []]
        await anyio.sleep(HOUR)
        assert [(at // HOUR, len(what)) for at, what in board.told()] == [(1, 3), (2, 3), (3, 3)]
        said = {place: [len(what) for _, what in each.said] for place, each in phone.boards.items()}
        assert said == {"": [], "@1": [3], "@2": [3]}
        found = await supervisor.find_approvals()
        assert [supervisor.people.why_not_decide(name, found[0]) is None for name in ("ben", "cleo")] == [True, False]
        await supervisor.decide(found[0].id, Approve(by="ben"))
        for approval in found[1:]:
            await supervisor.decide(approval.id, Deny(by="ana"))


async def test_steps_missed_during_a_downtime_are_sent_once():
    """The last one comes, with the people and places of all."""
    board, phone, store = Board(), Phone(), MemoryStore()
    steps = [
        EscalationStep(after=HOUR, whom=("ben",), by=("phone:a",)),
        EscalationStep(after=HOUR, repeat=5, by=("phone:b",)),
    ]
    async with opened(store, channels=[board]) as supervisor:
        await supervisor.start(deploys, "x", session="s")
    await anyio.sleep(100 * HOUR)
    async with opened(store, channels=[board, phone], escalation=steps, adopt=True) as supervisor:
        await anyio.sleep(HOUR)
        (reminded,) = events(store, "s", e.ApprovalReminded)
        assert (reminded.escalated_to, reminded.step) == (("ben",), 7)
        assert [what for _, what in board.told()] == [["x"]]
        assert {place: len(each.said) for place, each in phone.boards.items()} == {"": 0, "a": 1, "b": 1}
        await supervisor.cancel("s")


async def test_a_daemon_tells_people_of_a_tree_whose_owner_died():
    """It has not the code to take the tree over; the owner had shown the card on the same channel."""
    board, store = Board(), MemoryStore()
    async with opened(store, channels=[board]) as supervisor:
        await supervisor.start(deploys, "x", session="s")
        await anyio.sleep(1)
    with knowing_no_agents():
        again = Board()
        async with opened(store, channels=[again], remind_after=HOUR, adopt=True):
            await anyio.sleep(2 * HOUR)
        assert [what for _, what in again.said] == [["x"]]
        last = Board()
        async with opened(store, channels=[last], remind_after=HOUR, adopt=True):
            await anyio.sleep(2 * HOUR)
        assert last.said == []
    async with opened(store, channels=[board], adopt=True) as supervisor:
        await supervisor.cancel("s")


@pytest.mark.parametrize("by", ["nowhere", "phone:", "phone:@approvers", "mute"])
async def test_a_step_that_tells_in_no_place_is_refused_at_the_start(by):
    """A channel that is not there, no place, a place of no person, a channel that shows cards alone."""

    class Mute(Board):
        name = "mute"
        remind = Board.__mro__[1].remind
        remind_all = Board.__mro__[1].remind_all

    with pytest.raises(InvalidInput, match="escalation"):
        async with opened(channels=[Phone(), Mute()], escalation=[EscalationStep(after=1, by=(by,))]):
            pass


@pytest.mark.parametrize("dies", [False, True])
async def test_of_two_processes_that_serve_a_conversation_one_sends_a_step(tmp_path, dies):
    """The owner of the tree and a daemon. If one is lost while it sends, the other one sends the message once."""
    path, told, steps = str(tmp_path / "s.db"), [], [EscalationStep(after=60, by=("phone:a",))]

    class There(Phone):
        async def remind_all(self, due):
            told.append(sorted(approval.arguments["to"] for approval, _ in due))
            await anyio.sleep(HOUR if dies and len(told) == 1 else 20)

    class Told(Phone):
        def at(self, place):
            return There(place, self.boards)

    async with (
        opened(SqliteStore(path), channels=[Told()], escalation=steps) as owner,
        opened(SqliteStore(path), channels=[Told()], escalation=steps, adopt=True),
    ):
        for name in ("x", "y"):
            await owner.start(deploys, name, session=name)
        await anyio.sleep(600)
        assert told == [["x", "y"]] * (1 + dies)
        for name in ("x", "y"):
            await owner.cancel(name)
