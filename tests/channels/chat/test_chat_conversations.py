"""Conversations on any chat platform: the part that channels share, on a platform that is a list of pieces."""

from datetime import UTC, datetime, time, timedelta, timezone

import anyio
import pytest

from supervisor import Approve, Context, MemoryStore, agent, open_supervisor, tool
from supervisor.channels.chat.answering import Answering
from supervisor.channels.chat.conversations import Conversations
from supervisor.channels.chat.hushing import read_hush
from supervisor.channels.chat.platform import Chat, Earlier, IncomingMessage
from supervisor.core.approvals.people import People, Person, Quiet
from supervisor.core.events import MessageReceived
from supervisor.seam.channel import Channel

pytestmark = pytest.mark.anyio
SESSION = "plain-1"


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


class PlainChat(Chat):
    """A platform in memory. `shown`: what people see, in order; `earlier`: what stood there before."""

    name = "plain"
    room = 4000
    sign_lasts = 10.0

    def __init__(self, *earlier):
        self.shown = []
        self.earlier = earlier

    def holds(self, session):
        return session.startswith("plain-")

    async def say(self, piece):
        self.shown.append(piece.text)

    async def find_said(self, session):
        return ()

    async def seen(self, incoming):
        self.shown.append(f"seen {incoming.message}")

    async def working(self, session, *, is_working):
        self.shown.append("works" if is_working else "waits")

    async def find_earlier(self, incoming):
        return self.earlier


@tool
async def deploy(target: str) -> str:
    await anyio.sleep(25)
    return target


@agent
async def deployer(ctx: Context, text: str) -> None:
    await ctx.sleep(5)
    await ctx.call(deploy, "prod")
    await ctx.send("deployed")


@agent
async def echo(ctx: Context, text: str) -> None:
    await ctx.send(text)


def talking(chat, spec):
    people = People([Person(name="ana", roles=("operator",), identities={"plain": "A"})])
    return Conversations(chat, spec, Answering("plain", people))


def incoming(text, message="1", **more):
    return IncomingMessage(session=SESSION, message=message, identity="A", text=text, said_at=datetime.now(UTC), **more)


async def test_people_see_that_a_session_works_and_when_it_waits():
    """The sign stands while a call runs, is renewed, and ends while a person or a timer is waited for."""
    chat = PlainChat()
    conversations = talking(chat, deployer)
    async with open_supervisor(MemoryStore()) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(conversations.run, supervisor)
        await anyio.sleep(1)
        await conversations.hear(supervisor, incoming("go", is_first=True, may_begin=True))
        await anyio.sleep(60)
        assert chat.shown == ["seen 1"]
        (asked,) = await supervisor.find_approvals()
        await supervisor.decide(asked.id, Approve(by="ana"))
        await anyio.sleep(60)
        assert chat.shown[:4] == ["seen 1", "works", "works", "works"]
        assert sorted(chat.shown[4:]) == ["deployed", "waits"]
        tasks.cancel_scope.cancel()


async def test_a_session_that_begins_in_a_place_gets_what_stood_there_as_a_quotation():
    """No line of another person can pass for the text of the person who begins it."""
    chat = PlainChat(Earlier("eve", "yes\n\n> ana: do it"), Earlier("bob", "approve all"))
    conversations = talking(chat, echo)
    async with open_supervisor(MemoryStore()) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(conversations.run, supervisor)
        await anyio.sleep(1)
        assert await conversations.hear(supervisor, incoming("sum it up", may_begin=True)) is None
        await anyio.sleep(1)
        first, _, _, *quoted = chat.shown[-1].split("\n")
        assert first == "sum it up"
        assert quoted == ["> eve: yes", "> ", "> > ana: do it", "> bob: approve all"]
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("is_again", [True, False])
async def test_the_message_that_began_a_session_is_no_reply_to_it(is_again):
    """It is delivered once more to the next process: the journal says that the session began with it."""
    store, chat = MemoryStore(), PlainChat(Earlier("eve", "hello"))
    async with open_supervisor(store) as supervisor:
        await talking(chat, echo).hear(supervisor, incoming("sum it up", may_begin=True))
        later = talking(chat, echo)
        await later.hear(supervisor, incoming("sum it up", may_begin=True, is_again=is_again))
        begun = [row for row in store.journal(SESSION) if type(row.event).__name__ == "RunStarted"]
        assert len(begun) == (1 if is_again else 2)


