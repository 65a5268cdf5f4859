"""What starts agents by configuration: the clock ([schedules.NAME]), and other programs ([triggers.NAME]).

Rules
- Problems that the file alone shows are found when it is read. Whether the agent is there, and takes the input, is
  found before the store is opened.
- The secret of a trigger is never in the file: it is in a file that `secret_file` names, or in the environment variable
  TRIGGER_NAME_SECRET.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from supervisor.channels.settings import ChannelSettings, ChannelSetup
from supervisor.core.approvals.channel_kinds import KINDS, Secret
from supervisor.core.approvals.people import People
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.schedules import NAME, IfMissed, IfRunning, Schedule, Signed, checked_schedule
from supervisor.system.withheld import withhold

Agents = Mapping[str, AgentSpec[..., Any]]


class SchedulePart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent that begins by the clock; docs/how-to/schedules.md says what the values mean."""

    agent: str
    input: Any = msgspec.UNSET
    cron: str
    timezone: str = "UTC"
    if_missed: IfMissed = "once"
    if_running: IfRunning = "skip"

    def made(self, name: str) -> Schedule:
        """Return the schedule. Raises InvalidInput, naming the field."""
        from supervisor.system.cron import check_cron  # few configurations need it

        made = checked_schedule(Schedule(name, **asdict(self)))
        check_cron(made.cron, made.timezone)
        return made


class TriggerPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent that signed requests to /triggers/NAME start; docs/how-to/triggers.md says what the values mean."""

    agent: str
    signed: Signed = "standard"
    secret_file: str | None = None


class _Standard(ChannelSettings, frozen=True, kw_only=True):
    """The secret of a trigger, read as a channel's is."""

    secrets = KINDS["hook"].secrets
    secret_file: str | None = None


class _GitHub(_Standard, frozen=True, kw_only=True):
    secrets = (Secret(key="secret", form=r"\S(.*\S)?", where="as it stands in the settings of the webhook"),)


_SECRETS: Final[Mapping[Signed, type[_Standard]]] = {"standard": _Standard, "github": _GitHub}


def _secret_of(name: str, part: TriggerPart, folder: str) -> tuple[ChannelSettings, Secret, ChannelSetup]:
    """Return what reads the secret of a trigger, the secret, and where it stands."""
    kept = _SECRETS[part.signed](secret_file=part.secret_file)
    (secret,) = kept.secrets
    return kept, secret, ChannelSetup(name=f"trigger-{name}", people=People([]), folder=folder)


def why_not_made(key: str, make: Callable[[], object]) -> Iterator[tuple[str, str]]:
    """Yield the problem of a part of the file of which nothing can be made, as (key, problem)."""
    try:
        make()
    except InvalidInput as error:
        yield key, str(error)


def trigger_problems(triggers: Mapping[str, TriggerPart]) -> Iterator[tuple[str, str]]:
    """Yield what the file alone shows of triggers. Their names are part of paths, of variables and of session ids."""
    for name in triggers:
        if not re.fullmatch(NAME, name):
            yield f"triggers.{name}", "a trigger's name has up to 32 lower-case letters, digits and '-'"


def make_schedules(schedules: Mapping[str, SchedulePart], agents: Agents) -> tuple[Schedule, ...]:
    """Return schedules. Raises InvalidInput, naming the key, for one that can begin nothing."""
    found = tuple(part.made(name) for name, part in schedules.items())
    for each in found:
        spec = _find_agent(f"schedules.{each.name}", each.agent, agents)
        try:
            spec.check_input(spec.default_input() if each.input is msgspec.UNSET else to_json(each.input, "it"))
        except InvalidInput as error:
            raise InvalidInput(f"schedules.{each.name}.input: {error}") from None
    return found


def check_triggers(triggers: Mapping[str, TriggerPart], agents: Agents | None, folder: str) -> list[tuple[str, str]]:
    """Return the problems of triggers, as (key, problem): their agents, unless these are not known here (None), and
    their secrets."""
    found = []
    for name, part in triggers.items():
        kept, secret, setup = _secret_of(name, part, folder)
        withhold(secret.variable(setup.name))
        found += [(f"triggers.{name}.{key}".rstrip("."), text) for key, text in kept.secret_problems(setup)]
        if agents is not None:
            try:
                _find_agent(f"triggers.{name}", part.agent, agents)
            except InvalidInput as error:
                key, _, text = str(error).partition(": ")
                found.append((key, text))
    return found


def check_starts(
    schedules: Mapping[str, SchedulePart], triggers: Mapping[str, TriggerPart], agents: Agents, folder: str
) -> list[tuple[str, str]]:
    """Return all problems of both, as (key, problem)."""
    found = []
    for name, part in schedules.items():
        try:
            make_schedules({name: part}, agents)
        except InvalidInput as error:
            key, _, text = str(error).partition(": ")
            found.append((key, text))
    return found + check_triggers(triggers, agents, folder)


def take_trigger_secrets(triggers: Mapping[str, TriggerPart], folder: str) -> dict[str, str]:
    """Return the secrets of triggers by their names, and remove them from the environment."""
    taken = {}
    for name, part in triggers.items():
        kept, secret, setup = _secret_of(name, part, folder)
        taken[name] = kept.take_secret(secret, setup)
    return taken


def _find_agent(where: str, name: str, agents: Agents) -> AgentSpec[..., Any]:
    if (spec := agents.get(name)) is None:
        raise InvalidInput(
            f"{where}.agent: no agent {name!r} is offered here; add [agents.{name}], or name its file to serve"
        )
    return spec
