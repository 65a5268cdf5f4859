"""A11, R3: channels bring approvals to people. If a channel fails, the next one is used, and the journal says so."""

from datetime import timedelta

import anyio
import pytest
from scenes import events, fork, opened
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


class Wall(Channel):
    """A channel that keeps cards in a list."""

    def __init__(self, name: str, *, fails: bool = False, hangs: bool = False) -> None:
        self.name = name
        self.fails = fails
        self.hangs = hangs
        self.posted: list[tuple[str, str | None]] = []
        self.takes = 0.0  # seconds, one card after the other
        self.door = anyio.Lock()
        self.is_away = False  # when a card is retired
        self.retired: list[tuple[str, str]] = []
        self.news = anyio.Event()

    async def serve(self, supervisor) -> None:
        await anyio.sleep_forever()

    async def post(self, approval, card):
        if self.fails:
            raise ConnectionError("no network")
        if self.hangs:
            await anyio.sleep_forever()
        async with self.door:
            await anyio.sleep(self.takes)
        self.posted.append((approval.id, card))
        self._tell()
        return f"card of {self.name}"

    async def retire(self, approval, card) -> None:
        if self.is_away:
            raise ConnectionError("no network")
        self.retired.append((approval.status, card))
        self._tell()

    def _tell(self) -> None:
        self.news.set()
        self.news = anyio.Event()


@pytest.mark.parametrize("broken", [{"fails": True}, {"hangs": True}])
async def test_a_card_that_cannot_be_posted_goes_to_the_next_channel(broken):
    """A11: the first channel raises or hangs. The second one shows it, and the journal holds both."""
    first, second = Wall("first", **broken), Wall("second")
    store = MemoryStore()
    async with opened(store, channels=[first, second]) as supervisor:
        run = await supervisor.start(deployer, "x")
        while not second.posted:
            await second.news.wait()
        await anyio.sleep(1)
        assert (await supervisor.find_approvals())[0].shown == ("second",)
        assert [failed.channel for failed in events(store, run.session, e.CardFailed)] == ["first"]
        assert (await supervisor.decide(second.posted[0][0], Approve(by="ana"))).kind == "accepted"
        assert await run.result() == "ok"


async def test_a_call_stays_pending_if_all_channels_fail():
    """A11: `shown` is empty, the journal names both failures, and the call can still be decided."""
    store = MemoryStore()
    async with opened(store, channels=[Wall("a", fails=True), Wall("b", fails=True)]) as supervisor:
        run = await supervisor.start(deployer, "x")
        with anyio.move_on_after(3600):
            await run.outcome()
        (approval,) = await supervisor.find_approvals()
        assert (approval.status, approval.shown) == ("pending", ())
        assert [failed.channel for failed in events(store, run.session, e.CardFailed)] == ["a", "b"]
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"


@pytest.mark.parametrize("how", ["decided", "cancelled", "abandoned"])
async def test_a_card_is_retired_when_its_approval_needs_no_decision_any_more(how):
    """R3: it was decided, withdrawn by a cancel, or abandoned by the agent. No closed approval has a card that looks
    live."""
    give_up = anyio.Event()

    @agent
    async def gives_up(ctx: Context) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.call, deploy, "x")
            await give_up.wait()
            tasks.cancel_scope.cancel()

    wall = Wall("wall")
    async with opened(channels=[wall]) as supervisor:
        run = await supervisor.start(gives_up)
        await wall.news.wait()
        if how == "decided":
            await supervisor.decide(wall.posted[0][0], Approve(by="ana"))
        elif how == "cancelled":
            await run.cancel()
        give_up.set()
        while not wall.retired:
            await wall.news.wait()
        status = "approved" if how == "decided" else "withdrawn"
        assert wall.retired == [(status, "card of wall")]


async def test_posting_never_delays_a_decision():
    """A1: a card that hangs delays nothing, and is not posted after the decision."""
    hangs, second = Wall("hangs", hangs=True), Wall("second")
    async with opened(channels=[hangs, second]) as supervisor:
        run = await supervisor.start(deployer, "x")
        approval = await next_of(run.watch_approvals())
        asked = anyio.current_time()
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"
        assert anyio.current_time() - asked < 1
        await anyio.sleep(100)
        assert second.posted == []


async def test_pending_approvals_are_posted_again_after_a_restart():
    """R3: the next process gives the channel every approval that is still pending, and no other."""
    store, wall = MemoryStore(), Wall("wall")
    async with opened(store, channels=[wall]) as supervisor:
        for target in "ab":
            await supervisor.start(deployer, target, session=target)
        while len(wall.posted) < 2:
            await wall.news.wait()
        (first, _), (second, _) = wall.posted
        await supervisor.decide(first, Approve(by="ana"))
    again = Wall("wall")
    async with opened(store, channels=[again]) as supervisor:
        await supervisor.resume_all()
        await again.news.wait()
        await anyio.sleep(5)
        assert [asked for asked, _ in again.posted] == [second]


