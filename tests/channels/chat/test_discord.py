"""Discord: entitled people can press a card's buttons while the approval is pending, whichever process posted it."""

import json
import time
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fake_discord import APPLICATION, PUBLIC_KEY, TOKEN, FakeDiscord, serving, signed
from msgspec.structs import replace
from platform_scenes import ANA, EVE, STRANGER, asker, deployer, opened, people, ran, store_with_a_card, until
from test_platform_cards import call

from supervisor import Approve, Deny, InvalidInput, MemoryStore
from supervisor.channels.discord import Discord, DiscordRefused, DiscordRest, register
from supervisor.channels.sdk import CardGone
from supervisor.testing import wrapped

pytestmark = pytest.mark.anyio

EPHEMERAL = 64


@pytest.fixture
def discord():
    with serving(FakeDiscord()) as fake:
        yield fake


def channel(discord, **options):
    return Discord(
        token=TOKEN,
        application=APPLICATION,
        public_key=PUBLIC_KEY,
        conversation="77",
        people=people("discord"),
        base_url=discord.url,
        **options,
    )


async def card_of(discord, place=0):
    return (await until(lambda: len(discord.messages) > place and list(discord.messages.values())))[place]


async def give(chat, request):
    """Bring what Discord sends to the channel, as the daemon does; returns its answer."""
    reply = await chat.webhooks()[0].receive(*request)
    assert reply.status == 200
    return json.loads(reply.body)


def is_told_alone(answer):
    data = answer["data"]
    return (answer["type"], data["flags"], data["allowed_mentions"]) == (4, EPHEMERAL, {"parse": []})


async def test_a_press_decides_and_the_card_says_so(discord):
    """R3: the buttons are gone from the card, and who pressed is told."""
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(discord)
        assert is_told_alone(await give(chat, discord.press(card, "approve.0", ANA)))
        assert await run.result() == ["ok", "deployed x"]
        await until(lambda: not card["components"])
        (decided,) = await supervisor.find_approvals(pending=False)
    assert (decided.by, ran) == ("ana", ["x 1"])


async def test_a_form_edits_the_arguments_and_another_says_why_not(discord):
    """A8: what is written is validated; a reason reaches the agent."""
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        edited = await supervisor.start(deployer, "x")
        form = await give(chat, discord.press(await card_of(discord), "edit", ANA))
        assert form["type"] == 9
        await give(chat, discord.submit(form["data"], '{"traget": "y"}', ANA))
        assert await supervisor.find_approvals()
        await give(chat, discord.submit(form["data"], '{"target": "y", "count": 2}', ANA))
        assert await edited.result() == ["ok", "deployed y"]
        denied = await supervisor.start(deployer, "z")
        form = await give(chat, discord.press(await card_of(discord, 1), "explain", ANA))
        await give(chat, discord.submit(form["data"], "not on a Friday", ANA))
        kind, content = await denied.result()
    assert (ran, kind) == (["y 2"], "denied")
    assert "not on a Friday" in content


@pytest.mark.parametrize("user", [EVE, STRANGER])
@pytest.mark.parametrize("code", ["approve.0", "edit"])
async def test_a_refused_person_is_told_and_the_buttons_stay(discord, user, code):
    """A4: a refused clicker is told, alone; it is in the audit trail; the card is still live for who may."""
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(discord)
        assert is_told_alone(await give(chat, discord.press(card, code, user)))
        assert ((await supervisor.find_approvals())[0].status, bool(card["components"])) == ("pending", True)
        assert "DecisionRefused" in [type(row.event).__name__ for row in await supervisor.find_audit()]
        await give(chat, discord.press(card, "deny", ANA))
        assert (await run.result())[0] == "denied"
    assert ran == []


async def test_a_request_that_discord_did_not_sign_is_refused(discord):
    """Discord sends forged requests on purpose, and drops an endpoint that takes one."""
    chat = channel(discord)
    receive = chat.webhooks()[0].receive
    headers, body = signed({"type": 1})
    assert json.loads((await receive(headers, body)).body) == {"type": 1}
    forged = [
        signed({"type": 1}, key=Ed25519PrivateKey.generate()),
        signed({"type": 1}, at=time.time() - 301),
        signed({"type": 1}, at=time.time() + 302),
        (headers, body + b" "),
        (headers | {"x-signature-timestamp": "1"}, body),
        (headers | {"x-signature-ed25519": "no hex"}, body),
        ({}, body),
    ]
    assert [(await receive(*each)).status for each in forged] == [401] * len(forged)


