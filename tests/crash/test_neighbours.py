"""R5: a run that kills its process is abandoned. Its neighbours, which died with it as often, are not."""

import signal
import sys

import preloaded

from supervisor import SqliteStore

PROGRAM = """
import os, signal, sys
import anyio
from supervisor import Context, agent, open_supervisor, tool

@tool
async def deploy(target: str) -> str:
    return target

@agent
async def suicidal(ctx: Context) -> None:
    os.kill(os.getpid(), signal.SIGKILL)

@agent
async def neighbour(ctx: Context) -> str:
    await anyio.sleep(0.05)  # it has appended nothing when the process dies
    return (await ctx.call(deploy, "a")).content

async def main() -> None:
    async with open_supervisor("state.db") as supervisor:
        await supervisor.start(neighbour, session="neighbour")
        await supervisor.start(suicidal, session="suicidal")

anyio.run(main, backend=sys.argv[1])
"""


def test_a_neighbour_of_a_run_that_kills_its_process_is_not_abandoned_with_it(tmp_path, backend):
    """At their last chance they begin one after the other, so that a run dies only of its own actions."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", backend]
    codes = [preloaded.run(command, cwd=tmp_path, capture_output=True, timeout=60).returncode for _ in range(5)]

    assert codes[:2] == [-signal.SIGKILL] * 2
    assert codes[-1] == 0
    store = SqliteStore(tmp_path / "state.db")
    store.open()
    assert store.get_session("suicidal").outcome.kind == "abandoned"
    assert store.get_session("neighbour").outcome is None
    assert [approval.session for approval in store.find_approvals()] == ["neighbour"]
    store.close()
