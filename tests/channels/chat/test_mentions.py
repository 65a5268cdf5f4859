"""A card mentions the people who may decide it, and a reminder is a new message that mentions them."""

import json

import pytest
import test_discord
import test_slack
from fake_discord import FakeDiscord, serving as serving_discord
from fake_slack import FakeSlack, serving as serving_slack
from platform_scenes import deployer, opened, store_with_a_card, until

from supervisor import Deny
from supervisor.core.approvals.people import ApproverRule, People, Person

pytestmark = pytest.mark.anyio

IDS = {
    "slack": {"ana": "U1", "bob": "U2", "cleo": "U3", "eve": "U4"},
    "discord": {"ana": "1", "bob": "2", "cleo": "3", "eve": "4"},
}
ROLES = {"ana": ("operator",), "bob": ("approver",), "cleo": ("approver",), "eve": ()}
KINDS = ["slack", "discord"]


def people(platform):
    persons = [Person(name=name, roles=ROLES[name], identities={platform: id_}) for name, id_ in IDS[platform].items()]
    return People(
        [*persons, Person(name="far", roles=("approver",))], [ApproverRule(approvers=("bob",), agent="deployer")]
    )


class Place:
    """A platform: its cards and further messages, each with the names of the people whom it notifies."""

    def __init__(self, platform, fake):
        self.platform, self.fake = platform, fake

    def channel(self, **options):
        module = {"slack": test_slack, "discord": test_discord}[self.platform]
        made = module.channel(self.fake, **options)
        made.people = made._people = people(self.platform)
        return made

    @property
    def messages(self):
        if self.platform == "slack":
            return self.fake.messages.get("C1", [])
        return list(self.fake.messages.values())

    def notified(self, message):
        names = {id_: name for name, id_ in IDS[self.platform].items()}
        if self.platform == "discord":
            found = message["allowed_mentions"].get("users", [])
            assert all(f"<@{each}>" in message["content"] for each in found)
        else:
            found = [part["user_id"] for part in parts_of(message["blocks"]) if part.get("type") == "user"]
            assert all(f"<@{each}>" in message["text"] for each in found)
        return [names[each] for each in found]

    def is_below(self, message, card):
        if self.platform == "slack":
            return message["thread_ts"] == card["ts"]
        return message["message_reference"]["message_id"] == card["id"]


def parts_of(value):
    """Iterate over all objects in a JSON value."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts_of(each)


@pytest.fixture(params=KINDS)
def place(request):
    serving, fake = {"slack": (serving_slack, FakeSlack), "discord": (serving_discord, FakeDiscord)}[request.param]
    with serving(fake()) as served:
        yield Place(request.param, served)


@pytest.mark.parametrize(
    ("mention", "names"),
    [("approvers", ["ana", "bob"]), ("requester", ["eve"]), ("nobody", []), (("cleo", "far"), ["cleo"])],
)
async def test_a_card_mentions_whom_the_configuration_says(place, mention, names):
    """By their identities on the platform: who has none there cannot be mentioned."""
    chat = place.channel(mention=mention)
    async with opened(chat, people=chat.people) as supervisor:
        await supervisor.start(deployer, "<@U4> <@4> @everyone", requester="eve")
        (card,) = await until(lambda: place.messages)
        assert place.notified(card) == names
        await decide_all(supervisor)
        await until(lambda: place.notified(card) == [])


async def test_a_reminder_and_an_escalation_are_new_messages_that_mention_people(place):
    """A10: each once, below the card, in any process; the person to whom it is escalated is mentioned first."""
    store = await store_with_a_card(place.channel(), people(place.platform))
    for more, count in (({}, 2), ({"escalate_after": 0.05, "escalate_to": ["cleo"]}, 3)):
        chat = place.channel()
        async with opened(chat, store, people=chat.people, remind_after=0.05, **more) as supervisor:
            await supervisor.resume("s")
            await until(lambda count=count: len(place.messages) == count)
    card, reminder, escalation = place.messages
    assert [place.notified(each) for each in (reminder, escalation)] == [["ana", "bob"], ["cleo", "ana", "bob"]]
    assert place.is_below(reminder, card)
    assert place.is_below(escalation, card)
    assert "x" in json.dumps(reminder)
    assert not any(message.get("has_previews") for message in place.messages)
    await resume_and_end(place, store)
    assert len(place.messages) == 3


async def test_a_reminder_whose_answer_was_lost_is_not_sent_twice(place):
    """The platform took it; the next try finds it there."""
    chat = place.channel()
    chat.card_again = 0.05

    def taken(_, when):
        if when == "after" and len(place.messages) == 2 and not lost:
            lost.append(True)
            place.fake.unwell = 1

    store, lost = await store_with_a_card(place.channel(), people(place.platform)), []
    place.fake.taken = taken
    async with opened(chat, store, people=chat.people, remind_after=0.05) as supervisor:
        await supervisor.resume("s")
        await until(lambda: len(looks(place)) >= 2)
        await decide_all(supervisor)
    assert len(place.messages) == 2


def looks(place):
    """Return the requests that search for a message."""
    return [
        call
        for call in place.fake.calls
        if call == "conversations.replies" or (call[0] == "GET" and call[1].endswith("/messages"))
    ]


async def resume_and_end(place, store):
    """Let a later process serve the store, until it has looked at what the card shows and the approval is decided."""
    chat, looked = place.channel(), []
    face, chat.face = chat.face, lambda *_, **__: looked.append(True) or face(*_, **__)
    async with opened(chat, store, people=chat.people) as supervisor:
        await supervisor.resume("s")
        await until(lambda: looked)
        await decide_all(supervisor)


async def decide_all(supervisor):
    for approval in await supervisor.find_approvals():
        await supervisor.decide(approval.id, Deny(by="ana"))
