"""Discord as a channel; platform.py says what is Discord's about it, and chat/driver.py does the rest."""

from typing import Any

import httpx

from supervisor.channels.chat.acts import Place
from supervisor.channels.chat.driver import ChatChannel
from supervisor.channels.discord.platform import DiscordPlatform
from supervisor.channels.discord.rest import DiscordRest
from supervisor.core.approvals.people import Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec


class Discord(ChatChannel):
    """Ask people in Discord.

    `token`: the bot's token. `application`: the application's id. `public_key`: the application's public key,
    hexadecimal; it verifies Discord's requests. `conversation`: the id of the channel for cards. `people`: the
    configured people (identity "discord": the user's id) and their rights. `link`: the address of the web inbox, for
    requests that are too long for a card. `mention`: whom a card mentions, so that Discord notifies them. `agent`:
    /start begins it in a thread, and people talk to it there; None: cards only. `name`: another one if there are two of
    them; people's identities are configured under it.
    """

    name = "discord"

    def __init__(
        self,
        *,
        token: str,
        application: str,
        public_key: str,
        conversation: str,
        people: People,
        agent: AgentSpec[..., Any] | None = None,
        link: str | None = None,
        mention: Mention = "approvers",
        base_url: str = "https://discord.com/api/v10",
        name: str = "discord",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        platform = DiscordPlatform(DiscordRest(token, base_url, transport), application, public_key)
        super().__init__(
            platform, Place(conversation), name=name, people=people, agent=agent, link=link, mention=mention
        )