async def test_a_channel_that_cannot_listen_harms_no_run():
    """A11: the log says that it failed. Runs go on, and other channels show approvals."""

    class Deaf(Wall):
        async def serve(self, supervisor) -> None:
            raise ConnectionError("no network")

    wall = Wall("wall")
    async with opened(channels=[Deaf("deaf", fails=True), wall]) as supervisor:
        run = await supervisor.start(deployer, "x")
        while not wall.posted:
            await wall.news.wait()
        await supervisor.decide(wall.posted[0][0], Approve(by="ana"))
        assert await run.result() == "ok"


async def shown_and_left(*walls: Wall) -> MemoryStore:
    """Return the store of a process that was killed when its card was shown."""
    async with opened(channels=walls) as supervisor:
        await supervisor.start(deployer, "prod", session="left")
        await anyio.sleep(1)
        left = fork(supervisor.store)
        await supervisor.cancel("left")
        return left


async def test_a_card_that_an_earlier_process_left_is_renewed():
    """R3: the channel gets its old card, even if other channels come before it."""
    store = await shown_and_left(Wall("chat"))
    other, chat = Wall("other"), Wall("chat")
    async with opened(store, channels=[other, chat], adopt=True) as supervisor:
        await anyio.sleep(1)
        (asked,) = await supervisor.find_approvals()
        assert (chat.posted, other.posted) == ([(asked.id, "card of chat")], [])
        await supervisor.decide(asked.id, Approve(by="ana"))
    assert chat.retired == [("approved", "card of chat")]
    assert len(events(store, "left", e.CardPosted)) == 1


async def test_a_card_of_a_pruned_tree_is_retired_without_an_error():
    """R3: the channel was away for long, and the tree was pruned meanwhile."""
    store, chat = await shown_and_left(Wall("chat")), Wall("chat")
    async with opened(store) as supervisor:
        (asked,) = await supervisor.find_approvals()
        await supervisor.decide(asked.id, Deny(by="ana"))
        run = await supervisor.resume("left")
        await run.outcome()
    chat.is_away = True
    async with opened(store, channels=[chat], adopt=True) as supervisor:
        await anyio.sleep(1)
        store._forget({"left"})
        chat.is_away = False
        while not chat.retired:
            await anyio.sleep(1)
        assert await (await supervisor.start(deployer, "x", session="s")).cancel() is None


async def test_a_card_of_an_approval_that_was_decided_elsewhere_is_retired_at_the_start():
    """R3: a shell decides while the daemon is down. The daemon's start retires the old card, once."""
    store = await shown_and_left(Wall("chat"))
    async with opened(store) as supervisor:
        (asked,) = await supervisor.find_approvals()
        await supervisor.decide(asked.id, Deny(by="ana"))
    for retired in ([("denied", "card of chat")], []):
        chat = Wall("chat")
        async with opened(store, channels=[chat], adopt=True):
            await anyio.sleep(1)
        assert (chat.posted, chat.retired) == ([], retired)


async def test_a_decision_anywhere_retires_every_card():
    """R3: so does a decision on a channel that had the card before another one."""
    store = await shown_and_left(Wall("chat"))
    chat, page = Wall("chat", fails=True), Wall("page")
    async with opened(store, channels=[chat, page], adopt=True) as supervisor:
        await anyio.sleep(1)
        (asked,) = await supervisor.find_approvals()
        assert asked.shown == ("chat", "page")
        await supervisor.decide(asked.id, Deny(by="ana"))
        await anyio.sleep(1)
    assert (chat.retired, page.retired) == ([("denied", "card of chat")], [("denied", "card of page")])
    assert [each.shown for each in store.find_approvals(pending=False)] == [()]


async def test_many_cards_at_once_wait_for_their_turn():
    """A11: a platform that takes one card a second does not fail because a hundred cards wait for it."""
    slow, second = Wall("slow"), Wall("second")
    slow.takes = 5.0
    async with opened(channels=[slow, second]) as supervisor:
        runs = [await supervisor.start(deployer, str(number)) for number in range(100)]
        while len(slow.posted) < len(runs):
            await slow.news.wait()
        for approval, _ in slow.posted:
            await supervisor.decide(approval, Approve(by="ana"))
        assert [await run.result() for run in runs] == ["ok"] * len(runs)
    assert second.posted == []


