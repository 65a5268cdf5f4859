"""A process that dies at any moment of a call: no effect happens twice, each call has one result, none is left."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import preloaded
import pytest
from calling import events, plain
from real_processes import new_marker, no_descriptor_left, processes_with, real_backend  # noqa: F401 - fixtures

from supervisor import Context, SqliteStore, agent, open_supervisor, tool
from supervisor.core import events as e
from supervisor.tools import shell
from supervisor.tools.descendants import find

pytestmark = pytest.mark.anyio

DYING = """
import anyio, json, os, signal, sys
from supervisor import SqliteStore, open_supervisor
import test_call_crash as stories
backend, path, name, given, nth, when = sys.argv[1:]
class Dying(SqliteStore):
    commits = 0
    def commit(self):
        Dying.commits += 1
        if Dying.commits == int(nth) and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit()
        if Dying.commits == int(nth) and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
async def main():
    async with open_supervisor(Dying(path), unattended="allow") as supervisor:
        await (await supervisor.start(getattr(stories, name), json.loads(given), session="s")).result()
anyio.run(main, backend=backend)
"""


@tool
async def note(file: str) -> str:
    """A function tool whose effect can be counted."""
    with Path(file).open("a") as notes:
        notes.write("noted\n")
    return "noted"


@agent
async def three_calls(ctx: Context, given: dict[str, str]) -> list[Any]:
    env = {"MARKER": given["marker"]}
    first = await ctx.call(shell, command="echo done >> first", cwd=given["folder"], env=env)
    second = await ctx.call(note, f"{given['folder']}/second")
    third = await ctx.call(shell, command="echo done >> third", cwd=given["folder"], env=env)
    return [plain(result) for result in (first, second, third)]


@agent
async def long_call(ctx: Context, given: dict[str, str]) -> dict[str, Any]:
    env = {"MARKER": given["marker"]}
    command = "echo done >> first; while :; do sleep 0.1; done"
    return plain(await ctx.call(shell, command=command, cwd=given["folder"], env=env, timeout=1000))


@agent
async def one_job(ctx: Context, given: dict[str, str]) -> dict[str, Any]:
    env = {"MARKER": given["marker"]}
    command = "echo done >> first; sleep 1000"
    return plain(await ctx.call(shell, command=command, cwd=given["folder"], env=env, background=True))


def start(backend, path, name, given, nth=0, when="never"):
    """Start a process that runs an agent, and kills itself at its n-th commit."""
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{here}:{here.parent}"}
    argv = [sys.executable, "-c", DYING, backend, str(path), name, json.dumps(given), str(nth), when]
    return preloaded.Popen(argv, env=env)


async def go_on(path, spec, given):
    """Run the session to its end in this process; return its result and its events."""
    store = SqliteStore(path)
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            result = await (await supervisor.start(spec, given, session="s")).result()
            return result, events(store, "s")


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_kill_at_any_append_repeats_no_effect_and_loses_no_result(anyio_backend_name, marker, tmp_path, when):
    """A kill before and after each commit in turn, until a process reaches its end."""
    code, nth = -signal.SIGKILL, 0
    while code == -signal.SIGKILL:
        nth += 1
        folder = tmp_path / str(nth)
        folder.mkdir()
        given = {"folder": str(folder), "marker": marker}
        code = start(anyio_backend_name, folder / "state.db", "three_calls", given, nth, when).wait()
        results, journal = await go_on(folder / "state.db", three_calls, given)
        for name, result in zip(("first", "second", "third"), results, strict=True):
            effects = len((folder / name).read_text().splitlines()) if (folder / name).exists() else 0
            assert effects == 1 if result["kind"] == "ok" else effects <= 1
            assert result["kind"] == "ok" or result["details"]["reason"] == "lost"
        answered = [event.operation for event in journal if isinstance(event, e.ToolCallFinished)]
        assert len(answered) == len(set(answered)) == 3
        assert sum(result["kind"] != "ok" for result in results) <= 1
    assert code == 0
    assert nth > 9


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_kill_at_any_append_loses_no_job(anyio_backend_name, marker, tmp_path, when):
    """A job begins at most once, its end is journaled once, and it ends with its session, in whichever process."""
    code, nth = -signal.SIGKILL, 0
    while code == -signal.SIGKILL:
        nth += 1
        folder = tmp_path / str(nth)
        folder.mkdir()
        given = {"folder": str(folder), "marker": marker}
        code = start(anyio_backend_name, folder / "state.db", "one_job", given, nth, when).wait()
        result, _ = await go_on(folder / "state.db", one_job, given)
        store = SqliteStore(folder / "state.db", create=False)
        store.open()
        began, ended = events(store, "s", e.JobStarted), events(store, "s", e.JobEnded)
        store.close()
        assert [job.job for job in began] == [job.job for job in ended]
        assert result["kind"] == "ok" or result["details"]["orphaned_process"] == "kept"
        assert not (folder / "first").exists() or (folder / "first").read_text() == "done\n"
    assert code == 0
    assert nth > 3


async def die_during_call(backend, path, given, folder):
    """Kill a process in the middle of its command, with launcher and warden; return how the call began."""
    owner = start(backend, path, "long_call", given)
    while not (folder / "first").exists():
        await anyio.sleep(0.02)
    store = SqliteStore(path, create=False)
    store.open()
    (began,) = events(store, "s", e.ToolCallStarted)
    store.close()
    owner.send_signal(signal.SIGSTOP)  # else the owner would end the command itself
    assert owner.stops()
    warden = find(find(began.process).parent)
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that neither acts on the end of the other
        for pid in (warden.pid, warden.parent):
            os.kill(pid, number)
    owner.kill()
    owner.wait()
    return began


async def test_an_orphaned_process_of_a_lost_call_is_ended_before_anything_else(anyio_backend_name, marker, tmp_path):
    """T9: the process is found by pid and start time; the synthesised result says so, and nothing runs again."""
    given = {"folder": str(tmp_path), "marker": marker}
    began = await die_during_call(anyio_backend_name, tmp_path / "state.db", given, tmp_path)
    assert find(began.process) is not None
    result, _ = await go_on(tmp_path / "state.db", long_call, given)
    assert (result["kind"], result["details"]["orphaned_process"]) == ("interrupted", "ended")
    assert processes_with(marker) == []
    assert (tmp_path / "first").read_text() == "done\n"


async def test_an_orphaned_process_is_ended_by_a_cancel_of_a_tree_without_an_owner(
    anyio_backend_name, marker, tmp_path
):
    """The process that cancels claims the tree, and ends the command."""
    given = {"folder": str(tmp_path), "marker": marker}
    await die_during_call(anyio_backend_name, tmp_path / "state.db", given, tmp_path)
    store = SqliteStore(tmp_path / "state.db")
    with anyio.fail_after(60):
        async with open_supervisor(store) as supervisor:
            await supervisor.cancel("s")
            (result,) = events(store, "s", e.ToolCallFinished)
    assert processes_with(marker) == []
    assert (result.kind, json.loads(bytes(result.details))["orphaned_process"]) == ("interrupted", "ended")


async def test_a_command_dies_with_its_owner_and_its_call_is_lost(anyio_backend_name, marker, tmp_path):
    """A death between effect and result: the effect happened once, and the result says that its end is not known."""
    given = {"folder": str(tmp_path), "marker": marker}
    owner = start(anyio_backend_name, tmp_path / "state.db", "long_call", given)
    while not (tmp_path / "first").exists():
        await anyio.sleep(0.02)
    owner.kill()
    owner.wait()
    result, _ = await go_on(tmp_path / "state.db", long_call, given)
    assert (result["kind"], result["details"]["reason"]) == ("interrupted", "lost")
    assert result["details"]["orphaned_process"] in ("gone", "ended")
    assert (tmp_path / "first").read_text() == "done\n"
    with anyio.fail_after(60):
        while processes_with(marker):
            await anyio.sleep(0.02)
