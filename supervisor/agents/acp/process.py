"""The process of an agent: started under the warden, after what an earlier process left of it has ended."""

import errno
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from supervisor.agents.acp.conversation import AgentFailed
from supervisor.agents.acp.run import Settings
from supervisor.tools.duplex import (
    GRACE_SECONDS,
    DuplexProcess,
    LaunchFailed,
    ProcessIdentity,
    end_former_process,
    open_duplex,
)

END_OF_INPUT_SECONDS: Final = 2.0  # seconds that the agent has to exit when its input has ended


@asynccontextmanager
async def open_agent(
    settings: Settings, cwd: str, session: str, former: Mapping[str, Any] | None, save: Callable[..., Any]
) -> AsyncIterator[DuplexProcess]:
    """Start the agent. Raises AgentFailed, which says what to do, if it cannot be started."""
    if former is not None:
        await end_former_process(msgspec.convert(former, ProcessIdentity))
    try:
        async with open_duplex(
            settings.command,
            cwd=cwd,
            env=settings.env,
            mark=session,
            stop_timeout=min(END_OF_INPUT_SECONDS, settings.stop_timeout / 20),
            grace=min(GRACE_SECONDS, settings.stop_timeout / 20),
            at_gate=lambda identity: save(msgspec.to_builtins(identity)),
        ) as process:
            yield process
    except LaunchFailed as failure:
        raise AgentFailed(_why(settings, failure)) from None


def _why(settings: Settings, failure: LaunchFailed) -> str:
    program = settings.command[0]
    if failure.errno == errno.ENOENT and failure.filename in (None, program):
        return f"{settings.name} cannot be started: there is no program {program!r}; install it, or write its path"
    where = f": {failure.filename}" if failure.filename else ""
    return f"{settings.name} cannot be started: {failure.strerror}{where}"
