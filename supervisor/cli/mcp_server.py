"""`supervisor mcp`: serve the Model Context Protocol on standard input and output, for a program that starts us."""

import os
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated, Any

import anyio
from cyclopts import Parameter

from supervisor.cli.answers import say_on_stderr
from supervisor.cli.mcp_clients import Left, ended, refuse_terminal, without_extra
from supervisor.cli.options import HERE, BackendOption, Place
from supervisor.core.errors import InvalidInput
from supervisor.system.inside import guard_starter
from supervisor.wiring.stopping import bare, run_until_stopped


def mcp(
    *server: str,
    permissions: Annotated[
        bool,
        Parameter(negative=(), help="Answer the permission requests of `claude -p --permission-prompt-tool`."),
    ] = False,
    before: Annotated[
        bool,
        Parameter(negative=(), help="Stand before another MCP server: people decide the calls of its tools."),
    ] = False,
    name: Annotated[
        str | None, Parameter(help="With --before: your name of the server. Rules and cards name its tools NAME.TOOL.")
    ] = None,
    session: Annotated[
        str | None,
        Parameter(
            help="The session of the requests; the same id again continues where it stopped. With --before it may be "
            "left out: then it is made of the name and this folder."
        ),
    ] = None,
    header: Annotated[
        tuple[str, ...],
        Parameter(
            help="With --before URL: a header, as HEADER=VARIABLE. The environment variable has its value.",
            negative=(),
        ),
    ] = (),
    trust_hints: Annotated[
        bool,
        Parameter(negative=(), help="With --before: allow the tools of which the server says that they only read."),
    ] = False,
    timeout: Annotated[
        float, Parameter(help="With --before: the seconds after which a call that was allowed is given up.")
    ] = 600.0,
    backend: BackendOption = "asyncio",
    place: Place = HERE,
) -> int:
    """Ask people for what MCP clients want to do: a server of the Model Context Protocol, which the client starts.

    With --permissions, for Claude Code. Its tool is `permission`: claude -p --permission-prompt-tool
    mcp__supervisor__permission. Each request becomes an approval, which any command or channel on the store decides.
    See docs/how-to/claude-code.md.

    With --before, for any client and any server: each call of a tool becomes an approval, and the server gets it when
    it is approved. See docs/how-to/mcp-proxy.md.

    Parameters
    ----------
    server
        With --before: the command of the server, after `--`, or its URL.
    """
    if permissions == before:
        raise InvalidInput(
            "say what to serve: supervisor mcp --permissions --session ID, or supervisor mcp --before --name NAME -- "
            "COMMAND"
        )
    if permissions and (session is None or server or name is not None or header or trust_hints):
        raise InvalidInput("supervisor mcp --permissions takes a --session, and no server")
    if before:
        from supervisor.cli.mcp_proxy import read_proxied

        proxied = read_proxied(server, name, session, header, trust_hints=trust_hints, timeout=timeout)
        refuse_terminal()
        return proxied.serve(backend, place)
    refuse_terminal()
    return _serve_permissions(str(session), backend, place)


def _serve_permissions(session: str, backend: Any, place: Place) -> int:
    """Answer the permission requests of Claude Code until it leaves."""
    try:
        from supervisor.agents.claude.server import serve
    except ModuleNotFoundError as error:
        raise without_extra(error) from None
    from supervisor.agents.claude.permissions import Permissions
    from supervisor.agents.claude.spending import find_conversation

    guard_starter()
    asked = Permissions(find_conversation(os.environ, datetime.now(UTC)))

    async def body() -> None:
        async with place.open_store(create=True, runs=True) as supervisor:
            outcome = await ended(supervisor, session)
            async with anyio.create_task_group() as tasks:
                if outcome is not None:
                    asked.end(session, outcome["kind"], outcome["cause"])
                    say_on_stderr(f"Session {session} has ended: each request is denied. Choose another --session.")
                else:
                    run = await supervisor.start(asked.agent, session=session)
                    tasks.start_soon(asked.follow, run)
                    say_on_stderr(f"Permission requests of session {session} wait in {place.where}.")
                try:
                    await serve(asked, metadata.version("subagent-supervisor"))
                finally:  # Claude Code stops its servers by a signal
                    with anyio.CancelScope(shield=True):
                        await asked.leave()
                tasks.cancel_scope.cancel()
            raise Left

    with suppress(Left):
        return run_until_stopped(bare(body), backend) or 0
    return 0
