"""What waits in the recorded stores `frameworks` and `langgraph`: of each framework a call that waits, one that was
approved with other arguments, one that was denied, and one with which the process died.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
from recording import AT, dying, knowing_no_agents, live

from supervisor import AgentSpec, Approve, Deny, MemoryStore, StoreSupervisor
from supervisor.core import events as e

DECISIONS = {"waits": None, "edited": Approve(by="ben", arguments={"path": "b"}), "denied": Deny(by="ben", reason="no")}


INSTANT = re.compile(r'(?<="timestamp":")20[^"]*(?=")')
"""An instant that a framework notes."""


async def record(agents: Mapping[str, AgentSpec[..., Any]]) -> tuple[MemoryStore, dict[str, str]]:
    """Return the store, and the texts that only this run has."""
    store = await live(MemoryStore(), partial(_begin, agents))
    store = await live(store, partial(_decide, agents))
    for name, spec in agents.items():
        if name != "langgraph":  # its checkpoints would be those of the end of this life
            store = await _die(store, name, spec)
    found = {text for row in store.rows(0) for text in INSTANT.findall(e.encode_event(row.event).decode())}
    return store, dict.fromkeys(found, AT.isoformat().replace("+00:00", "Z"))


async def _asked(supervisor: StoreSupervisor, session: str) -> str:
    while not (found := await supervisor.find_approvals(session=session)):
        await anyio.sleep(0.005)
    return found[0].id


async def _begin(agents: Mapping[str, AgentSpec[..., Any]], supervisor: StoreSupervisor) -> None:
    for name, spec in agents.items():
        for state in DECISIONS:
            await supervisor.start(spec, "clean up", session=f"{name}-{state}", requester="ann")
            await _asked(supervisor, f"{name}-{state}")


async def _decide(agents: Mapping[str, AgentSpec[..., Any]], supervisor: StoreSupervisor) -> None:
    """In a process that runs no session."""
    with knowing_no_agents():
        for name in agents:
            for state, decision in DECISIONS.items():
                if decision is not None:
                    await supervisor.decide(await _asked(supervisor, f"{name}-{state}"), decision)


async def _die(store: MemoryStore, name: str, spec: AgentSpec[..., Any]) -> MemoryStore:
    """Die when the call is executing."""
    session = f"{name}-dying"

    async def approve(supervisor: StoreSupervisor) -> None:
        run = await supervisor.start(spec, "clean up", session=session, requester="ann")
        await supervisor.decide(await _asked(supervisor, session), Approve(by="ben"))
        await run.outcome()

    until = (
        e.ApprovalDecided if name == "langgraph" else e.ToolCallStarted
    )  # there, executing is a segment of the graph
    return await dying(store, approve, session, until)