async def test_slow_stores_defer_the_answer_and_tell_it_later(discord, enter):
    """3 s are Discord's bound: what takes longer is deferred, and told by the interaction's own token."""
    chat = channel(discord)
    chat.answers_within = 0.05
    async with opened(chat, platform="discord") as supervisor:
        run = await supervisor.start(deployer, "x")
        card = await card_of(discord)
        gate = anyio.Event()

        async def slowly(decide, *arguments, **options):
            await gate.wait()
            return await decide(*arguments, **options)

        enter(wrapped(supervisor, "decide", slowly))
        assert (await give(chat, discord.press(card, "approve.0", ANA)))["type"] == 5
        gate.set()
        assert await run.result() == ["ok", "deployed x"]
        await until(lambda: discord.told)


async def test_a_late_press_is_answered(discord):
    """A3: decided otherwise, withdrawn: each press is told so, and nothing runs."""
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        run = await supervisor.start(deployer, "x")
        press = discord.press(await card_of(discord), "approve.0", ANA)
        await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))
        await run.outcome()
        assert is_told_alone(await give(chat, press))
        gone = await supervisor.start(deployer, "y")
        press = discord.press(await card_of(discord, 1), "approve.0", ANA)
        await gone.cancel()
        assert is_told_alone(await give(chat, press))
    assert ran == []


@pytest.mark.parametrize("how", ["500", "no access"])
async def test_a_card_comes_when_discord_is_well_again(discord, how):
    """A11: one card, for any reason of the failure, and its buttons work."""
    chat = channel(discord)
    chat.card_again = 0.05
    discord.is_out, discord.refused = how == "500", "/channels/77/"
    async with opened(chat, platform="discord") as supervisor:
        run = await supervisor.start(deployer, "x")
        await until(lambda: "CardFailed" in [type(row.event).__name__ for row in supervisor.store.journal(run.session)])
        discord.is_out, discord.refused = False, ""
        await give(chat, discord.press(await card_of(discord), "approve.0", ANA))
        assert await run.result() == ["ok", "deployed x"]
        assert len(discord.messages) == 1


async def test_cards_are_found_again_or_posted_anew(discord):
    """Posted and not recorded: found. Deleted: posted anew. Limited: asked again."""
    store = MemoryStore()
    async with opened(channel(discord), store, platform="discord") as supervisor:
        await supervisor.start(deployer, "x")
        card = await card_of(discord)
        (approval,) = await supervisor.find_approvals()
        discord.limited = 2
        async with DiscordRest(TOKEN, discord.url):
            later = channel(discord)
            found = await later.find_card(approval, approval.created_at, datetime.now(UTC))
            assert found == f"77:{card['id']}"
            after = datetime.now(UTC) + timedelta(minutes=3)
            assert await later.find_card(approval, after, after) is None
            del discord.messages[card["id"]]
            with pytest.raises(CardGone):
                await later.post(approval, f"77:{card['id']}")
            assert await later.post(approval, None) != f"77:{card['id']}"
        await supervisor.decide(approval.id, Approve(by="ana"))


async def test_slash_commands_decide_by_id(discord):
    """/pending lists, /approve and /deny take an id; other commands stay when ours are registered."""
    discord.commands = [{"name": "weather"}]
    async with DiscordRest(TOKEN, discord.url) as rest:
        assert [await register(rest, APPLICATION) for _ in range(2)] == [9, 9]
    ours = ["pending", "approve", "deny", "ack", "snooze", "start", "say", "stop", "answer"]
    assert [command["name"] for command in discord.commands] == ["weather", *ours]
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        runs = [await supervisor.start(deployer, target) for target in "xy"]
        await card_of(discord, 1)
        first, second = [(await supervisor.find_approvals(session=run.session))[0] for run in runs]
        listed = await give(chat, discord.command("pending", ANA))
        assert first.id in listed["data"]["content"]
        assert "on it" in (await give(chat, discord.command("ack", ANA, id=first.id)))["data"]["content"]
        assert "hear nothing" in (await give(chat, discord.command("snooze", ANA, text="2h")))["data"]["content"]
        await give(chat, discord.command("approve", ANA, id=f"{first.id} but not on prod"))
        assert len(await supervisor.find_approvals()) == 2
        await give(chat, discord.command("approve", ANA, id=first.id))
        await give(chat, discord.command("deny", ANA, id=second.id, reason="not now"))
        assert [(await run.result())[0] for run in runs] == ["ok", "denied"]


