"""A daemon with two targets in one route is killed around each event of their cards; the next one goes on."""

import itertools

import fake_discord
import fake_slack
import fake_telegram
import pytest
from test_platform_deaths import ANA, Daemons, has_buttons, nursery  # noqa: F401 # a fixture

PLATFORMS = {
    "slack": (fake_slack.FakeSlack, fake_slack.serving, ("C1", "C2"), ANA),
    "discord": (fake_discord.FakeDiscord, fake_discord.serving, ("77", "78"), ANA),
    "telegram": (fake_telegram.FakeTelegram, fake_telegram.serving, ("-1001", "-1002"), "11"),
}


def deaths():
    """Around each event of the card of each target."""
    for backend, platform in itertools.product(("asyncio", "trio"), PLATFORMS):
        for event, place in itertools.product(("CardBegun", "CardPosted", "CardRetired"), PLATFORMS[platform][2]):
            for when in ("before", "after"):
                yield platform, backend, f"{when} {event} {platform}:{place}"


ALL = list(deaths())
SAMPLE = [
    ("slack", "trio", "after CardBegun slack:C2"),
    ("slack", "asyncio", "before CardPosted slack:C1"),
    ("slack", "trio", "after CardPosted slack:C1"),
    ("slack", "asyncio", "before CardRetired slack:C2"),
    ("discord", "trio", "before CardPosted discord:78"),
    ("telegram", "asyncio", "before CardPosted telegram:-1002"),
    ("telegram", "trio", "after CardPosted telegram:-1001"),
]


@pytest.mark.slow
@pytest.mark.parametrize("death", SAMPLE, ids=str)
def test_each_target_has_one_live_card_after_a_death(nursery, tmp_path, death):  # noqa: F811 # the fixture
    """R3: one card can be pressed in each place, and a decision takes the buttons of both."""
    story(nursery, tmp_path, *death)


@pytest.mark.soak
@pytest.mark.parametrize("death", ALL, ids=str)
def test_each_target_has_one_live_card_after_every_death(nursery, tmp_path, death):  # noqa: F811 # the fixture
    """The same, around each event there is."""
    story(nursery, tmp_path, *death)


def story(nursery, folder, platform, backend, death):  # noqa: F811 # the fixture
    make, serving, places, identity = PLATFORMS[platform]
    targets = [f"{platform}:{place}" for place in places]
    with serving(make()) as fake:
        daemons = Daemons(nursery, folder, platform, backend, fake, identity=identity, routes=[{"ask": targets}])
        daemons.begin(at=death)
        try:
            daemons.until(lambda: daemons.ask("sessions", agent="deployer", input="x", session="s"))
            daemons.until(lambda: daemons.deaths == 1 or "CardRetired" in death)
            daemons.until(lambda: recorded(daemons) == set(places))
            daemons.until(lambda: live(fake, places) == dict.fromkeys(places, 1))
            (approval,) = daemons.until(lambda: daemons.ask("approvals"))["items"]
            daemons.until(lambda: daemons.ask(f"approvals/{approval['id']}/decision", decision="approve"))
            daemons.until(lambda: live(fake, places) == dict.fromkeys(places, 0))
            daemons.until(lambda: not daemons.ask("approvals?status=all")["items"][0]["shown"])
            daemons.until(lambda: daemons.deaths == 1)
            daemons.until(lambda: (daemons.ask("sessions/s") or {}).get("outcome"))
        finally:
            daemons.end()
        assert live(fake, places) == dict.fromkeys(places, 0)
        if platform != "telegram":  # which cannot be searched: a message without buttons may be left
            assert [len(cards(fake, place)) for place in places] == [1, 1]


def recorded(daemons):
    """Return the places whose cards are in the journal."""
    journal = (daemons.ask("sessions/s/journal") or {"items": []})["items"]
    return {entry["place"] for entry in journal if entry["event"] == "CardPosted"}


def cards(fake, place):
    """Return the cards in a conversation."""
    match fake:
        case fake_slack.FakeSlack():
            return list(fake.messages.get(place, ()))
        case fake_discord.FakeDiscord():
            return [message for message in fake.messages.values() if message["channel_id"] == place]
        case _:
            return fake.cards(int(place))


def live(fake, places):
    """Return the number of cards that can be pressed, by place."""
    press = fake_telegram.codes if isinstance(fake, fake_telegram.FakeTelegram) else has_buttons
    return {place: sum(bool(press(card)) for card in cards(fake, place)) for place in places}
