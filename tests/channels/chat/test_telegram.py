"""Telegram: entitled people can press a card's buttons while the approval is pending, whichever process posted it."""

import logging
import time
import zlib

import anyio
import pytest
from fake_telegram import GROUP, TOKEN, FakeTelegram, codes, live, serving
from platform_scenes import asker, deployer, opened, ran, store_with_a_card, until

from supervisor import Approve, Deny, InvalidInput
from supervisor.channels.sdk import CardGone
from supervisor.channels.telegram import Telegram
from supervisor.core import events as e
from supervisor.core.approvals.people import People, Person
from supervisor.testing import wrapped

pytestmark = pytest.mark.anyio

ANA, EVE, BEN, STRANGER = 11, 22, 33, 99


@pytest.fixture
def telegram():
    with serving(FakeTelegram()) as fake:
        yield fake


@pytest.fixture
def anyio_backend(request):
    """Each test runs on one backend, which its name chooses; test_telegram_talk.py runs on both."""
    return ("asyncio", "trio")[zlib.crc32(request.node.name.encode()) % 2]


def people():
    return People(
        [
            Person(name="ana", roles=("operator",), identities={"telegram": str(ANA)}),
            Person(name="ben", roles=("approver",), identities={"telegram": str(BEN)}),
            Person(name="eve", identities={"telegram": str(EVE)}),
        ]
    )


def channel(telegram, **options):
    """Return a channel that tries again at once what has failed."""
    how = {"token": TOKEN, "conversation": GROUP, "people": people(), "base_url": telegram.url}
    made = Telegram(**how | options)
    made.card_again, made.platform.polling.again_in = 0.05, 0.02
    return made


def opening(telegram, store=None, **options):
    return opened(channel(telegram), store, people=people(), **options)


async def card_of(telegram, place=0):
    """Return a card once it has its buttons."""
    return await until(lambda: len(telegram.cards()) > place and codes(card := telegram.cards()[place]) and card)


async def alert(telegram, place=-1):
    return (await until(lambda: telegram.alerts and telegram.alerts))[place]


async def test_a_press_decides_and_the_card_says_so(telegram):
    """R3: the buttons are gone from the card, which says who decided, and who pressed is told alone."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        telegram.press(card, "approve.0", ANA)
        assert await run.result() == ["ok", "deployed x"]
        await until(lambda: not codes(card))
        (decided,) = await supervisor.find_approvals(pending=False)
        assert (await alert(telegram))[0] == ANA
    assert (decided.by, ran) == ("ana", ["x 1"])
    assert "ana" in card["text"]
    assert len(telegram.of_bot()) == 1


async def test_a_reply_edits_the_arguments_and_another_says_why_not(telegram):
    """A8: what is written is validated, and can be corrected; a reason reaches the agent."""
    async with opening(telegram) as supervisor:
        edited = await supervisor.start(deployer, "x")
        telegram.press(await card_of(telegram), "edit", ANA)
        (form,) = await until(lambda: telegram.of_bot()[1:])
        telegram.press(form, next(code for code in codes(form) if code.endswith("json")), ANA)
        prompt = await until(lambda: telegram.of_bot()[2:])
        assert '"target": "x"' in prompt[0]["text"]
        telegram.say('{"traget": "y"}', ANA, reply_to=prompt[0])
        await until(lambda: telegram.of_bot()[3:])
        assert await supervisor.find_approvals()
        telegram.say('{"target": "y", "count": 2}', ANA, reply_to=prompt[0])
        assert await edited.result() == ["ok", "deployed y"]
        denied = await supervisor.start(deployer, "z")
        telegram.press(await card_of(telegram, 1), "explain", ANA)
        prompt = await until(lambda: [m for m in telegram.of_bot() if "explain" in m["text"]])
        telegram.say("not on a Friday", ANA, reply_to=prompt[0])
        kind, content = await denied.result()
    assert (ran, kind) == (["y 2"], "denied")
    assert "not on a Friday" in content


async def test_answers_that_are_under_way_are_bounded(telegram):
    """Whoever presses how often: a press is taken when an earlier person has the answer."""
    under_way, most = [], []

    def taken(method, when):
        if method == "answerCallbackQuery" and when == "before":
            under_way.append(method)
            most.append(len(under_way))
            time.sleep(0.02)
            under_way.pop()

    telegram.taken, chat = taken, channel(telegram)
    chat._telling = anyio.Semaphore(2, max_value=2)
    async with opened(chat, people=people()) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        for _ in range(10):
            telegram.press(card, "deny", EVE)
        await until(lambda: len(telegram.alerts) == 10)
        telegram.press(card, "deny", ANA)
        assert (await run.result())[0] == "denied"
    assert max(most) <= 2


@pytest.mark.parametrize("user", [EVE, STRANGER])
@pytest.mark.parametrize("code", ["approve.0", "edit"])
async def test_a_refused_person_is_told_and_the_buttons_stay(telegram, user, code):
    """A4: a refused person is told, alone; it is in the audit trail; the card is still live for who may."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        telegram.press(card, code, user)
        told, text = await alert(telegram)
        assert told == user
        assert (str(STRANGER) in text) == (user == STRANGER)  # a stranger is told their id
        assert ((await supervisor.find_approvals())[0].status, bool(codes(card))) == ("pending", True)
        assert "DecisionRefused" in [type(row.event).__name__ for row in await supervisor.find_audit()]
        telegram.press(card, "deny", ANA)
        assert (await run.result())[0] == "denied"
    assert ran == []