async def test_a_card_that_cannot_be_retired_is_retired_later():
    """R3: only the card waits while the channel cannot be reached. Then it is retired, once."""
    wall, store = Wall("wall"), MemoryStore()
    async with opened(store, channels=[wall]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await wall.news.wait()
        wall.is_away = True
        await supervisor.decide(wall.posted[0][0], Approve(by="ana"))
        assert await run.result() == "ok"
        await anyio.sleep(3600)
        assert (wall.retired, events(store, run.session, e.CardRetired)) == ([], [])
        wall.is_away = False
        await wall.news.wait()
        await anyio.sleep(3600)
        assert (len(wall.retired), len(events(store, run.session, e.CardRetired))) == (1, 1)


class Platform(Wall):
    """Keeps cards after the process is gone. `killed`: its store when a card was posted, and not noted yet."""

    keeps_cards = True

    def __init__(self, store, cards) -> None:
        super().__init__("wall")
        self.store, self.cards, self.killed = store, cards, None

    async def post(self, approval, card):
        if card is None:
            self.cards.append(f"card of {approval.id}")
            self.killed = fork(self.store)
        await super().post(approval, card)
        return card or self.cards[-1]

    async def find_card(self, approval, since, until):
        assert since <= approval.created_at + timedelta(seconds=1) < until
        return next((card for card in self.cards if approval.id in card), None)


@pytest.mark.parametrize("is_decided", [True, False])
async def test_a_card_that_was_posted_but_not_noted_is_found_by_the_next_process(is_decided):
    """R3: it is retired if the approval was decided elsewhere meanwhile, and renewed if not."""
    before = Platform(MemoryStore(), [])
    async with opened(before.store, channels=[before]) as supervisor:
        await supervisor.start(deployer, "x", session="s")
        await before.news.wait()
        await supervisor.cancel("s")
    (approval,) = before.killed.find_approvals()
    if is_decided:
        async with opened(before.killed) as supervisor:
            await supervisor.decide(approval.id, Approve(by="ana"))
    after = Platform(before.killed, before.cards)
    async with opened(before.killed, channels=[after], adopt=True) as supervisor:
        await anyio.sleep(3600)
        (card,) = before.cards
        assert after.posted == ([] if is_decided else [(approval.id, card)])
        assert after.retired == ([("approved", card)] if is_decided else [])
        await supervisor.cancel("s")


class Unsaid(Platform):
    """Shows the card and does not confirm it. `is_away`: its cards cannot be searched either."""

    def __init__(self, store, cards, error: type[OSError] = ConnectionResetError) -> None:
        super().__init__(store, cards)
        self.error, self.is_away, self.looked = error, True, 0

    async def post(self, approval, card):
        if card is None and self.error is not ConnectionRefusedError:
            self.cards.append(f"card of {approval.id}")
            self.killed = fork(self.store)
        raise self.error

    async def find_card(self, approval, since, until):
        self.looked += 1
        if self.is_away:
            raise ConnectionResetError
        return await super().find_card(approval, since, until)


@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_card_that_was_not_confirmed_is_retired_as_soon_as_it_is_found(is_killed):
    """R3, A11: the next channel shows the approval meanwhile. A later process that finds the platform away keeps
    trying."""
    platform, store = Unsaid(MemoryStore(), []), MemoryStore()
    platform.store = store
    async with opened(store, channels=[platform, Wall("next")]) as supervisor:
        await supervisor.start(deployer, "x", session="s")
        await anyio.sleep(1)
        if is_killed:
            store, platform = platform.killed, Unsaid(platform.killed, platform.cards)
            await supervisor.cancel("s")
    async with opened(store, channels=[platform], adopt=True):
        await anyio.sleep(1)
    async with opened(store, channels=[platform, Wall("next")], adopt=True) as supervisor:
        await anyio.sleep(1)
        (approval,) = await supervisor.find_approvals()
        assert "next" in approval.shown
        await supervisor.decide(approval.id, Approve(by="ana"))
        await anyio.sleep(3600)
        assert platform.retired == []
        platform.is_away = False
        await anyio.sleep(3600)
        assert platform.retired == [("approved", card) for card in platform.cards]
        await supervisor.cancel("s")


async def test_a_card_that_was_never_sent_is_not_searched_for():
    """A platform that could not be reached for hours need not be searched when it comes back."""
    store = MemoryStore()
    platform = Unsaid(store, [], ConnectionRefusedError)
    async with opened(store, channels=[platform, Wall("next")]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await anyio.sleep(1)
        await supervisor.decide((await supervisor.find_approvals())[0].id, Approve(by="ana"))
        assert await run.result() == "ok"
        await anyio.sleep(3600)
    assert platform.looked == 0
    assert "next" in [event.channel for event in events(store, run.session, e.CardRetired)]


async def test_leaving_does_not_wait_for_a_card_that_cannot_be_retired():
    """R8: the program ends, and a later start retires the card."""
    wall, store = Wall("wall"), MemoryStore()
    async with opened(store, channels=[wall]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await wall.news.wait()
        wall.is_away = True
        await supervisor.decide(wall.posted[0][0], Approve(by="ana"))
        assert await run.result() == "ok"
    assert [approval.shown for approval in store.find_shown()] == [("wall",)]
