"""Forms in the modals of Slack and Discord: the fields that they carry, problems, and JSON or a link for all others."""

import json
from datetime import date
from typing import Annotated, Literal

import fake_discord
import fake_slack
import msgspec
import pytest
from hypothesis import given
from platform_scenes import ANA, opened
from schemas_and_values import schemas_with_values
from test_discord import card_of as card_on_discord, channel as on_discord, give as tell_discord
from test_platform_cards import asking
from test_slack import card_of as card_on_slack, channel as on_slack, give as tell_slack

from supervisor import Context, Option, agent, tool
from supervisor.channels.chat.modal_fields import read_modal
from supervisor.channels.discord import components, interactions
from supervisor.channels.slack import blocks, payloads
from supervisor.channels.slack.payloads import payload_of
from supervisor.core.approvals.fields import same_json

pytestmark = pytest.mark.anyio
PLACE = {"conversation": "C1", "message": "1", "thread": ""}


class Place(msgspec.Struct):
    city: Annotated[str, msgspec.Meta(min_length=2)]


class Booking(msgspec.Struct):
    seats: Annotated[int, msgspec.Meta(le=9)]
    kind: Literal["bus", "train"]
    pay: bool
    to: Place
    day: date | None = None


@tool
async def book(booking: Booking, note: str) -> str:
    return f"{booking.seats} to {booking.to.city} by {booking.kind}: {note}"


@agent
async def booking(ctx: Context) -> str:
    return (await ctx.call(book, await ctx.ask("Which one?", schema=Booking), note="")).content


@given(schemas_with_values())
def test_a_modal_that_is_sent_as_it_was_opened_gives_the_same_arguments(pair):
    """Each platform: through its elements, and what it returns of them; a form that it cannot carry takes JSON."""
    schema, value = pair
    parts = {"properties": {"it": schema}, "$defs": schema["$defs"]}
    approval = asking(tool="t", arguments={"it": value}, schema=parts, options=(Option("once"),))
    view = blocks.form_view("edit", approval, PLACE)
    if view["blocks"][-1]["block_id"] != "field":
        headers, body = fake_slack.FakeSlack.fill_in(None, view, ANA)
        press = payloads.read(payload_of(headers, body))
        assert same_json(json.loads(read_modal("edit", approval, press.fields)), approval.arguments)
    modal = components.form_modal("edit", approval)
    if "component" in modal["components"][0]:
        rows = [{"type": 18, "component": fake_discord.filled(row["component"], None)} for row in modal["components"]]
        sent = {"custom_id": modal["custom_id"], "components": rows}
        press = interactions.read({"type": 5, "token": "t", "data": sent, "user": {"id": ANA}})
        assert same_json(json.loads(read_modal("edit", approval, press.fields)), approval.arguments)


async def test_slack_carries_the_fields_and_tells_each_problem_at_its_own():
    """A question with a schema and edited arguments, in one modal each."""
    with fake_slack.serving(fake_slack.FakeSlack()) as slack:
        chat = on_slack(slack)
        async with opened(chat, platform="slack") as supervisor:
            run = await supervisor.start(booking)
            await tell_slack(chat, slack.press(await card_on_slack(slack), "reply", ANA))
            view = slack.views.pop()
            assert {each["element"]["type"] for each in view["blocks"][1:]} == {
                "plain_text_input",
                "static_select",
                "datepicker",
            }
            typed = {"seats": "many", "kind": "bus", "pay": "yes", "to.city": "R", "day": "2026-12-24"}
            wrong = await tell_slack(chat, slack.fill_in(view, ANA, **typed))
            assert set(json.loads(wrong.body)["errors"]) == {"f.0", "f.3.0"}
            await tell_slack(chat, slack.fill_in(view, ANA, **typed | {"seats": "2", "to.city": "Rome"}))
            await tell_slack(chat, slack.press(await card_on_slack(slack, 1), "edit", ANA))
            await tell_slack(chat, slack.fill_in(slack.views.pop(), ANA, **{"booking.seats": "3", "note": "now"}))
            assert await run.result() == "3 to Rome by bus: now"


async def test_discord_carries_the_fields_and_repeats_what_was_written():
    """Five at most: the edit has six, and takes JSON. A modal is shown once, so the answer to a problem has it all."""
    with fake_discord.serving(fake_discord.FakeDiscord()) as discord:
        chat = on_discord(discord)
        async with opened(chat, platform="discord") as supervisor:
            run = await supervisor.start(booking)
            card = await card_on_discord(discord)
            form = (await tell_discord(chat, discord.press(card, "reply", ANA)))["data"]
            typed = {"seats": "many", "kind": "bus", "pay": "no", "to.city": "Rome"}
            told = (await tell_discord(chat, discord.fill_in(form, ANA, **typed)))["data"]["content"]
            assert "whole number" in told
            assert "many" in told
            await tell_discord(chat, discord.fill_in(form, ANA, **typed | {"seats": "2"}))
            asked = await card_on_discord(discord, 1)
            form = (await tell_discord(chat, discord.press(asked, "edit", ANA)))["data"]
            arguments = json.loads(form["components"][0]["components"][0]["value"])
            await tell_discord(chat, discord.submit(form, json.dumps(arguments | {"note": "now"}), ANA))
            assert await run.result() == "2 to Rome by bus: now"


def test_a_form_that_no_modal_carries_takes_json_and_names_its_page():
    """Lists, objects that may be left out, JSON: the modal says where the fields are."""
    approval = asking(tool="t", arguments={"names": ["a"], "n": 1}, options=(Option("once"),))
    view = blocks.form_view("edit", approval, PLACE, "https://inbox.example")
    assert [each.get("block_id") for each in view["blocks"]] == [None, "field", None]
    assert "https://inbox.example/approvals/" in json.dumps(view["blocks"][-1])
    short = msgspec.structs.replace(approval, id="a1")
    (row,) = components.form_modal("edit", short, "https://inbox.example")["components"]
    assert row["description"] == "Or fill in fields: https://inbox.example/approvals/a1"
    sent = {"type": 18, "component": {"type": 4, "custom_id": "text", "value": "{}"}}
    data = {"custom_id": "edit:a1", "components": [sent]}
    assert interactions.read({"type": 5, "token": "t", "data": data, "user": {"id": ANA}}).text == "{}"
