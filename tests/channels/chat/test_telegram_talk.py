"""Telegram: people talk with an agent in a chat with the bot, and in groups where they name it."""

import anyio
import pytest
from fake_telegram import GROUP, TOKEN, FakeTelegram, codes, live, serving
from msgspec.structs import replace
from platform_scenes import deploy, deployer as asks, opened, ran, until
from test_telegram import ANA, EVE, STRANGER, channel, people

from supervisor import Context, InvalidInput, MemoryStore, agent
from supervisor.channels import Route
from supervisor.channels.sdk import ChannelSetup
from supervisor.channels.telegram import TelegramSettings
from supervisor.core import events as e
from supervisor.core.approvals.people import People, Person
from supervisor.core.errors import SupervisorError

pytestmark = pytest.mark.anyio


@pytest.fixture
def telegram():
    with serving(FakeTelegram()) as fake:
        yield fake


@agent
async def echo(ctx: Context, text: str) -> str:
    if text.startswith("name"):
        return f"hello {await ctx.ask('Your name?')}"
    return f"you said {text}"


@agent
async def deployer(ctx: Context, text: str) -> str:
    return f"done: {(await ctx.call(deploy, text)).content}"


def talking(telegram, store=None, spec=echo, **options):
    return opened(channel(telegram, agent=spec), store, people=people(), **options)


def said(telegram, chat=ANA):
    return [message["text"] for message in telegram.of_bot(chat)]


async def test_a_chat_with_the_bot_is_a_session_until_another_is_begun(telegram):
    """A message goes on with the last session; /new begins another; a stop word ends it."""
    async with talking(telegram) as supervisor:
        telegram.say("one", ANA, chat=ANA)
        await until(lambda: said(telegram) == ["you said one"])
        telegram.say("two", ANA, chat=ANA)
        await until(lambda: said(telegram)[1:] == ["you said two"])
        telegram.say("/new three", ANA, chat=ANA)
        await until(lambda: said(telegram)[2:] == ["you said three"])
        sessions = sorted(view.id for view in await supervisor.find_sessions())
        assert [session.rpartition("-")[0] for session in sessions] == [f"telegram-{ANA}-0"] * 2
        telegram.say("/stop", ANA, chat=ANA)
        await until(lambda: said(telegram)[3:])


async def test_a_card_of_a_session_is_in_its_chat_and_words_decide_there(telegram):
    """A12: "yes" in the chat of the session, after its card was shown."""
    async with talking(telegram, spec=deployer):
        telegram.say("web-1", ANA, chat=ANA)
        await until(lambda: [card for card in telegram.cards(ANA) if codes(card)])
        telegram.say("yes", ANA, chat=ANA)
        await until(lambda: "done: deployed web-1" in said(telegram))
    assert (ran, telegram.cards(GROUP)) == (["web-1 1"], [])


GATES: list[anyio.Event] = []


@agent
async def slow(ctx: Context, text: str) -> str:
    await GATES.pop().wait()
    return f"done: {(await ctx.call(deploy, text)).content}"


async def test_the_bot_types_while_its_session_works(telegram):
    """Telegram takes the sign away after some seconds, so it is shown again."""
    chat = channel(telegram, agent=slow)
    chat._chat.sign_lasts = 0.01
    GATES.append(gate := anyio.Event())
    async with opened(chat, people=people()):
        telegram.say("web-1", ANA, chat=ANA)
        await until(lambda: telegram.actions[1:])
        gate.set()
        await until(lambda: [card for card in telegram.cards(ANA) if codes(card)])
    assert {*telegram.actions} == {(ANA, "typing")}


async def test_a_question_is_answered_by_answering_it(telegram):
    """A12: the text of the only question's person is its answer."""
    async with talking(telegram):
        telegram.say("name me", ANA, chat=ANA)
        await until(lambda: [card for card in telegram.cards(ANA) if codes(card)])
        telegram.say("Alice", ANA, chat=ANA)
        await until(lambda: "hello Alice" in said(telegram))


async def test_in_a_group_a_reply_goes_to_the_session_that_it_answers(telegram):
    """Naming the bot begins a session; each message says which one it is of; other talk is not heard."""
    async with talking(telegram) as supervisor:
        await until(lambda: telegram.calls.count("getMe"))
        telegram.say("@supervisor_bot one", ANA)
        first = (await until(lambda: telegram.of_bot()))[0]
        telegram.say("@supervisor_bot two", ANA)
        await until(lambda: telegram.of_bot()[1:])
        telegram.say("talk among people", ANA)
        telegram.say("more", ANA, reply_to=first)
        await until(lambda: telegram.of_bot()[2:])
        (text,) = [message["text"] for message in telegram.of_bot() if "more" in message["text"]]
        assert text.rpartition("\n")[2] == first["text"].rpartition("\n")[2]
        assert len(await supervisor.find_sessions()) == 2
    assert len(telegram.of_bot()) == 3


