"""Agents that call the shell, and readers of what their sessions' journals say afterwards."""

from typing import Any

import anyio

from supervisor import Context, MemoryStore, agent, open_supervisor
from supervisor.core import events as e
from supervisor.tools import shell


def plain(result):
    """Return a result as JSON holds it."""
    return {"kind": result.kind, "content": result.content, "value": result.value, "details": dict(result.details)}


@agent
async def caller(ctx: Context, call: dict[str, Any]) -> dict[str, Any]:
    return plain(await ctx.call(shell, **call))


@agent(jobs="keep")
async def keeper(ctx: Context, call: dict[str, Any]) -> dict[str, Any]:
    return plain(await ctx.call(shell, **call))


@agent
async def sleeper(ctx: Context, call: dict[str, Any]) -> dict[str, Any]:
    """Goes on after its call, until the test ends it."""
    result = plain(await ctx.call(shell, **call))
    await ctx.sleep(1000)
    return result


def events(store, session, kind=object):
    """Return a session's events of a kind, in order."""
    return [row.event for row in store.journal(session) if isinstance(row.event, kind)]


def finished(store, session="s"):
    """Return the one result that a session's journal has for its one call."""
    (result,) = events(store, session, (e.ToolCallFinished, e.OperationAbandoned))
    return result


async def call_shell(call, spec=caller, store=None):
    """Let an agent make one call that is approved; return its result, which equals the journaled one."""
    store = MemoryStore() if store is None else store
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            run = await supervisor.start(spec, call, session="s")
            result = await run.result()
            assert finished(store).content == result["content"]
    return result
