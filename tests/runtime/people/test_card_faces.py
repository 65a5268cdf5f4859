"""R3: a card is renewed only if what it shows has changed, and a card that a person deleted is posted again, once."""

from copy import deepcopy

import anyio
import pytest
from scenes import ForkingStore, events, fork, opened

from supervisor import Approve, Context, MemoryStore, agent, tool
from supervisor.channels import Channel
from supervisor.channels.sdk import CardGone

pytestmark = pytest.mark.anyio
SOON = 30.0


@tool
async def deploy() -> str:
    return "done"


@agent
async def deployer(ctx: Context) -> str:
    return (await ctx.call(deploy)).kind


class Wall(Channel):
    """A platform that tells what a card shows. `cards`: text and buttons of each; `posts`: the cards it was given."""

    name = "wall"
    keeps_cards = True

    def __init__(self, style="plain", cards=None, *, opens_cards=False) -> None:
        self.style, self.opens_cards = style, opens_cards
        self.cards: dict[str, tuple[str, bool]] = {} if cards is None else cards
        self.posts: list[str | None] = []
        self.reminded: list[str] = []

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    def face(self, approval, *, is_notice=False):
        return f"{self.style} {approval.id} {approval.escalated_to}"

    async def post(self, approval, card):
        self.posts.append(card)
        if card is not None and card not in self.cards:
            raise CardGone("a person has deleted it")
        is_open = not self.opens_cards or card is not None
        card = card or f"card {len(self.posts)}"
        self.cards[card] = (self.face(approval), is_open)
        return card

    async def find_card(self, approval, since, until):
        return None if self.opens_cards else next((card for card in self.cards), None)

    async def remind(self, approval, card):
        self.reminded.append(card)

    async def retire(self, approval, card):
        if card in self.cards:
            self.cards[card] = ("decided", False)

    def live(self):
        return [card for card, (_, is_open) in self.cards.items() if is_open]


async def left_by(wall, store, **options):
    """Let a process show what waits, and die. Return its store."""
    async with opened(store, channels=[wall], adopt=True, **options) as supervisor:
        if not await supervisor.find_sessions():
            await supervisor.start(deployer, session="s")
        await anyio.sleep(3 * SOON)
        left = fork(store)
        await supervisor.cancel("s")
    return left


async def test_a_restart_renews_a_card_only_if_what_it_shows_has_changed():
    """Once for each change, such as another style; the next process finds in the journal what the card shows."""
    cards, styles = {}, ["plain", "plain", "fancy", "fancy"]
    store, posts = MemoryStore(), []
    for style in styles:
        wall = Wall(style, deepcopy(cards))
        store = await left_by(wall, store)
        posts.append(wall.posts)
        cards = dict.fromkeys(wall.cards, ("", True))
    assert posts == [[None], [], ["card 1"], []]


async def test_cards_with_an_old_look_are_renewed_a_few_a_second():
    """After an upgrade: none is posted again, and one that is decided meanwhile is retired without waiting."""
    store, many = MemoryStore(), 20

    async def ask(wall, store):
        async with opened(store, channels=[wall], adopt=True) as supervisor:
            for number in range(many):
                await supervisor.start(deployer, session=f"s{number}")
            await anyio.sleep(SOON)
            return fork(store)

    first = Wall("old")
    left = await ask(first, store)
    wall = Wall("new", deepcopy(first.cards))
    async with opened(left, channels=[wall], adopt=True) as supervisor:
        await anyio.sleep(2.1)
        renewed = set(wall.posts)
        assert 3 <= len(renewed) <= 8
        last = (await supervisor.find_approvals())[-1]
        await supervisor.decide(last.id, Approve(by="ana"))
        await anyio.sleep(0.5)
        retired = {card for card, (text, _) in wall.cards.items() if text == "decided"}
        assert len(retired) == 1
        await anyio.sleep(SOON)
        assert len(wall.cards) == many
        assert sorted(wall.posts) == sorted(wall.cards.keys() - (retired - renewed))
        for number in range(many):
            await supervisor.cancel(f"s{number}")


class Lane(Wall):
    """A platform on which messages follow a card. `later`: how many."""

    remind_on_start = True
    later = 0

    async def is_in_sight(self, approval, card):
        return card in self.cards and self.later < 10

    async def find_card(self, approval, since, until):
        return None


@pytest.mark.parametrize(
    ("cards", "later", "posts", "live"),
    [
        ({"card 7": ("", True)}, 9, [], ["card 7"]),
        ({}, 0, [None], ["card 1"]),
        ({"card 7": ("", True)}, 10, [None], ["card 1"]),
    ],
)
async def test_a_card_out_of_sight_is_posted_anew_once_after_a_restart(cards, later, posts, live):
    """R3: a person has deleted it while no process ran, or messages have buried it. One card looks live at each time,
    and a start after that finds the new one."""
    first = Lane()
    first.posts += [None] * 6  # so that its card is the seventh
    store = await left_by(first, MemoryStore())
    again = Lane(cards=deepcopy(cards))
    again.later = later
    async with opened(store, channels=[again], adopt=True) as supervisor:
        await anyio.sleep(SOON)
        assert (again.posts, again.live()) == (posts, live)
        left, card = fork(store), dict(again.cards)
        await supervisor.cancel("s")
    third = Lane(cards=card)
    await left_by(third, left)
    assert third.posts == []


