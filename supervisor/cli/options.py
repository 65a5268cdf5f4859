"""The options that commands share, and the one place where a command opens its Supervisor.

The module is longer than 400 lines because a place is made of these options, and an error of one names the others.
"""

import os
import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

from cyclopts import Parameter

from supervisor.client.addresses import read_address
from supervisor.core.encoding import from_json, read_exact
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.store_urls import (
    TemporalStore,
    is_postgres,
    is_temporal,
    read_postgres_url,
    read_store_file,
    read_temporal_url,
    without_password,
)
from supervisor.core.values import Policy
from supervisor.system.access import read_text
from supervisor.system.inside import OwnerUnseen, refuse_below_owner, refuse_inside_call
from supervisor.system.withheld import withhold_secret

if TYPE_CHECKING:
    from supervisor.core.calls.rules import Rule
    from supervisor.seam.channel import Channel
    from supervisor.seam.store import Store
    from supervisor.seam.supervisor import StoreSupervisor, Supervisor

T = TypeVar("T")
Opened: TypeAlias = Callable[[], AbstractAsyncContextManager["Supervisor"]]
"""Opens the Supervisor of a command in another way than its place does."""

SERVER: Final = "SUPERVISOR_SERVER"
TOKEN_FILE: Final = "SUPERVISOR_TOKEN_FILE"  # noqa: S105 # the name of a variable
TOKEN: Final = "SUPERVISOR_TOKEN"  # noqa: S105 # the name of a variable

StoreOption = Annotated[
    str | None,
    Parameter(
        name="--store",
        help="The store: FILE, sqlite:///ABSOLUTE/FILE, postgresql://USER@HOST/DB?schema=NAME or "
        "temporal://HOST:PORT/NAMESPACE. Default: $SUPERVISOR_STORE, else in your state directory.",
        show_default=False,
    ),
]
SessionId = Annotated[str, Parameter(help="The session's id.")]
ApprovalId = Annotated[str, Parameter(help="The approval's id, whole or short, as `supervisor approvals` shows it.")]
ToolName = Annotated[str, Parameter(help="The tool's name.")]
JsonOption = Annotated[bool, Parameter(name="--json", negative=(), help="Print one JSON document on stdout.")]


def read_count(_: Any, tokens: Sequence[Any]) -> int:
    """Return a number of calls as it is written: cyclopts would round `1.5`."""
    return int(tokens[0].value)


UsesOption = Annotated[
    int | None,
    Parameter(
        name="--uses",
        converter=read_count,
        help="It allows so many later calls, of this session unless --scope always.",
    ),
]
ForOption = Annotated[
    str | None, Parameter(name="--for", help="It allows the later calls of so long, such as 15m; likewise.")
]
BackendOption = Annotated[Literal["asyncio", "trio"], Parameter(name="--backend", help="The event loop to run on.")]


@Parameter(name="*")
@dataclass(frozen=True)
class HowToRun:
    """The options of a command that runs sessions in its own process."""

    unattended: Annotated[
        Policy,
        Parameter(
            name="--unattended",
            help="Ask people, or allow or deny all that the sessions of this process ask, pending approvals too.",
        ),
    ] = "ask"
    wait: Annotated[
        bool,
        Parameter(
            name="--wait",
            negative=(),
            help="Wait until the session has ended, for decisions that people make elsewhere.",
        ),
    ] = False
    backend: BackendOption = "asyncio"


