"""The table [channels.slack] of supervisor.toml, or another of `kind = "slack"`."""

import re
from collections.abc import Iterator
from typing import Final

from supervisor.channels.settings import ChannelSettings, ChannelSetup, Problem
from supervisor.channels.slack.channel import Slack
from supervisor.core.approvals.channel_kinds import KINDS
from supervisor.core.approvals.people import Mention

BOT, SIGNING, APP = KINDS["slack"].secrets

_CONVERSATION: Final = re.compile(r"[CDG][A-Z0-9]+")


class SlackSettings(ChannelSettings, frozen=True, kw_only=True):
    """The conversation for cards of sessions without a thread, and the agent that a mention starts. `app` (A...) and
    `team` (T...): requests from another app or workspace are refused."""

    secrets = (BOT, SIGNING, APP)

    conversation: str
    mention: Mention = "approvers"
    agent: str | None = None
    app: str | None = None
    team: str | None = None
    bot_token_file: str | None = None
    signing_secret_file: str | None = None
    app_token_file: str | None = None
    base_url: str = "https://slack.com/api/"

    def problems(self, setup: ChannelSetup) -> Iterator[Problem]:
        if not _CONVERSATION.fullmatch(self.conversation):
            yield "conversation", "write the channel's id, such as C012AB3CD (at the end of its About), no name"
        for key, named, form in (("app", self.app, "A"), ("team", self.team, "[TE]")):
            if named is not None and not re.fullmatch(form + "[A-Z0-9]+", named):
                yield key, f"write an id, such as {form[0] if key == 'app' else 'T'}012AB3CD, no name"
        yield from setup.talk_problems(Slack.name, self.agent, self.mention)
        if not any(self.has_secret(way, setup) for way in (SIGNING, APP)):
            over_http, socket_mode = (way.variable(setup.name) for way in (SIGNING, APP))
            why = f"buttons would not work; set {over_http} (requests over HTTP) or {socket_mode} (Socket Mode) in the "
            yield "", f"{why}environment, or name a file with signing_secret_file or app_token_file"

    def make(self, setup: ChannelSetup) -> Slack:
        return Slack(
            name=setup.name,
            token=self.take_secret(BOT, setup),
            signing_secret=self.take_secret(SIGNING, setup) or None,
            app_token=self.take_secret(APP, setup) or None,
            conversation=self.conversation,
            people=setup.people,
            agent=setup.find_agent(self.agent),
            link=setup.link,
            app=self.app,
            team=self.team,
            mention=self.mention,
            base_url=self.base_url,
        )