@pytest.mark.parametrize(("choices", "answer"), [(["dev", "prod"], None), (None, "prod")])
async def test_a_question_is_answered_by_a_button_or_in_a_reply(telegram, choices, answer):
    """Choices are buttons; free text is a reply to the card, or to the message that a press asks for it with."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(asker, choices)
        card = await card_of(telegram)
        if choices:
            telegram.press(card, "choose.1", ANA)
        else:
            telegram.press(card, "reply", ANA)
            prompt = await until(lambda: telegram.of_bot()[1:])
            telegram.say(answer, EVE, reply_to=prompt[0])
            telegram.say(answer, ANA, reply_to=card)
        assert await run.result() == "prod"


@pytest.mark.parametrize(("word", "kind"), [("Yes", "ok"), ("reject", "denied")])
async def test_a_word_in_a_reply_to_a_card_decides(telegram, word, kind):
    """A12: the reply names the card; other words decide nothing, and the sender is told so."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        telegram.say("do NOT run that", ANA, reply_to=card)
        await until(lambda: telegram.of_bot()[1:])
        telegram.say(word, STRANGER, reply_to=card)
        await until(lambda: telegram.of_bot()[2:])
        assert (await supervisor.find_approvals())[0].status == "pending"
        telegram.say(word, ANA, reply_to=card)
        assert (await run.result())[0] == kind


async def test_of_two_people_at_once_the_first_decides(telegram):
    """A3: the other one is told who decided, and the effect happens once."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        telegram.press(card, "approve.0", BEN)
        telegram.press(card, "deny", ANA)
        assert (await run.result())[0] == "ok"
        await until(lambda: len(telegram.alerts) == 2)
    assert ran == ["x 1"]
    assert "ben" in dict(telegram.alerts)[ANA]


async def test_a_late_press_is_answered(telegram):
    """A3: decided elsewhere, withdrawn, unknown: each press is told so, the card is retired, and nothing runs."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = dict(await card_of(telegram))
        await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))
        await run.outcome()
        await until(lambda: not codes(telegram.cards()[0]))
        telegram.press(card, "approve.0", ANA)
        gone = await supervisor.start(deployer, "y")
        card = dict(await card_of(telegram, 1))
        await gone.cancel()
        telegram.press(card, "approve.0", ANA)
        telegram.press_forged(card, f"approve.0:{'a' * 42}", ANA)
        await until(lambda: len(telegram.alerts) == 3)
    assert ran == []


