"""A10: what becomes due is told in one message for each conversation, and a message goes out seldom."""

import anyio
import pytest
from scenes import DamagedStore, ForkingStore, events, fork, opened

from supervisor import Context, Deny, MemoryStore, agent, tool
from supervisor.channels import Channel
from supervisor.core import events as e
from supervisor.core.approvals.routes import Route

pytestmark = pytest.mark.anyio
HOUR = 3600.0


@tool
async def deploy(to: str) -> str:
    return to


@agent
async def deploys(ctx: Context, to: str) -> str:
    return (await ctx.call(deploy, to)).kind


class Board(Channel):
    """A channel whose messages are kept, as (seconds, what they tell of). `takes`: seconds for each."""

    name = "board"
    keeps_cards = True

    def __init__(self, takes: float = 0.0) -> None:
        self.takes = takes
        self.said: list[tuple[int, list[str]]] = []
        self.fails = 0
        self.began = anyio.current_time()

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    def face(self, approval, *, is_notice=False):
        return approval.id

    async def post(self, approval, card):
        await anyio.sleep(self.takes)
        if card is None:
            self.said.append((self.now(), ["card"]))
        return card or f"card of {approval.arguments['to']}"

    async def remind(self, approval, card):
        await self.remind_all([(approval, card)])

    async def remind_all(self, due):
        await anyio.sleep(self.takes)
        if self.fails:
            self.fails -= 1
            raise ConnectionRefusedError
        self.said.append((self.now(), [approval.arguments["to"] for approval, _ in due]))

    async def retire(self, approval, card):
        pass

    def now(self):
        return round(anyio.current_time() - self.began)

    def told(self):
        return [(at, what) for at, what in self.said if what != ["card"]]


async def test_a_session_that_cannot_be_read_holds_up_no_reminder_of_others():
    """It was due before its journal was damaged."""
    board = Board()
    async with opened(store := DamagedStore(), channels=[board], remind_after=HOUR, passivate_after=1) as supervisor:
        for name in ("a", "b"):
            await supervisor.start(deploys, name, session=name)
        await anyio.sleep(HOUR + 30)
        assert board.told() == []
        store.damaged = "b"
        await anyio.sleep(HOUR)
        assert any("a" in what for _, what in board.told())


async def test_reminders_within_a_minute_are_one_message():
    """What comes later is in the next one, five minutes after the first or later; what was decided is in none."""
    board = Board()
    async with opened(channels=[board], remind_after=HOUR) as supervisor:
        for number in range(40):
            await supervisor.start(deploys, str(number))
            await anyio.sleep(1)
        for name in ("b", "c", "d"):
            await anyio.sleep(30)
            await supervisor.start(deploys, name)
        await anyio.sleep(HOUR - 120)
        for approval in await supervisor.find_approvals():
            if approval.arguments["to"] in ("7", "c"):
                await supervisor.decide(approval.id, Deny(by="ana"))
        await anyio.sleep(HOUR)
        first, second = board.told()
        assert first == (HOUR + 60, [str(number) for number in range(40) if number != 7])
        assert second == (HOUR + 360, ["b", "d"])
        for approval in await supervisor.find_approvals():
            await supervisor.decide(approval.id, Deny(by="ana"))


async def test_each_conversation_gets_one_message():
    """A route that asks in two places reminds once in each."""
    boards = {}

    class Places(Board):
        def at(self, place):
            return boards.setdefault(place, Board())

    async with opened(channels=[Places()], routes=[Route(ask=("board:a", "board:b"))], remind_after=HOUR) as supervisor:
        for number in range(3):
            await supervisor.start(deploys, str(number))
        await anyio.sleep(2 * HOUR)
        assert {place: [sorted(what) for _, what in board.told()] for place, board in boards.items()} == {
            "a": [["0", "1", "2"]],
            "b": [["0", "1", "2"]],
        }
        for approval in await supervisor.find_approvals():
            await supervisor.decide(approval.id, Deny(by="ana"))


async def test_new_cards_come_before_a_reminder_where_the_platform_takes_few():
    """The message waits for the cards that were asked before it, and not for those that are renewed."""
    board = Board()
    async with opened(channels=[board], remind_after=HOUR) as supervisor:
        for number in range(20):
            await supervisor.start(deploys, str(number))
        await anyio.sleep(HOUR + 59)
        board.takes, before = 10.0, len(board.said)
        for number in range(20):
            await supervisor.start(deploys, f"new {number}")
        await anyio.sleep(HOUR / 2)
        assert [len(what) for _, what in board.said[before:]] == [*[1] * 20, 20]
        for approval in await supervisor.find_approvals():
            await supervisor.decide(approval.id, Deny(by="ana"))


async def test_due_and_sent_are_journaled_and_a_failure_is_tried_again():
    """The next process sends nothing anew; it sends what was due and not sent, once."""
    board, store = Board(), MemoryStore()
    board.fails = 3
    async with opened(store, channels=[board], remind_after=HOUR) as supervisor:
        await supervisor.start(deploys, "x", session="s")
        await anyio.sleep(HOUR + 50)
        assert len(events(store, "s", e.ApprovalReminded)) == 1
        assert events(store, "s", e.ReminderSent) == []
    for told in ([["x"]], []):
        again = Board()
        async with opened(store, channels=[again], adopt=True, remind_after=HOUR):
            await anyio.sleep(HOUR)
        assert [what for _, what in again.told()] == told
    assert [event.channel for event in events(store, "s", e.ReminderSent)] == ["board"]
    async with opened(store, channels=[board], adopt=True, remind_after=HOUR) as supervisor:
        await supervisor.cancel("s")


async def test_a_death_between_due_and_sent_repeats_a_message_once_at_most():
    """A process is killed after each commit, before or after what it says next. The next one tells what is due."""
    board = Board()
    store = ForkingStore(lambda: len(board.told()))
    async with opened(store, channels=[board], remind_after=HOUR) as supervisor:
        for number in range(2):
            await supervisor.start(deploys, str(number), session=f"s{number}")
        await anyio.sleep(HOUR - 60)
        first = len(store.copies)
        await anyio.sleep(HOUR)
        copies, last = store.copies[first:], len(board.told())
        for number in range(2):
            await supervisor.cancel(f"s{number}")
    later = [*(said for _, said in copies[1:]), last]
    deaths = [(left, said) for (left, now), then in zip(copies, later, strict=True) for said in {now, then}]
    assert len(deaths) > 4
    for left, said in deaths:
        again = Board()
        async with opened(fork(left), channels=[again], adopt=True, remind_after=HOUR) as supervisor:
            await anyio.sleep(2 * HOUR)
            more = [what for _, what in again.told()]
            assert (len(more) <= 1, said + len(more) >= 1) == (True, True)
            for approval in await supervisor.find_approvals():
                await supervisor.decide(approval.id, Deny(by="ana"))
