"""Whether a channel can reach people: it asks its platform, and log, metrics and /ready say so."""

import logging

import anyio
import httpx
import pytest
from fake_discord import FakeDiscord, serving as serving_discord
from fake_slack import TOKEN, FakeSlack, serving as serving_slack
from platform_scenes import deployer, opened, until
from test_discord import channel as discord_channel
from test_slack import channel as slack_channel

from supervisor import Deny, MemoryStore, People, Person, SupervisorError, TokenHash, open_supervisor
from supervisor.channels import Channel
from supervisor.channels.web.auth import Guard
from supervisor.channels.web.health import down_of
from supervisor.channels.web.site import make_app
from supervisor.channels.web.state import Site
from supervisor.cli.configuring import check
from supervisor.core.approvals.people import hash_token

pytestmark = pytest.mark.anyio


@pytest.fixture
def slack():
    with serving_slack(FakeSlack()) as fake:
        yield fake


@pytest.fixture
def discord():
    with serving_discord(FakeDiscord()) as fake:
        yield fake


async def test_slack_says_who_the_app_is_and_where_it_asks(slack):
    assert await slack_channel(slack).check() == "@supervisor in #ops"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"refusals": {"auth.test": "token_revoked"}}, "token_revoked"),
        ({"scopes": "app_mentions:read,channels:history"}, "chat:write"),
        ({"scopes": "chat:write"}, "read"),
        ({"place": {"is_private": True}}, "private"),
        ({"place": {"is_member": False}}, "/invite"),
        ({"place": {"is_archived": True}}, "archived"),
        ({"refusals": {"conversations.info": "channel_not_found"}}, "channel_not_found"),
    ],
)
async def test_slack_names_what_is_wrong_with_the_app(slack, wrong, named):
    for key, value in wrong.items():
        setattr(slack, key, value)
    with pytest.raises(SupervisorError, match=named):
        await slack_channel(slack).check()


async def test_discord_says_who_the_bot_is_and_where_it_asks(discord):
    assert await discord_channel(discord).check() == "@supervisor in #approvals"


@pytest.mark.parametrize(
    "wrong",
    [
        {"application": {"id": "901"}},
        {"application": {"verify_key": "0" * 64}},
        {"application": {"interactions_endpoint_url": None}},
        {"refused": "/channels/77"},
    ],
)
async def test_discord_names_what_is_wrong_with_the_application(discord, wrong):
    for key, value in wrong.items():
        setattr(discord, key, value)
    with pytest.raises(SupervisorError):
        await discord_channel(discord).check()


async def test_a_channel_that_is_down_is_logged_once_and_comes_back(slack, caplog):
    """A revoked token shows before the first card fails, and the next check finds that it was mended."""
    caplog.set_level(logging.INFO, "supervisor.runtime.people.health")
    chat, slack.refusals = slack_channel(slack), {"auth.test": "token_revoked"}
    chat.check_again = 0.01
    async with opened(chat, platform="slack"):
        await until(lambda: chat.down)
        calls = len(slack.calls)
        await until(lambda: len(slack.calls) > calls + 3)
        slack.refusals = {}
        await until(lambda: chat.down is None)
    said = [each.getMessage() for each in caplog.records if each.name == "supervisor.runtime.people.health"]
    assert [text.split()[0] for text in said] == ["channel.down", "channel.up"]
    assert "token_revoked" in said[0]


class Deaf(Channel):
    """A channel that only notifies, without a check: its cards fail as long as it is deaf."""

    name, only_notifies, card_again, is_deaf = "deaf", True, 0.01, True

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    async def post(self, approval, card):
        if self.is_deaf:
            raise ConnectionRefusedError("no server")
        return "card"

    async def retire(self, approval, card):
        pass


async def test_a_channel_without_a_check_is_down_while_its_cards_fail(caplog):
    """What is to wake a person shows as dead, not as well; a card that is shown ends that."""
    deaf = Deaf()
    async with open_supervisor(MemoryStore(), agents=[deployer], channels=[deaf]) as supervisor:
        run = await supervisor.start(deployer, "x")
        await until(lambda: deaf.failing)
        assert supervisor.cards_failed["deaf"] >= 3
        site = Site(Guard(None, b"s" * 32, None, "s"), is_secure=False, channels=[deaf])
        assert down_of(site) == ("deaf",)
        deaf.is_deaf = False
        await until(lambda: down_of(site) == ())
        await supervisor.cancel(run.session)


