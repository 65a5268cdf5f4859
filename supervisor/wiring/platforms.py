"""Channels by configuration: each table [channels.NAME] is of a kind, and the kind makes the channel.

    KINDS | entry point of the group ENTRY_POINTS | import = "module:Class"  ->  a subclass of ChannelSettings

Rules
- The kind of a table is its key `kind`, or else its NAME. So two tables may be of one kind.
- Only a kind that the configuration names is imported.
- All problems that can be seen locally are reported, each in one line that names the file and the key, and without any
  secret. No platform is contacted: a wrong token shows when it is first used.
- If a kind's package is not installed, the error names the extra that installs it.
"""

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

import msgspec

from supervisor.channels.settings import ChannelSettings, ChannelSetup, Problem
from supervisor.core.approvals.channel_kinds import ENTRY_POINTS as ENTRY_POINTS, KINDS as KINDS, Kind as Kind
from supervisor.core.approvals.people import People
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.approvals.routes import Route
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.runtime.people.routing import route_problems, step_problems
from supervisor.seam.channel import Channel
from supervisor.system.withheld import withhold
from supervisor.wiring.config import Configuration


class Table(NamedTuple):
    """A table of the configuration, checked: what it says, and what its channel is made with."""

    kind: str
    settings: ChannelSettings
    setup: ChannelSetup


def make_channels(
    configuration: Configuration, people: People, agents: Mapping[str, AgentSpec[..., Any]], link: str | None
) -> list[Channel]:
    """Return the configured channels, in the order of their tables. Raises InvalidInput, naming the file and the key.

    `link`: the URL of the web inbox for people.
    """
    tables, problems = read_tables(configuration, people, agents, link)
    for problem in problems:
        raise InvalidInput(problem)
    return [_make(configuration, table) for table in tables]


def make_routes(configuration: Configuration, channels: Sequence[Channel], people: People) -> tuple[Route, ...]:
    """Return the configured routes. Raises InvalidInput, naming the file and the key."""
    routes = tuple(part.made() for part in configuration.routes)
    known = {**{channel.name: channel for channel in channels}, "web": None}  # the inbox, which the daemon makes
    for key, problem in route_problems(routes, known, people):
        raise InvalidInput(f"{configuration.file}: {key}: {problem}")
    return routes


def make_reminders(configuration: Configuration, channels: Sequence[Channel], people: People) -> Reminders:
    """Return the configured steps. Raises InvalidInput, naming the file and the key."""
    reminders = configuration.reminders()
    known = {**{channel.name: channel for channel in channels}, "web": None}
    for key, problem in step_problems(reminders, known, people):
        raise InvalidInput(f"{configuration.file}: {key}: {problem}")
    return reminders


def read_tables(
    configuration: Configuration,
    people: People,
    agents: Mapping[str, AgentSpec[..., Any]],
    link: str | None,
    *,
    kind: str | None = None,
) -> tuple[list[Table], list[str]]:
    """Return the tables of the configured channels, and all of their problems, one line each. `kind`: only tables of
    this kind."""
    tables, problems = list[Table](), list[str]()
    for name, written in configuration.channels.items():
        if kind is not None and written.get("kind", name) != kind:
            continue
        setup = ChannelSetup(name=name, people=people, agents=agents, link=link, folder=configuration.folder)
        try:
            found = _read(written, setup)
        except InvalidInput as error:
            problems.append(f"{configuration.file}: channels.{name}{error}")
            continue
        tables.append(found)
        for secret in found.settings.secrets:
            withhold(secret.variable(name))
        problems += [f"{configuration.file}: {_line(name, problem)}" for problem in _problems(found)]
    return tables, problems


def _problems(table: Table) -> Iterator[Problem]:
    yield from table.settings.problems(table.setup)
    yield from table.settings.secret_problems(table.setup)


def _line(name: str, problem: Problem) -> str:
    key, text = problem
    return f"channels.{name}.{key}: {text}" if key else f"channels.{name}: {text}"


def _read(written: Mapping[str, Any], setup: ChannelSetup) -> Table:
    """Return a table as its kind reads it. Raises InvalidInput: the rest of the key, and the problem."""
    kind = str(written.get("kind", setup.name))
    where = written.get("import")
    settings = _find_kind(kind) if where is None else _import(str(where), ".import", None)
    keys = {key: value for key, value in written.items() if key not in ("kind", "import")}
    try:
        return Table(kind, msgspec.convert(keys, settings), setup)
    except msgspec.ValidationError as error:
        what, _, key = str(error).partition(" - at `$")
        raise InvalidInput(f"{key.rstrip('`')}: {what}") from None


def _find_kind(kind: str) -> type[ChannelSettings]:
    if kind in KINDS:
        return _import(KINDS[kind].where, "", KINDS[kind].extra)
    offered = entry_points(group=ENTRY_POINTS)
    match [each for each in offered if each.name == kind]:
        case [EntryPoint() as found]:
            return _import(found.value, "", None)
        case []:
            known = ", ".join(sorted({*KINDS, *offered.names}))
            raise InvalidInput(
                f': there is no kind of channel {kind!r}; the kinds are {known}. Write kind = "KIND" if {kind} is only '
                'its name, or import = "MODULE:CLASS"'
            )
        case several:
            raise InvalidInput(
                f": several distributions offer the kind {kind!r}: {', '.join(sorted(each.value for each in several))}"
                '. Remove all but one, or write import = "MODULE:CLASS"'
            )


def _import(where: str, key: str, extra: str | None) -> type[ChannelSettings]:
    """Import a kind. Raises InvalidInput. `key`: the key that names it; `extra`: the extra with what it needs."""
    module, _, name = where.partition(":")
    if not re.fullmatch(r"[\w.]+:[\w.]+", where):
        raise InvalidInput(f'{key}: write "MODULE:CLASS", not {where!r}')
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if extra is not None:
            raise InvalidInput(
                f"{key}: {error.name} is not installed; pip install 'subagent-supervisor[{extra}]'"
            ) from None
        raise InvalidInput(f"{key}: {where} cannot be imported: {error}") from None
    except (Exception, SystemExit) as error:  # another author's module may raise anything
        raise InvalidInput(f"{key}: {where} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(found, type) or not issubclass(found, ChannelSettings):
        raise InvalidInput(f"{key}: {where} is not a subclass of ChannelSettings")
    return found


def _make(configuration: Configuration, table: Table) -> Channel:
    where = f"{configuration.file}: channels.{table.setup.name}"
    try:
        channel = table.settings.make(table.setup)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None
    if channel.name != table.setup.name:
        raise InvalidInput(
            f"{where}: its channel calls itself {channel.name!r}; {type(table.settings).__name__}.make has to give it "
            "the name of the setup"
        )
    channel.remind_on_start = channel.remind_on_start and configuration.remind_on_start
    return channel