async def test_a_forged_or_replayed_press_decides_nothing(telegram):
    """A2, A7: a client can send any data; what was not offered is refused, and an update counts once."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        id_ = (await supervisor.find_approvals())[0].id
        forged = [f"approve.99:{id_}", f"approve.-1:{id_}", f"yes:{id_}", "approve.0:", "junk", "", f"approve.0:{id_}x"]
        for data in forged:
            telegram.press_forged(card, data, ANA)
        await until(lambda: len(telegram.alerts) == len(forged))
        telegram.push(edited_message=telegram.say("yes", STRANGER, reply_to=card))
        assert (await supervisor.find_approvals())[0].status == "pending"
        telegram.press(card, "deny", ANA)
        telegram.updates.append(telegram.updates[-1])
        assert (await run.result())[0] == "denied"
    assert ran == []


async def test_hostile_text_is_no_mention_no_command_and_no_reference(telegram):
    """No mark of an agent's text means anything, and its last line is not taken for a card's."""
    text = "@ana /stop #tag *b* <b>x</b> [a](https://evil.example) `\u202e"
    async with opening(telegram) as supervisor:
        await supervisor.start(deployer, text)
        card = await card_of(telegram)
        assert "\u202e" not in card["text"]
        assert [each for message in telegram.of_bot() for each in live(message)] == []
        (approval,) = await supervisor.find_approvals()
        telegram.say("/pending", ANA)
        listed = await until(lambda: telegram.of_bot()[1:])
        assert live(listed[0]) == []
        await supervisor.decide(approval.id, Deny(by="ana"))


@pytest.mark.parametrize("how", ["500", "portal", "revoked", "kicked", "refused"])
async def test_a_card_comes_when_telegram_is_well_again(telegram, how):
    """A11: one card, for any reason of the failure, and its buttons work."""
    chat, url = channel(telegram), telegram.url
    telegram.out = {"500": (500, b"{}"), "portal": (200, b"<html>Sign in")}.get(how)
    telegram.token = "1:x" if how == "revoked" else TOKEN
    telegram.refusals = {"sendMessage": (403, "Forbidden: bot was kicked")} if how == "kicked" else {}
    if how == "refused":
        chat.platform.api._client.base_url = "http://127.0.0.1:9"
    async with opened(chat, people=people()) as supervisor:
        run = await supervisor.start(deployer, "x")
        await until(lambda: "CardFailed" in [type(row.event).__name__ for row in supervisor.store.journal(run.session)])
        telegram.out, telegram.token, telegram.refusals, chat.platform.api._client.base_url = None, TOKEN, {}, url
        telegram.press(await card_of(telegram), "approve.0", ANA)
        assert await run.result() == ["ok", "deployed x"]
    assert len(telegram.cards()) == 1


async def test_telegram_is_called_again_when_it_says_too_fast(telegram, monkeypatch):
    """429 and retry_after are honoured: nothing is lost."""
    telegram.limited = 2
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        telegram.press(await card_of(telegram), "approve.0", ANA)
        assert await run.result() == ["ok", "deployed x"]
    assert len(telegram.cards()) == 1


@pytest.mark.parametrize("how", ["502", "slow"])
async def test_a_card_whose_answer_was_lost_is_posted_anew_and_the_first_never_looks_live(telegram, how):
    """R3, A11: Telegram cannot be searched. So a card has no buttons until it is recorded."""
    telegram.unwell, slow = int(how == "502"), [1.6] * (how == "slow")
    telegram.taken = lambda method, when: time.sleep(slow.pop()) if slow and method == "sendMessage" else None
    chat = channel(telegram)
    chat.platform.api.timeout = 1.0 if how == "slow" else 10.0
    async with opened(chat, people=people()) as supervisor:
        run = await supervisor.start(deployer, "x")
        await until(lambda: len(telegram.cards()) == 2 and any(map(codes, telegram.cards())))
        card, other = sorted(telegram.cards(), key=lambda each: not codes(each))
        assert not codes(other)
        telegram.press(card, "approve.0", ANA)
        assert await run.result() == ["ok", "deployed x"]
        await until(lambda: not codes(card))


async def test_a_card_that_was_deleted_is_gone_and_an_equal_one_is_kept(telegram):
    """A11: an edit that changes nothing is a success; a card that is not there any more cannot be renewed."""
    async with opening(telegram) as supervisor:
        await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        (approval,) = await supervisor.find_approvals()
        chat, place = channel(telegram), f"{GROUP}:{card['message_id']}"
        async with chat.platform.api:
            assert await chat.post(approval, place) == place
            telegram.messages.pop((GROUP, card["message_id"]))
            with pytest.raises(CardGone):
                await chat.post(approval, place)
            await chat.retire(approval, place)
        await supervisor.decide(approval.id, Approve(by="ana"))


@pytest.mark.parametrize(
    ("mention", "ids"),
    [("approvers", [ANA, BEN, EVE]), ("requester", [EVE]), ("nobody", []), (("ben", "far"), [BEN])],
    ids=["approvers", "requester", "nobody", "names"],
)
async def test_a_card_in_a_group_mentions_whom_the_configuration_says(telegram, mention, ids):
    """By their numeric ids, whatever the agent writes. Eve may decide what is asked on her behalf."""
    chat = channel(telegram, mention=mention)
    async with opened(chat, people=people()) as supervisor:
        await supervisor.start(deployer, "@ana", requester="eve")
        card = await card_of(telegram)
        assert named(card) == ids
        await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))
        await until(lambda: not named(card))


def named(message):
    return [entity["user"]["id"] for entity in message["entities"] if entity["type"] == "text_mention"]


async def test_a_reminder_is_a_message_of_its_own_once(telegram):
    """A10: it mentions the people by their ids; a later process reads that it was sent, and sends none."""
    store = await store_with_a_card(channel(telegram), people())
    async with opening(telegram, store, remind_after=0.05) as supervisor:
        await supervisor.resume("s")
        (reminder,) = await until(lambda: [each for each in telegram.of_bot() if "reply_to_message" in each])
        ids = named(reminder)
        await until(lambda: [row for row in store.journal("s") if isinstance(row.event, e.ReminderSent)])
    async with opening(telegram, store, remind_after=0.05) as supervisor:
        await supervisor.resume("s")
        await until(lambda: codes(telegram.cards()[0]))
        (approval,) = await supervisor.find_approvals()
        await supervisor.decide(approval.id, Approve(by="ana"))
        await until(lambda: not codes(telegram.cards()[0]))
    assert ids == [ANA, BEN]
    assert len([each for each in telegram.of_bot() if "reply_to_message" in each]) == 1


async def test_the_token_is_in_no_log_and_no_error(telegram, caplog):
    """httpx logs each URL, and its errors carry it."""
    caplog.set_level(logging.DEBUG)
    telegram.token = "1:x"
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        await until(lambda: "CardFailed" in [type(row.event).__name__ for row in supervisor.store.journal(run.session)])
        telegram.out = (500, b"{}")
        await until(lambda: any("500" in record.getMessage() for record in caplog.records))
        journal = repr(supervisor.store.journal(run.session))
        telegram.out, telegram.token = None, TOKEN
        await card_of(telegram)
        await supervisor.decide((await supervisor.find_approvals())[0].id, Approve(by="ana"))
    logged = "\n".join(f"{record.getMessage()} {record.args} {record.exc_info}" for record in caplog.records)
    assert "POST http" in logged  # httpx says what it does
    assert TOKEN.partition(":")[2] not in logged + journal + repr(channel(telegram))


async def test_another_program_that_fetches_is_named(telegram, caplog):
    """409: two programs with one bot take each other's updates."""
    telegram.refusals = {"getUpdates": (409, "Conflict: terminated by other getUpdates request")}
    async with opening(telegram) as supervisor:
        await until(lambda: any("another program" in record.getMessage() for record in caplog.records))
        telegram.refusals = {}
        run = await supervisor.start(deployer, "x")
        telegram.press(await card_of(telegram), "approve.0", ANA)
        assert await run.result() == ["ok", "deployed x"]


