"""Configuration: supervisor.toml, read and checked as a whole before anything is opened.

    store, passivate_after, remind_on_start, remind_after, escalate_after, escalate_to, log, traces, trace_contents,
    [budget], [limits.NAME], [[escalation]], [server], [agents.NAME], [[rules]], [people.NAME], [channels.NAME],
    [schedules.NAME], [triggers.NAME]

Rules
- An error names the file and the key, or the line if the file is not TOML. An unknown key is an error, too.
- Paths are relative to the file's folder.
- The file holds no secrets: it has tokens as hashes, and names platforms' secrets by file or environment variable.
- The core defines what rules and people mean; this module only reads them.

The module has more than 400 lines because it has every key of the file.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import datetime, time
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import asdict

from supervisor.client.addresses import is_loopback
from supervisor.core.approvals.people import PREFIX, ApproverRule, Person, Quiet, Role, TokenHash, UrgencyRule
from supervisor.core.approvals.reminders import EscalationStep, Reminders
from supervisor.core.approvals.routes import Route
from supervisor.core.budgets import Budget
from supervisor.core.calls import rules
from supervisor.core.calls.rules import Rule
from supervisor.core.errors import InvalidInput
from supervisor.core.limits import Limit
from supervisor.core.store_urls import (
    TemporalStore,
    is_postgres,
    is_temporal,
    read_postgres_url,
    read_store_file,
    read_temporal_url,
)
from supervisor.core.values import Policy, Urgency
from supervisor.system.access import read_text
from supervisor.system.loading import holds_command
from supervisor.system.logs import LogForm
from supervisor.system.settling import note_ours
from supervisor.wiring.starts import SchedulePart, TriggerPart, trigger_problems, why_not_made

_HASH: Final = re.compile(PREFIX + "[0-9a-f]{64}")
_CHANNEL: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_DEEPEST_LEVELS: Final = 50  # levels below a key of the top level
_LONGEST: Final = 64  # bits of a number
TAKEN: Final = ("web", "terminal")
"""Names of channels that no table has."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class RulePart(_Part, frozen=True, kw_only=True):
    """A rule. `approvers`: only these people may decide the calls that its `ask` asks about; `quorum`: so many of them
    must say yes."""

    kind: Policy
    tool: str
    pattern: str | None = None
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    urgency: Urgency | None = None
    """How soon people hear again of the calls that its `ask` asks about."""
    unreviewed: bool = False
    """For an allow: accept a pattern whose prefix has not been reviewed (docs/reference/prefixes.md)."""


class BudgetPart(_Part, frozen=True, kw_only=True):
    """A budget; core/budgets.py says what it means."""

    usd: float | None = None
    tokens: int | None = None
    requests: int | None = None
    calls: int | None = None
    on_exhausted: Literal["ask", "end"] = "ask"

    def made(self) -> Budget:
        """Return the budget. Raises InvalidInput."""
        return Budget(**asdict(self))


class AgentPart(_Part, frozen=True, kw_only=True):
    """An agent that is offered by its name: one that code declares, or a command that speaks ACP. Values here replace
    those of its declaration. `cwd` and `env` are of a command: its folder, and variables to add to our own."""

    where: str | None = msgspec.field(name="import", default=None)
    acp: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] = {}
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    urgency: Urgency | None = None
    rules: tuple[RulePart, ...] = ()
    inactivity_timeout: float | None = None
    first_progress_timeout: float | None = None
    active_timeout: float | None = None
    stop_timeout: float | None = None
    call_timeout: float | None = None
    max_timeout: float | None = None
    passivate_after: float | Literal["never"] | None = None
    max_children: int | None = None
    max_live_children: int | None = None
    max_depth: int | None = None
    limit: str | None = None
    budget: BudgetPart | None = None

    @property
    def limits(self) -> dict[str, Any]:
        named = (name for name in self.__struct_fields__ if name.endswith("_timeout") or name.startswith("max_"))
        found = {name: value for name in (*named, "limit") if (value := getattr(self, name)) is not None}
        if self.passivate_after is not None:
            found["passivate_after"] = None if self.passivate_after == "never" else self.passivate_after
        if self.budget is not None:
            found["budget"] = self.budget.made()
        return found