class Broken(Channel):
    """A channel whose listener and cards fail."""

    name = "broken"

    async def serve(self, supervisor):
        raise ValueError("no listener")

    async def post(self, approval, card):
        raise ValueError("no cards")

    async def retire(self, approval, card):
        pass


async def test_a_server_names_the_channels_that_are_down_and_stays_ready(slack):
    """An outage of Slack must not take the inbox away; metrics count the cards that failed."""
    slack.refusals, slack.unwell = {"auth.test": "token_revoked", "chat.postMessage": "token_revoked"}, 0
    channels = [slack_channel(slack), Broken()]
    known = People([Person(name="ana", roles=("operator",), tokens=(TokenHash(hash_token("a token")),))])
    async with open_supervisor(MemoryStore(), agents=[deployer], channels=channels, people=known) as supervisor:
        site = Site(Guard(known, b"s" * 32, None, "s"), is_secure=False, channels=channels)
        site.serving, app = supervisor, make_app(site, ["site"], any_address=False)
        headers = {"authorization": "Bearer a token"}
        await supervisor.start(deployer, "x", by="ana")
        await until(lambda: all(channel.down for channel in channels) and len(supervisor.cards_failed) == 2)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://site", headers=headers
        ) as client:
            ready, metrics = await client.get("/ready"), await client.get("/metrics")
        assert (ready.status_code, ready.json()["channels_down"]) == (200, ["slack", "broken"])
        assert 'supervisor_channel_up{channel="slack"} 0' in metrics.text
        assert 'supervisor_cards_failed_total{channel="slack"} 1' in metrics.text
        await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))


KNOWN = '[people.ana]\nidentities = { slack = "U1" }\n'


@pytest.mark.parametrize(
    ("people", "refusals", "code", "named"),
    [
        (KNOWN, {}, 0, "slack: @supervisor in #ops"),
        (KNOWN, {"auth.test": "invalid_auth"}, 2, "invalid_auth"),
        ("", {}, 2, "identities"),
    ],
)
def test_a_configuration_is_checked_against_its_platforms(
    slack, tmp_path, monkeypatch, capsys, people, refusals, code, named
):
    """`supervisor check --online` says what each platform answers, and fails if a channel cannot work."""
    slack.refusals = refusals
    table = f'[channels.slack]\nconversation = "C1"\nbase_url = "{slack.url}"\n'
    (tmp_path / "supervisor.toml").write_text(people + table)
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("SLACK_SIGNING_SECRET", "secret")
    assert check(tmp_path / "supervisor.toml", online=True) == code
    told = capsys.readouterr().err
    assert (named in told, TOKEN in told) == (True, False)


ROUTES = """
[[routes]]
tool = "deploy"
ask = ["slack:C2", "slack:@approvers"]
notify = ["slack:C3"]
"""


@pytest.mark.parametrize(("unknown", "code"), [(None, 0), ("C2", 2), ("C3", 2)])
def test_the_places_of_routes_are_checked_against_their_platform(slack, tmp_path, monkeypatch, capsys, unknown, code):
    """A conversation that the app is not in shows before its first card fails. No direct message is opened."""
    info = slack.conversations_info
    missing = {"ok": False, "error": "channel_not_found"}
    slack.conversations_info = lambda channel: missing if channel == unknown else info(channel)
    table = f'[channels.slack]\nconversation = "C1"\nbase_url = "{slack.url}"\n'
    (tmp_path / "supervisor.toml").write_text(KNOWN + table + ROUTES)
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("SLACK_SIGNING_SECRET", "secret")
    assert check(tmp_path / "supervisor.toml", online=True) == code
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[0] for line in told] == ["slack", "slack:C2", "slack:C3"]
    assert [line.split(":")[1][:2] for line in told if "channel_not_found" in line] == [unknown] * bool(unknown)
    assert "conversations.open" not in slack.calls


async def test_a_token_of_another_workspace_is_found(slack):
    """People's ids are unique only within a workspace, so every press would be refused."""
    assert await slack_channel(slack, team="T1").check() == "@supervisor in #ops"
    with pytest.raises(SupervisorError, match="T1"):
        await slack_channel(slack, team="T2").check()


def test_a_wrong_token_of_socket_mode_is_found(slack):
    """Only a daemon opens a connection; a check asks whether it could."""
    with pytest.raises(SupervisorError, match="xapp"):
        anyio.run(slack_channel(slack, app_token="xapp-1").check)