async def test_an_update_is_confirmed_when_it_is_on_disk(telegram):
    """R2: while the store cannot be written, Telegram keeps the press; afterwards it counts."""
    from supervisor.core.errors import StoreUnreadable

    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        tried = []

        async def refuse(*_, **__):
            tried.append(1)
            raise StoreUnreadable("the disk is full")

        with wrapped(supervisor, "decide", refuse):
            telegram.press(card, "approve.0", ANA)
            await until(lambda: len(tried) > 1)
            assert len(telegram.updates) == 1
        assert await run.result() == ["ok", "deployed x"]
        telegram.say("/help", STRANGER)
        await until(lambda: not telegram.updates)


@pytest.mark.parametrize("text", ["/id", "@supervisor_bot hello"])
async def test_a_stranger_is_told_their_id(telegram, text):
    """A name is never an identity: a person is their number."""
    async with opening(telegram):
        await until(lambda: telegram.calls.count("getMe"))
        telegram.say("hello all", STRANGER)
        telegram.say("/weather@other_bot", STRANGER)
        telegram.say(text, STRANGER)
        await until(telegram.of_bot)
    (told,) = telegram.of_bot()
    assert f"{STRANGER}" in told["text"]


async def test_a_message_in_the_name_of_a_group_is_of_no_person(telegram):
    """Its sender is told so; another bot is not answered, since two bots could answer each other for ever."""
    anonymous = {"sender_chat": {"id": GROUP, "type": "supergroup", "title": "Ops"}}
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        telegram.say("yes", ANA, reply_to=card, **anonymous)
        await until(lambda: telegram.of_bot()[1:])
        telegram.say("yes", ANA, reply_to=card, **{"from": {"id": ANA, "is_bot": True, "first_name": "B"}})
        telegram.say("no", ANA, reply_to=card)
        assert (await run.result())[0] == "denied"
        await until(lambda: telegram.of_bot()[2:])
    assert len(telegram.of_bot()) == 3


