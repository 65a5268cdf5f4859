"""Many trees that wait: a worker keeps few of them in memory, and all of them go on."""

import time
from pathlib import Path

import anyio
import pytest
import scale_agents
from temporalio.client import Client

from supervisor import Approve
from supervisor.temporal import open_temporal

pytestmark = pytest.mark.anyio
TREES = 1000
CACHED = 100
AT_ONCE = 20
MOST = 60.0
"""MB by which a worker may grow."""


def memory(pid: int) -> float:
    """Return the MB in memory that are of no file. Those that a process still shares with the one that forked it count:
    it only copies them later, as it touches them."""
    found = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in found if line.startswith("Anonymous:")) / 1000


async def with_each(items, act) -> None:
    """Do something with each, some at once."""
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(item) -> None:
        async with limit:
            await act(item)

    async with anyio.create_task_group() as tasks:
        for item in items:
            tasks.start_soon(one, item)


@pytest.mark.soak
async def test_a_thousand_waiting_trees_cost_a_worker_little_memory(cluster):
    """It starts them, drops most of them from its memory, and takes them up again when they are read and decided."""

    def begin():
        return cluster.worker("--cached", str(CACHED), agents=scale_agents.__file__)

    worker = await anyio.to_thread.run_sync(begin)
    target, namespace = cluster.url.removeprefix("temporal://").split("/")
    client = await Client.connect(target, namespace=namespace)
    before, begun = memory(worker.pid), time.monotonic()

    async def until(query: str) -> None:
        """Wait until the server counts all trees, and check the memory."""
        with anyio.fail_after(600):
            while (await client.count_workflows(query)).count != TREES:
                await anyio.sleep(1)
        grown = memory(worker.pid) - before
        print(f"{query}: {time.monotonic() - begun:.0f} s, grown by {grown:.0f} MB from {before:.0f}")
        assert grown < MOST

    async with open_temporal(cluster.url) as supervisor:

        async def start(number: int) -> None:
            await supervisor.start("waiting", f"file{number}", session=f"tree{number}")

        async def approve(approval) -> None:
            await supervisor.decide(approval.id, Approve(by="ana"))

        await with_each(range(TREES), start)
        await until("SupervisorPending IS NOT NULL")
        pending = await supervisor.find_approvals(limit=None)
        assert len({each.session for each in pending}) == TREES
        await with_each(pending, approve)
        await until("WorkflowType = 'supervisor.tree' AND ExecutionStatus = 'Completed'")
