"""A17: a vote is on disk before it is told, and a process that dies between two votes loses none."""

import json
import signal
import sys
from pathlib import Path

import preloaded
import pytest

PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import anyio
from dying import DyingStore
from supervisor import Approve, ApproverRule, Context, People, Person, agent, ask, open_supervisor, tool

@tool
async def ping(host: str) -> str:
    with open("effects", "a") as effects:
        effects.write(host)
    return "up"

@agent
async def asks(ctx: Context, host: str) -> str:
    return (await ctx.call(ping, host)).kind

people = People(
    [Person(name=name, roles=("approver",)) for name in ("ana", "ben")],
    [ApproverRule(approvers=("ana", "ben"), rule=ask("ping"), quorum=2)],
)

async def main() -> None:
    backend, point = sys.argv[1:3]
    async with open_supervisor(DyingStore(Path("."), point or None), people=people, adopt=True) as supervisor:
        if point:
            await supervisor.start(asks, "x", session="s", requester="rita")
        while not (found := await supervisor.find_approvals()):
            await anyio.sleep(0.01)
        kinds = [(await supervisor.decide(found[0].id, Approve(by=by))).kind for by in ("ana", "ben")]
        votes = sum(type(row.event).__name__ == "ApprovalVoted" for row in await supervisor.find_entries("s"))
        run = await supervisor.get_run("s")
        print(json.dumps([kinds, votes, await run.result()]), flush=True)

anyio.run(main, backend=sys.argv[1])
"""


def live(folder, backend, point):
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", backend, point, str(Path(__file__).parent.parent)]
    return preloaded.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("point", ["before ApprovalVoted", "after ApprovalVoted", "before ApprovalDecided"])
def test_votes_are_given_again_after_a_death_and_the_call_runs_once(tmp_path, backend, point):
    """The same vote again is the one on disk."""
    died = live(tmp_path, backend, point)
    assert died.returncode == -signal.SIGKILL, died.stderr
    done = live(tmp_path, backend, "")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["counted", "accepted"], 1, "ok"]
    assert (tmp_path / "effects").read_text() == "x"