class LimitPart(_Part, frozen=True, kw_only=True):
    """A limit; core/limits.py says what it means."""

    at_once: int | None = None
    per_minute: int | None = None


class TokenPart(_Part, frozen=True, kw_only=True):
    hash: str
    expires_at: datetime | None = None


class QuietPart(_Part, frozen=True, kw_only=True):
    """Hours of each day, such as "22:00" and "07:00", in a time zone, such as "Europe/Berlin"."""

    begins: str
    ends: str
    zone: str

    def made(self) -> Quiet:
        """Return the hours. Raises InvalidInput."""
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        try:
            begins, ends = time.fromisoformat(self.begins), time.fromisoformat(self.ends)
        except ValueError:
            raise InvalidInput(f'write times such as "22:00", not {self.begins!r} and {self.ends!r}') from None
        if begins == ends or begins.tzinfo is not None or ends.tzinfo is not None:
            raise InvalidInput("write two different times, without a time zone: zone is one for both")
        try:
            return Quiet(begins, ends, ZoneInfo(self.zone))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise InvalidInput(f'there is no time zone {self.zone!r}: write one such as "Europe/Berlin"') from None


class PersonPart(_Part, frozen=True, kw_only=True):
    roles: tuple[Role, ...] = ()
    tokens: tuple[str | TokenPart, ...] = ()
    identities: dict[str, str] = {}
    quiet: QuietPart | None = None


