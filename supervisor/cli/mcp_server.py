"""`supervisor mcp`: serve the Model Context Protocol on standard input and output, for a program that starts us."""

import sys
from contextlib import suppress
from importlib import metadata
from typing import Annotated, Any

import anyio
from cyclopts import Parameter

from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Refused
from supervisor.cli.options import HERE, BackendOption, Place
from supervisor.core.errors import InvalidInput, NotFound, SessionConflict
from supervisor.core.events import SessionCreated
from supervisor.seam.supervisor import Supervisor
from supervisor.system.identity import working_directory
from supervisor.system.inside import guard_starter
from supervisor.wiring.stopping import bare, run_until_stopped


class _Left(Exception):
    """The client has closed the connection. Raised inside the supervisor, so that it keeps all requests as they are."""


def mcp(
    *,
    permissions: Annotated[
        bool,
        Parameter(negative=(), help="Answer the permission requests of `claude -p --permission-prompt-tool`."),
    ] = False,
    session: Annotated[
        str, Parameter(help="The session of the requests; the same id again continues where it stopped.")
    ],
    backend: BackendOption = "asyncio",
    place: Place = HERE,
) -> int:
    """Ask people for the permissions that Claude Code wants: an MCP server, which Claude Code starts.

    Its tool is `permission`: claude -p --permission-prompt-tool mcp__supervisor__permission. Each request becomes an
    approval, which any command or channel on the store decides. See docs/how-to/claude-code.md.
    """
    if not permissions:
        raise InvalidInput("say what to serve: supervisor mcp --permissions --session ID")
    if sys.stdin.isatty():
        raise InvalidInput(
            "an MCP client starts this command and talks to it; your terminal does not. Write it into the "
            "configuration of Claude Code: docs/how-to/claude-code.md"
        )
    try:
        from supervisor.agents.claude.server import serve
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types"):
            raise
        raise Refused("supervisor mcp needs the extra `mcp`: pip install 'subagent-supervisor[mcp]'") from None
    from supervisor.agents.claude.permissions import Permissions

    guard_starter()
    asked = Permissions()

    async def body() -> None:
        async with place.open_store(create=True) as supervisor:
            outcome = await _ended(supervisor, session)
            async with anyio.create_task_group() as tasks:
                if outcome is not None:
                    asked.end(session, outcome["kind"], outcome["cause"])
                    say_on_stderr(f"Session {session} has ended: each request is denied. Choose another --session.")
                else:
                    run = await supervisor.start(asked.agent, session=session)
                    tasks.start_soon(asked.follow, run)
                    say_on_stderr(f"Permission requests of session {session} wait in {place.where}.")
                await serve(asked, metadata.version("subagent-supervisor"))
                tasks.cancel_scope.cancel()
            raise _Left

    with suppress(_Left):
        return run_until_stopped(bare(body), backend) or 0
    return 0


async def _ended(supervisor: Supervisor, session: str) -> dict[str, Any] | None:
    """Return how the session has ended; None if it is open, or new. Raise if it belongs to another folder: a card shows
    the folder of the session."""
    try:
        view = await supervisor.get_session(session)
    except NotFound:
        return None
    if view.outcome is not None:
        return view.outcome
    created = (await supervisor.find_entries(session, limit=1))[0].event
    here = working_directory()
    if isinstance(created, SessionCreated) and created.cwd != here:
        raise SessionConflict(
            f"session {session} belongs to {created.cwd}, and this is {here}: start Claude Code there, or choose "
            "another --session"
        )
    return None
