"""Routes to Slack and Discord: cards in conversations and direct messages, and notices that have no buttons."""

import fake_discord
import pytest
from fake_slack import SECRET, TOKEN, FakeSlack, serving
from platform_scenes import ANA, deployer, opened, people, ran, until

from supervisor import Approve, InvalidInput
from supervisor.channels import Discord, Route, Slack
from supervisor.core.approvals.people import People, Person

pytestmark = pytest.mark.anyio

ROUTE = Route(tool="deploy", ask=("slack:C2", "slack:@approvers"), notify=("slack:C3",))


@pytest.fixture
def slack():
    with serving(FakeSlack()) as fake:
        yield fake


def channel(slack):
    return Slack(
        token=TOKEN,
        signing_secret=SECRET,
        conversation="C1",
        people=people("slack"),
        base_url=slack.url,
        link="https://x",
    )


def types(slack):
    """Where messages are, and whether they have buttons."""
    return {
        place: [any(block["type"] == "actions" for block in message["blocks"]) for message in messages]
        for place, messages in slack.messages.items()
    }


async def test_a_press_in_a_direct_message_retires_the_cards_everywhere(slack):
    """The one person who may decide gets a message; the notice says where to decide, and nothing of the call."""
    async with opened(chat := channel(slack), routes=[ROUTE]) as supervisor:
        run = await supervisor.start(deployer, "production")
        await until(lambda: len(slack.messages) == 3)
        assert types(slack) == {"C2": [True], f"D-{ANA}": [True], "C3": [False]}
        notice = str(slack.messages["C3"][0]["blocks"])
        approval = (await supervisor.find_approvals())[0]
        assert (f"https://x/approvals/{approval.id}" in notice, "production" in notice) == (True, False)
        (card,) = slack.messages[f"D-{ANA}"]
        await chat.webhooks()[0].receive(*slack.press(card, "approve.0", ANA, f"D-{ANA}"))
        assert (await run.result())[0] == "ok"
        await until(lambda: not any(each for found in types(slack).values() for each in found))
    assert (ran, [len(found) for found in types(slack).values()]) == (["production 1"], [1, 1, 1])


@pytest.mark.parametrize("place", ["C2", f"@{ANA}"])
async def test_a_card_whose_answer_was_lost_is_found_in_its_place(slack, place):
    """R3: Slack posts it and fails; there is no second card."""
    chat = channel(slack)
    async with opened(chat) as supervisor:
        run = await supervisor.start(deployer, "x")
        await until(lambda: slack.messages)
        (approval,) = await supervisor.find_approvals()
        slack.unwell = 1
        card = await chat.at(place).post(approval, None)
        where, _, ts = card.partition(":")
        assert [message["ts"] for message in slack.messages[where]] == [ts]
        await supervisor.decide(approval.id, Approve(by="ana"))
        await run.result()


@pytest.mark.parametrize("place", ["general", "#general", "@ana", "", "C1 "])
def test_a_name_is_no_place(slack, place):
    """Slack knows conversations and people by their ids; a name may be given to another one."""
    with pytest.raises(InvalidInput, match="C012AB3CD"):
        channel(slack).at(place)


async def test_discord_has_a_card_in_each_place_and_a_notice_without_buttons():
    """One nonce would make them one message: Discord knows it in all places of the bot."""
    route = Route(ask=("discord:78", "discord:@approvers"), notify=("discord:79",))
    known = People([Person(name="ana", roles=("operator",), identities={"discord": "5"})])
    with fake_discord.serving(fake_discord.FakeDiscord()) as fake:
        chat = Discord(
            token=fake_discord.TOKEN,
            application=fake_discord.APPLICATION,
            public_key=fake_discord.PUBLIC_KEY,
            conversation="77",
            people=known,
            base_url=fake.url,
        )
        async with opened(chat, routes=[route], people=known) as supervisor:
            run = await supervisor.start(deployer, "production")
            await until(lambda: len(fake.messages) == 3)
            shown = {message["channel_id"]: bool(message["components"]) for message in fake.messages.values()}
            assert shown == {"78": True, "95": True, "79": False}
            (notice,) = (message for message in fake.messages.values() if message["channel_id"] == "79")
            assert "production" not in str(notice["embeds"])
            direct = next(message for message in fake.messages.values() if message["channel_id"] == "95")
            await chat.webhooks()[0].receive(*fake.press(direct, "approve.0", "5"))
            assert (await run.result())[0] == "ok"
            await until(lambda: not any(message["components"] for message in fake.messages.values()))


@pytest.mark.parametrize("place", ["general", "@ana", "", "77 ", "C1"])
def test_a_name_is_no_place_in_discord(place):
    chat = Discord(token="t", application="1", public_key="0a" * 32, conversation="77", people=people("discord"))
    with pytest.raises(InvalidInput, match="digits"):
        chat.at(place)