@pytest.mark.parametrize("choices", [["dev", "prod"], None])
async def test_a_question_is_answered_by_a_button_or_in_a_form(discord, choices):
    """Choices are buttons; free text is written into a form."""
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        run = await supervisor.start(asker, choices)
        card = await card_of(discord)
        if choices:
            await give(chat, discord.press(card, "choose.1", ANA))
        else:
            form = await give(chat, discord.press(card, "reply", ANA))
            await give(chat, discord.submit(form["data"], "prod", ANA))
        assert await run.result() == "prod"


def test_a_public_key_that_is_none_is_said(discord):
    """Configuration is checked before anything is opened."""
    with pytest.raises(InvalidInput):
        Discord(token=TOKEN, application="9", public_key="abc", conversation="7", people=people("discord"))


async def test_a_card_whose_answer_was_lost_is_not_posted_twice(discord):
    """A11: Discord took it and then failed; it is found, and no other channel is asked."""
    discord.unwell = 1
    async with opened(channel(discord), platform="discord") as supervisor:
        await supervisor.start(deployer, "x")
        (approval,) = await until(lambda: [each for each in supervisor.store.find_approvals() if each.shown])
        assert len(discord.messages) == 1
        await supervisor.decide(approval.id, Approve(by="ana"))


async def test_a_press_before_we_serve_is_not_accepted(discord):
    """R2: Discord gets an error, and the person who pressed sees that it failed."""
    assert (await channel(discord).webhooks()[0].receive(*discord.command("pending", ANA))).status == 503


async def test_text_of_an_agent_is_no_link_in_an_answer(discord):
    """Discord makes links of what stands outside a code block, and nothing that an agent writes ends one."""
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        await supervisor.start(deployer, "```[Approve here](https://evil.example)")
        await card_of(discord)
        (approval,) = await supervisor.find_approvals()
        for command in (
            discord.command("pending", ANA),
            discord.command("approve", ANA, id="[x](https://evil.example)"),
        ):
            content = (await give(chat, command))["data"]["content"]
            assert (content[:4], content[-4:], content.count("```")) == ("```\n", "\n```", 2)
        await supervisor.decide(approval.id, Deny(by="ana"))


async def test_a_card_where_the_bot_may_not_write_any_more_is_posted_anew(discord):
    """R3, A11: after the bot moves to another channel, the pending cards are posted there."""
    async with opened(channel(discord), platform="discord") as supervisor:
        await supervisor.start(deployer, "x")
        await card_of(discord)
        (approval,) = await supervisor.find_approvals()
        discord.refused = "/channels/76/"
        with pytest.raises(CardGone):  # it is not for the bot any more
            await channel(discord).post(approval, "76:1")
        with pytest.raises(DiscordRefused):  # and is tried again
            await channel(discord).retire(approval, "76:1")
        await supervisor.decide(approval.id, Deny(by="ana"))


async def test_an_archived_thread_is_opened_again_for_its_card(discord):
    """R3: Discord archives a thread by itself, and edits no message in it. The buttons go all the same."""
    async with opened(channel(discord), platform="discord") as supervisor:
        await supervisor.start(deployer, "x")
        card = await card_of(discord)
        (approval,) = await until(lambda: [each for each in supervisor.store.find_approvals() if each.shown])
        discord.archived = {"77"}
        await supervisor.decide(approval.id, Deny(by="ana"))
        await until(lambda: not card["components"])
    assert discord.archived == set()


async def test_a_card_that_was_deleted_minutes_ago_is_posted_anew(discord):
    """A11: Discord answers a nonce that it knows with the deleted message."""
    asked = call({"command": "ls"})
    chat = channel(discord)
    first = await chat.post(asked, None)
    del discord.messages[first.partition(":")[2]]
    with pytest.raises(CardGone):
        await chat.post(asked, first)
    second = await chat.post(asked, None)
    assert list(discord.messages) == [second.partition(":")[2]]


