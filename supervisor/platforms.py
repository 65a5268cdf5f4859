"""Chat platforms: make the channels that the configuration names, with their secrets.

Rules
- Secrets are never in the configuration: each is in an environment variable, or in a file that the configuration names.
  A variable is removed from the environment when it was read, so that no tool inherits it. A process that can read this
  one's memory or /proc/PID/environ would still see it, but a daemon denies that (system/closed.py).
- All problems that can be seen locally are reported, each with its key and what to do, and without any secret. No
  platform is contacted: a wrong token shows when it is first used.
- If a platform's package is not installed, the error names the extra that installs it.
"""

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from supervisor.abc import Channel
from supervisor.config import Configuration, DiscordPart, SlackPart
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.people import People
from supervisor.logs import FactLog
from supervisor.system.access import OTHERS_USE, why_not_ours

log = FactLog(__name__)


class _Secret(NamedTuple):
    """Where a secret is, and the form by which it is recognised."""

    variable: str
    key: str
    form: str
    where: str


_BOT: Final = _Secret("SLACK_BOT_TOKEN", "bot_token_file", r"(xoxe\.)?xoxb-.+", "xoxb-..., on OAuth & Permissions")
_SIGNING: Final = _Secret("SLACK_SIGNING_SECRET", "signing_secret_file", r".+", "on Basic Information")
_APP: Final = _Secret("SLACK_APP_TOKEN", "app_token_file", r"xapp-.+", "xapp-..., on Basic Information")
_DISCORD: Final = _Secret("DISCORD_BOT_TOKEN", "bot_token_file", r"[^ ]+", "without the word Bot, on Bot")

_SLACK_ID: Final = r"[CDG][A-Z0-9]+"
_DISCORD_ID: Final = r"[0-9]+"
_DISCORD_KEY: Final = r"[0-9a-fA-F]{64}"


def make_channels(
    configuration: Configuration, people: People, agents: Mapping[str, AgentSpec[..., Any]], link: str | None
) -> list[Channel]:
    """Return the configured channels, in the order in which approvals go to them. Raises InvalidInput, naming the key.

    `link`: the URL of the web inbox for people.
    """
    parts, channels = configuration.channels, list[Channel]()
    for problem in channel_problems(configuration, agents):
        raise InvalidInput(problem)
    if parts.slack is not None:
        channels.append(_slack(configuration, parts.slack, people, agents, link))
    if parts.discord is not None:
        channels.append(_discord(configuration, parts.discord, people, link))
    return channels


def channel_problems(configuration: Configuration, agents: Mapping[str, AgentSpec[..., Any]]) -> list[str]:
    """Return the problems of the configured channels and their secrets, one line each."""
    parts, problems = configuration.channels, list[str]()
    if parts.slack is not None:
        problems += [f"channels.slack{problem}" for problem in _slack_problems(configuration, parts.slack, agents)]
    if parts.discord is not None:
        problems += [f"channels.discord{problem}" for problem in _discord_problems(configuration, parts.discord)]
    return problems


def _slack_problems(
    configuration: Configuration, part: SlackPart, agents: Mapping[str, AgentSpec[..., Any]]
) -> list[str]:
    problems = _missing_packages("slack", "slack_sdk")
    if not re.fullmatch(_SLACK_ID, part.conversation):
        problems.append(".conversation: write the channel's id, such as C012AB3CD (at the end of its About), no name")
    for key, form in (("app", "A"), ("team", "[TE]")):
        if (named := getattr(part, key)) is not None and not re.fullmatch(form + "[A-Z0-9]+", named):
            problems.append(f".{key}: write an id, such as {form[0] if key == 'app' else 'T'}012AB3CD, no name")
    if part.agent is not None and part.agent not in agents:
        problems.append(
            f".agent: no agent {part.agent!r} is offered here; add [agents.{part.agent}], or name its file to serve"
        )
    elif part.agent is not None and not agents[part.agent].takes_text:
        problems.append(f".agent: agent {part.agent} takes no text, so it cannot be used in Slack; name another one")
    problems += _secret_problems(configuration, part, _BOT)
    ways = [way for way in (_SIGNING, _APP) if _is_given(part, way)]
    if not ways:
        problems.append(
            ": buttons would not work; set SLACK_SIGNING_SECRET (requests over HTTP) or SLACK_APP_TOKEN (Socket Mode) "
            "in the environment, or name a file with signing_secret_file or app_token_file"
        )
    return problems + [problem for way in ways for problem in _secret_problems(configuration, part, way)]


