"""Chat platforms, from the configuration: which channels people are asked in, and with which secrets.

Rules
- Secrets are never in the configuration: each is in an environment variable, or in a file that the configuration names.
  A variable is taken out of the environment when it has been read, so that no tool inherits it.
- A platform whose package is not installed is said by the name of the extra that brings it.
"""

import os
from collections.abc import Mapping
from typing import Any

from supervisor.abc import Channel
from supervisor.config import Configuration, DiscordPart, SlackPart
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.people import People


def make_channels(
    configuration: Configuration, people: People, agents: Mapping[str, AgentSpec[..., Any]], link: str | None
) -> list[Channel]:
    """Return the configured channels, in the order in which they are asked. Raises InvalidInput, naming the key.

    `link`: where the web inbox is for people.
    """
    parts = configuration.channels
    channels: list[Channel] = []
    try:
        if parts.slack is not None:
            channels.append(_slack(configuration, parts.slack, people, agents, link))
        if parts.discord is not None:
            channels.append(_discord(configuration, parts.discord, people, link))
    except ModuleNotFoundError as error:
        name = "slack" if error.name == "slack_sdk" else "discord"
        raise InvalidInput(
            f"channels.{name}: {error.name} is not installed; pip install 'subagent-supervisor[{name}]'"
        ) from None
    return channels


def _slack(
    configuration: Configuration,
    part: SlackPart,
    people: People,
    agents: Mapping[str, AgentSpec[..., Any]],
    link: str | None,
) -> Channel:
    from supervisor.channels.slack import Slack, Talk

    talk = None
    if part.agent is not None:
        if part.agent not in agents:
            raise InvalidInput(f"channels.slack.agent: no agent {part.agent!r} is offered here")
        talk = Talk(agents[part.agent])
    signing_secret = read_secret(configuration, "SLACK_SIGNING_SECRET", part.signing_secret_file)
    app_token = read_secret(configuration, "SLACK_APP_TOKEN", part.app_token_file)
    if signing_secret is None and app_token is None:
        raise InvalidInput(
            "channels.slack: without SLACK_SIGNING_SECRET (requests over HTTP) or SLACK_APP_TOKEN (Socket Mode), "
            "nobody could press a button"
        )
    return Slack(
        token=_need(configuration, "channels.slack", "SLACK_BOT_TOKEN", part.bot_token_file),
        signing_secret=signing_secret,
        app_token=app_token,
        conversation=part.conversation,
        people=people,
        talk=talk,
        link=link,
        base_url=part.base_url,
    )


def _discord(configuration: Configuration, part: DiscordPart, people: People, link: str | None) -> Channel:
    from supervisor.channels.discord import Discord

    return Discord(
        token=discord_token(configuration, part),
        application=part.application,
        public_key=part.public_key,
        conversation=part.conversation,
        people=people,
        link=link,
        base_url=part.base_url,
    )


def discord_token(configuration: Configuration, part: DiscordPart) -> str:
    """Return the bot's token. Raises InvalidInput if there is none."""
    return _need(configuration, "channels.discord", "DISCORD_BOT_TOKEN", part.bot_token_file)


def _need(configuration: Configuration, key: str, variable: str, file: str | None) -> str:
    found = read_secret(configuration, variable, file)
    if found is None:
        raise InvalidInput(f"{key}: set {variable} in the environment, or name a file with bot_token_file")
    return found


def read_secret(configuration: Configuration, variable: str, file: str | None) -> str | None:
    """Return a secret from its file, if one is named, or from its environment variable. Raises InvalidInput."""
    given = os.environ.pop(variable, None)
    if file is not None:
        try:
            given = configuration.path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"cannot read {configuration.path(file)}: {error}") from None
    return (given or "").strip() or None
