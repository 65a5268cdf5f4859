"""Forms in Telegram: one field after the other, by buttons and replies; JSON in one reply stays the other way."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal

import pytest
from fake_telegram import codes, live
from hypothesis import given
from msgspec.structs import replace
from platform_scenes import deployer, ran, until
from schemas_and_values import schemas_with_values
from test_platform_cards import call
from test_telegram import ANA, BEN, anyio_backend, card_of, opening, telegram
from test_telegram_cards import OURS, keeps_limits

from supervisor import Context, Deny, MemoryStore, agent
from supervisor.channels.chat.filling import Filling, Fillings
from supervisor.channels.chat.interview import Interview
from supervisor.channels.telegram.messages import field_message, filled_message
from supervisor.core.approvals.fields import describe_schema, same_json

__all__ = ["anyio_backend", "telegram"]
pytestmark = pytest.mark.anyio
APPROVAL = replace(call({"target": "x"}), id=OURS)


@dataclass
class Release:
    channel: Literal["stable", "beta"]
    version: str
    on: dt.date
    copies: int
    loud: bool
    note: str | None = None


@agent
async def releaser(ctx: Context) -> str:
    found = await ctx.ask("Which @release? /now", schema=Release)
    return f"{found.channel} {found.version} {found.on} {found.copies} {found.loud} {found.note}"


def press(telegram, message, action, user=ANA):
    (code,) = [code for code in codes(message) if code.endswith(f".{action}")]
    telegram.press(message, code, user)


async def asks(telegram, message, label):
    """Wait until a message asks for a field."""
    return await until(lambda: f"{label}\n" in message["text"] and message)


async def newest(telegram, label):
    return await until(lambda: f": {label}\n" in telegram.of_bot()[-1]["text"] and telegram.of_bot()[-1])


async def test_a_person_fills_in_field_after_field_and_sends_it(telegram):
    """A choice and a switch are buttons; a text, a number and a date are replies, checked at once; an optional field
    can be left out. Nothing is decided before the person has seen it as a whole."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(releaser)
        telegram.press(await card_of(telegram), "reply", ANA)
        first = await newest(telegram, "channel")
        press(telegram, first, 0)
        telegram.say("1.2.3", ANA, reply_to=await asks(telegram, first, "version"))
        telegram.say("2026-11-24", ANA, reply_to=await newest(telegram, "on"))
        copies = await newest(telegram, "copies")
        telegram.say("many", ANA, reply_to=copies)
        await until(lambda: "does not fit" in telegram.of_bot()[-1]["text"])
        telegram.say("2", ANA, reply_to=copies)
        loud = await newest(telegram, "loud")
        press(telegram, loud, 0)
        press(telegram, await asks(telegram, loud, "note"), "skip")
        await until(lambda: '"version": "1.2.3"' in loud["text"])
        assert await supervisor.find_approvals()
        press(telegram, loud, "send")
        assert await run.result() == "beta 1.2.3 2026-11-24 2 True None"
        await until(lambda: not codes(loud))
    assert [live(message) for message in telegram.of_bot()] == [[]] * len(telegram.of_bot())


async def test_edited_arguments_are_filled_in_and_shown_before_they_run(telegram):
    """A8: a field keeps its value by a button; a step back changes an answer."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        telegram.press(await card_of(telegram), "edit", ANA)
        target = await newest(telegram, "target")
        press(telegram, target, "keep")
        press(telegram, await asks(telegram, target, "count"), "back")
        telegram.say("y", ANA, reply_to=await asks(telegram, target, "target"))
        count = await newest(telegram, "count")
        await until(lambda: not codes(target))
        telegram.say("3", ANA, reply_to=count)
        whole = await until(lambda: '"count": 3' in telegram.of_bot()[-1]["text"] and telegram.of_bot()[-1])
        assert '"target": "y"' in whole["text"]
        press(telegram, whole, "send")
        assert await run.result() == ["ok", "deployed y"]
    assert ran == ["y 3"]


@pytest.mark.parametrize("where", ["elsewhere", "on the card", "begun anew", "after a restart"])
async def test_a_form_that_was_left_has_no_buttons(telegram, where):
    """R3: whether the approval is decided, the form is begun anew, or no process has it open any more."""
    store = MemoryStore()
    async with opening(telegram, store) as supervisor:
        await supervisor.start(deployer, "x", session="s")
        card = await card_of(telegram)
        telegram.press(card, "edit", ANA)
        form = await newest(telegram, "target")
        if where == "elsewhere":
            await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))
        elif where == "on the card":
            telegram.press(card, "deny", BEN)
        elif where == "begun anew":
            telegram.press(card, "edit", ANA)
            assert codes(await until(lambda: telegram.of_bot()[-1] is not form and telegram.of_bot()[-1]))
        if where != "after a restart":
            await until(lambda: not codes(form))
    if where == "after a restart":
        async with opening(telegram, store) as supervisor:
            press(telegram, form, "keep")
            await until(lambda: not codes(form))


async def test_json_stays_the_other_way(telegram):
    """The form ends, and its buttons go."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        telegram.press(await card_of(telegram), "edit", ANA)
        target = await newest(telegram, "target")
        press(telegram, target, "json")
        prompt = await until(lambda: '"target": "x"' in telegram.of_bot()[-1]["text"] and telegram.of_bot()[-1])
        await until(lambda: not codes(target))
        telegram.say('{"target": "z", "count": 2}', ANA, reply_to=prompt)
        assert await run.result() == ["ok", "deployed z"]


