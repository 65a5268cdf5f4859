"""One driver for every platform: the scenes, over platforms of another author, and what follows each refusal."""

import pytest
from memory_platform import BareBench, MemoryBench
from msgspec.structs import replace
from platform_scenes import deployer, until
from test_platform_cards import call

from supervisor import MemoryStore, People, Person, open_supervisor
from supervisor.channels.chat.refusals import FOLLOWS
from supervisor.channels.sdk import Asking, CardGone, ChatChannel, Place, Refused
from supervisor.testing import SCENES, run_scene

pytestmark = pytest.mark.anyio
ASKED = call({"command": "ls"})
EVE = People([Person(name="eve", roles=("operator",), identities={"memory": "1"})])


@pytest.mark.parametrize("scene", SCENES)
async def test_a_platform_of_another_author_plays_every_scene(scene):
    """It has forms, and can be searched."""
    await run_scene(MemoryBench(), scene)


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene not in BareBench.cannot])
async def test_a_platform_that_can_do_little_plays_the_other_scenes(scene):
    """It has no forms and no search: those are limits of its declaration."""
    await run_scene(BareBench(), scene)


def channel(bench, home="1"):
    return ChatChannel(bench.make_platform(), Place(home), Asking(name="memory", people=EVE))


async def outcome(deed, chat, card):
    """Return what follows a deed, by what the caller sees."""
    ended = replace(ASKED, status="denied", by="eve", decided_at=ASKED.created_at)
    try:
        if deed == "renew":
            return "done" if await chat.post(ASKED, card) == card else "another"
        if deed == "look":
            return "kept" if await chat.is_in_sight(ASKED, card) else "lost"
        await chat.retire(ended if deed == "retire" else ASKED, card)
    except CardGone:
        return "lost"
    except Refused:
        return "again"
    return "done"


@pytest.mark.parametrize("deed", ["renew", "retire", "look"])
@pytest.mark.parametrize("meaning", FOLLOWS)
async def test_each_refusal_has_what_follows_in_one_table(meaning, deed):
    """A11, R3: whichever platform it is. `closed` opens the place, and then nothing is refused."""
    bench = MemoryBench()
    chat = channel(bench)
    card = await chat.post(ASKED, None)
    bench.board.refuses["1"] = meaning
    expected = {"kept": "done"} if deed == "renew" else {"done": "kept"} if deed == "look" else {}
    row = getattr(FOLLOWS[meaning], deed)
    is_opened = FOLLOWS[meaning].opens and deed != "look"
    assert await outcome(deed, chat, card) == ("done" if is_opened else expected.get(row, row))
    assert (("reopen", "1") in bench.board.calls) == is_opened


@pytest.mark.parametrize("deed", ["renew", "retire"])
async def test_a_place_that_cannot_be_opened_again_is_left(deed):
    """R3, A11: a card that waits is posted anew; one that has ended is tried again."""
    bench = MemoryBench()
    chat = channel(bench)
    card = await chat.post(ASKED, None)
    chat.platform.limits = replace(chat.platform.limits, reopens=False)
    bench.board.refuses["1"] = "closed"
    assert await outcome(deed, chat, card) == {"renew": "lost", "retire": "again"}[deed]


@pytest.mark.parametrize("adopt", [True, False])
@pytest.mark.parametrize("meaning", [None, "out", "gone"])
async def test_a_changed_conversation_takes_its_waiting_cards_along(meaning, adopt):
    """R3: the card in the former conversation has no buttons, if the app can still reach it; one card is live. It is so
    where no process runs the tree, too."""
    bench, store = MemoryBench(), MemoryStore()
    for home in ("1", "2", "2"):
        if home == "2" and meaning is not None:
            bench.board.refuses["1"] = meaning
        chat = channel(bench, home)
        async with open_supervisor(store, channels=[chat], people=EVE, adopt=adopt) as supervisor:
            if home == "1":
                await supervisor.start(deployer, "x", session="s")
            (card,) = await until(lambda home=home: [each for each in bench.cards() if each.card.startswith(home)])
            await until(lambda card=card.card: any(each.card == card and each.codes for each in bench.cards()))
            (asked,) = await supervisor.find_approvals()
            await until(lambda id_=asked.id: store.get_approval(id_).shown)
    live = [each.card[0] for each in bench.cards() if each.codes]
    assert (live, len(bench.cards())) == (["2"] if meaning is None else ["1", "2"], 2)


async def test_a_direct_message_to_a_person_stays_where_it_is():
    """`@ana` names the conversation that the platform opens for it, so that a restart moves no card."""
    bench = MemoryBench()
    chat = channel(bench).at("@ana")
    chat.platform.locate = direct
    card = await chat.post(ASKED, None)
    bench.board.messages["77:1"] = bench.board.messages.pop(card)
    assert await chat.is_in_sight(ASKED, "77:1")


async def direct(place):
    return Place("77") if place.conversation == "@ana" else place