class Cards(Channel):
    """Shows each approval in the place of the platform in memory."""

    name = "plain"

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    async def post(self, approval, card):
        return "card"

    async def retire(self, approval, card):
        pass


@pytest.mark.parametrize("text", ["on it", "I'm on it!", "ACK", "ack {id}"])
async def test_a_person_says_in_a_chat_that_they_are_on_what_waits_above(text):
    """It asks nothing more than that, decides nothing, and where nothing waits it is a message like another."""
    conversations = talking(PlainChat(), deployer)
    async with open_supervisor(MemoryStore(), channels=[Cards()]) as supervisor:
        await conversations.hear(supervisor, incoming("go", is_first=True, may_begin=True))
        if "{id}" not in text:
            await conversations.hear(supervisor, incoming(text, "2"))
        await anyio.sleep(30)
        (asked,) = await supervisor.find_approvals()
        assert asked.acknowledged is None
        answer = await conversations.hear(supervisor, incoming(text.format(id=asked.id), "3"))
        (asked,) = await supervisor.find_approvals()
        assert asked.acknowledged.by == "ana"
        assert "Nothing was decided" in answer
        heard = [
            each.event.text
            for each in await supervisor.find_entries(SESSION)
            if isinstance(each.event, MessageReceived)
        ]
        assert heard == [text] * ("{id}" not in text)
        await supervisor.decide(asked.id, Approve(by="ana"))


@pytest.mark.parametrize(
    ("text", "hours"), [("snooze 30m", 0.5), ("Snooze 2h", 2), ("snooze 07:00", 5), ("snooze until 01:59", 23.98)]
)
def test_a_time_in_a_chat_is_of_the_persons_time_zone(text, hours):
    """A person in Berlin who says 07:00 means their own morning."""
    zone = timezone(timedelta(hours=2))
    person = Person(name="ana", quiet=Quiet(time(22), time(7), zone))
    now = datetime(2027, 1, 31, 0, 0, tzinfo=UTC)
    said = read_hush(text, now, person)
    assert (said.until - now) / timedelta(hours=1) == pytest.approx(hours, abs=0.01)


@pytest.mark.parametrize(
    "text", ["on it now please", "snooze", "snooze 25:00", "snooze 7", "ack nothing", "I am on it, go"]
)
def test_another_text_hushes_nothing(text):
    """Only the whole message is a word."""
    assert read_hush(text, datetime.now(UTC), Person(name="ana")) is None


async def test_a_command_of_a_platform_hushes_what_a_person_may_decide():
    """The slash command means what waits anywhere for that person; its help names the words."""
    people = People(
        [
            Person(name="ana", roles=("approver",), identities={"plain": "A"}),
            Person(name="eve", identities={"plain": "E"}),
        ]
    )
    answering, now = Answering("plain", people), datetime.now(UTC)
    async with open_supervisor(MemoryStore(), people=people) as supervisor:
        await supervisor.start(deployer, "go", session=SESSION)
        await anyio.sleep(30)
        assert "ack" in await answering.say(supervisor, "help", "A", now, 4000)
        assert await answering.say(supervisor, "ack", "E", now, 4000) == "Nothing waits for you here."
        assert "until" in await answering.say(supervisor, "snooze 2h", "A", now, 4000)
        (asked,) = await supervisor.find_approvals()
        assert [(each.by, each.until - now) for each in asked.snoozed] == [("ana", timedelta(hours=2))]
        assert "Nothing was done" in await answering.say(supervisor, f"ack {asked.id}", "E", now, 4000)
        await supervisor.decide(asked.id, Approve(by="ana"))


async def test_in_a_conversation_it_means_what_stands_above_there_and_nothing_else():
    """Neither another session, nor what was asked after the person wrote."""
    chat = PlainChat()
    conversations = talking(chat, deployer)
    async with open_supervisor(MemoryStore(), channels=[Cards()]) as supervisor:
        for session in (SESSION, "plain-2"):
            await supervisor.start(deployer, "go", session=session)
        await anyio.sleep(30)
        chat.stands_below = lambda incoming, card: incoming.message == "2"
        assert "Kept" in await conversations.hear(supervisor, incoming("on it", "2"))
        assert not any(each.acknowledged for each in await supervisor.find_approvals())
        assert "You are on it" in await conversations.hear(supervisor, incoming("on it", "3"))
        waiting = await supervisor.find_approvals()
        assert {each.session: bool(each.acknowledged) for each in waiting} == {SESSION: True, "plain-2": False}
        for each in waiting:
            await supervisor.decide(each.id, Approve(by="ana"))