BudgetOption = Annotated[
    str | None,
    Parameter(
        help="What the session and everything below it may spend over all its turns before a person is asked, as in "
        "usd=5,requests=200; the kinds are usd, tokens, requests and calls.",
    ),
]

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def parse_duration(text: str) -> timedelta:
    """Return a duration such as 30d; raises InvalidInput."""
    match = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip(), re.ASCII)
    if match is None:
        raise InvalidInput(f"{text} is no duration: give a number followed by s, m, h, d or w, such as 30d")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """Where the Supervisor of a command is. The fields are the options that say it."""

    store: StoreOption = None

    @property
    def _named(self) -> str:
        return self.store if self.store is not None else os.environ.get("SUPERVISOR_STORE", "")

    @cached_property
    def path(self) -> Path:
        """The store's file, which the option, the environment or the platform names. Raises InvalidInput."""
        if self._named or self.store is not None:
            return Path(read_store_file(self._named))
        from platformdirs import user_state_path

        return user_state_path("subagent-supervisor", appauthor=False) / "state.db"

    @property
    def postgres(self) -> str | None:
        """The URL of the store if it is on PostgreSQL. Raises InvalidInput for a password that every user sees."""
        if not is_postgres(self._named):
            return None
        return self._named if self.store is None else read_postgres_url(self._named)

    @cached_property
    def local(self) -> Path | None:
        """What begins the names of the files that the store has on this machine, as that of its daemon. A store on
        PostgreSQL is asked for its id. Raises InvalidInput, StoreError."""
        if self.postgres is None:
            return self.path
        from supervisor.wiring.app import opened

        with opened(self.postgres) as store:
            return None if store.local is None else Path(store.local)

    @property
    def temporal(self) -> TemporalStore | None:
        """The namespace of Temporal that is the store; None for a store of this machine."""
        return read_temporal_url(self._named) if is_temporal(self._named) else None

    @property
    def mirror(self) -> Path:
        """The file in which a server on this machine mirrors the namespace of Temporal, if none is named."""
        from platformdirs import user_state_path

        named = re.sub(r"[^a-z0-9.-]+", "_", str(self.temporal).removeprefix("temporal://").lower())
        return user_state_path("subagent-supervisor", appauthor=False) / "mirrors" / f"{named}.db"

    @property
    def where(self) -> str:
        """The place, in messages."""
        return str(self.path) if self.postgres is None else without_password(self.postgres)

    @property
    def option(self) -> str:
        """The options with which a command that is offered next finds the same place; begins with a space."""
        if self.temporal is not None:
            return f" --store {self.temporal}" if self.store is not None else ""
        if self.store is None:
            return ""
        return f" --store {shlex.quote(self.postgres or os.fspath(self.path))}"

    @property
    def is_server(self) -> bool:
        """Whether the sessions run elsewhere, at a server or on a cluster: they go on if the command ends."""
        return False

    @property
    def exists(self) -> bool:
        return self.postgres is not None or self.path.exists()

    def need(self, kind: str, name: str) -> None:
        """Raise NotFound for what a command is about, such as the session `name`, if there is no store."""
        if not self.exists:
            raise NotFound(f"no {kind} {name}: there is no store at {self.where}")

    def open(
        self, *, wanted: tuple[str, str] | None = None, action: str | None = None, create: bool = False
    ) -> "AbstractAsyncContextManager[Supervisor]":
        """Open the Supervisor, for a command that works on any. See `open_store`."""
        return self.open_store(wanted=wanted, action=action, create=create)

    def read(
        self,
        body: "Callable[[Supervisor], Awaitable[T]]",
        *,
        wanted: tuple[str, str] | None = None,
        opened: Opened | None = None,
    ) -> T:
        """Open the Supervisor, and return what `body` reads from it. `opened`: opens it instead of `open`."""
        import anyio

        async def read() -> T:
            async with opened() if opened else self.open(wanted=wanted) as supervisor:
                return await body(supervisor)

        return anyio.run(read)

    @asynccontextmanager
    async def open_store(
        self,
        *,
        wanted: tuple[str, str] | None = None,
        action: str | None = None,
        create: bool = False,
        channels: "Sequence[Channel]" = (),
        unattended: Policy = "ask",
        rules: "Sequence[Rule]" = (),
        tune_interpreter: bool = False,
        runs: bool = False,
    ) -> "AsyncIterator[StoreSupervisor]":
        """Open the Supervisor, for a command that needs the store at hand.

        `wanted`: the kind and the name of what the command is about, for `need`. Without it, a store that does not
        exist is read as an empty one.
        `action`: what only a person may do, such as "deciding"; NotEntitled if a supervised call started this process.
        `create`: make the store if it does not exist. `runs`: whether the command runs agents (absences.py). The other
        options are those of `open_supervisor`.
        """
        if self.store is None and os.environ.get(SERVER):
            raise InvalidInput(f"this works next to a store only, and ${SERVER} is set: name the store by --store")
        if action is not None:
            refuse_inside_call(action)
        if wanted is not None:
            self.need(*wanted)
        from supervisor.wiring.app import open_supervisor

        async with open_supervisor(
            self._find_store(create=create, runs=runs),
            create=create,
            channels=channels,
            unattended=unattended,
            rules=rules,
            tune_interpreter=tune_interpreter,
        ) as supervisor:
            if action is not None:
                try:
                    refuse_below_owner(action, await supervisor.find_owners(), in_doubt=True)
                except OwnerUnseen:
                    refuse_below_owner(action, await supervisor.find_owners(), in_doubt=True)
            yield supervisor

    def _find_store(self, *, create: bool, runs: bool) -> "Store | Path | str":
        if (url := self.postgres) is None:
            return self.path if create or self.exists else "memory:"
        from supervisor.cli.absences import store_of_command  # most stores are files

        return store_of_command(url, create=create, runs=runs)


@asynccontextmanager
async def _opened_for(
    action: str | None, opening: "AbstractAsyncContextManager[Supervisor]"
) -> "AsyncIterator[Supervisor]":
    """Open the Supervisor of a server or of a namespace. `action`: see `open_store`."""
    if action is not None:
        refuse_inside_call(action)
    async with opening as supervisor:
        if action is not None:
            refuse_below_owner(action, await supervisor.find_owners())
        yield supervisor


