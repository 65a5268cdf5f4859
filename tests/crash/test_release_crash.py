"""A13: a process that dies between a rule and what it releases loses nothing."""

import signal
import sys
from pathlib import Path

import preloaded

from supervisor import SqliteStore

PROGRAM = """
import sys
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
async def both(ctx: Context, host: str) -> list[str]:
    children = [await ctx.spawn(asks, host) for _ in range(2)]
    return [await child.result() for child in children]

async def waiting(supervisor, count):
    while len(found := await supervisor.find_approvals()) != count:
        await anyio.sleep(0.01)
    return found

async def main() -> None:
    backend, point = sys.argv[1:3]
    async with open_supervisor(DyingStore(Path("."), point or None)) as supervisor:
        if point:
            await supervisor.start(both, "x", session="one")
            await supervisor.start(asks, "x", session="other")
            found = await waiting(supervisor, 3)
            await supervisor.decide(next(each.id for each in found if each.root_session == "one"),
                                    Approve(by="ana", scope="always"))
            await anyio.sleep(60)
        runs = await supervisor.resume_all()
        print([await run.result() for run in runs], flush=True)

anyio.run(main, backend=sys.argv[1])
"""


def live(folder, backend, point):
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", backend, point, str(Path(__file__).parent.parent)]
    return preloaded.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def pending(folder):
    store = SqliteStore(folder / "state.db")
    store.open()
    found = sorted(each.root_session for each in store.find_approvals())
    store.close()
    return found


def test_a_death_before_the_rule_is_on_disk_decides_nothing(tmp_path, backend):
    """The decision, the rule and the equal call of its tree are one commit."""
    done = live(tmp_path, backend, "before RuleAdded")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert pending(tmp_path) == ["one", "one", "other"]


def test_a_death_after_the_rule_is_on_disk_loses_no_release(tmp_path, backend):
    """The equal call of the tree is decided with it. The next owner lets the rule decide the call of the other tree."""
    done = live(tmp_path, backend, "after RuleAdded")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert pending(tmp_path) == ["other"]
    done = live(tmp_path, backend, "")
    assert (done.returncode, done.stdout) == (0, "[['ok', 'ok'], 'ok']\n"), done.stderr
    assert (tmp_path / "effects").read_text() == "xxx"
