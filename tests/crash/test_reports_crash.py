"""SIGKILL of an agent that reports: synced entries are there with all reports before them; only the end may lack."""

import json
import subprocess
import sys

import preloaded
import pytest

from supervisor import SqliteStore
from supervisor.core import events as e
from supervisor.core.sessions.state import replay_journal

PROGRAM = """
import json, sys
import anyio
from supervisor import Context, agent, open_supervisor

async def tell(place: int, reports: int) -> int:
    return reports

@agent
async def narrating(ctx: Context) -> int:
    told = 0
    for place in range(60):
        for _ in range(1 + 37 * place % 400):
            await ctx.report("plan", str(told))
            told += 1
        await ctx.step(tell, place, told)
        print(json.dumps(told), flush=True)  # the step is on disk
    return told

async def main() -> None:
    async with open_supervisor("state.db") as supervisor:
        print(json.dumps(await (await supervisor.start(narrating, session="s")).result()), flush=True)

anyio.run(main, backend=sys.argv[1])
"""


def start(folder, backend) -> subprocess.Popen[str]:
    return preloaded.Popen([sys.executable, "program.py", backend], cwd=folder, stdout=subprocess.PIPE, text=True)


def read(folder) -> list[e.Event]:
    """Return the journal, which can be folded."""
    store = SqliteStore(folder / "state.db")
    store.open()
    found = [row.event for row in store.journal("s")]
    store.close()
    assert replay_journal("s", found).length == len(found)
    return found


def told(entries) -> list[int]:
    return [int(each.text) for each in entries if isinstance(each, e.Reported)]


@pytest.mark.parametrize("lines", [1, 23, 58])
def test_a_killed_agents_synced_entries_have_all_reports_before_them(tmp_path, backend, lines):
    """And the reports are those that it made, in order, without a gap. The next attempt repeats only what came after
    the last synced step."""
    (tmp_path / "program.py").write_text(PROGRAM)
    process = start(tmp_path, backend)
    seen = [json.loads(process.stdout.readline()) for _ in range(lines)]
    process.kill()
    process.communicate()
    entries = read(tmp_path)
    steps = [at for at, each in enumerate(entries) if isinstance(each, e.OperationFinished)]
    assert len(steps) >= lines
    assert told(entries) == [*range(len(told(entries)))]
    assert told(entries)[-1] >= seen[-1] - 1
    synced = told(entries[: steps[-1]])
    assert len(synced) == json.loads(bytes(entries[steps[-1]].value))
    again = start(tmp_path, backend)
    whole = json.loads(again.communicate(timeout=60)[0].splitlines()[-1])
    assert told(read(tmp_path)[len(entries) :]) == [*range(len(synced), whole)]
