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
from dying import points
from real_processes import new_marker, no_descriptor_left, processes_with, real_backend  # noqa: F401 - fixtures

from supervisor import Context, SqliteStore, agent, open_supervisor, tool
from supervisor.core import events as e
from supervisor.tools import shell
from supervisor.tools.descendants import find_process

pytestmark = pytest.mark.anyio


LIFE = """
import anyio, json, sys
from pathlib import Path
from supervisor import open_supervisor
import test_call_crash as stories
from dying import DyingStore
backend, folder, name, given, at = sys.argv[1:]
async def main():
    async with open_supervisor(DyingStore(Path(folder), json.loads(at)), unattended="allow") as supervisor:
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


def start(backend, folder, name, given, at=None):
    """Start a process that runs an agent, and dies at a point."""
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{here}:{here.parent}"}
    argv = [sys.executable, "-c", LIFE, backend, str(folder), name, json.dumps(given), json.dumps(at)]
    return preloaded.Popen(argv, env=env)


async def go_on(path, spec, given):
    """Run the session to its end in this process; return its result, and the events that the process leaves."""
    with anyio.fail_after(60):
        async with open_supervisor(SqliteStore(path), unattended="allow") as supervisor:
            result = await (await supervisor.start(spec, given, session="s")).result()
    store = SqliteStore(path, create=False)
    store.open()
    try:
        return result, events(store, "s")
    finally:
        store.close()


DEATHS = pytest.mark.parametrize(
    ("anyio_backend", "side"),
    [
        ("asyncio", "before"),
        ("trio", "after"),
        pytest.param("asyncio", None, marks=pytest.mark.soak),
        pytest.param("trio", None, marks=pytest.mark.soak),
    ],
    indirect=["anyio_backend"],
)


async def after_deaths(backend, folder, spec, marker, side):
    """Let processes die around each kind of event, or at each commit; yield the folder, result and events of each."""

    def live(where, at):
        where.mkdir()
        given = {"folder": str(where), "marker": marker}
        return given, start(backend, where, spec.name, given, at).wait()

    undisturbed = folder / "undisturbed"
    assert live(undisturbed, None)[1] == 0
    for at in points(undisturbed, side):
        given, code = live(folder / str(at), at)
        assert code == -signal.SIGKILL
        yield folder / str(at), *await go_on(folder / str(at) / "state.db", spec, given)


@pytest.mark.slow
@DEATHS
async def test_a_kill_at_any_append_repeats_no_effect_and_loses_no_result(anyio_backend_name, marker, tmp_path, side):
    deaths = 0
    async for folder, results, journal in after_deaths(anyio_backend_name, tmp_path, three_calls, marker, side):
        deaths += 1
        for name, result in zip(("first", "second", "third"), results, strict=True):
            effects = len((folder / name).read_text().splitlines()) if (folder / name).exists() else 0
            assert effects == 1 if result["kind"] == "ok" else effects <= 1
            assert result["kind"] == "ok" or result["details"]["reason"] == "lost"
        answered = [event.operation for event in journal if isinstance(event, e.ToolCallFinished)]
        assert len(answered) == len(set(answered)) == 3
        assert sum(result["kind"] != "ok" for result in results) <= 1
    assert deaths > 3


@pytest.mark.slow
@DEATHS
async def test_a_kill_at_any_append_loses_no_job(anyio_backend_name, marker, tmp_path, side):
    """A job begins at most once, its end is journaled once, and it ends with its session, in whichever process."""
    deaths = 0
    async for folder, result, journal in after_deaths(anyio_backend_name, tmp_path, one_job, marker, side):
        deaths += 1
        began, ended = ([x.job for x in journal if isinstance(x, kind)] for kind in (e.JobStarted, e.JobEnded))
        assert began == ended
        assert result["kind"] == "ok" or result["details"]["orphaned_process"] == "kept"
        assert not (folder / "first").exists() or (folder / "first").read_text() == "done\n"
    assert deaths > 3


async def die_during_call(backend, folder, given):
    """Kill a process in the middle of its command, with launcher and warden; return how the call began."""
    owner = start(backend, folder, "long_call", given)
    while not (folder / "first").exists():
        await anyio.sleep(0.02)
    store = SqliteStore(folder / "state.db", create=False)
    store.open()
    (began,) = events(store, "s", e.ToolCallStarted)
    store.close()
    owner.send_signal(signal.SIGSTOP)  # else the owner would end the command itself
    assert owner.stops()
    warden = find_process(find_process(began.process).parent)
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that neither acts on the end of the other
        for pid in (warden.pid, warden.parent):
            os.kill(pid, number)
    owner.kill()
    owner.wait()
    return began


async def test_an_orphaned_process_of_a_lost_call_is_ended_before_anything_else(anyio_backend_name, marker, tmp_path):
    """T9: the process is found by pid and start time; the synthesised result says so, and nothing runs again."""
    given = {"folder": str(tmp_path), "marker": marker}
    began = await die_during_call(anyio_backend_name, tmp_path, given)
    assert find_process(began.process) is not None
    result, _ = await go_on(tmp_path / "state.db", long_call, given)
    assert (result["kind"], result["details"]["orphaned_process"]) == ("interrupted", "ended")
    assert processes_with(marker) == []
    assert (tmp_path / "first").read_text() == "done\n"


async def test_an_orphaned_process_is_ended_by_a_cancel_of_a_tree_without_an_owner(
    anyio_backend_name, marker, tmp_path
):
    """The process that cancels claims the tree, and ends the command."""
    given = {"folder": str(tmp_path), "marker": marker}
    await die_during_call(anyio_backend_name, tmp_path, given)
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
    owner = start(anyio_backend_name, tmp_path, "long_call", given)
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
