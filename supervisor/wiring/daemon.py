"""The daemon's composition: a store, the agents on offer, the people who may decide, and the web.

    settings (command line, supervisor.toml) > people, agents, listener > open_supervisor(adopt) > Web

Rules
- All settings are checked before the store is opened: the port is bound, and the agents are imported.
- If the daemon listens on another address than loopback, it serves only configured people.
- The secret that signs cookies is in a file next to the store, mode 0600, or in the database that is the store: a
  process that can read it could write the store, too.
"""

import os
import resource
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from supervisor.channels.web import make_web
from supervisor.channels.web.revocations import revocations_of
from supervisor.channels.web.server import listen
from supervisor.channels.web.shown import shown_of
from supervisor.channels.web.state import MAX_STREAMS
from supervisor.channels.web.triggers import Trigger
from supervisor.client.addresses import is_loopback
from supervisor.core.approvals.people import People, Person
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.approvals.routes import Route
from supervisor.core.budgets import Budget
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, StoreUnreadable
from supervisor.core.limits import ELSEWHERE, Limit
from supervisor.core.schedules import Schedule
from supervisor.core.store_urls import TemporalStore
from supervisor.runtime.local import LocalSupervisor
from supervisor.seam.channel import Channel
from supervisor.seam.store import Store
from supervisor.seam.supervisor import StoreSupervisor
from supervisor.store.sqlite.schema import NO_LINKS
from supervisor.system.access import OTHERS_USE, OTHERS_WRITE, why_not_ours
from supervisor.system.chronicle import Chronicle
from supervisor.system.inside import refuse_below_owner, refuse_inside_call
from supervisor.system.loading import configure, load_agent, load_agents, make_agent
from supervisor.system.logs import FactLog
from supervisor.system.refusals import COMMANDS
from supervisor.wiring.app import make_store, open_supervisor
from supervisor.wiring.config import AgentPart, Configuration, make_rule, read_configuration
from supervisor.wiring.offers import Offer, published
from supervisor.wiring.platforms import make_channels, make_reminders, make_routes
from supervisor.wiring.starts import check_triggers, make_schedules, take_trigger_secrets

log = FactLog(__name__)

OPEN_FILES: Final = 8192
"""Files and connections that a daemon may have open, if the system allows it. Its processes inherit the limit."""
SECRET_BYTES: Final = 32
"""Bytes of the secret that signs cookies."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The checked settings of a daemon."""

    store: Path | str
    """Its file, or the URL of one on PostgreSQL."""
    people: People
    agents: Mapping[str, AgentSpec[..., Any]]
    host: str = "127.0.0.1"
    port: int = 8787
    public_url: str | None = None
    hosts: Sequence[str] = ()
    max_streams: int = MAX_STREAMS
    rules: Sequence[Rule] = ()
    channels: Sequence[Channel] = ()
    passivate_after: float = 60.0
    reminders: Reminders = Reminders()
    routes: Sequence[Route] = ()
    schedules: Sequence[Schedule] = ()
    triggers: Sequence[Trigger] = ()
    traces: bool = False
    trace_contents: bool = False
    budget: Budget | None = None
    limits: Sequence[Limit] = ()
    offer: Offer = Offer()
    temporal: TemporalStore | None = None
    """The namespace that is served; `store` is its mirror then."""


