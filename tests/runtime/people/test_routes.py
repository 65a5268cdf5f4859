"""Routes: each target gets a card or a notice, a decision retires all of them, and none waits for another (A11)."""

from copy import copy, deepcopy

import anyio
import pytest
from scenes import ForkingStore, events, fork, opened
from watching import next_of

from supervisor import Approve, Context, InvalidInput, MemoryStore, agent, tool
from supervisor.channels import Channel, Route
from supervisor.core import events as e
from supervisor.core.approvals.people import People, Person

pytestmark = pytest.mark.anyio

PEOPLE = People(
    [
        Person(name="ana", roles=("operator",), identities={"town": "1"}),
        Person(name="bob", identities={"town": "2"}),
        Person(name="cleo", roles=("approver",), identities={"town": "3"}),
    ]
)


@tool
async def deploy(target: str) -> str:
    return f"deployed {target}"


@agent
async def deployer(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def above(ctx: Context, target: str) -> str:
    return await ctx.run(deployer, target)


class Platform:
    """Cards by id: where, of which approval, of which kind, and whether it still looks live."""

    def __init__(self) -> None:
        self.cards: dict[str, list] = {}
        self.down: set[str] = set()

    def live(self):
        return sorted((place, kind) for place, _, kind, is_live in self.cards.values() if is_live)


class Town(Channel):
    """A channel with places, whose cards outlive the process."""

    keeps_cards = True

    def __init__(self, name="town", platform=None, place="home") -> None:
        self.name, self.platform, self.place = name, platform or Platform(), place

    def at(self, place):
        if not place.removeprefix("@").isalnum():
            raise InvalidInput(f"{place!r} is no place")
        there = copy(self)
        there.place = place
        return there

    async def serve(self, supervisor) -> None:
        await anyio.sleep_forever()

    async def post(self, approval, card, kind="card"):
        if self.place in self.platform.down:
            raise ConnectionRefusedError("down")
        card = card or f"{self.place}-{len(self.platform.cards)}"
        self.platform.cards[card] = [self.place, approval.id, kind, True]
        return card

    async def notify(self, approval, card):
        return await self.post(approval, card, "notice")

    async def find_card(self, approval, since, until):
        cards = self.platform.cards.items()
        return next((card for card, (place, of, _, _) in cards if (place, of) == (self.place, approval.id)), None)

    async def retire(self, approval, card) -> None:
        self.platform.cards[card][3] = False


class Bell(Town):
    """A channel that only notifies."""

    only_notifies = True


class Inbox(Channel):
    """A screen of this process."""

    name = "inbox"

    async def serve(self, supervisor) -> None:
        await anyio.sleep_forever()

    async def post(self, approval, card):
        return approval.id

    async def retire(self, approval, card) -> None: ...


async def test_each_target_of_the_first_fitting_route_gets_a_card_or_a_notice():
    """And a decision retires all of them. No other channel gets anything."""
    town, bell = Town(), Bell("bell", place="bell")
    routes = [
        Route(tool="other", ask=("town:wrong",)),
        Route(agent="above", tool="deploy", ask=("town:ops", "town"), notify=("bell", "town:news")),
        Route(ask=("town:late",)),
    ]
    async with opened(channels=[town, bell], routes=routes) as supervisor:
        run = await supervisor.start(above, "x")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(1)
        assert town.platform.live() == [("home", "card"), ("news", "notice"), ("ops", "card")]
        assert bell.platform.live() == [("bell", "notice")]
        assert (await supervisor.get_approval(approval.id)).shown == ("town",)
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"
        await anyio.sleep(1)
        assert (town.platform.live(), bell.platform.live(), supervisor.store.find_shown()) == ([], [], [])


async def test_without_a_route_the_first_channel_that_takes_it_asks():
    """A11: as if there were no routes; a channel that only notifies passes the approval on."""
    bell, town, second = Bell("bell", place="bell"), Town(), Town("second")
    async with opened(channels=[bell, town, second], routes=[Route(tool="other", ask=("second",))]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await anyio.sleep(1)
        assert [each.platform.live() for each in (bell, town, second)] == [[("bell", "notice")], [("home", "card")], []]
        await run.cancel()


async def test_a_route_that_only_notifies_leaves_asking_to_the_first_channel():
    town, bell = Town(), Bell("bell", place="bell")
    async with opened(channels=[town, bell], routes=[Route(notify=("bell",))]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await anyio.sleep(1)
        assert (town.platform.live(), bell.platform.live()) == ([("home", "card")], [("bell", "notice")])
        await run.cancel()


async def test_a_target_that_fails_is_tried_again_and_holds_up_no_other():
    """A11: and if it comes back after the decision, it gets no card."""
    town = Town()
    town.platform.down = {"a", "c"}
    async with opened(channels=[town], routes=[Route(ask=("town:a", "town:b", "town:c"))]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await anyio.sleep(1)
        assert town.platform.live() == [("b", "card")]
        town.platform.down = {"c"}
        await anyio.sleep(60)
        assert town.platform.live() == [("a", "card"), ("b", "card")]
        assert {each.place for each in events(supervisor.store, run.session, e.CardFailed)} == {"a", "c"}
        (approval,) = await supervisor.find_approvals()
        await supervisor.decide(approval.id, Approve(by="ana"))
        town.platform.down = set()
        await anyio.sleep(3600)
        assert (town.platform.live(), len(town.platform.cards)) == ([], 2)


async def test_if_no_target_shows_it_a_screen_does_and_no_other_platform():
    """A11: a failure does not decide who may read a request; the inbox shows it in any case."""
    town, second = Town(), Town("second")
    town.platform.down = {"ops"}
    async with opened(channels=[town, second, Inbox()], routes=[Route(ask=("town:ops",))]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await anyio.sleep(60)
        assert ((await supervisor.find_approvals())[0].shown, second.platform.cards) == (("inbox",), {})
        await run.cancel()


async def test_approvers_get_a_direct_message_each_also_since_an_escalation():
    """The people who may decide by their identities: here not bob, until it is escalated to him."""
    town = Town()
    routes, reminding = [Route(ask=("town:@approvers",))], {"escalate_after": 60.0, "escalate_to": ["bob"]}
    async with opened(channels=[town], people=PEOPLE, routes=routes, **reminding) as supervisor:
        run = await supervisor.start(deployer, "x", requester="dora")
        await anyio.sleep(30)
        assert [place for place, _ in town.platform.live()] == ["@1", "@3"]
        await anyio.sleep(60)
        assert [place for place, _ in town.platform.live()] == ["@1", "@2", "@3"]
        await run.cancel()


async def test_approvers_that_cannot_be_reached_are_noted_once():
    """A11: the journal says so, and a screen shows the approval."""
    people = People([Person(name="ana", roles=("operator",)), Person(name="bob", identities={"town": "2"})])
    store, town = MemoryStore(), Town()
    options = {"channels": [town, Inbox()], "people": people, "routes": [Route(ask=("town:@approvers",))]}
    for _ in range(2):
        async with opened(store, **options) as supervisor:
            await supervisor.start(deployer, "x", session="s", requester="dora")
            await anyio.sleep(30)
            assert (await supervisor.find_approvals())[0].shown == ("inbox",)
            store = fork(store)
            await supervisor.cancel("s")
    assert [each.place for each in events(store, "s", e.CardFailed)] == ["@approvers"]


async def test_no_death_leaves_a_second_card_or_a_live_one():
    """R3: a process dies after each commit, before or after what it does next: it posts, is answered, or retires. The
    next process completes the cards, and none looks live after the decision."""
    town, routes = Town(), [Route(ask=("town:ops", "town:@approvers"), notify=("town:news",))]
    options = {"routes": routes, "people": People([Person(name="ana", roles=("operator",), identities={"town": "1"})])}
    store = ForkingStore(lambda: deepcopy(town.platform))
    async with opened(store, channels=[town], **options) as supervisor:
        await supervisor.start(deployer, "x", session="s")
        await anyio.sleep(1)
        await decide_all(supervisor)
    later = [*(platform for _, platform in store.copies[1:]), town.platform]
    deaths = [
        (left, platform) for (left, now), then in zip(store.copies, later, strict=True) for platform in (now, then)
    ]
    assert sum(len(platform.cards) > 0 for _, platform in deaths) > 10
    for left, platform in deaths:
        again = Town(platform=deepcopy(platform))
        async with opened(fork(left), channels=[again], adopt=True, **options) as supervisor:
            await anyio.sleep(60)
            if await supervisor.find_approvals():
                assert again.platform.live() == [("@1", "card"), ("news", "notice"), ("ops", "card")]
            await decide_all(supervisor)
            assert (again.platform.live(), supervisor.store.find_shown()) == ([], [])
            assert len(again.platform.cards) <= 3


async def decide_all(supervisor):
    for approval in await supervisor.find_approvals():
        await supervisor.decide(approval.id, Approve(by="ana"))
    await anyio.sleep(60)


async def test_cards_of_former_routes_are_retired():
    """R3: the file was changed between two processes. The card stays where it is, and the new target gets one, too."""
    store, town = MemoryStore(), Town()
    async with opened(store, channels=[town], routes=[Route(ask=("town:old",), notify=("town:news",))]) as supervisor:
        await supervisor.start(deployer, "x", session="s")
        await anyio.sleep(1)
        left = fork(store)
        await supervisor.cancel("s")
    town.platform.cards = {card: [*about[:3], True] for card, about in town.platform.cards.items()}
    async with opened(left, channels=[town], routes=[Route(ask=("town:new",))], adopt=True) as supervisor:
        await anyio.sleep(1)
        assert [place for place, _ in town.platform.live()] == ["new", "news", "old"]
        await supervisor.decide((await supervisor.find_approvals())[0].id, Approve(by="ana"))
        await anyio.sleep(1)
        assert town.platform.live() == []


async def test_a_word_in_one_place_does_not_mean_a_card_in_another():
    """A12: a route has sent the card elsewhere, so it was not shown here."""
    town = Town()
    async with opened(channels=[town], routes=[Route(ask=("town:ops",))]) as supervisor:
        run = await supervisor.start(deployer, "x", session="s")
        await anyio.sleep(1)
        assert (await supervisor.chat("s", "yes", by="ana", channel="town")).kind == "listed"
        (approval,) = await supervisor.find_approvals()
        assert (await supervisor.chat("s", f"yes {approval.id}", by="ana", channel="town")).kind == "decided"
        assert await run.result() == "ok"


@pytest.mark.parametrize(
    ("route", "why"),
    [
        ({"ask": ("village",)}, "there is no channel 'village'"),
        ({"ask": ("town:a b",)}, "is no place"),
        ({"ask": ("town:@ana",)}, "names no place"),
        ({"ask": ("town:",)}, "names no place"),
        ({"ask": ("bell",)}, "only notifies"),
        ({"notify": ("inbox",)}, "cannot notify"),
        ({"ask": ("inbox:here",)}, "one place only"),
        ({"ask": ("bellow:@approvers",)}, "no person has an identity on bellow"),
        ({"ask": ("town",), "notify": ("town",)}, "each target is written once"),
    ],
)
async def test_a_route_that_cannot_work_is_refused(route, why):
    """Before the store is opened; the message names the route and what to write."""
    channels = [Town(), Bell("bell"), Inbox(), Town("bellow")]
    with pytest.raises(InvalidInput, match=rf"routes\[0\].*{why}"):
        async with opened(channels=channels, people=PEOPLE, routes=[Route(**route)]):
            raise AssertionError
