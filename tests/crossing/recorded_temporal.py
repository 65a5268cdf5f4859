"""The recorded histories `temporal`: trees that wait, were decided, took a patch, or went on in new workflows.

They come from the real dev server.
"""

from functools import partial
from typing import Any

import anyio
import crossing_agents as agents
from temporal_server import histories, namespace, working

from supervisor import AgentSpec, Answer, Approve, Supervisor
from supervisor.temporal import open_temporal
from supervisor.temporal.client import starting
from supervisor.temporal.wire import Start
from supervisor.testing import replaced

AGENTS = [value for value in vars(agents).values() if isinstance(value, AgentSpec)]
WAIT = {
    "own": (agents.caller, "a", 1),
    "built": (agents.builder, "b", 1),
    "sub": (agents.chief, "c", 1),
    "tree": (agents.parent, ["d", "e"], 2),
    "choices": (agents.chooser, None, 1),
    "timer": (agents.mover, "f", 1),
    "saved": (agents.saver, "g", 1),
    "patched": (agents.patcher, "j", 1),
    "continued": (agents.counter, 12, 2),
}
"""The trees that wait, with their inputs, and how many approvals each waits for."""
DECIDED = {"decided": (agents.patcher, "k", 1), "answered": (agents.chooser, None, 1), "moved": (agents.counter, 12, 2)}
"""The trees that have gone on after decisions."""


async def record() -> dict[str, Any]:
    """Return the histories, by workflow and run."""
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        for session, (spec, given, count) in {**WAIT, **DECIDED}.items():
            moves = {"continue_after": 40} if spec is agents.counter else {}
            with replaced(starting, "Start", partial(Start, **moves)):
                run = await supervisor.start(
                    spec, *([] if given is None else [given]), session=session, requester="ann"
                )
            asked = await _asked(supervisor, session, count)
            if session in DECIDED:
                for each in asked:
                    is_call = each.kind == "call"
                    decision = Approve(by="ben") if is_call else Answer(by="ben", value="staging")
                    await supervisor.decide(each.id, decision)
                await run.result()
        return await histories(url, "WorkflowType = 'supervisor.tree'")


async def _asked(supervisor: Supervisor, session: str, count: int) -> list[Any]:
    while True:
        found = [each for each in await supervisor.find_approvals(limit=None) if each.root_session == session]
        if len(found) == count:
            return found
        await anyio.sleep(0.05)
