"""Telegram as a channel; platform.py says what is Telegram's about it, and chat/driver.py does the rest."""

from typing import Any

import httpx

from supervisor.channels.chat.acts import Place
from supervisor.channels.chat.driver import ChatChannel
from supervisor.channels.telegram.bot_api import BotApi
from supervisor.channels.telegram.platform import TelegramPlatform
from supervisor.core.approvals.people import Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput


class Telegram(ChatChannel):
    """Ask people in Telegram.

    `token`: the bot's token. `conversation`: the id of the chat for cards: a group, or a person who has written to
    the bot. `people`: the configured people (identity "telegram": the numeric id) and their rights. `link`: the address
    of the web inbox, for requests that are too long for a card. `mention`: whom a card in a group mentions, so that
    Telegram notifies them. `agent`: people talk with it in chats with the bot, and in groups where they name the bot;
    None: cards only. `name`: another one if there are two of them; people's identities are configured under it.
    """

    name = "telegram"

    def __init__(
        self,
        *,
        token: str,
        conversation: int,
        people: People,
        agent: AgentSpec[..., Any] | None = None,
        link: str | None = None,
        mention: Mention = "approvers",
        base_url: str = "https://api.telegram.org",
        name: str = "telegram",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        bot, _, _ = token.partition(":")
        if not (bot.isascii() and bot.isdigit()):
            raise InvalidInput("telegram: the bot's token begins with a number and a colon; @BotFather shows it")
        platform = TelegramPlatform(BotApi(token, base_url, transport), int(bot), name)
        home = Place(str(conversation))
        super().__init__(platform, home, name=name, people=people, agent=agent, link=link, mention=mention)
