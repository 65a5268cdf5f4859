"""SIGKILL of the supervisor's process while an agent is at work: real processes, a real store, one person.

This module is also what these processes run (nest.py)."""

import json
import signal
import sys
from pathlib import Path

import anyio
import pytest
from acp_scenes import HANGS, Home, ask, events, opened, real_backend, say
from dying import DyingStore, points
from nest import Nests

from supervisor import Approve, Deny, NotFound, SqliteStore
from supervisor.core import events as e
from supervisor.core.sessions.state import replay_journal
from supervisor.tools.descendants import find_process

__all__ = ["real_backend"]
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the platform has no subreaper")]

BOTH = [ask("c1", "rm x", wait=False), ask("c2", "rm y", wait=False), {"do": "await", "ids": ["c1", "c2"]}]
ASKING = {"turns": [[say("I begin"), *BOTH, say("done")]] * 5}
SCRIPTS = {
    # What the agent says of its past is wrong, or it does not know it.
    "lying": {**ASKING, "replayed": "completed"},
    "forgetful": {**ASKING, "load": "fail"},
    # A call that never ends and a process in a session of its own, both deaf to SIGTERM.
    "deaf": {"turns": [[{"do": "child"}, ask("c1", "rm x", after="never")]], "deaf": True},
    "heedful": {"turns": [[], [say("done")]]},
}


class Person:
    """Allows one request for each command in all lives, and denies a further one: what is lost is not to run again."""

    def __init__(self, folder: Path) -> None:
        self.seen: set[str] = set()
        self._folder = folder

    async def answer(self, supervisor) -> None:
        async with supervisor.watch_approvals() as watch:
            async for approval in watch:
                self.seen.add(approval.id)
                command = approval.arguments["command"]
                file = self._folder / f"allowed {command}"
                if not file.exists():
                    file.write_text(approval.id)
                first = file.read_text() == approval.id
                await supervisor.decide(approval.id, Approve(by="ana") if first else Deny(by="ana"))


async def live(folder, script, at=None):
    """Run the session to its end, with a person at hand; return the last word, and the requests that she saw."""
    global fake  # a name by which each process finds the agent
    person = Person(folder)
    fake = Home(folder / "home").agent(**SCRIPTS[script])
    async with opened(DyingStore(folder, at)) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(person.answer, supervisor)
        said = await (await supervisor.start(fake, "go", session="top")).result()
        tasks.cancel_scope.cancel()
    return said, person.seen


def main(job):
    """Run the session in a process of its own."""
    anyio.run(live, Path(job["folder"]), job["script"], job["at"], backend=job["backend"])
    return 0


@pytest.fixture(scope="module")
def nests():
    found = Nests(Path(__file__), "acp.schema")  # whose import takes a second
    yield found
    found.close()


def journal(folder, kind=object):
    """Return the session's events of a kind; none before its first commit."""
    store = SqliteStore(folder / "state.db", create=False)
    store.open()
    try:
        return events(store, "top", kind)
    except NotFound:
        return []
    finally:
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("anyio_backend", "script", "side"),
    [
        ("asyncio", "lying", "before"),
        ("trio", "forgetful", "after"),
        pytest.param("asyncio", "forgetful", None, marks=pytest.mark.soak),
        pytest.param("trio", "lying", None, marks=pytest.mark.soak),
    ],
)
async def test_a_kill_around_any_commit_repeats_no_effect_and_loses_no_request(
    anyio_backend_name, nests, tmp_path, script, side
):
    """Save, request, decision, `executing`, answer, result: a kill before and after each. No agent process begins while
    a former one lives."""

    def dies(folder, at=None):
        folder.mkdir()
        return nests.live("live", folder, backend=anyio_backend_name, script=script, at=at) == -signal.SIGKILL

    assert not dies(tmp_path / "undisturbed")
    deaths = 0
    for at in points(tmp_path / "undisturbed", side):
        folder = tmp_path / str(at)
        deaths += dies(folder, at)
        pending = {approval for _, approval in replay_journal("top", journal(folder)).pending_approvals()}
        said, seen = await live(folder, script)
        assert (said, pending - seen) == ("done", set()), at
        home, finished = Home(folder / "home"), journal(folder, e.ToolCallFinished)
        assert (home.living, home.lines("overlaps")) == ([], []), at
        assert len({each.operation for each in finished}) == len(finished), at
        lost = sum(each.kind == "interrupted" for each in finished)
        assert 2 - lost <= len(home.effects) == len(set(home.effects)) <= 2, at
    assert deaths > 5


async def test_a_deaf_agent_is_gone_before_the_next_one_begins(anyio_backend_name, nests, tmp_path):
    """It is killed in the middle of a call, with the process that it had started in a session of its own."""
    owner = nests.begin("live", tmp_path, backend=anyio_backend_name, script="deaf", at=None)
    home = Home(tmp_path / "home")
    with anyio.fail_after(HANGS):
        while "yes" not in home.outcomes:
            await anyio.sleep(0.02)
    (agent,) = home.pids
    child = find_process(int((tmp_path / "home" / "child").read_text()))
    assert child.session != find_process(agent).session
    owner.signal(signal.SIGKILL)
    owner.end()
    said, _ = await live(tmp_path, "heedful")
    assert said == "done"
    assert (home.living, home.lines("overlaps"), home.effects) == ([], [], [])
    assert find_process(child.pid) is None or find_process(child.pid).is_zombie
    (lost,) = journal(tmp_path, e.ToolCallFinished)
    assert (lost.kind, json.loads(bytes(lost.details))["reason"]) == ("interrupted", "lost")
    assert "lost" in home.prompts[1]
