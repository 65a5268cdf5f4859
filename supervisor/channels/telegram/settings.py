"""The table [channels.telegram] of supervisor.toml, or another of `kind = "telegram"`."""

import re
from collections.abc import Iterator
from typing import Final

from supervisor.channels.settings import ChannelSettings, ChannelSetup, Problem
from supervisor.channels.telegram.channel import Telegram
from supervisor.core.approvals.channel_kinds import KINDS
from supervisor.core.approvals.people import Mention

(BOT,) = KINDS["telegram"].secrets


NAME: Final = 20
"""The longest name of a channel with conversations: an id of a session names the channel, the chat and the message."""


class TelegramSettings(ChannelSettings, frozen=True, kw_only=True):
    """The chat for cards: the id of a group, or of a person who has written to the bot. The bot tells both ids to each
    person who writes /id to it."""

    secrets = (BOT,)

    conversation: int
    mention: Mention = "approvers"
    agent: str | None = None
    bot_token_file: str | None = None
    base_url: str = "https://api.telegram.org"

    def problems(self, setup: ChannelSetup) -> Iterator[Problem]:
        if self.conversation == 0:
            yield "conversation", "write the chat's id; write /id to the bot there, and it answers with it"
        for person in setup.people:
            if not re.fullmatch("[0-9]+", written := person.identities.get(setup.name, "0")):
                yield "", f"{written!r} of people.{person.name} is no numeric id; the bot tells it to them: /id"
        if self.agent is not None and len(setup.name) > NAME:
            yield "agent", f"the ids of its sessions would be too long: give the channel a name of {NAME} characters"
        yield from setup.talk_problems("", self.agent, self.mention)

    def make(self, setup: ChannelSetup) -> Telegram:
        return Telegram(
            name=setup.name,
            token=self.take_secret(BOT, setup),
            conversation=self.conversation,
            people=setup.people,
            link=setup.link,
            mention=self.mention,
            agent=setup.find_agent(self.agent),
            base_url=self.base_url,
        )