async def test_a_text_that_does_not_fit_comes_back(discord):
    """Discord closes a form that is sent, so the answer has the person's text."""
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        await supervisor.start(deployer, "x")
        form = await give(chat, discord.press(await card_of(discord), "edit", ANA))
        answer = await give(chat, discord.submit(form["data"], '{"target": "a long text",', ANA))
        assert '{"target": "a long text",' in answer["data"]["content"]
        await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))


@pytest.mark.parametrize("by", [ANA, EVE])
async def test_an_operator_stops_a_session_by_a_slash_command(discord, by):
    """/stop SESSION, and only an operator may."""
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        run = await supervisor.start(deployer, "x")
        await card_of(discord)
        assert is_told_alone(await give(chat, discord.command("stop", by, id=run.session)))
        if by == ANA:
            assert (await run.outcome()).kind == "cancelled"
        else:
            assert (await supervisor.get_session(run.session)).ended_at is None
        await supervisor.cancel(run.session)
    assert ran == []


@pytest.mark.parametrize("code", ["approve.0", "deny", "edit"])
async def test_a_press_on_an_unrecorded_card_of_an_ended_approval_retires_it(discord, code):
    """R3: whichever button it is, also one that comes to the decision that stands."""
    chat = channel(discord)
    async with opened(chat, platform="discord") as supervisor:
        run = await supervisor.start(deployer, "x")
        await card_of(discord)
        (approval,) = await until(lambda: [each for each in supervisor.store.find_approvals() if each.shown])
        discord.nonces.clear()  # or the nonce finds the first one
        await chat.post(approval, None)
        card = list(discord.messages.values())[-1]
        await supervisor.decide(approval.id, Deny(by="ana"))
        await run.outcome()
        await give(chat, discord.press(card, code, ANA))
        await until(lambda: not card["components"])


async def test_approvals_of_one_tree_have_a_card_each(discord):
    """Their ids begin alike; what a request is known by when it is made again does not."""
    one, other = (replace(call({"command": "ls"}), id=f"{'a' * 25}{end * 17}") for end in "bc")
    cards = [await channel(discord).post(asked, None) for asked in (one, other, one)]
    assert (cards[0] != cards[1], cards[0] == cards[2]) == (True, True)


@pytest.mark.parametrize("listed", [5, 200])
async def test_a_long_list_is_cut_between_two_ids(discord, listed):
    """Discord takes 2,000 characters: as many lines as fit, each whole, and how many more there are."""
    chat = channel(discord)
    chat._answering.most_listed = listed
    async with opened(chat, platform="discord") as supervisor:
        for number in range(20):
            await supervisor.start(deployer, f"{number} {'x' * 300}")
        await card_of(discord, 19)
        lines = (await give(chat, discord.command("pending", ANA)))["data"]["content"].split("\n")[1:-1]  # a code block
        ids = {approval.id for approval in await supervisor.find_approvals()}
        assert 1 < len(lines) < 20
        assert str(20 - len(lines[:-1])) in lines[-1]
        assert {line.split()[0] for line in lines[:-1]} <= ids
        for each in ids:
            await supervisor.decide(each, Deny(by="ana"))


@pytest.mark.parametrize(("later", "is_new"), [(9, False), (10, True), ("deleted", True)])
async def test_a_restart_posts_anew_a_card_that_is_gone_or_lies_buried(discord, later, is_new):
    """R3: ten messages bury it; other cards do not count. Discord knows the nonce of the first post."""
    store = await store_with_a_card(channel(discord), people("discord"))
    (old,) = discord.messages.values()
    for number in range(0 if later == "deleted" else later):
        discord._post("77", {"content": f"message {number}", "embeds": []})
    discord._post("77", {"content": "", "embeds": [{"footer": {"text": "another"}}]})
    if later == "deleted":
        del discord.messages[old["id"]]
    chat = channel(discord)
    async with opened(chat, store, platform="discord") as supervisor:
        run = await supervisor.resume("s")
        await anyio.sleep(0.5)
        (live,) = [each for each in discord.messages.values() if each.get("components")]
        assert (live is old) != is_new
        await give(chat, discord.press(live, "approve.0", ANA))
        assert await run.result() == ["ok", "deployed x"]