async def test_a_buried_card_that_lost_its_buttons_without_an_answer_is_still_posted_anew():
    """R3: the platform retired it, and its answer was lost. The journal has it as live, so the next try looks again."""

    class Losing(Lane):
        lost = 0

        async def retire(self, approval, card):
            await super().retire(approval, card)
            self.lost += 1
            if self.lost == 1:
                raise OSError("the answer was lost")

    first = Lane()
    first.posts += [None] * 6
    store = await left_by(first, MemoryStore())
    again = Losing(cards={"card 7": ("", True)})
    again.later = 10
    async with opened(store, channels=[again], adopt=True) as supervisor:
        await anyio.sleep(SOON)
        assert (again.posts, again.live()) == ([None], ["card 1"])
        await supervisor.cancel("s")


async def test_a_restart_between_the_end_of_the_old_card_and_the_new_one_loses_none():
    """R3: the journal says that there is no card, so the next process posts it."""

    class Dying(Lane):
        async def post(self, approval, card):
            raise ConnectionRefusedError("the process is about to die")

    first = Lane()
    store = await left_by(first, MemoryStore())
    dying = Dying(cards=deepcopy(first.cards) | {"card 1": ("", True)})
    dying.later = 10
    async with opened(store, channels=[dying], adopt=True) as supervisor:
        await anyio.sleep(SOON)
        left = fork(store)
        await supervisor.cancel("s")
    last = Lane(cards=dict(dying.cards))
    await left_by(last, left)
    assert last.posts == [None]


async def test_a_reminder_is_not_repeated_by_a_restart():
    """A10: the card of a reminded approval is as it should be, too."""
    options = {"remind_after": SOON}
    first = Wall()
    store = await left_by(first, MemoryStore(), **options)
    again = Wall(cards={"card 1": ("", True)})
    await left_by(again, store, **options)
    assert (first.posts, first.reminded) == ([None, "card 1"], ["card 1"])
    assert (again.posts, again.reminded) == ([], [])


async def test_a_card_that_was_not_opened_is_opened_by_the_next_process():
    """It is noted without what it shows, since the process may die before the card gets its buttons."""
    wall = Wall(opens_cards=True)
    store = await left_by(wall, MemoryStore())
    assert wall.posts == [None, "card 1"]
    posts = []
    for _ in range(2):
        again = Wall(cards={"card 1": ("", False)}, opens_cards=True)
        store = await left_by(again, store)
        posts.append(again.posts)
    assert posts == [["card 1"], []]


async def test_a_deleted_card_is_posted_again_with_the_next_reminder():
    """It is noted as gone before the new one is posted, so that no process knows of two."""
    wall, store = Wall(), MemoryStore()
    async with opened(store, channels=[wall], remind_after=SOON) as supervisor:
        run = await supervisor.start(deployer, session="s")
        await anyio.sleep(1)
        wall.cards.clear()
        await anyio.sleep(2 * SOON)
        assert (wall.live(), wall.reminded) == (["card 3"], [])
        await supervisor.decide((await supervisor.find_approvals())[0].id, Approve(by="ana"))
        assert await run.result() == "ok"
        await anyio.sleep(1)
    assert wall.live() == []
    kinds = [type(event).__name__ for event in events(store, "s") if type(event).__name__.startswith("Card")]
    assert kinds == ["CardBegun", "CardPosted", "CardRetired", "CardBegun", "CardPosted", "CardRetired"]


@pytest.mark.parametrize("opens_cards", [False, True])
async def test_no_death_around_a_deleted_card_leaves_two_or_none(opens_cards):
    """A process dies after each commit, before or after what it does next. The next one completes the card."""
    wall, gone = Wall(opens_cards=opens_cards), []
    store = ForkingStore(lambda: deepcopy(wall.cards))
    async with opened(store, channels=[wall], remind_after=SOON) as supervisor:
        await supervisor.start(deployer, session="s")
        await anyio.sleep(1)
        wall.cards.clear()
        gone.append(len(store.copies))
        await anyio.sleep(2 * SOON)
        copies, last = store.copies[gone[0] :], deepcopy(wall.cards)
        await supervisor.cancel("s")
    later = [*(cards for _, cards in copies[1:]), last]
    deaths = [(left, cards) for (left, now), then in zip(copies, later, strict=True) for cards in (now, then)]
    assert len(deaths) > 4
    for left, cards in deaths:
        again = Wall(cards=deepcopy(cards), opens_cards=opens_cards)
        async with opened(fork(left), channels=[again], adopt=True, remind_after=SOON) as supervisor:
            await anyio.sleep(3 * SOON)
            assert len(again.live()) == 1
            await supervisor.decide((await supervisor.find_approvals())[0].id, Approve(by="ana"))
            await anyio.sleep(60)
            assert (again.live(), supervisor.store.find_shown()) == ([], [])
