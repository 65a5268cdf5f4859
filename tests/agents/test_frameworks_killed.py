"""SIGKILL of a process that runs an agent of Pydantic AI or OpenAI Agents: real processes, a store on disk, one person.

What a death leaves in memory, at every append, is in test_frameworks.py; a graph of LangGraph in test_langgraph_killed.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import preloaded
import pytest
from framework_scenes import approve_all
from framework_table import FRAMEWORKS, Wanted

from supervisor import NotFound, SqliteStore, open_supervisor
from supervisor.core import events as e

pytestmark = pytest.mark.anyio

LIFE = """
import sys
import anyio, test_frameworks_killed as stories
name, folder, stories.dies_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
anyio.run(stories.live, name, folder)
"""
folder = Path()
dies_at = 0
passed = 0


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Store(SqliteStore):
    def commit(self):
        point()
        super().commit()
        point()


def point():
    """Die at the n-th point at which something is about to be, or was just, committed."""
    global passed
    passed += 1
    if passed == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)


def record(line, name):
    with (folder / name).open("a") as file:
        file.write(f"{line}\n")


def recorded(file):
    return file.read_text().splitlines() if file.exists() else []


async def delete(path: str) -> str:
    """Delete a file."""
    record(path, "effects")
    return f"deleted {path}"


async def script(said):
    """Delete a, then b and c at once, and say what the tools have returned."""
    record(len(said.results), "requests")
    paths = {0: "a", 1: "bc"}.get(len(said.results), "")
    return [Wanted("delete", {"path": path}, f"c{path}") for path in paths] or " and ".join(said.results)


AGENTS = {
    framework.name: framework.agent(f"{framework.name}_cleaner", script, [framework.tool(delete, asks=True)])
    for framework in FRAMEWORKS
    if framework.name != "langgraph"
}
pydantic_ai_cleaner, openai_agents_cleaner = AGENTS.values()  # the names by which another process finds them


async def live(name, where):
    """Run the session to its end."""
    global folder
    folder = Path(where)
    async with open_supervisor(Store(folder / "state.db")) as supervisor:
        run = await supervisor.start(AGENTS[name], "clean up", session="top")
        await approve_all(supervisor, run)
        return await run.outcome()


def begin(name, where, nth):
    """Start a process of ours that runs the session, and kills itself at its n-th point."""
    where.mkdir()
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{here}:{here.parent}"}
    return preloaded.Popen([sys.executable, "-c", LIFE, name, str(where), str(nth)], env=env)


def journal(where) -> list[Any]:
    """Return what a process has left on disk."""
    store = SqliteStore(where / "state.db", create=False)
    store.open()
    try:
        return [row.event for row in store.journal("top")]
    except NotFound:
        return []
    finally:
        store.close()


def operations(events, kind):
    return sorted(each.operation for each in events if isinstance(each, kind))


@pytest.mark.slow
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", AGENTS)
async def test_a_kill_around_any_commit_repeats_no_tool_and_no_answered_request(tmp_path, name, step):
    """T1, R1: and no call is left without a result."""
    killed, nth = True, 0
    while killed:
        nth += step
        where = tmp_path / str(nth)
        killed = begin(name, where, nth).wait() == -signal.SIGKILL
        answered = [each for each in operations(journal(where), e.OperationFinished) if "request" in each]
        before = recorded(where / "requests")
        outcome = await live(name, where)
        assert outcome.kind == "succeeded", (nth, outcome)
        done, again = recorded(where / "effects"), recorded(where / "requests")[len(before) :]
        assert len(done) == len({*done}), (nth, done)
        assert not {*again} & {*before[: len(answered)]}, (nth, answered, before, again)
        ended = journal(where)
        assert len(operations(ended, e.ToolCallRequested)) == 3
        assert operations(ended, e.ToolCallRequested) == operations(ended, e.ToolCallFinished)
    assert (len(answered), {*done}, again) == (3, {*"abc"}, [])
    assert nth > 20
