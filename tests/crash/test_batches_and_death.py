"""A16: a process that dies in the middle of a batch leaves each tree wholly decided or not at all."""

import json
import signal
import sys
from pathlib import Path

import preloaded

PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import anyio
from dying import DyingStore
from supervisor import Approve, Context, agent, open_supervisor, tool

@tool
async def ping(host: str) -> str:
    with open("effects", "a") as effects:
        effects.write(host)
    return "up"

@agent
async def asks(ctx: Context, host: str) -> str:
    return (await ctx.call(ping, host)).kind

@agent
async def both(ctx: Context, hosts: list[str]) -> list[str]:
    children = [await ctx.spawn(asks, host) for host in hosts]
    return [await child.result() for child in children]

async def main() -> None:
    backend, point = sys.argv[1:3]
    async with open_supervisor(DyingStore(Path("."), point or None), adopt=False) as supervisor:
        if point:
            for session, hosts in (("one", ["a", "b"]), ("two", ["c", "d"])):
                await supervisor.start(both, hosts, session=session)
            while len(found := await supervisor.find_approvals()) != 4:
                await anyio.sleep(0.01)
            Path("batch").write_text(json.dumps([each.id for each in found]))
        ids = json.loads(Path("batch").read_text())
        results = await supervisor.decide_all([(each, Approve(by="ana")) for each in ids], batch="night")
        runs = await supervisor.resume_all()
        print(json.dumps([[each.kind for each in results], [await run.result() for run in runs]]), flush=True)

anyio.run(main, backend=sys.argv[1])
"""


def live(folder, backend, point):
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", backend, point, str(Path(__file__).parent.parent)]
    return preloaded.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def test_a_batch_is_repeated_after_a_death_and_each_call_runs_once(tmp_path, backend):
    """The tree that was decided says already; the other one is decided now."""
    died = live(tmp_path, backend, "after ApprovalDecided")
    assert died.returncode == -signal.SIGKILL, died.stderr
    done = live(tmp_path, backend, "")
    assert done.returncode == 0, done.stderr
    kinds, outcomes = json.loads(done.stdout)
    assert sorted(kinds) == ["accepted", "accepted", "already", "already"]
    assert outcomes == [["ok", "ok"], ["ok", "ok"]]
    assert sorted((tmp_path / "effects").read_text()) == ["a", "b", "c", "d"]


def test_a_death_before_the_first_tree_is_decided_decides_nothing(tmp_path, backend):
    """The same batch then decides all of it."""
    died = live(tmp_path, backend, "before ApprovalDecided")
    assert died.returncode == -signal.SIGKILL, died.stderr
    kinds, _ = json.loads(live(tmp_path, backend, "").stdout)
    assert kinds == ["accepted"] * 4