def _discord_problems(configuration: Configuration, part: DiscordPart) -> list[str]:
    problems = _missing_packages("discord", "cryptography", "httpx")
    for key in ("conversation", "application"):
        if not re.fullmatch(_DISCORD_ID, getattr(part, key)):
            problems.append(f".{key}: an id has only digits; Developer Mode, then Copy ID, shows it")
    if not re.fullmatch(_DISCORD_KEY, part.public_key):
        problems.append(".public_key: 64 hexadecimal digits, on the application's General Information page")
    return problems + _secret_problems(configuration, part, _DISCORD)


def _missing_packages(extra: str, *packages: str) -> list[str]:
    missing = [package for package in packages if find_spec(package) is None]
    return [f": {package} is not installed; pip install '.[{extra}]'" for package in missing]


def _is_given(part: SlackPart | DiscordPart, secret: _Secret) -> bool:
    return getattr(part, secret.key) is not None or bool(os.environ.get(secret.variable, "").strip())


def _secret_problems(configuration: Configuration, part: SlackPart | DiscordPart, secret: _Secret) -> list[str]:
    if not _is_given(part, secret):
        return [f": set {secret.variable} in the environment, or name a file with {secret.key} ({secret.where})"]
    file = getattr(part, secret.key)
    source = secret.variable if file is None else str(configuration.path(file))
    try:
        text = os.environ[secret.variable] if file is None else configuration.path(file).read_text(encoding="utf-8")
    except OSError as error:
        return [f".{secret.key}: {source} cannot be read: {error.strerror}"]
    except UnicodeDecodeError:
        return [f".{secret.key}: {source} is not text"]
    if re.fullmatch(secret.form, text.strip()):
        return []
    return [f".{secret.key}: {source} has the wrong form; the secret is {secret.where}"]


def _slack(
    configuration: Configuration,
    part: SlackPart,
    people: People,
    agents: Mapping[str, AgentSpec[..., Any]],
    link: str | None,
) -> Channel:
    from supervisor.channels.slack import Slack, Talk

    return Slack(
        token=_take(configuration, part, _BOT),
        signing_secret=_take(configuration, part, _SIGNING) or None,
        app_token=_take(configuration, part, _APP) or None,
        conversation=part.conversation,
        people=people,
        talk=None if part.agent is None else Talk(agents[part.agent]),
        link=link,
        app=part.app,
        team=part.team,
        mention=part.mention,
        base_url=part.base_url,
    )


def _discord(configuration: Configuration, part: DiscordPart, people: People, link: str | None) -> Channel:
    from supervisor.channels.discord import Discord

    return Discord(
        token=_take(configuration, part, _DISCORD),
        application=part.application,
        public_key=part.public_key,
        conversation=part.conversation,
        people=people,
        link=link,
        mention=part.mention,
        base_url=part.base_url,
    )


def discord_token(configuration: Configuration, part: DiscordPart) -> str:
    """Return the bot's token. Raises InvalidInput if there is none."""
    for problem in _secret_problems(configuration, part, _DISCORD):
        raise InvalidInput(f"channels.discord{problem}")
    return _take(configuration, part, _DISCORD)


def _take(configuration: Configuration, part: SlackPart | DiscordPart, secret: _Secret) -> str:
    """Return a secret that was checked, and remove it from the environment; "" if it is not given."""
    given = os.environ.pop(secret.variable, "")
    if (file := getattr(part, secret.key)) is not None:
        path = configuration.path(file)
        given = path.read_text(encoding="utf-8")
        if (readers := why_not_ours(path, OTHERS_USE)) is not None:
            log.warning("secret.open_to_others", key=secret.key, problem=readers)
    return given.strip()