@pytest.mark.parametrize("user", [EVE, STRANGER])
async def test_only_operators_start_the_agent(telegram, user):
    """A4: a stranger is told their id, another person why not."""
    async with talking(telegram) as supervisor:
        telegram.say("do it", user, chat=user)
        (told,) = await until(lambda: said(telegram, user))
        assert len(await supervisor.find_sessions()) == 0
        assert (str(STRANGER) in told) == (user == STRANGER)


async def test_a_later_process_tells_what_is_left_and_nothing_twice(telegram):
    """R9: each piece that was posted is noted, since a chat cannot be read; an update that comes again is known."""
    store = MemoryStore()
    async with talking(telegram, store) as supervisor:
        message = telegram.say("one", ANA, chat=ANA)
        await until(lambda: said(telegram))
        (session,) = await supervisor.find_sessions()
        await until(lambda: any(isinstance(row.event, e.MessageShown) for row in store.journal(session.id)))
        telegram.refusals = {"sendMessage": (500, "")}
        await supervisor.send(session.id, "two", by="ana")
        await until(lambda: telegram.calls[-1] == "sendMessage")
    telegram.refusals = {}
    telegram.push(message=message)
    async with talking(telegram, store) as supervisor:
        await until(lambda: len(said(telegram)) == 2)
        telegram.say("three", ANA, chat=ANA)
        await until(lambda: len(said(telegram)) == 3)
        assert len(await supervisor.find_sessions()) == 1
    assert said(telegram) == ["you said one", "you said two", "you said three"]


async def test_a_long_answer_is_several_messages_and_nothing_in_it_is_live(telegram):
    """No word of an agent is a mention or a command, and nothing is cut."""
    words = "@ana /stop " + "long answer " * 700
    async with talking(telegram):
        telegram.say(words, ANA, chat=ANA)
        await until(lambda: len(said(telegram)) == 3)
    assert [each for message in telegram.of_bot(ANA) for each in live(message)] == []
    assert sum(text.count("answer") for text in said(telegram)) == 700


async def test_another_place_gets_cards_and_notices(telegram):
    """A route names a chat, or a person by @ and their id; a notice has no button and no arguments."""
    chat = channel(telegram, link="https://inbox.example")
    async with opened(chat, people=people()) as supervisor:
        await supervisor.start(asks, "sesame")
        (approval,) = await until(lambda: supervisor.store.find_approvals())
        assert await chat.at(f"@{ANA}").post(approval, None) == f"{ANA}:{telegram.cards(ANA)[0]['message_id']}"
        notice = await chat.at("-77").notify(approval, None)
        (told,) = telegram.of_bot(-77)
        assert (codes(told), "sesame" in told["text"], approval.id in told["text"]) == ([], False, True)
        assert await chat.at("-77").notify(approval, notice) == notice
        for wrong in ("", "@ana", "ops", "1.5"):
            with pytest.raises(InvalidInput):
                chat.at(wrong)
        await supervisor.cancel(approval.session)


async def test_a_notice_of_a_route_never_gets_buttons(telegram):
    """A card gets its buttons once it is recorded; a notice is recorded, too, and stays one."""
    routes = [Route(ask=("telegram",), notify=("telegram:-77",))]
    async with opened(channel(telegram), people=people(), routes=routes) as supervisor:
        run = await supervisor.start(asks, "x")
        (card,) = await until(lambda: [card for card in telegram.cards() if codes(card)])
        (notice,) = await until(lambda: telegram.of_bot(-77))
        assert not codes(notice)
        telegram.press(card, "deny", ANA)
        await run.outcome()
        await until(lambda: not codes(card) and "denied" in notice["text"])
    assert (len(telegram.of_bot(-77)), len(telegram.cards())) == (1, 1)


async def test_a_check_names_the_bot_and_its_chat_or_what_is_wrong(telegram):
    """Token, webhook and chat are asked for; an error has no secret in it."""
    chat = channel(telegram)
    async with chat.platform.api:
        assert await chat.check() == "@supervisor_bot in Ops"
        telegram.webhook = "https://other.example"
        with pytest.raises(SupervisorError, match=r"other\.example"):
            await chat.check()
        telegram.token = "1:x"
        with pytest.raises(SupervisorError) as refused:
            await chat.check()
    assert TOKEN.partition(":")[2] not in str(refused.value)


def test_a_table_makes_the_channel_and_problems_name_their_key(monkeypatch):
    """The token comes from the environment, and is no key of the file."""
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    setup = ChannelSetup(name="telegram", people=people(), agents={"echo": echo})
    assert list(TelegramSettings(conversation=5, agent="echo").problems(setup)) == []
    wrong = TelegramSettings(conversation=0, agent="none", mention=("nina",))
    assert [key for key, _ in wrong.problems(setup)] == ["conversation", "agent", "mention"]
    named = People([Person(name="ana", identities={"telegram": "@ana"})])
    assert ["@ana" in why for _, why in TelegramSettings(conversation=5).problems(replace(setup, people=named))] == [
        True
    ]
    made = TelegramSettings(conversation=5, agent="echo").make(setup)
    assert (made.name, repr(made)) == ("telegram", "<telegram, conversation 5>")
