"""A11, R3: a card that a channel refused comes later, once. A failing channel does not delay the others."""

import itertools

import anyio
import pytest
from scenes import HeldStore, events, fork, opened
from watching import next_of

from supervisor import Approve, Context, Deny, MemoryStore, agent, tool
from supervisor.channels import Channel
from supervisor.core import events as e

pytestmark = pytest.mark.anyio


@tool
async def deploy(target: str) -> str:
    return f"deployed {target}"


@agent
async def deployer(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


class Board(Channel):
    """A platform whose cards outlive the process. `cards` are all its cards, and `is_live` those with buttons."""

    keeps_cards = True

    def __init__(self, name: str = "board") -> None:
        self.name = name
        self.cards: dict[str, str] = {}
        self.live: set[str] = set()
        self.tried: list[tuple[float, str, str | None]] = []
        self.looked: list[str] = []
        self.error: Exception | None = None
        self.is_said = True  # whether the platform says that it has taken a card
        self.takes = 0.0  # seconds

    async def serve(self, supervisor) -> None:
        await anyio.sleep_forever()

    async def post(self, approval, card):
        self.tried.append((anyio.current_time(), approval.id, card))
        await anyio.sleep(self.takes)
        if self.error is not None:
            raise self.error
        found = card or f"{self.name}-{len(self.cards)}"
        self.cards[found] = approval.id
        self.live.add(found)
        if not self.is_said:
            raise ConnectionResetError
        return found

    async def find_card(self, approval, since, until):
        self.looked.append(approval.id)
        if self.error is not None:
            raise self.error
        return next((card for card, shown in self.cards.items() if shown == approval.id), None)

    async def retire(self, approval, card) -> None:
        await anyio.sleep(self.takes)
        if self.error is not None:
            raise self.error
        self.live.discard(card)


ERRORS = [ConnectionResetError("500"), ConnectionRefusedError("down"), RuntimeError("token revoked"), TimeoutError()]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
async def test_a_card_that_was_refused_comes_when_its_channel_takes_it_again(error):
    """A11: the next channel shows it meanwhile. One card comes, and the decision retires both."""
    board, inbox = Board(), Board("inbox")
    board.error = error
    async with opened(channels=[board, inbox]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await anyio.sleep(3600)
        (approval,) = await supervisor.find_approvals()
        assert (approval.shown, len(board.cards)) == (("inbox",), 0)
        board.error = None
        await anyio.sleep(3600)
        (approval,) = await supervisor.find_approvals()
        assert (set(approval.shown), len(board.cards), len(inbox.cards)) == ({"inbox", "board"}, 1, 1)
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"
        await anyio.sleep(1)
        assert (board.live, inbox.live, len(inbox.tried)) == (set(), set(), 1)


async def test_tries_come_at_doubled_intervals_until_the_decision():
    """A11: after 5 s, 10 s ... 10 minutes. The journal holds a failure once, not each time."""
    board = Board()
    board.error = ConnectionRefusedError("down")
    async with opened(channels=[board]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await anyio.sleep(7200)
        times = [at for at, _, _ in board.tried]
        waits = [round(after - before) for before, after in itertools.pairwise(times)]
        assert waits == ([5, 10, 20, 40, 80, 160, 320] + [600] * 20)[: len(waits)]
        assert len(waits) > 12
        assert len(events(supervisor.store, run.session, e.CardFailed)) == 1
        await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))
        count = len(board.tried)
        await anyio.sleep(3600)
        assert (len(board.tried), board.looked, supervisor.store.find_shown()) == (count, [], [])


@pytest.mark.parametrize("is_fallback_kept", [True, False])
async def test_a_later_process_tries_the_failed_channel_again(is_fallback_kept):
    """A11, R3: the next channel shows it all the time, and the first one when it works again."""
    store, board, inbox = MemoryStore(), Board(), Board("inbox")
    board.error, inbox.keeps_cards = RuntimeError("token revoked"), is_fallback_kept
    async with opened(store, channels=[board, inbox]) as supervisor:
        await supervisor.start(deployer, "x", session="s")
        await anyio.sleep(60)
        store = fork(store)
        await supervisor.cancel("s")
    for error in (RuntimeError("token revoked"), None):
        board.error = error
        async with opened(store, channels=[board, inbox], adopt=True) as supervisor:
            await anyio.sleep(3600)
            store = fork(store)
            await supervisor.cancel("s")
    assert len(board.cards) == 1
    assert set(store.find_approvals()[0].shown) == {"inbox", "board"}


async def test_a_card_that_the_platform_did_not_confirm_is_found_by_the_next_try():
    """R3: the platform took it, failed, and was away for a while. There is one card, and it is the one that is
    retired."""
    board = Board()
    board.is_said = False

    async with opened(channels=[board, Board("inbox")]) as supervisor:
        await supervisor.start(deployer, "x", session="s")
        await anyio.sleep(1)
        board.error = ConnectionResetError("away")
        await anyio.sleep(100)
        board.is_said, board.error = True, None
        await anyio.sleep(1000)
        assert (len(board.cards), "board" in (await supervisor.find_approvals())[0].shown) == (1, True)
        await supervisor.cancel("s")
        await anyio.sleep(1)
    assert board.live == set()


async def test_a_channel_that_hangs_is_not_waited_for():
    """A11: a hundred cards reach the next channel as soon as the first one counts as stuck, not one after the other."""
    hangs, inbox = Board("hangs"), Board("inbox")
    hangs.takes = 1e9
    async with opened(channels=[hangs, inbox]) as supervisor:
        for number in range(100):
            await supervisor.start(deployer, str(number), session=f"s{number}")
        await anyio.sleep(hangs.card_timeout + 1)
        assert len(inbox.cards) == 100
        late = await supervisor.start(deployer, "late")
        await anyio.sleep(1)
        assert len(inbox.cards) == 101
        hangs.takes = 0.0
        await anyio.sleep(3600)
        assert len(hangs.cards) == 101
        for session in [*(f"s{number}" for number in range(100)), late.session]:
            await supervisor.cancel(session)


async def test_a_new_card_does_not_wait_for_old_ones_to_be_renewed():
    """R3: after a restart a thousand old cards are renewed one after the other. A new card comes first."""
    store, board = MemoryStore(), Board()
    async with opened(store, channels=[board]) as supervisor:
        for number in range(100):
            await supervisor.start(deployer, str(number), session=f"s{number}")
        await anyio.sleep(60)
        store = fork(store)
        for number in range(100):
            await supervisor.cancel(f"s{number}")
    board.takes = 20.0
    async with opened(store, channels=[board], adopt=True) as supervisor:
        await anyio.sleep(1)
        asked = anyio.current_time()
        run = await supervisor.start(deployer, "new", session="new")
        approval = await next_of(run.watch_approvals())
        while approval.id not in board.cards.values():
            await anyio.sleep(1)
        assert anyio.current_time() - asked < 30
        for view in await supervisor.find_sessions(is_open=True):
            await supervisor.cancel(view.id)


async def test_leaving_after_the_last_answer_retires_the_cards_first():
    """R3: a slow platform takes its time. The program ends, and no card looks live."""
    store, board = MemoryStore(), Board()
    async with opened(store, channels=[board]) as supervisor:
        run = await supervisor.start(deployer, "x")
        approval = await next_of(run.watch_approvals())
        while not (await supervisor.get_approval(approval.id)).shown:
            await anyio.sleep(1)
        board.takes = 10.0
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"
    assert (board.live, store.find_shown()) == (set(), [])


async def test_leaving_does_not_wait_for_a_platform_that_hangs():
    """R8: its cards are left to a later start, which retires those of its own trees."""
    store, board = MemoryStore(), Board()
    async with opened(store, channels=[board]) as supervisor:
        run = await supervisor.start(deployer, "x", session="s")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(1)
        board.takes = 1e9
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"
        left = anyio.current_time()
    assert anyio.current_time() - left < 40
    assert board.live == {"board-0"}
    board.takes = 0.0
    async with opened(store, channels=[board]) as supervisor:
        await supervisor.start(deployer, "x", session="s")
    assert (board.live, store.find_shown()) == (set(), [])


class Printer(Board):
    """A channel that prints approvals and takes no answers."""

    keeps_cards = False
    asks = False


async def test_a_daemon_shows_an_older_approval_of_another_process_without_a_card(tmp_path):
    """A6, A11: when it claims the tree later, it continues with the same card."""
    board = Board()
    async with opened(tmp_path / "state.db", channels=[Printer("printer")]) as program:
        run = await program.start(deployer, "x")
        await anyio.sleep(60)
        async with opened(tmp_path / "state.db", channels=[board], adopt=True) as daemon:
            await anyio.sleep(60)
            (approval,) = await daemon.find_approvals()
            assert (approval.shown, len(board.tried)) == (("board",), 1)
            await daemon.decide(approval.id, Approve(by="ana"))
            assert await run.result() == "ok"
            await anyio.sleep(1)
            assert board.live == set()


@pytest.mark.parametrize("is_asked_there", [False, True])
async def test_a_daemon_shows_a_new_approval_of_another_process_without_a_card(tmp_path, is_asked_there):
    """A6, A11: another program only prints. An approval that has a card already is not shown twice."""
    here, there = Board("wall") if is_asked_there else Printer("printer"), Board()
    async with opened(tmp_path / "state.db", channels=[there], adopt=True) as daemon:
        async with opened(tmp_path / "state.db", channels=[here]) as program:
            run = await program.start(deployer, "x")
            await anyio.sleep(60)
            (approval,) = await daemon.find_approvals()
            assert approval.shown == (("wall",) if is_asked_there else ("board",))
            assert (len(here.cards), len(there.cards)) == (1, not is_asked_there)
            await daemon.decide(approval.id, Approve(by="ana"))
            assert await run.result() == "ok"
        await anyio.sleep(1)
    assert (here.live, there.live) == (set(), set())


async def test_an_approval_on_a_channel_without_answers_also_goes_to_the_next_channel():
    """A6: the journal does not count it as shown on the first one."""
    printer, board = Printer("printer"), Board()
    async with opened(channels=[printer, board]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await anyio.sleep(1)
        (approval,) = await supervisor.find_approvals()
        assert (approval.shown, len(printer.cards), len(board.cards)) == (("board",), 1, 1)
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"
        await anyio.sleep(1)
    assert (printer.live, board.live) == (set(), set())


class HeldWhenAsked(HeldStore):
    """A store that another process holds, from the moment at which an approval is asked."""

    def write(self, rows) -> None:
        rows = list(rows)
        super().write(rows)
        self.is_held = any(isinstance(row.event, e.ToolCallRequested) for row in rows)


async def test_an_approval_that_is_decided_before_its_card_is_posted_is_not_posted():
    """A1: both are committed together, and no later process searches for a card."""
    store, board = HeldWhenAsked(), Board()
    async with opened(store, channels=[board]) as supervisor, anyio.create_task_group() as tasks:
        run = await supervisor.start(deployer, "x")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(1)
        tasks.start_soon(supervisor.decide, approval.id, Approve(by="ana"))
        await anyio.sleep(1)
        store.is_held = False
        assert await run.result() == "ok"
        await anyio.sleep(1)
        assert events(store, run.session, e.CardBegun)
    assert (board.tried, board.looked, store.find_shown()) == ([], [], [])


async def test_a_card_that_cannot_be_retired_is_tried_at_doubled_intervals():
    """R3: after 5 s, 10 s ... 10 minutes."""
    times = []

    class Away(Board):
        async def retire(self, approval, card) -> None:
            times.append(anyio.current_time())
            raise ConnectionResetError

    async with opened(channels=[Away()]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await anyio.sleep(1)
        await supervisor.decide((await supervisor.find_approvals())[0].id, Approve(by="ana"))
        assert await run.result() == "ok"
        await anyio.sleep(3600)
    waits = [round(after - before) for before, after in itertools.pairwise(times)]
    assert waits[:11] == [5, 10, 20, 40, 80, 160, 320, 600, 600, 600, 600]
