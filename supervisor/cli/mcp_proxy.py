"""`supervisor mcp --before`: what the command line says of a proxy, and its life.

The session is that of a name and a folder: `mcp-NAME-DIGEST`. A client that is started again in its folder goes on in
it. While one proxy runs it, the next one of the same name and folder takes `mcp-NAME-DIGEST-2`, and so on: the first
that is free and has not ended.

The server lives longer than the session: when we stop, a call that is executing may still end, and has its result.
"""

import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskStatus

from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.mcp_clients import Left, ended, without_extra
from supervisor.cli.options import Place
from supervisor.core.errors import InvalidInput, SessionConflict, TreeOwned
from supervisor.core.ids import digest_of_value
from supervisor.seam.runs import Run
from supervisor.seam.supervisor import Supervisor
from supervisor.system.identity import working_directory
from supervisor.system.inside import guard_starter
from supervisor.wiring.stopping import bare, run_until_stopped

if TYPE_CHECKING:
    from supervisor.agents.mcp_proxy.calls import Calls
    from supervisor.agents.mcp_proxy.connection import Connection, Wire

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
"""A name of a server. It has no dot, so that NAME.TOOL says which part is the operator's."""
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([A-Za-z_][A-Za-z0-9_]*)")
_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


@dataclass(frozen=True)
class Proxied:
    """A server before which the proxy stands: a command, or an address with its headers, which may be secrets."""

    name: str
    server: Sequence[str]
    headers: Mapping[str, str]
    session: str | None
    trust_hints: bool
    timeout: float

    @property
    def is_address(self) -> bool:
        return _is_address(self.server)

    def serve(self, backend: Any, place: Place) -> int:
        """Serve the client until it leaves, or until the server ends."""
        opened = self._opener()
        from supervisor.agents.mcp_proxy.connection import Connection
        from supervisor.agents.mcp_proxy.wires import client_wire

        code = Exit.DONE
        guard_starter()

        async def body() -> None:
            nonlocal code
            with client_wire() as client:

                def make(server: "Wire") -> Connection:
                    return Connection(client, server, self.name, trust_hints=self.trust_hints, timeout=self.timeout)

                async with (
                    _connected(opened, make) as connection,
                    place.open_store(create=True, runs=True) as supervisor,
                ):
                    async with anyio.create_task_group() as tasks:
                        run = await self._begin(supervisor, connection.calls)
                        tasks.start_soon(connection.calls.follow, run)
                        say_on_stderr(f"Calls of {self.name} wait in session {run.session} of {place.where}.")
                        has_client_left = await connection.serve()
                        tasks.cancel_scope.cancel()
                    if not has_client_left:
                        say_on_stderr(
                            f"The MCP server {self.name} has ended the connection. What waits for a person stays."
                        )
                        code = Exit.FAILED
                    raise Left

        with suppress(Left):
            return run_until_stopped(bare(body), backend) or code
        return code

    def _opener(self) -> "Callable[[], AbstractAsyncContextManager[Wire]]":
        """Return what connects to the server. Raises Refused if the package for that is missing."""
        if not self.is_address:
            from supervisor.agents.mcp_proxy.wires import open_process

            return lambda: open_process(self.server, working_directory(), f"mcp-{self.name}")
        try:
            from supervisor.agents.mcp_proxy.http import open_http
        except ModuleNotFoundError as error:
            raise without_extra(error) from None
        return lambda: open_http(self.server[0], self.headers)

    async def _begin(self, supervisor: Supervisor, calls: "Calls") -> Run[None]:
        """Begin the session, or go on with it."""
        if self.session is not None:
            if await ended(supervisor, self.session) is not None:
                raise SessionConflict(f"session {self.session} has ended: choose another --session, or leave it out")
            return await supervisor.start(calls.agent, self.name, session=self.session)
        stem = f"mcp-{self.name.lower()}-{digest_of_value([self.name, working_directory()])[:10]}"
        for number in count(1):
            session = stem if number == 1 else f"{stem}-{number}"
            if await ended(supervisor, session) is None:
                with suppress(TreeOwned):
                    return await supervisor.start(calls.agent, self.name, session=session)
        raise AssertionError("unreachable")


def read_proxied(
    server: Sequence[str],
    name: str | None,
    session: str | None,
    headers: Sequence[str],
    *,
    trust_hints: bool,
    timeout: float,
) -> Proxied:
    """Read what the command line says of a proxy. Raises InvalidInput, which has no value of a header in it."""
    if name is None or _NAME.fullmatch(name) is None:
        raise InvalidInput(
            f"--name is your name of the server: a letter, and up to 31 letters, digits, '_' and '-', not {name!r}"
        )
    if not server:
        raise InvalidInput("say which server to stand before: -- COMMAND, or its URL")
    if headers and not _is_address(server):
        raise InvalidInput("--header is for a server with a URL: a command gets our environment")
    if not timeout > 0:
        raise InvalidInput(f"--timeout is a number of seconds above 0, not {timeout:g}")
    found = dict(map(_read_header, headers))
    return Proxied(name, tuple(server), found, session, trust_hints, timeout)


def _is_address(server: Sequence[str]) -> bool:
    return len(server) == 1 and server[0].startswith(("http://", "https://"))


def _read_header(text: str) -> tuple[str, str]:
    """Return a header and its value, which the environment has."""
    if (match := _HEADER.fullmatch(text)) is None:
        raise InvalidInput(
            "--header is HEADER=VARIABLE: the environment variable has the value, so that no list of processes shows it"
        )
    header, variable = match.groups()
    value = os.environ.get(variable, "").strip()
    if _VALUE.fullmatch(value) is None:
        raise InvalidInput(f"${variable} has no value that can be the header {header}: one line of visible ASCII")
    return header, value


@asynccontextmanager
async def _connected(
    opened: "Callable[[], AbstractAsyncContextManager[Wire]]", make: "Callable[[Wire], Connection]"
) -> "AsyncIterator[Connection]":
    """Talk with the server as long as the block lasts, also while it is cancelled."""
    stop = anyio.Event()

    async def talk(*, task_status: TaskStatus["Connection"]) -> None:
        with anyio.CancelScope(shield=True):
            async with opened() as wire, anyio.create_task_group() as tasks:
                connection = make(wire)
                tasks.start_soon(connection.talk_to_server)
                task_status.started(connection)
                await stop.wait()
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        try:
            yield await tasks.start(talk)
        finally:
            stop.set()
