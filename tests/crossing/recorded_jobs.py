"""What waits in the recorded store `jobs`: a job that runs, one that has ended, and a call that waits after them.

The jobs are real processes. What they say of the machine is replaced, so they ran on another one.
"""

import shutil
from pathlib import Path

import anyio
import crossing_agents as agents
from recording import live

from supervisor import Approve, MemoryStore, StoreSupervisor
from supervisor.core import events as e


async def record() -> tuple[MemoryStore, dict[str, str]]:
    """Return the store, and the texts that only this machine has."""
    store = MemoryStore()
    found: list[e.JobStarted] = []

    async def begin(supervisor: StoreSupervisor) -> None:
        run = await supervisor.start(agents.commander, session="jobs", requester="ann")
        async with run.watch_approvals() as asked:
            for _ in range(2):
                await supervisor.decide((await anext(asked)).id, Approve(by="ben"))
            await anext(asked)
        while not any(isinstance(row.event, e.JobEnded) for row in store.rows(0)):
            await anyio.sleep(0.01)
        found.extend(row.event for row in store.rows(0) if isinstance(row.event, e.JobStarted))

    left = await live(store, begin)
    for each in found:
        shutil.rmtree(Path(each.log).parent)
    numbers = {f"process {each.process};": "process 1;" for each in found}
    return left, numbers | {f'"pid":{each.process}': '"pid":1' for each in found} | {
        each.log: "/nowhere/log" for each in found
    }