async def test_a_form_that_a_restart_has_ended_says_so(telegram):
    """Neither its buttons nor a reply change anything, and the card begins it anew."""
    store = MemoryStore()
    async with opening(telegram, store) as supervisor:
        await supervisor.start(deployer, "x", session="s")
        telegram.press(await card_of(telegram), "edit", ANA)
        left = await newest(telegram, "target")
        press(telegram, left, "keep")
        await asks(telegram, left, "count")
        telegram.say("4", ANA, reply_to=left)
        whole = await until(lambda: '"count": 4' in telegram.of_bot()[-1]["text"] and telegram.of_bot()[-1])
    async with opening(telegram, store) as supervisor:
        run = await supervisor.resume("s")
        press(telegram, whole, "send")
        assert "lost" in (await until(lambda: [text for _, text in telegram.alerts if text]))[-1]
        assert await supervisor.find_approvals()
        telegram.press(await card_of(telegram), "edit", ANA)
        press(telegram, await newest(telegram, "target"), "leave")
        telegram.press(await card_of(telegram), "deny", ANA)
        assert (await run.result())[0] == "denied"


async def test_another_person_and_an_old_question_change_nothing(telegram):
    """A4: the form is of the person who began it."""
    async with opening(telegram) as supervisor:
        run = await supervisor.start(deployer, "x")
        telegram.press(await card_of(telegram), "edit", ANA)
        target = await newest(telegram, "target")
        press(telegram, target, "keep", BEN)
        (user,) = await until(lambda: [user for user, text in telegram.alerts if "not open" in text])
        assert (user, "target" in target["text"]) == (BEN, True)
        old = dict(target)
        press(telegram, target, "keep")
        await asks(telegram, target, "count")
        press(telegram, old, "keep")
        await until(lambda: any("before" in text for _, text in telegram.alerts))
        assert "count" in target["text"]
        telegram.press(await card_of(telegram), "deny", ANA)
        await run.result()


@given(schemas_with_values())
def test_any_form_keeps_the_limits_and_gives_its_value_back(pair):
    """A person who presses what each question shows changes nothing; each message and button is within the limits."""
    schema, value = pair
    filling, approval, ana = (
        Filling("edit", Interview(describe_schema(schema, value), value)),
        APPROVAL,
        (str(ANA), "ana"),
    )
    while (prompt := filling.interview.prompt) is not None:
        part = filling.interview.number, filling.interview.count
        message = field_message(prompt, part, filling.token, approval, ana)
        keeps_limits(message)
        if prompt.text in prompt.offers and len(prompt.offers) <= 60:
            assert filling.press(str(prompt.offers.index(prompt.text))) is None
        else:
            assert filling.write(prompt.text) is None
    assert same_json(filling.interview.reading.value, value)
    keeps_limits(filled_message(*filling.result(), filling.token, "edit", approval, ana))


def test_the_form_that_was_not_touched_for_the_longest_time_ends():
    """Memory is bounded, whoever presses how often."""
    fillings, approvals = Fillings(), [replace(APPROVAL, id=f"{number:042}") for number in range(201)]
    begun = [fillings.begin(str(ANA), each, "edit") for each in approvals]
    assert isinstance(fillings.find(str(ANA), approvals[0].id, begun[0].token), str)
    assert fillings.find(str(ANA), approvals[1].id, begun[1].token) is begun[1]
