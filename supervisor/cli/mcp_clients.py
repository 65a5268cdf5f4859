"""What the two servers of `supervisor mcp` have in common: an MCP client starts them, and they serve one session."""

import sys
from typing import Any

from supervisor.cli.exits import Refused
from supervisor.core.errors import InvalidInput, NotFound, SessionConflict
from supervisor.core.events import SessionCreated
from supervisor.seam.supervisor import Supervisor
from supervisor.system.identity import working_directory


class Left(Exception):
    """The client has closed the connection. Raised inside the supervisor, so that it keeps all requests as they are."""


def refuse_terminal() -> None:
    """Raise InvalidInput if a person has started this command."""
    if sys.stdin.isatty():
        raise InvalidInput(
            "an MCP client starts this command and talks to it; your terminal does not. Write it into the "
            "configuration of the client: docs/how-to/claude-code.md, docs/how-to/mcp-proxy.md"
        )


def without_extra(error: ModuleNotFoundError) -> Exception:
    """Return what to raise for a module that is missing: it may be one of the extra."""
    if error.name not in ("mcp", "mcp_types", "httpx2"):
        return error
    return Refused("supervisor mcp needs the extra `mcp`: pip install 'subagent-supervisor[mcp]'")


async def ended(supervisor: Supervisor, session: str) -> dict[str, Any] | None:
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
            f"session {session} belongs to {created.cwd}, and this is {here}: start the client there, or choose "
            "another --session"
        )
    return None
