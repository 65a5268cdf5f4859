"""The options that commands share, and where a store is if nobody says so."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput
from supervisor.core.store_urls import read_store_file
from supervisor.core.values import Policy

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


class Place(msgspec.Struct, frozen=True):
    """Where the store is, and how a command that follows has to name it."""

    path: Path
    is_named: bool

    @property
    def option(self) -> str:
        return f" --store {shlex.quote(os.fspath(self.path))}" if self.is_named else ""


def find_store(option: str | None) -> Place:
    """Return the place that the option, the environment or the platform names. Raises InvalidInput."""
    if option is not None:
        return Place(Path(read_store_file(option)), is_named=True)
    if named := os.environ.get("SUPERVISOR_STORE"):
        return Place(Path(read_store_file(named)), is_named=False)
    from platformdirs import user_state_path

    return Place(user_state_path("subagent-supervisor", appauthor=False) / "state.db", is_named=False)


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