class Daemon:
    """A daemon that has bound its address. `run` runs it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._listener = listen(settings.host, settings.port)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"http://{host}:{self.port}"

    async def run(self, is_open: Callable[[], None] = lambda: None) -> None:
        """Serve until cancelled, then close in good order (R8). `is_open` is called when the store is open."""
        refuse_inside_call(COMMANDS["serve"].what)
        open_many_files()
        store = self._make_store()
        with closing(store):
            await self._serve(store, Chronicle(store), is_open)

    async def _serve(self, store: Store, chronicle: Chronicle, is_open: Callable[[], None]) -> None:
        settings, file = self._settings, self._settings.store
        if isinstance(file, Path):
            secret = store_secret(file)
        else:
            store.open()  # `open_supervisor` finds it open
            secret = store.secret() or b""
            assert len(secret) == SECRET_BYTES, "a store that is in no file has a secret of its own"
        web = make_web(
            people=settings.people,
            secret=secret,
            listener=self._listener,
            hosts=[*_hosts(settings.host), *settings.hosts],
            public_url=settings.public_url,
            others=settings.channels,
            any_address=_is_wildcard(settings.host),
            max_streams=settings.max_streams,
            revoked=revocations_of(file) if isinstance(file, Path) else store.book("revoked"),
            shown=shown_of(file) if isinstance(file, Path) else store.book("shown"),
            chronicle=chronicle,
            triggers=settings.triggers,
        )
        async with (
            self._open(store, [*settings.channels, web]) as supervisor,
            AsyncExitStack() as held,
            anyio.create_task_group() as tasks,
        ):
            if isinstance(supervisor, LocalSupervisor):
                supervisor.refuse_inside(COMMANDS["serve"].what)
            else:
                refuse_below_owner(COMMANDS["serve"].what, await supervisor.find_owners())
            if isinstance(file, Path) and (why := why_not_ours(file, OTHERS_USE)) is not None:
                log.warning("store.open_to_others", problem=why)
            supervisor.listen(chronicle.hear)
            if settings.temporal is None and store.local is not None:
                held.enter_context(published(Path(store.local), settings.offer))
            is_open()
            tasks.start_soon(supervisor.wait_until_broken)
            tasks.start_soon(web.wait_until_it_fails)

    def _make_store(self) -> Store:
        file = self._settings.store
        if not isinstance(file, Path) or self._settings.temporal is None:
            return make_store(file, create=True)
        from supervisor.temporal.mirror.store import MirrorFile

        return MirrorFile(file, str(self._settings.temporal))

    def _open(self, store: Store, channels: Sequence[Channel]) -> AbstractAsyncContextManager[StoreSupervisor]:
        settings = self._settings
        if settings.temporal is not None:
            from supervisor.temporal.mirror.store import MirrorFile
            from supervisor.wiring.cluster import open_cluster

            assert isinstance(store, MirrorFile), "the store of a namespace is its mirror"
            return open_cluster(
                settings.temporal,
                store,
                agents=settings.agents,
                channels=channels,
                people=settings.people,
                reminders=settings.reminders,
                routes=settings.routes,
            )
        return open_supervisor(
            store,
            agents=list(settings.agents.values()),
            channels=channels,
            rules=settings.rules,
            adopt=True,
            people=settings.people,
            passivate_after=settings.passivate_after,
            escalation=settings.reminders.steps,
            routes=settings.routes,
            traces=settings.traces,
            trace_contents=settings.trace_contents,
            budget=settings.budget,
            limits=settings.limits,
            tune_interpreter=True,
            schedules=settings.schedules,
        )


def open_many_files() -> None:
    """Raise this process's limit of open files, so that idle clients do not take the last one. A system allows 1024 by
    default, and more to a process that asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def offer(references: Sequence[str]) -> dict[str, AgentSpec[..., Any]]:
    """Return the agents of files and modules by name. Raises UnknownAgent; InvalidInput if two have one name."""
    offered: dict[str, AgentSpec[..., Any]] = {}
    for reference in references:
        for name, spec in load_agents(reference).items():
            if offered.setdefault(name, spec) is not spec:
                raise InvalidInput(
                    f"two agents are named {name}, one of them in {reference}; rename one with @agent(name=...)"
                )
    return offered


def configured_agents(configuration: Configuration) -> dict[str, AgentSpec[..., Any]]:
    """Return the agents of a configuration by name. Raises InvalidInput, naming the key."""
    offered: dict[str, AgentSpec[..., Any]] = {}
    for name, part in configuration.agents.items():
        try:
            offered[name] = _configured_agent(configuration, name, part)
        except InvalidInput as error:
            raise InvalidInput(f"agents.{name}: {error}") from None
    return offered


def _configured_agent(configuration: Configuration, name: str, part: AgentPart) -> AgentSpec[..., Any]:
    rules = tuple(make_rule(rule) for rule in part.rules)
    if part.acp is not None:
        cwd = None if part.cwd is None else str(configuration.path(part.cwd))
        file = configuration.file if cwd is not None or part.env else None
        return make_agent("acp", name, part.acp, file=file, cwd=cwd, env=part.env, rules=rules, **part.limits)
    assert part.where is not None
    where, _, attribute = part.where.rpartition(":")
    is_file = where.endswith(".py") or "/" in where
    spec = load_agent(f"{configuration.path(where)}:{attribute}" if is_file else part.where)
    return configure(spec, name, {**part.limits, "rules": (*spec.rules, *rules)})


def settle(  # one parameter for each option of the command
    configuration: Configuration,
    *,
    store: Path | str,
    agents: Sequence[str],
    host: str | None,
    port: int | None,
    operator: Person | None,
    temporal: TemporalStore | None = None,
) -> Settings:
    """Return the settings of a configuration and a command line together. `temporal`: as in Settings. Raises
    InvalidInput."""
    if temporal is not None:
        _check_for_temporal(configuration)
    server, persons = configuration.server, configuration.persons()
    bound = host or server.host
    if not is_loopback(bound) and not persons:
        raise InvalidInput(f"{bound} can be reached from other machines: configure people first (supervisor init)")
    offered = configured_agents(configuration)
    for name, spec in offer(agents).items():
        if offered.setdefault(name, spec) is not spec:
            raise InvalidInput(f"agent {name} is configured already; name it in one place")
    if operator is not None:
        persons.append(operator)
    people = People(persons, configuration.reservations(), configuration.urgencies(), configuration.urgency)
    channels = make_channels(configuration, people, offered, server.public_url)
    return Settings(
        store=store,
        people=people,
        agents=offered,
        channels=channels,
        routes=make_routes(configuration, channels, people),
        schedules=_make_schedules(configuration, offered),
        triggers=_make_triggers(configuration, offered if temporal is None else None),
        rules=configuration.standing_rules(),
        host=bound,
        port=server.port if port is None else port,
        public_url=server.public_url,
        hosts=server.hosts,
        max_streams=server.max_streams,
        passivate_after=configuration.passivate_after,
        reminders=make_reminders(configuration, channels, people),
        traces=configuration.traces,
        trace_contents=configuration.trace_contents,
        budget=None if configuration.budget is None else configuration.budget.made(),
        limits=configuration.standing_limits(),
        offer=_offer_of(configuration, agents),
        temporal=temporal,
    )


