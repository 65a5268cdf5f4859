"""T9: the processes of interrupted calls are ended by one task at a time, and each is found once."""

from datetime import UTC, datetime

import anyio
import pytest

from supervisor.core import events as e
from supervisor.core.sessions.operations import Operation
from supervisor.core.sessions.state import SessionState
from supervisor.runtime.lifecycle.orphans import OrphanedProcesses
from supervisor.system.identity import HOST

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def interrupted(session):
    began = e.ToolCallStarted(at=NOW, operation="1", host=HOST, pid=1, process=77, process_started_at=1.0)
    call = Operation(state="executing", kind="call", begun=1, started=began)
    return SessionState(id=session, operations={"1": call})


async def test_a_second_task_takes_what_the_first_one_found():
    """Else it would find the process gone, since the first one ended it, and the call's result would say so."""
    asked = []

    async def end_one(pid, started_at):
        asked.append(pid)
        await anyio.sleep(0.01)
        return "ended" if len(asked) == 1 else "gone"

    orphans = OrphanedProcesses(end_one)
    state = interrupted("s")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(orphans.end, state)
        tasks.start_soon(orphans.end, state)

    assert (asked, orphans.found) == ([77], {("s", "1"): "ended"})


async def test_a_task_that_is_cancelled_leaves_its_turn_to_the_next():
    async def end_one(pid, started_at):
        await anyio.sleep(0.01)
        return "ended"

    orphans = OrphanedProcesses(end_one)
    with anyio.move_on_after(0):
        await orphans.end(interrupted("s"))
    with anyio.fail_after(5):
        await orphans.end(interrupted("s"))

    assert orphans.found == {("s", "1"): "ended"}
