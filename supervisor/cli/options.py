"""The options that commands share, and the one place where a command opens its Supervisor."""

import os
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.store_urls import read_store_file
from supervisor.core.values import Policy
from supervisor.core.visible import visible
from supervisor.system.inside import refuse_below_owner, refuse_inside_call

if TYPE_CHECKING:
    from supervisor.abc import Channel, StoreSupervisor, Supervisor

StoreOption = Annotated[
    str | None,
    Parameter(
        name="--store",
        help="The store: FILE or sqlite:///ABSOLUTE/FILE. Default: $SUPERVISOR_STORE, else in your state directory.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, Parameter(name="--json", negative=(), help="Print one JSON document on stdout.")]
ByOption = Annotated[str | None, Parameter(name="--by", help="Who decides, for the audit trail. Default: login name.")]
BackendOption = Annotated[Literal["asyncio", "trio"], Parameter(name="--backend", help="The event loop to run on.")]
UnattendedOption = Annotated[
    Policy,
    Parameter(name="--unattended", help="What answers for people in what this process runs, pending approvals too."),
]
WaitOption = Annotated[
    bool, Parameter(name="--wait", negative=(), help="Stay until it has ended, for decisions made elsewhere.")
]


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """Where the Supervisor of a command is. The fields are the options that say it."""

    store: StoreOption = None

    @cached_property
    def path(self) -> Path:
        """The store's file, which the option, the environment or the platform names. Raises InvalidInput."""
        if self.store is not None:
            return Path(read_store_file(self.store))
        if named := os.environ.get("SUPERVISOR_STORE"):
            return Path(read_store_file(named))
        from platformdirs import user_state_path

        return user_state_path("subagent-supervisor", appauthor=False) / "state.db"

    @property
    def where(self) -> str:
        """The place, in messages."""
        return str(self.path)

    @property
    def option(self) -> str:
        """The options with which a command that is offered next finds the same place; begins with a space."""
        return f" --store {shlex.quote(os.fspath(self.path))}" if self.store is not None else ""

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def need(self, kind: str, name: str) -> None:
        """Raise NotFound for what a command is about, such as the session `name`, if there is no store."""
        if not self.exists:
            raise NotFound(f"no {kind} {visible(name)}: there is no store at {self.where}")

    def open(
        self, *, wanted: tuple[str, str] | None = None, action: str | None = None, create: bool = False
    ) -> "AbstractAsyncContextManager[Supervisor]":
        """Open the Supervisor, for a command that works on any. See `open_store`."""
        return self.open_store(wanted=wanted, action=action, create=create)

    @asynccontextmanager
    async def open_store(
        self,
        *,
        wanted: tuple[str, str] | None = None,
        action: str | None = None,
        create: bool = False,
        channels: "Sequence[Channel]" = (),
        unattended: Policy = "ask",
        tune_interpreter: bool = False,
    ) -> "AsyncIterator[StoreSupervisor]":
        """Open the Supervisor, for a command that needs the store at hand.

        `wanted`: the kind and the name of what the command is about, for `need`. Without it, a store that does not
        exist is read as an empty one.
        `action`: what only a person may do, such as "deciding"; NotEntitled if a supervised call started this process.
        `create`: make the store if it does not exist. The other options are those of `open_supervisor`.
        """
        if action is not None:
            refuse_inside_call(action)
        if wanted is not None:
            self.need(*wanted)
        from supervisor.app import open_supervisor

        async with open_supervisor(
            self.path if create or self.exists else "memory:",
            create=create,
            channels=channels,
            unattended=unattended,
            tune_interpreter=tune_interpreter,
        ) as supervisor:
            if action is not None:
                refuse_below_owner(action, await supervisor.find_owners())
            yield supervisor


HERE: Final = Place()
"""The place where no option names another one."""


def parse_arguments(text: str) -> dict[str, object]:
    """Return the whole arguments object of --edit; raises InvalidInput."""
    try:
        value: dict[str, object] = from_json(text, dict[str, object], "it")
    except InvalidInput as error:
        raise InvalidInput(
            f"--edit is no JSON object of arguments: {error}; give all of the call's arguments, unchanged ones too "
            "(supervisor approvals --json has them)"
        ) from None
    return value
