"""Messages to an open tree while no worker lives: each counts when the server has it, and comes once, in order."""

import anyio
import pytest
from clusters import histories
from temporal_server import namespace, working
from turning_agents import listening

from supervisor import Answer
from supervisor.temporal import open_temporal

pytestmark = pytest.mark.anyio
SIGNALED = "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED"


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(120):
        yield


async def signals(url: str) -> int:
    """Return how many messages the server has for the tree."""
    (history,) = (await histories(url, "s")).values()
    return [event["eventType"] for event in history["events"]].count(SIGNALED)


async def test_messages_count_while_no_worker_lives_and_come_in_order():
    """Also those whose senders have gone as soon as the server had them. An approval is pending all the time."""
    url = await namespace()
    async with working(url, [listening]), open_temporal(url) as supervisor:
        await supervisor.start(listening, 3, session="s")
        while not (asked := await supervisor.find_approvals()):
            await anyio.sleep(0.05)
    for number, text in enumerate(["first", "second"], 1):
        async with open_temporal(url) as supervisor, anyio.create_task_group() as tasks:
            tasks.start_soon(supervisor.send, "s", text)
            while await signals(url) < number:
                await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()
    async with open_temporal(url) as supervisor:
        kept = await supervisor.send("s", "third")
        assert (kept.kind, kept.running) == ("kept", False)
        async with working(url, [listening]):
            await supervisor.decide(asked[0].id, Answer(value="go", by="ana"))
            assert await (await supervisor.get_run("s")).result() == ["go", "first", "second", "third"]
