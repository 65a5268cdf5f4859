"""What supervisor.toml says of a channel: the keys of its table, its secrets, and what else it is made with.

Theory: a kind of channel is a subclass of ChannelSettings. Its fields are the keys of a table [channels.NAME], and its
`make` returns the channel. platforms.py finds the kind of each table, and reports every problem with its key.

Rules
- Secrets are never in the file. Each is in an environment variable, NAME_KEY in capital letters, or in a file that the
  key KEY_file names. The variable is removed from the environment when it is read, so that no tool inherits it. A
  process that can read this one's memory or /proc/PID/environ would still see it, but a daemon denies that
  (system/closed.py).
- A problem says what to do, and never contains a secret.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from supervisor.core.approvals.channel_kinds import Secret as Secret
from supervisor.core.approvals.people import Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.seam.channel import Channel
from supervisor.system.access import OTHERS_USE, read_text, why_not_ours
from supervisor.system.logs import FactLog
from supervisor.system.settling import note_ours
from supervisor.system.withheld import withhold_secret

log = FactLog(__name__)

Problem = tuple[str, str]
"""A key of the table, or "" for the whole table, and what is wrong with it and how to mend that."""


class ChannelSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel is made with, besides its own table."""

    name: str
    """NAME of the table [channels.NAME], and so the channel's `name`. People's identities are configured under it."""
    people: People
    agents: Mapping[str, AgentSpec[..., Any]] = {}
    """The agents on offer, by name."""
    link: str | None = None
    """The address of the web inbox, if the configuration has one."""
    folder: str = ""
    """The folder of the configuration, from which its paths count."""

    def path(self, named: str) -> Path:
        """Return the path of a file that the configuration names."""
        return Path(self.folder, os.path.expanduser(named))  # noqa: PTH111 # a Path raises where there is no such user

    def agent_problems(self, key: str, agent: str | None) -> Iterator[Problem]:
        """Yield why an agent cannot be talked to here. None is no agent, and no problem."""
        if agent is not None and agent not in self.agents:
            yield key, f"no agent {agent!r} is offered here; add [agents.{agent}], or name its file to serve"
        elif agent is not None and not self.agents[agent].takes_text:
            yield key, f"agent {agent} takes no text, so people cannot talk to it; name another one"

    def mention_problems(self, key: str, mention: Mention) -> Iterator[Problem]:
        """Yield which of the people to mention are not configured."""
        for person in mention if isinstance(mention, tuple) else ():
            if self.people.find(person) is None:
                yield key, f"there is no [people.{person}]"

    def find_agent(self, agent: str | None) -> AgentSpec[..., Any] | None:
        """Return an agent on offer by its name; None of None."""
        return None if agent is None else self.agents[agent]

    def talk_problems(self, kind: str, agent: str | None, mention: Mention) -> Iterator[Problem]:
        """Yield what is wrong with the people to mention and the agent of a chat. `kind`: only the channel of this name
        has conversations, since the ids of its sessions do not name it; "" if they do."""
        yield from self.agent_problems("agent", agent)
        if agent is not None and kind not in ("", self.name):
            yield "agent", f"only [channels.{kind}] has conversations; other channels of its kind have cards only"
        yield from self.mention_problems("mention", mention)


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of channel: its fields are the keys of a table [channels.NAME], and `make` returns the channel.

    For each of `secrets` it has a field KEY_file: `bot_token_file: str | None = None` for the key "bot_token".
    """

    secrets: ClassVar[Collection[Secret]] = ()

    def make(self, setup: ChannelSetup) -> Channel:
        """Return the channel, whose `name` is `setup.name`. It is called if there are no problems. Nothing is contacted
        before `Channel.serve`. Raises InvalidInput."""
        raise NotImplementedError

    def problems(self, setup: ChannelSetup) -> Iterable[Problem]:
        """Return what the types of the fields and the forms of the secrets do not show. Contacts nothing."""
        return ()

    def has_secret(self, secret: Secret, setup: ChannelSetup) -> bool:
        """Return whether a secret is given."""
        return self._file_of(secret) is not None or bool(os.environ.get(secret.variable(setup.name), "").strip())

    def secret_problems(self, setup: ChannelSetup) -> Iterator[Problem]:
        """Yield the problems of all secrets."""
        for secret in self.secrets:
            if self.has_secret(secret, setup):
                yield from self._problems_of(secret, setup)
            elif secret.is_required:
                variable, key = secret.variable(setup.name), f"{secret.key}_file"
                yield "", f"set {variable} in the environment, or name a file with {key} ({secret.where})"

    def take_secret(self, secret: Secret, setup: ChannelSetup) -> str:
        """Return a secret, and remove it from the environment; "" if it is not given."""
        given = os.environ.pop(secret.variable(setup.name), "")
        if (file := self._file_of(secret)) is not None:
            path = setup.path(file)
            note_ours(path)
            given = read_text(path)
            if (readers := why_not_ours(path, OTHERS_USE)) is not None:
                log.warning("secret.open_to_others", key=f"{secret.key}_file", problem=readers)
        withhold_secret(given)
        return given.strip()

    def _file_of(self, secret: Secret) -> str | None:
        file: str | None = getattr(self, f"{secret.key}_file")
        return file

    def _problems_of(self, secret: Secret, setup: ChannelSetup) -> Iterator[Problem]:
        key, file, variable = f"{secret.key}_file", self._file_of(secret), secret.variable(setup.name)
        source = variable if file is None else str(setup.path(file))
        try:
            text = os.environ[variable] if file is None else read_text(setup.path(file))
        except OSError as error:
            yield key, f"{source} cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            yield key, f"{source} is not text"
        except ValueError as error:  # the path has a NUL, or the file is too large
            yield key, f"{source} cannot be read: {error}"
        else:
            if not re.fullmatch(secret.form, text.strip()):
                yield key, f"{source} has the wrong form; the secret is {secret.where}"