class ServerPart(_Part, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 8787
    public_url: str | None = None
    hosts: tuple[str, ...] = ()
    max_streams: int = 500


class RoutePart(_Part, frozen=True, kw_only=True):
    """Where approvals of an agent or a tool are shown. core/approvals/routes.py says what a target is."""

    agent: str | None = None
    tool: str | None = None
    ask: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()

    def made(self) -> Route:
        """Return the route. Raises InvalidInput."""
        return Route(**asdict(self))


class StepPart(_Part, frozen=True, kw_only=True):
    """A step of the escalation. core/approvals/reminders.py says what it means."""

    after: float
    whom: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    repeat: int = 0

    def made(self) -> EscalationStep:
        """Return the step. Raises InvalidInput."""
        return EscalationStep(**asdict(self))


class Configuration(_Part, frozen=True, kw_only=True):
    """The content of the file. Its paths are relative to `folder`. The times are in seconds; `open_supervisor` says
    what they mean."""

    store: str | None = None
    passivate_after: float = 60.0
    remind_on_start: bool = True
    remind_after: float | None = None
    escalate_after: float | None = None
    escalate_to: tuple[str, ...] = ()
    escalation: tuple[StepPart, ...] = ()
    urgency: Urgency = "normal"
    log: LogForm = "text"
    traces: bool = False
    trace_contents: bool = False
    budget: BudgetPart | None = None
    limits: dict[str, LimitPart] = {}
    server: ServerPart = ServerPart()
    agents: dict[str, AgentPart] = {}
    rules: tuple[RulePart, ...] = ()
    people: dict[str, PersonPart] = {}
    channels: dict[str, dict[str, Any]] = {}
    """Their tables as they are written: platforms.py knows the kinds, and checks each table by its own."""
    routes: tuple[RoutePart, ...] = ()
    schedules: dict[str, SchedulePart] = {}
    triggers: dict[str, TriggerPart] = {}
    folder: str = ""
    file: str = ""
    """Its own path, for errors of other processes."""

    def path(self, named: str) -> Path:
        return Path(self.folder, os.path.expanduser(named))  # noqa: PTH111 # a Path raises where there is no such user

    @property
    def store_file(self) -> Path | None:
        """The store's file; None if it is not configured, or is not in a file. Raises InvalidInput."""
        if self.store is None or self.postgres is not None or self.temporal is not None:
            return None
        return self.path(read_store_file(self.store))

    @property
    def postgres(self) -> str | None:
        """The URL of the store if it is on PostgreSQL. Raises InvalidInput."""
        return read_postgres_url(self.store) if self.store is not None and is_postgres(self.store) else None

    @property
    def temporal(self) -> TemporalStore | None:
        """The namespace of Temporal that is the store. Raises InvalidInput."""
        return read_temporal_url(self.store) if self.store is not None and is_temporal(self.store) else None

    def reminders(self) -> Reminders:
        """Return when people are reminded of approvals. Raises InvalidInput."""
        return Reminders(
            [step.made() for step in self.escalation],
            remind_after=self.remind_after,
            escalate_after=self.escalate_after,
            escalate_to=self.escalate_to,
        )

    def standing_rules(self) -> tuple[Rule, ...]:
        return tuple(make_rule(part) for part in self.rules)

    def persons(self) -> list[Person]:
        return [
            Person(
                name=name,
                roles=part.roles,
                tokens=tuple(map(_token, part.tokens)),
                identities=part.identities,
                quiet=None if part.quiet is None else part.quiet.made(),
            )
            for name, part in self.people.items()
        ]

    def urgencies(self) -> list[UrgencyRule]:
        return [UrgencyRule(urgency=part.urgency, **of) for part, of in self._asking() if part.urgency]

    def standing_limits(self) -> tuple[Limit, ...]:
        """Return the limits. Raises InvalidInput."""
        return tuple(Limit(name, part.at_once, part.per_minute) for name, part in self.limits.items())

    def reservations(self) -> list[ApproverRule]:
        return [
            ApproverRule(approvers=part.approvers, quorum=part.quorum, **of)
            for part, of in self._asking()
            if part.approvers
        ]

    def _asking(self) -> Iterator[tuple[RulePart | AgentPart, dict[str, Any]]]:
        """Yield what says who is asked, and how soon (rules, agents and their rules), with what each is about."""
        yield from ((part, {"rule": make_rule(part)}) for part in self.rules)
        for name, agent in self.agents.items():
            yield agent, {"agent": name}
            yield from ((part, {"agent": name, "rule": make_rule(part)}) for part in agent.rules)


_NAMED: Final = {"agents": AgentPart, "people": PersonPart, "schedules": SchedulePart, "triggers": TriggerPart}
"""Tables of tables: an error in one of these names its key, too."""


def read_configuration(file: Path) -> Configuration:
    """Read and check a file. Raises InvalidInput, naming the file and the key or the line."""
    try:
        text = read_text(file)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}; `supervisor init` writes one") from None
    except ValueError as error:
        raise InvalidInput(f"{file} cannot be read: {error}") from None
    try:
        document = tomllib.loads(text)
        if (key := _find_odd(document)) is not None:
            raise InvalidInput(f"{file}: {key}: no value here is nested so deeply, is so large a number, or has a NUL")
    except InvalidInput:
        raise
    except RecursionError:
        raise InvalidInput(f"{file} is not valid TOML: it is nested too deeply") from None
    except ValueError as error:  # tomllib passes on those of Python's own types, such as a number of 5,000 digits
        raise InvalidInput(f"{file} is not valid TOML: {error}") from None
    for table, kind in _NAMED.items():
        parts = document.get(table)
        for name, part in parts.items() if isinstance(parts, dict) else ():
            _convert(file, f"{table}.{name}", part, kind)
    note_ours(file)
    folder = str(file.resolve().parent)
    configuration: Configuration = _convert(
        file, "", {**document, "folder": folder, "file": str(file.resolve())}, Configuration
    )
    for key, problem in _problems(configuration):
        raise InvalidInput(f"{file}: {key}: {problem}")
    return configuration


def _find_odd(document: dict[str, Any]) -> str | None:
    """Return the key of the top level below which a value is nested too deeply, is a number that Python would not even
    write, or is a text that is no path and no name; None if there is none."""
    for key, value in document.items():
        level, depth = [value], 0
        while level and depth <= _DEEPEST_LEVELS:
            if any(isinstance(each, int) and each.bit_length() > _LONGEST for each in level):
                return key
            if any(isinstance(each, str) and "\0" in each for each in level):
                return key
            held = ((*each, *each.values()) if isinstance(each, dict) else each for each in level if _holds(each))
            level, depth = list(chain.from_iterable(held)), depth + 1
        if level or "\0" in key:
            return key.replace("\0", "\\0")
    return None


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list)