async def test_a_forwarded_message_decides_nothing(telegram):
    """Another person wrote it: one who may not decide could ask for it to be passed on."""
    forwarded = {"forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Eve"}}
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        (approval,) = await supervisor.find_approvals()
        telegram.say(f"/approve {approval.id}", ANA, **forwarded)
        telegram.say("yes", ANA, reply_to=card, **forwarded)
        await until(lambda: telegram.of_bot()[2:])
        assert (await supervisor.get_approval(approval.id)).status == "pending"
        telegram.say("no", ANA, reply_to=card)
        assert (await run.result())[0] == "denied"


@pytest.mark.parametrize(
    "mark",
    [
        {"via_bot": {"id": 99, "is_bot": True, "first_name": "B"}},
        {"sender_business_bot": {"id": 99, "is_bot": True, "first_name": "B"}},
        {"is_from_offline": True},
        {"forward_date": 1},
    ],
)
async def test_a_message_that_a_program_wrote_decides_nothing(telegram, mark):
    """An inline result of another bot is one tap away, and a scheduled message none; Telegram marks them."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(telegram)
        telegram.say("yes", ANA, reply_to=card, **mark)
        await until(lambda: telegram.of_bot()[1:])
        assert len(await supervisor.find_approvals()) == 1
        telegram.say("no", ANA, reply_to=card)
        assert (await run.result())[0] == "denied"


async def test_slash_commands_decide_by_id(telegram):
    """/pending lists, /approve and /deny take an id."""
    async with opening(telegram) as supervisor:
        runs = [await supervisor.start(deployer, target) for target in "xy"]
        await card_of(telegram, 1)
        first, second = [(await supervisor.find_approvals(session=run.session))[0].id for run in runs]
        telegram.say("/pending@supervisor_bot", ANA)
        listed = await until(lambda: telegram.of_bot()[2:])
        assert first in listed[0]["text"]
        telegram.say(f"/approve {first}", ANA)
        telegram.say(f"/deny {second} not now", ANA)
        assert [(await run.result())[0] for run in runs] == ["ok", "denied"]


def test_a_token_of_another_form_is_said():
    """Configuration is checked before anything is opened."""
    with pytest.raises(InvalidInput):
        Telegram(token="abc", conversation=1, people=people())


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_restart_posts_anew_a_card_that_was_deleted_meanwhile(telegram, is_deleted):
    """R3: an edit that changes nothing tells whether the card is there. One that is there stays as it is."""
    store = await store_with_a_card(channel(telegram), people())
    (old,) = telegram.cards()
    if is_deleted:
        telegram.messages.pop((GROUP, old["message_id"]))
    async with opening(telegram, store) as supervisor:
        run = await supervisor.resume("s")
        await anyio.sleep(0.5)
        (live,) = [each for each in telegram.cards() if codes(each)]
        assert (live["message_id"] == old["message_id"]) != is_deleted
        telegram.press(live, "approve.0", ANA)
        assert await run.result() == ["ok", "deployed x"]