def _make_schedules(configuration: Configuration, agents: Mapping[str, AgentSpec[..., Any]]) -> tuple[Schedule, ...]:
    """Return the configured schedules. Raises InvalidInput, naming the file and the key."""
    try:
        return make_schedules(configuration.schedules, agents)
    except InvalidInput as error:
        raise InvalidInput(f"{configuration.file}: {error}") from None


def _make_triggers(configuration: Configuration, agents: Mapping[str, AgentSpec[..., Any]] | None) -> list[Trigger]:
    """Return the configured triggers. Raises InvalidInput, naming the key."""
    parts, folder = configuration.triggers, configuration.folder
    for key, problem in check_triggers(parts, agents, folder):
        raise InvalidInput(f"{configuration.file}: {key}: {problem}")
    taken = take_trigger_secrets(parts, folder)
    return [Trigger(name, part.agent, part.signed, taken[name]) for name, part in parts.items()]


def _offer_of(configuration: Configuration, references: Sequence[str]) -> Offer:
    """Return where the agents of a configuration and of a command line come from, for other processes."""
    modules = tuple(str(Path(each).absolute()) for each in sys.path)
    return Offer(
        references=tuple(references), config=configuration.file or None, folder=str(Path.cwd()), modules=modules
    )


def load_offer(found: Offer) -> tuple[dict[str, AgentSpec[..., Any]], tuple[Rule, ...]]:
    """Load the agents that a daemon offers, by name, and its rules for all sessions. Raises UnknownAgent, InvalidInput:
    its files may have changed."""
    sys.path.extend(each for each in found.modules if each not in sys.path)
    configuration = Configuration() if found.config is None else read_configuration(Path(found.config))
    return {**configured_agents(configuration), **offer(found.files())}, configuration.standing_rules()


def leave_runs(supervisor: StoreSupervisor, agents: Mapping[str, AgentSpec[..., Any]]) -> None:
    """Let this Supervisor of a store start these agents by name, and leave the runs to the daemon of the store."""
    assert isinstance(supervisor, LocalSupervisor), "a store of this machine"
    supervisor.agents, supervisor.leaves_runs = agents, True


def _check_for_temporal(configuration: Configuration) -> None:
    """Raise InvalidInput for what a server on Temporal does not do: workers run the agents."""
    if configuration.agents:
        raise InvalidInput("[agents]: on Temporal workers run the agents, with the limits and rules of their code")
    if configuration.limits:
        raise InvalidInput(f"[limits]: {ELSEWHERE}")
    if configuration.budget is not None:
        raise InvalidInput("[budget]: on Temporal a budget is of an agent's code, or is given when it is started")
    if configuration.traces:
        raise InvalidInput("traces: on Temporal workers run the calls; trace them with Temporal's own interceptor")
    if configuration.schedules:
        raise InvalidInput("[schedules]: on Temporal schedules are in the namespace: supervisor schedules add")
    if any(not rule.approvers for rule in configuration.rules):
        raise InvalidInput("[[rules]]: on Temporal rules are in the namespace: supervisor rules allow, ask, deny")


def store_secret(store: Path) -> bytes:
    """Return the secret in the file next to a store, and make it the first time. Raises StoreUnreadable if the file
    holds no secret, if other users may know it, and if another user can write the store: a daemon runs the agents that
    the store names."""
    if store.exists() and (why := why_not_ours(store, OTHERS_WRITE)) is not None:
        raise StoreUnreadable(f"{why}. It was left untouched")
    path = store.with_name(f"{store.name}.secret")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        _make_secret(made)
        try:
            with suppress(FileExistsError):  # another process was faster, and its secret counts
                os.link(made, path)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            with suppress(FileExistsError):
                _make_secret(path)
        finally:
            made.unlink()
    secret, why = path.read_bytes(), why_not_ours(path, OTHERS_USE)
    if len(secret) != SECRET_BYTES or why is not None:
        problem = why or f"{path} has {len(secret)} bytes instead of {SECRET_BYTES}"
        raise StoreUnreadable(f"{problem}. It signs logins: remove it, and all people sign in once more")
    return secret


def _make_secret(path: Path) -> None:
    """Make a file with a new secret. Raises FileExistsError."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(SECRET_BYTES))
        file.flush()
        os.fsync(file.fileno())


def _hosts(host: str) -> list[str]:
    return ["localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host]


def _is_wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")  # noqa: S104 # asked, not bound