def _convert(file: Path, place: str, value: Any, kind: Any) -> Any:
    """Return a part of the file as its type. Raises InvalidInput, naming the key."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        key = f"{place}{where.rstrip('`')}".lstrip(".")
        raise InvalidInput(f"{file}: {key or 'top level'}: {what}") from None


def make_rule(part: RulePart) -> Rule:
    return rules.make_rule(part.kind, part.tool, part.pattern, "configuration", unreviewed=part.unreviewed)


def is_token_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


def _token(part: str | TokenPart) -> TokenHash:
    return TokenHash(part) if isinstance(part, str) else TokenHash(part.hash, part.expires_at)


def _problems(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Yield the problems that types do not show, as (key, problem)."""
    people = configuration.people
    yield from why_not_made("store", lambda: configuration.store_file)
    yield from _server_problems(configuration.server, people)
    yield from _reminder_problems(configuration)
    if configuration.trace_contents and not configuration.traces:
        yield "trace_contents", "it says what traces hold: write traces = true, too"
    for name, table in configuration.channels.items():
        yield from _channel_problems(f"channels.{name}", name, table)
    for place, route in enumerate(configuration.routes):
        yield from why_not_made(f"routes[{place}]", route.made)
    for name, schedule in configuration.schedules.items():
        yield from why_not_made(f"schedules.{name}", partial(schedule.made, name))
    yield from trigger_problems(configuration.triggers)
    for name, person in people.items():
        yield from _person_problems(f"people.{name}", name, person)
    yield from _shared_identities(people)
    for where, rule in _rules(configuration):
        yield from _rule_problems(where, rule, people)
    yield from _bound_problems(configuration)
    for name, agent in configuration.agents.items():
        yield from _agent_problems(f"agents.{name}", agent)
        yield from _approver_problems(f"agents.{name}", agent, people)


def _bound_problems(configuration: Configuration) -> Iterator[tuple[str, str]]:
    budgets = {f"agents.{name}.budget": agent.budget for name, agent in configuration.agents.items()}
    yield from why_not_made("limits", configuration.standing_limits)
    for where, part in {"budget": configuration.budget, **budgets}.items():
        if part is not None and (why := [*why_not_made(where, part.made)]):
            yield from why
        elif part is not None and not part.made().limits:
            yield where, "it has no limit: write usd, tokens, requests or calls"


def _rule_problems(where: str, rule: RulePart, people: Mapping[str, PersonPart]) -> Iterator[tuple[str, str]]:
    yield from why_not_made(where, partial(make_rule, rule))
    for key in ("approvers", "urgency"):
        if getattr(rule, key) and rule.kind != "ask":
            yield f"{where}.{key}", f"only a rule of kind ask has it; this one is {rule.kind}"
    yield from _approver_problems(where, rule, people)


def _agent_problems(where: str, agent: AgentPart) -> Iterator[tuple[str, str]]:
    if (agent.where is None) == (agent.acp is None):
        yield where, 'write either import = "FILE.py:NAME" or acp = ["COMMAND", ...]'
    if agent.acp is not None and not (agent.acp and agent.acp[0].strip()):
        yield f"{where}.acp", 'the command is empty: write its words, as in acp = ["opencode", "acp"]'
    if agent.where is not None and holds_command(agent.where):
        yield f"{where}.import", 'this is a command: write its words, as in acp = ["opencode", "acp"]'
    for key in ("cwd", "env"):
        if agent.acp is None and getattr(agent, key):
            yield f"{where}.{key}", "only an agent that is a command (acp) has it"


