"""A prune that is killed leaves complete trees only."""

import signal
import sys

import preloaded
import pytest

from supervisor import SqliteStore

PROGRAM = """
import os, signal, sys
from datetime import UTC, datetime, timedelta
import anyio
from supervisor import Context, SqliteStore, agent, open_supervisor

class KillingStore(SqliteStore):
    count = 0
    def remove(self, root):
        super().remove(root)
        self.count += 1
        if sys.argv[2:] == ["before", str(self.count)]:
            os.kill(os.getpid(), signal.SIGKILL)
    def commit(self):
        super().commit()
        if sys.argv[2:] == ["after", str(self.count)]:
            os.kill(os.getpid(), signal.SIGKILL)

@agent
async def child(ctx: Context) -> int:
    return 1

@agent
async def parent(ctx: Context) -> int:
    return await ctx.run(child)

async def main() -> None:
    async with open_supervisor("state.db") as supervisor:
        for name in "abc":
            await (await supervisor.start(parent, session=name)).result()
    async with open_supervisor(KillingStore("state.db")) as supervisor:
        assert len((await supervisor.prune(datetime.now(UTC) + timedelta(seconds=1))).trees) == 3

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize(("when", "gone"), [("before", 1), ("after", 2)])
def test_a_killed_prune_leaves_complete_trees(tmp_path, backend, when, gone):
    """It is killed inside the transaction of the second tree, or right after it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", backend, when, "2"]
    done = preloaded.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = SqliteStore(tmp_path / "state.db")
    store.open()
    left = "abc"[gone:]
    assert [row.id for row in store.find_sessions() if row.parent is None] == list(left)
    assert len(store.find_sessions()) == 2 * len(left)
    assert {row.session for row in store.rows(0)} == {row.id for row in store.find_sessions()}
    store.close()
