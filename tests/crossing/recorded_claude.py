"""What waits in the recorded store `claude`: requests of Claude Code, of which two were decided while it was away.

`Bash` and `AskUserQuestion` wait for a person. `Write` was approved and `Edit` denied, and Claude Code was not told.
"""

from typing import Any

import anyio
from recording import knowing_no_agents, live

from supervisor import Approve, Deny, MemoryStore, StoreSupervisor
from supervisor.agents.claude.permissions import Client, Permissions

QUESTION = {"question": "Which one?", "header": "Which", "multiSelect": False}
REQUESTS: dict[str, dict[str, Any]] = {
    "Bash": {"command": "make test", "description": "Run the tests", "timeout": 1000},
    "AskUserQuestion": {"questions": [QUESTION | {"options": [{"label": "a", "description": "A"}]}]},
    "Write": {"file_path": "/tmp/a", "content": "hello"},
    "Edit": {"file_path": "/tmp/a", "old_string": "hello", "new_string": "bye"},
}


async def record() -> tuple[MemoryStore, dict[str, str]]:
    store = await live(MemoryStore(), _ask)
    return await live(store, _decide), {}


async def _ask(supervisor: StoreSupervisor) -> None:
    permissions = Permissions()
    await supervisor.start(permissions.agent, session="claude", requester="ann")
    async with anyio.create_task_group() as tasks:
        for number, (tool, given) in enumerate(REQUESTS.items(), start=1):
            tasks.start_soon(permissions.ask, tool, given, Client())
            while len(await supervisor.find_approvals()) < number:
                await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()


async def _decide(supervisor: StoreSupervisor) -> None:
    with knowing_no_agents():
        found = {each.tool: each.id for each in await supervisor.find_approvals()}
        await supervisor.decide(found["Write"], Approve(by="ben"))
        await supervisor.decide(found["Edit"], Deny(by="ben", reason="not today"))