def _channel_problems(where: str, name: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name is part of webhooks' paths, of variables and of session ids."""
    if not _CHANNEL.fullmatch(name):
        yield where, "a channel's name has up to 32 lower-case letters, digits and '-', and begins with a letter"
    if name in TAKEN:
        yield where, f"{name} is the name of a channel that is always there; choose another one"
    if "kind" in table and "import" in table:
        yield where, "write either kind or import: a class is a kind by itself"
    for key in ("kind", "import"):
        if not isinstance(table.get(key, ""), str):
            yield f"{where}.{key}", "write a text"


def _reminder_problems(configuration: Configuration) -> Iterator[tuple[str, str]]:
    if not configuration.passivate_after >= 0:
        yield "passivate_after", f"write 0 or more seconds, not {configuration.passivate_after}"
    key = "escalation" if configuration.escalation else "remind_after, escalate_after, escalate_to"
    yield from why_not_made(key, configuration.reminders)
    yield from _unknown_people("escalate_to", configuration.escalate_to, configuration.people)
    for number, step in enumerate(configuration.escalation):
        yield from _unknown_people(f"escalation[{number}].whom", step.whom, configuration.people)


def _server_problems(server: ServerPart, people: Mapping[str, PersonPart]) -> Iterator[tuple[str, str]]:
    if not 0 <= server.port <= 65535:
        yield "server.port", f"a port is 0 to 65535, not {server.port}"
    if server.max_streams < 1:
        yield "server.max_streams", "allow at least one stream, since every page needs one"
    if server.public_url is not None and not re.fullmatch(r"https?://[^/?#]+/?", server.public_url):
        yield "server.public_url", f"write https://HOST or http://HOST:PORT, not {server.public_url!r}"
    for name in server.hosts:
        if re.search(r"[/:@]", re.sub(r"^\[[0-9a-fA-F:.]+\]$", "", name)):
            yield "server.hosts", f"write names alone, without https:// and port, not {name!r}"
    if not is_loopback(server.host) and not people:
        yield "server.host", f"{server.host} can be reached from other machines: configure [people.NAME] first"


def _person_problems(where: str, name: str, person: PersonPart) -> Iterator[tuple[str, str]]:
    if not name.strip() or not name.isprintable():
        yield where, "a person needs a name of printable characters"
    if "scraper" in person.roles and (len(person.roles) > 1 or person.identities):
        yield f"{where}.roles", "a scraper reads the metrics alone: it has no other role, and no identity in a chat"
    if person.quiet is not None:
        yield from why_not_made(f"{where}.quiet", person.quiet.made)
    for place, part in enumerate(person.tokens):
        token = _token(part)
        if not is_token_hash(token.hash):
            yield f"{where}.tokens[{place}]", "this is not the hash of a token; `supervisor token` makes both"
        if token.expires_at is not None and token.expires_at.tzinfo is None:
            yield f"{where}.tokens[{place}].expires_at", "add the time zone: 2027-01-31T00:00:00Z"


def _shared_identities(people: Mapping[str, PersonPart]) -> Iterator[tuple[str, str]]:
    known: dict[tuple[str, str], str] = {}
    for name, person in people.items():
        shown = [("token", _token(part).hash) for part in person.tokens]
        shown += [(f"{platform} identity", identity) for platform, identity in person.identities.items()]
        for each in shown:
            if (other := known.setdefault(each, name)) != name:
                yield f"people.{name}", f"{name} and {other} have the same {each[0]}; each belongs to one person"


def _rules(configuration: Configuration) -> Iterator[tuple[str, RulePart]]:
    for place, rule in enumerate(configuration.rules):
        yield f"rules[{place}]", rule
    for name, agent in configuration.agents.items():
        for place, rule in enumerate(agent.rules):
            yield f"agents.{name}.rules[{place}]", rule


def _approver_problems(
    where: str, part: RulePart | AgentPart, people: Mapping[str, PersonPart]
) -> Iterator[tuple[str, str]]:
    yield from _unknown_people(f"{where}.approvers", part.approvers, people)
    number, named = part.quorum, len({*part.approvers})
    if number != 1 and not 1 < number <= named:
        yield f"{where}.quorum", f"{number} people must decide, and approvers names {named}: name more, or lower it"


def _unknown_people(where: str, names: tuple[str, ...], people: Mapping[str, PersonPart]) -> Iterator[tuple[str, str]]:
    for name in names:
        if name not in people:
            yield where, f"there is no [people.{name}]"
        elif "scraper" in people[name].roles:
            yield where, f"{name} is a scraper, which decides nothing"