@Parameter(name="*")
@dataclass(frozen=True)
class AnyPlace(Place):
    """The place of a command that works next to a store, and on a server. `--store` goes before $SUPERVISOR_SERVER, and
    that before $SUPERVISOR_STORE."""

    server: Annotated[
        str | None,
        Parameter(
            name="--server",
            help="A daemon instead of a store: its URL. Default: $SUPERVISOR_SERVER.",
            show_default=False,
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        Parameter(
            name="--token-file",
            help="A file with your token for the server. Default: $SUPERVISOR_TOKEN_FILE, else $SUPERVISOR_TOKEN.",
            show_default=False,
        ),
    ] = None
    allow_http: Annotated[
        bool,
        Parameter(name="--allow-http", negative=(), help="Reach the server by http, in a network that you trust."),
    ] = False

    @cached_property
    def url(self) -> str | None:
        """The address of the server; None for a store. Raises InvalidInput."""
        if self.store is not None and self.server is not None:
            raise InvalidInput("--store and --server name two places: give one of them")
        found = None if self.store is not None else self.server or os.environ.get(SERVER) or None
        if found is None and (self.token_file is not None or self.allow_http):
            raise InvalidInput("--token-file and --allow-http go with --server")
        return found

    @property
    def temporal(self) -> TemporalStore | None:
        return super().temporal if self.url is None else None

    @property
    def where(self) -> str:
        if self.temporal is not None:
            return str(self.temporal)
        return super().where if self.url is None else read_address(self.url, allow_http=True).url

    @property
    def option(self) -> str:
        if self.url is None:
            return super().option
        named = {"--server": self.server, "--token-file": self.token_file}
        given = [f" {name} {shlex.quote(os.fspath(value))}" for name, value in named.items() if value is not None]
        return "".join([*given, " --allow-http" if self.allow_http else ""])

    @property
    def is_server(self) -> bool:
        return self.url is not None or self.temporal is not None

    @property
    def exists(self) -> bool:
        return self.is_server or super().exists

    def open(
        self, *, wanted: tuple[str, str] | None = None, action: str | None = None, create: bool = False
    ) -> "AbstractAsyncContextManager[Supervisor]":
        if self.temporal is not None:
            from supervisor.temporal import open_temporal

            return _opened_for(action, open_temporal(str(self.temporal)))
        if self.url is None:
            return super().open(wanted=wanted, action=action, create=create)
        from supervisor.client import open_remote

        return _opened_for(action, open_remote(self.url, token=self._find_token(), allow_http=self.allow_http))

    def _find_token(self) -> Callable[[], str]:
        """Return what reads the token; a file is read each time, since its token may be renewed."""
        file = self.token_file or os.environ.get(TOKEN_FILE)
        if file:
            return partial(_read_token, Path(file))
        if token := os.environ.get(TOKEN):
            return lambda: token
        raise InvalidInput(
            f"a server wants to know who you are: name a file with your token by --token-file or ${TOKEN_FILE}"
        )


@Parameter(name="*")
@dataclass(frozen=True)
class PersonPlace(AnyPlace):
    """The place of a command that acts for a person."""

    by: Annotated[str | None, Parameter(name="--by", help="Who acts, for the audit trail. Default: login name.")] = None

    @asynccontextmanager
    async def act(
        self,
        action: str | None,
        *,
        wanted: tuple[str, str] | None = None,
        create: bool = False,
        opened: Opened | None = None,
    ) -> "AsyncIterator[tuple[Supervisor, str]]":
        """Open the Supervisor, and return it with the name of the person. `opened`: opens it instead of `open`, whose
        options the others are. Raises InvalidInput for a `--by` where the place itself knows who acts."""
        if self.url is not None and self.by is not None:
            raise InvalidInput("a server knows who you are by your token: --by is for stores")
        async with opened() if opened else self.open(wanted=wanted, action=action, create=create) as supervisor:
            yield supervisor, self._name_for(supervisor)

    def give(self, action: str | None, command: "Callable[[Supervisor, str], Awaitable[T]]", **how: Any) -> T:
        """Give a command for a person, and return its answer. `how`: as for `act`."""
        import anyio

        async def give() -> T:
            async with self.act(action, **how) as (supervisor, who):
                return await command(supervisor, who)

        return anyio.run(give)

    def _name_for(self, supervisor: "Supervisor") -> str:
        if self.url is None:
            from supervisor.system.identity import current_user

            return self.by if self.by is not None else current_user()
        from supervisor.client.remote import RemoteSupervisor

        assert isinstance(supervisor, RemoteSupervisor), "a server is opened by open_remote"
        return supervisor.person


def _read_token(file: Path) -> str:
    try:
        token = read_text(file).strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InvalidInput(f"cannot read the token in {file}: {why}") from None
    withhold_secret(token)
    return token


HERE: Final = Place()
"""The place where no option names another one."""
ANYWHERE: Final = AnyPlace()
ASKING: Final = HowToRun()
AS_ME: Final = PersonPlace()


def parse_arguments(text: str) -> dict[str, object]:
    """Return the JSON object of --edit, which has all arguments of the call. Raises InvalidInput."""
    try:
        value: dict[str, object] = from_json(text, dict[str, object], "it")
        read_exact(text, "it")
    except InvalidInput as error:
        raise InvalidInput(
            f"--edit is no JSON object of arguments: {error}; give all arguments of the call, also those that stay "
            "(supervisor approvals --json shows them)"
        ) from None
    return value
