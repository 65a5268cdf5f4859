"""SIGKILL of a process that runs an agent of Pydantic AI or OpenAI Agents: real processes, a store on disk, one person.

What a death leaves in memory, at every append, is in test_frameworks.py; a graph of LangGraph in test_langgraph_killed.
This module is also what these processes run (nest.py).
"""

import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from dying import DyingStore, points
from framework_scenes import approve_all
from framework_table import FRAMEWORKS, Wanted
from nest import Nests

from supervisor import NotFound, SqliteStore, open_supervisor
from supervisor.core import events as e

pytestmark = pytest.mark.anyio

folder = Path()


@pytest.fixture
def anyio_backend():
    return "asyncio"


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


async def live(name, where, at=None):
    """Run the session to its end."""
    global folder
    folder = where
    async with open_supervisor(DyingStore(where, at)) as supervisor:
        run = await supervisor.start(AGENTS[name], "clean up", session="top")
        await approve_all(supervisor, run)
        return await run.outcome()


def main(job):
    """Run the session in a process of its own."""
    anyio.run(live, job["do"], Path(job["folder"]), job["at"])
    return 0


@pytest.fixture(scope="module")
def nests():
    found = Nests(Path(__file__))
    yield found
    found.close()


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
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["some", "all"])
@pytest.mark.parametrize("name", AGENTS)
async def test_a_kill_around_any_commit_repeats_no_tool_and_no_answered_request(nests, tmp_path, name, every):
    """T1, R1: and no call is left without a result. Some: before each kind of event, and at each 9th point."""

    def dies(where, at=None):
        where.mkdir()
        return nests.live(name, where, at=at) == -signal.SIGKILL

    undisturbed = tmp_path / "undisturbed"
    assert not dies(undisturbed)
    all_points = points(undisturbed, None)
    deaths = 0
    for at in all_points if every else [*points(undisturbed, "before"), *all_points[8::9]]:
        where = tmp_path / str(at)
        deaths += dies(where, at)
        answered = [each for each in operations(journal(where), e.OperationFinished) if "request" in each]
        before = recorded(where / "requests")
        outcome = await live(name, where)
        assert outcome.kind == "succeeded", (at, outcome)
        done, again = recorded(where / "effects"), recorded(where / "requests")[len(before) :]
        assert len(done) == len({*done}), (at, done)
        assert not {*again} & {*before[: len(answered)]}, (at, answered, before, again)
        ended = journal(where)
        assert len(operations(ended, e.ToolCallRequested)) == 3
        assert operations(ended, e.ToolCallRequested) == operations(ended, e.ToolCallFinished)
    assert deaths > 8
    assert {*recorded(undisturbed / "effects")} == {*"abc"}
    assert len([each for each in operations(journal(undisturbed), e.OperationFinished) if "request" in each]) == 3
