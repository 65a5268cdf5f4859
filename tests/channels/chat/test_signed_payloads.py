"""What is signed and is still nothing that the platform would send: refused with a 400, and nothing else happens."""

import json
from datetime import UTC, datetime

import pytest
from fake_discord import APPLICATION, KEY, FakeDiscord, serving as serving_discord, signed as signed_by_discord
from fake_slack import FakeSlack, serving as serving_slack, signed as signed_by_slack
from platform_scenes import ANA, deployer, opened, until
from test_discord import channel as discord_channel
from test_slack import channel as slack_channel

from supervisor import Deny
from supervisor.channels.discord import interactions
from supervisor.channels.slack.payloads import is_genuine

pytestmark = pytest.mark.anyio

DEEP = 50_000
ODD = [{"a": 1}, ["a"], 7, 10**400, None, True]
"""Where the platform has a text."""


def slack_press(value, **more):
    return {
        "type": "block_actions",
        "user": {"id": ANA},
        "channel": {"id": "C1"},
        "container": {"message_ts": "1.1"},
        "trigger_id": "t",
        "actions": [{"block_id": "approval:x", "action_id": "approve.0", "value": value}],
    } | more


def slack_words(**more):
    event = {"type": "app_mention", "user": ANA, "text": "hi", "channel": "C1", "ts": "1.1"} | more
    return {"type": "event_callback", "event": event}


def slack_bodies():
    for odd in ODD:
        yield slack_press(odd)
        yield slack_press("x", user={"id": odd})
        yield slack_press("x", container={"message_ts": odd})
        yield slack_words(user=odd)
        yield slack_words(ts=odd)
    yield slack_words(ts="soon")
    yield slack_words(thread_ts="9" * 400 + ".1")


async def test_a_signed_request_of_slack_with_values_of_another_type_is_a_400():
    """The daemon goes on: the very next press counts."""
    with serving_slack(FakeSlack()) as fake:
        chat = slack_channel(fake)
        receive = chat.webhooks()[0].receive
        async with opened(chat, platform="slack") as supervisor:
            run = await supervisor.start(deployer, "x")
            await until(lambda: [each for each in supervisor.store.find_approvals() if each.shown])
            answers = [
                (await receive(*signed_by_slack(json.dumps(each), "application/json"))).status
                for each in slack_bodies()
            ]
            assert answers == [400] * len(answers)
            deep = signed_by_slack("[" * DEEP, "application/json"), signed_by_slack('{"a":' * DEEP, "application/json")
            assert [(await receive(*each)).status for each in deep] == [400, 400]
            assert fake.whispers == []
            await receive(*fake.press(fake.messages["C1"][0], "approve.0", ANA))
            assert await run.result() == ["ok", "deployed x"]


async def test_a_payload_of_another_app_or_workspace_is_a_400():
    """Ids of people are unique in their workspace only."""
    ours, theirs = {"api_app_id": "A1", "team": {"id": "T1"}}, {"api_app_id": "A2", "team": {"id": "T2"}}
    with serving_slack(FakeSlack()) as fake:
        chat = slack_channel(fake, app="A1", team="T1")
        receive = chat.webhooks()[0].receive
        async with opened(chat, platform="slack"):
            odd = [
                (ours, 200),
                (ours | {"user": {"id": ANA, "team_id": "T2"}}, 400),
                (ours | {"api_app_id": "A2"}, 400),
                (theirs, 400),
                ({}, 400),
            ]
            for more, status in odd:
                body = json.dumps(slack_press("x", **more))
                assert (await receive(*signed_by_slack(body, "application/json"))).status == status


def discord_press(**more):
    payload = {"type": 3, "application_id": APPLICATION, "token": "t", "member": {"user": {"id": ANA}}}
    return payload | {"data": {"custom_id": "approve.0:x", "component_type": 2}} | more


def discord_bodies():
    for odd in ODD:
        yield discord_press(member={"user": {"id": odd}})
        yield discord_press(token=odd)
        yield discord_press(data={"custom_id": odd})
        yield discord_press(type=2, data={"name": odd})
    yield discord_press(application_id="901")


async def test_a_signed_interaction_with_values_of_another_type_is_a_400():
    """So is one of another application; the daemon goes on."""
    with serving_discord(FakeDiscord()) as fake:
        chat = discord_channel(fake)
        receive = chat.webhooks()[0].receive
        async with opened(chat, platform="discord") as supervisor:
            await supervisor.start(deployer, "x")
            (asked,) = await until(lambda: [each for each in supervisor.store.find_approvals() if each.shown])
            answers = [(await receive(*signed_by_discord(each))).status for each in discord_bodies()]
            assert answers == [400] * len(answers)
            assert (await receive(*deep_interaction())).status == 400
            await supervisor.decide(asked.id, Deny(by="ana"))


def deep_interaction():
    headers, _ = signed_by_discord({"type": 3})
    body = b'{"a":' * DEEP
    signature = KEY.sign(headers["x-signature-timestamp"].encode() + body).hex()
    return headers | {"x-signature-ed25519": signature}, body


@pytest.mark.parametrize("stamp", ["9" * 400, "9" * 5000, "-1", "1e9", "\u0661" * 10, ""])
async def test_a_time_that_is_none_is_not_genuine(stamp):
    """Nothing that a stranger sends raises."""
    with serving_slack(FakeSlack()) as fake:
        verifier = slack_channel(fake).platform._verifier
    headers, body = signed_by_slack("{}", "application/json")
    assert not is_genuine(verifier, headers | {"x-slack-request-timestamp": stamp}, body)
    with serving_discord(FakeDiscord()) as fake:
        key = discord_channel(fake).platform._key
    assert not interactions.is_genuine(key, *signed_by_discord({"type": 1}, at=10**400), datetime.now(UTC))
