"""SIGKILL of the supervisor's process while an agent is at work: real processes, a real store, one person."""

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import preloaded
import pytest
from acp_scenes import Home, ask, events, opened, real_backend, say

from supervisor import Approve, Deny, NotFound, SqliteStore
from supervisor.core import events as e
from supervisor.core.session import replay
from supervisor.tools.descendants import find

__all__ = ["real_backend"]
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the platform has no subreaper")]

LIFE = """
import anyio, os, signal, sys
from pathlib import Path
from supervisor import SqliteStore
import acp_scenes, test_acp_killed as stories
backend, folder, script, nth, when = sys.argv[1:]
class Dying(SqliteStore):
    commits = 0
    def commit(self):
        Dying.commits += 1
        if Dying.commits == int(nth) and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit()
        if Dying.commits == int(nth) and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
anyio.run(stories.live, Dying, Path(folder), script, backend=backend)
"""

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


async def live(store, folder, script):
    """Run the session to its end, with a person at hand; return the last word, and the requests that she saw."""
    global fake  # a name by which each process finds the agent
    person = Person(folder)
    fake = Home(folder / "home").agent(**SCRIPTS[script])
    async with opened(store(folder / "state.db")) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(person.answer, supervisor)
        said = await (await supervisor.start(fake, "go", session="top")).result()
        tasks.cancel_scope.cancel()
    return said, person.seen


def begin(backend, folder, script, nth=0, when="never"):
    """Start a process of ours that runs the session, and kills itself at its n-th commit."""
    folder.mkdir(exist_ok=True)
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{here}:{here.parent}"}
    return preloaded.Popen([sys.executable, "-c", LIFE, backend, str(folder), script, str(nth), when], env=env)


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
    ("anyio_backend", "when", "script"), [("asyncio", "before", "lying"), ("trio", "after", "forgetful")]
)
async def test_a_kill_at_any_commit_repeats_no_effect_and_loses_no_request(anyio_backend_name, tmp_path, when, script):
    """Save, request, decision, `executing`, answer, result: a kill before and after each, until a process reaches its
    end. No agent process begins while a former one lives."""
    code, nth = -signal.SIGKILL, 0
    while code == -signal.SIGKILL:
        nth += 1
        folder = tmp_path / str(nth)
        code = begin(anyio_backend_name, folder, script, nth, when).wait()
        pending = {approval for _, approval in replay("top", journal(folder)).pending_approvals()}
        said, seen = await live(SqliteStore, folder, script)
        assert (said, pending - seen) == ("done", set())
        home, finished = Home(folder / "home"), journal(folder, e.ToolCallFinished)
        assert (home.living, home.lines("overlaps")) == ([], [])
        assert len({each.operation for each in finished}) == len(finished)
        lost = sum(each.kind == "interrupted" for each in finished)
        assert 2 - lost <= len(home.effects) == len(set(home.effects)) <= 2
    assert code == 0
    assert nth > 8


async def test_a_deaf_agent_is_gone_before_the_next_one_begins(anyio_backend_name, tmp_path):
    """It is killed in the middle of a call, with the process that it had started in a session of its own."""
    owner = begin(anyio_backend_name, tmp_path, "deaf")
    home = Home(tmp_path / "home")
    while "yes" not in home.outcomes:
        assert owner.poll() is None
        await anyio.sleep(0.02)
    (agent,) = home.pids
    child = find(int((tmp_path / "home" / "child").read_text()))
    assert child.session != find(agent).session
    owner.kill()
    owner.wait()
    said, _ = await live(SqliteStore, tmp_path, "heedful")
    assert said == "done"
    assert (home.living, home.lines("overlaps"), home.effects) == ([], [], [])
    assert find(child.pid) is None or find(child.pid).is_zombie
    (lost,) = journal(tmp_path, e.ToolCallFinished)
    assert (lost.kind, json.loads(bytes(lost.details))["reason"]) == ("interrupted", "lost")
    assert "lost" in home.prompts[1]
