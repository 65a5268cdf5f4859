"""The text that an agent is writing gives way on each platform: a limit stops it at once, and nothing else."""

import json
import time
from contextlib import asynccontextmanager

import anyio
import fake_slack
import httpx
import pytest

from supervisor import Context, MemoryStore, agent, open_supervisor
from supervisor.channels.chat.platform import WRITING, Piece
from supervisor.channels.discord.rest import DiscordRest
from supervisor.channels.discord.talk import DiscordChat
from supervisor.channels.slack.talk import SlackChat
from supervisor.channels.slack.web import SlackWeb
from supervisor.channels.telegram.bot_api import BotApi
from supervisor.channels.telegram.talk import TelegramChat
from supervisor.core.approvals.people import People

pytestmark = pytest.mark.anyio
SLACK, DISCORD, TELEGRAM = "slack-c1-1700000000.000001", "discord-555", "telegram-77-0-7"


@agent
async def idle(ctx: Context) -> None:
    await ctx.receive()


def piece(session, text, mark=WRITING):
    return Piece(session=session, text=text, mark=mark, by="idle")


@asynccontextmanager
async def opened(session, api):
    """A chat of Telegram, for a session that exists."""
    async with api, open_supervisor(MemoryStore()) as supervisor:
        await supervisor.start(idle, session=session)
        yield TelegramChat(api, "telegram", lambda: supervisor)


async def test_a_limit_of_slack_stops_the_text_and_nothing_else():
    """Slack is asked once, and not while it limits that method; a card that uses the method waits for nothing."""
    with fake_slack.serving(fake_slack.FakeSlack()) as slack, anyio.fail_after(60):
        chat = SlackChat(SlackWeb(fake_slack.TOKEN, slack.url), People([]))
        message = await chat.show_writing(piece(SLACK, "one"), None)
        slack.allowed_at = {"chat.update": time.monotonic() + 3600}
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                await chat.show_writing(piece(SLACK, "two"), message)
        assert slack.calls.count("chat.update") == 1
        slack.allowed_at = {}
        await chat._web.write("chat.update", channel="C1", ts=message, text="a card", blocks=[])


@pytest.mark.parametrize("platform", ["discord", "telegram"])
async def test_a_limit_stops_the_text_and_nothing_else(platform):
    """The request is not repeated after the wait that the platform asks for, and a message is posted at once."""
    limited, asked = True, []

    def answer(request):
        asked.append(request.method)
        if limited:
            wait = {"retry_after": 3600}
            return httpx.Response(429, json={"ok": False, "error_code": 429, "parameters": wait, **wait})
        return httpx.Response(200, json={"ok": True, "id": "9", "result": {"message_id": 9}})

    there = httpx.MockTransport(answer)
    if platform == "discord":
        session, opening = DISCORD, opened_discord(DiscordRest("token", transport=there))
    else:
        session, opening = TELEGRAM, opened(TELEGRAM, BotApi("token", transport=there))
    async with opening as chat:
        with anyio.fail_after(60):
            for message in (None, "9"):
                with pytest.raises(ConnectionRefusedError):
                    await chat.show_writing(piece(session, "one"), message)
            with pytest.raises(ConnectionRefusedError):
                await chat.remove_writing(session, "9")
            assert len(asked) == 3
            limited = False
            await chat.say(piece(session, "the whole", "said:1"))


@asynccontextmanager
async def opened_discord(rest):
    async with rest:
        yield DiscordChat(rest)


async def test_a_text_of_telegram_that_is_too_old_to_be_removed_shows_nothing_more():
    """Telegram deletes no message after 48 hours. A later process does not try again."""
    shown = []

    def answer(request):
        if request.url.path.endswith("/deleteMessage"):
            old = {"ok": False, "error_code": 400, "description": "Bad Request: message can't be deleted for everyone"}
            return httpx.Response(400, json=old)
        shown.append(json.loads(request.content)["text"])
        return httpx.Response(200, json={"ok": True, "result": {"message_id": 9}})

    async with opened(TELEGRAM, BotApi("token", transport=httpx.MockTransport(answer))) as chat:
        message = await chat.show_writing(piece(TELEGRAM, "half a sen"), None)
        assert shown == ["…", "half a sen\nwriting…"]
        assert f"{WRITING}:{message}" in await chat.find_said(TELEGRAM)
        await chat.remove_writing(TELEGRAM, message)
        assert (shown[-1], f"{WRITING}:{message}" in await chat.find_said(TELEGRAM)) == ("…", False)


async def test_a_text_rings_nowhere():
    """What the agent says does: people are told once, of the whole."""
    sent = []

    def answer(request):
        sent.append(json.loads(request.content or b"{}"))
        return httpx.Response(200, json={"ok": True, "id": "9", "result": {"message_id": 9}})

    there = httpx.MockTransport(answer)
    async with opened_discord(DiscordRest("token", transport=there)) as discord:
        await discord.show_writing(piece(DISCORD, "half"), None)
        await discord.say(piece(DISCORD, "whole", "said:1"))
    async with opened(TELEGRAM, BotApi("token", transport=there)) as telegram:
        await telegram.show_writing(piece(TELEGRAM, "half"), None)
        await telegram.say(piece(TELEGRAM, "whole", "said:1"))
    quiet = [each.get("flags") == 4096 or each.get("disable_notification") is True for each in sent]
    assert quiet == [True, False, True, False, False]
    assert "half" not in str(sent[2])  # before it is noted, a text that is left would say nothing
