"""The table [channels.discord] of supervisor.toml, or another of `kind = "discord"`."""

import re
from collections.abc import Iterator
from typing import Final

from supervisor.channels.discord.channel import Discord
from supervisor.channels.settings import ChannelSettings, ChannelSetup, Problem
from supervisor.core.approvals.channel_kinds import KINDS
from supervisor.core.approvals.people import Mention

(BOT,) = KINDS["discord"].secrets

_ID: Final = re.compile(r"[0-9]+")
_KEY: Final = re.compile(r"[0-9a-fA-F]{64}")


class DiscordSettings(ChannelSettings, frozen=True, kw_only=True):
    """The conversation for cards, and the agent that /start begins.

    `application` and `public_key` are on the application's General Information page.
    """

    secrets = (BOT,)

    conversation: str
    application: str
    public_key: str
    mention: Mention = "approvers"
    agent: str | None = None
    bot_token_file: str | None = None
    base_url: str = "https://discord.com/api/v10"

    def problems(self, setup: ChannelSetup) -> Iterator[Problem]:
        for key, written in (("conversation", self.conversation), ("application", self.application)):
            if not _ID.fullmatch(written):
                yield key, "an id has only digits; Developer Mode, then Copy ID, shows it"
        if not _KEY.fullmatch(self.public_key):
            yield "public_key", "64 hexadecimal digits, on the application's General Information page"
        yield from setup.talk_problems(Discord.name, self.agent, self.mention)

    def make(self, setup: ChannelSetup) -> Discord:
        return Discord(
            name=setup.name,
            token=self.take_secret(BOT, setup),
            application=self.application,
            public_key=self.public_key,
            conversation=self.conversation,
            people=setup.people,
            agent=setup.find_agent(self.agent),
            link=setup.link,
            mention=self.mention,
            base_url=self.base_url,
        )
