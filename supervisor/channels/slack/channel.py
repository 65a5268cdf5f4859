"""Slack as a channel; platform.py says what is Slack's about it, and chat/driver.py does the rest."""

from typing import Any

from supervisor.channels.chat.acts import Place
from supervisor.channels.chat.driver import ChatChannel
from supervisor.channels.slack.platform import SlackPlatform
from supervisor.channels.slack.web import SlackWeb
from supervisor.core.approvals.people import Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec


class Slack(ChatChannel):
    """Ask people in Slack.

    `token`: the bot's token (xoxb-). `conversation`: the id of the channel for the cards of sessions without a thread.
    `people`: the configured people (identity "slack": the member id) and their rights. `signing_secret`: verifies
    requests over HTTP; without it the channel takes none. `app_token`: (xapp-) for Socket Mode, which needs no public
    address. `agent`: a mention starts it, and people talk to it in the thread; None: cards only. `link`: the address
    of the web inbox, for requests that are too long for a card. `app` (A...), `team` (T...): the ids of the app and
    the workspace; requests from other ones are refused. `mention`: whom a card mentions, so that Slack notifies them.
    `name`: another one if there are two of them; people's identities are configured under it.
    """

    name = "slack"

    def __init__(
        self,
        *,
        token: str,
        conversation: str,
        people: People,
        signing_secret: str | None = None,
        app_token: str | None = None,
        agent: AgentSpec[..., Any] | None = None,
        link: str | None = None,
        app: str | None = None,
        team: str | None = None,
        mention: Mention = "approvers",
        base_url: str = "https://slack.com/api/",
        name: str = "slack",
    ) -> None:
        ours = {"signing_secret": signing_secret, "app_token": app_token, "app": app, "team": team}
        platform = SlackPlatform(SlackWeb(token, base_url), conversation, people, **ours)
        super().__init__(
            platform, Place(conversation), name=name, people=people, agent=agent, link=link, mention=mention
        )
