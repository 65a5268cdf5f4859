"""A fork that is killed exists completely or not at all."""

import signal
import sys

import preloaded
import pytest

from supervisor import SqliteStore
from supervisor.core import events as e
from supervisor.core.sessions.state import replay_journal

PROGRAM = """
import os, signal, sys
import anyio
from supervisor import Context, SqliteStore, agent, open_supervisor, tool
from supervisor.core import events as e

class KillingStore(SqliteStore):
    has_fork = False
    def write(self, rows):
        super().write(rows)
        self.has_fork = any(isinstance(row.event, e.ForkTaken) for row in rows)
        if self.has_fork and sys.argv[2] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
    def commit(self):
        super().commit()
        if self.has_fork:
            os.kill(os.getpid(), signal.SIGKILL)

@tool
async def effect(name: str) -> str:
    return name

@agent
async def child(ctx: Context) -> str:
    return (await ctx.call(effect, "x")).content

@agent
async def parent(ctx: Context) -> str:
    return await ctx.run(child)

async def main() -> None:
    async with open_supervisor("state.db", unattended="allow") as supervisor:
        await (await supervisor.start(parent, session="s")).result()
    async with open_supervisor(KillingStore("state.db"), unattended="allow") as supervisor:
        length = len(await supervisor.find_entries("s"))
        await supervisor.fork("s", before=length, new="f")

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize(("when", "sessions"), [("before", 0), ("after", 2)])
def test_a_killed_fork_exists_completely_or_not_at_all(tmp_path, backend, when, sessions):
    """Killed inside the transaction, or right after it: the source names the fork exactly if the fork exists."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", backend, when]
    done = preloaded.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = SqliteStore(tmp_path / "state.db")
    store.open()
    found = store.find_sessions(root="f")
    assert len(found) == sessions
    assert [row.event.fork for row in store.journal("s") if isinstance(row.event, e.ForkTaken)] == ["f"] * bool(found)
    for row in found:
        assert replay_journal(row.id, [each.event for each in store.journal(row.id)]).forked is not None
    assert [each.session for each in store.find_approvals(pending=False, root="f")] == []
    store.close()
