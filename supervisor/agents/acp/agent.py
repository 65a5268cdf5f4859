"""`acp_agent`: the declaration of an agent that another program runs."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from supervisor.agents.acp.process import open_agent
from supervisor.agents.acp.run import Connect, Settings, converse
from supervisor.agents.open_requests import nothing
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.foreign_tool import foreign_tool
from supervisor.seam.context import Context


def acp_agent(
    name: str,
    command: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    inactivity_timeout: float = 600.0,
    stop_timeout: float = 30.0,
    call_timeout: float = 600.0,
    passivate_after: float | None = 300.0,
    **options: Any,
) -> AgentSpec[[str], str]:
    """Declare a coding agent that speaks ACP as an agent: `acp_agent("opencode", ["opencode", "acp"])`.

    It takes a text, the first prompt of a session of its own, and returns its last message. Each later message to the
    session is one more prompt. Its permission requests are calls named NAME.KIND, such as `opencode.execute`; rules are
    about their raw input. Needs the extra `acp`.

    `command`: the words of the command, run without a shell. `cwd`: the folder of its sessions, relative to the one in
    which they would be without it. `env`: variables to add to the supervisor's environment, from which our own secrets
    are removed.
    `call_timeout`: seconds that a call may take from its approval until the agent reports its end.
    `inactivity_timeout`: seconds between two of its updates; it says nothing while its model thinks or a command of its
    own runs. `passivate_after`: seconds of waiting for people after which its process ends and the run leaves memory; a
    decision starts it again, and it must ask again. None: it stays. So does an agent that does not offer to open its
    sessions again.
    `options`: as in `@agent`. `first_progress_timeout` counts from a prompt to the first update. A `limit` is held
    whenever a run does not only wait for people (L1).

    Raises ValueError for a name or a command that cannot be one.
    """
    words = tuple(command)
    if isinstance(command, str) or not words or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f"agent {name}: command is a list of words, not {command!r}")
    foreign_tool(f"{name}.execute", nothing)  # raises here if the name cannot begin the names of tools
    settings = Settings(
        name=name, command=words, env=dict(env or {}), stop_timeout=stop_timeout, call_timeout=call_timeout
    )
    budgets = options | {
        "inactivity_timeout": inactivity_timeout,
        "stop_timeout": stop_timeout,
        "call_timeout": call_timeout,
        "passivate_after": passivate_after,
    }
    agent = declare(settings, open_agent, sys._getframe(1).f_globals.get("__name__", __name__), budgets)  # noqa: SLF001
    agent.cwd = cwd
    return agent


def declare(settings: Settings, connect: Connect, module: str, budgets: Mapping[str, Any]) -> AgentSpec[[str], str]:
    """Return the agent. `module`: the name of the module that declares it. `connect`: how its process is started."""

    def greeted(can_reopen: bool) -> None:
        """Keep the processes of a program that could not go on with its sessions."""
        agent.passivate_after = budgets["passivate_after"] if can_reopen else None

    found = replace(settings, on_greeting=greeted)

    async def run(ctx: Context, message: str) -> str:
        return await converse(ctx, message, found, connect)

    run.__module__, run.__name__, run.__qualname__ = module, settings.name, settings.name
    agent: AgentSpec[[str], str] = AgentSpec(run, name=settings.name, **budgets)
    agent.holds_process = True
    return agent
