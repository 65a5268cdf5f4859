"""Background jobs: they go on after their call, are found again after a crash, and their end is told once."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import preloaded
import pytest
from calling import call_shell, events, keeper, plain, sleeper
from real_processes import new_marker, no_descriptor_left, process_state, real_backend  # noqa: F401 - fixtures

from supervisor import Context, MemoryStore, SqliteStore, agent, open_supervisor
from supervisor.core import events as e
from supervisor.tools import job_kill, job_output, jobs, log_limit, shell
from supervisor.tools.ampersand import without_ampersand
from supervisor.tools.background import BackgroundProcess, end_job, is_guarded, make_job_folder
from supervisor.tools.descendants import find
from supervisor.tools.session_jobs import LARGEST_OUTPUT

pytestmark = pytest.mark.anyio

UNTIL_GO = "echo begun; while [ ! -e go ]; do sleep 0.02; done; exit 7"
CRASHING = """
import anyio, json, sys
from calling import sleeper
from supervisor import open_supervisor
async def main(backend, store, call):
    async with open_supervisor(store, unattended="allow") as supervisor:
        await (await supervisor.start(sleeper, json.loads(call), session="s")).outcome()
        await anyio.sleep(1000)
anyio.run(main, *sys.argv[1:], backend=sys.argv[1])
"""


@pytest.fixture(name="call")
def job_call(marker, tmp_path):
    """The arguments of a call that begins a job, in an empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    return {"command": UNTIL_GO, "background": True, "cwd": str(folder), "env": {"MARKER": marker}}


def let_go(call):
    Path(call["cwd"], "go").touch()


async def told(store, session="s"):
    """Wait until a session was told the end of a job; returns all that it was told."""
    with anyio.fail_after(60):
        while not (found := events(store, session, e.JobEnded)):
            await anyio.sleep(0.02)
    return found


def crash_with_job(backend, store, call, program=CRASHING, until=e.OperationStarted):
    """Let a process begin a job, and be killed when the call's result is on disk; returns how the job began."""
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{here}:{here.parent}"}
    with preloaded.Popen([sys.executable, "-c", program, backend, store, json.dumps(call)], env=env) as owner:
        while not (Path(store).exists() and reading(store, lambda s: s.journal("s") and events(s, "s", until))):
            assert owner.poll() is None
        owner.kill()
    return reading(store, lambda s: events(s, "s", e.JobStarted))[0]


def reading(path, look):
    store = SqliteStore(path, create=False)
    store.open()
    try:
        return look(store)
    finally:
        store.close()


async def test_a_job_begins_and_the_call_returns(call):
    """With its id, its pid and the path of its log; the job is still at work."""
    store = MemoryStore()
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            await supervisor.start(sleeper, call, session="s")
            while not events(store, "s", e.ToolCallFinished):
                await anyio.sleep(0.01)
            (result,), (began,) = events(store, "s", e.ToolCallFinished), events(store, "s", e.JobStarted)
            details = json.loads(bytes(result.details))
            assert (result.kind, details["job"], details["pid"]) == ("ok", began.job, began.process)
            assert process_state(began.process) not in ("Z", None)
            assert [oct(path.stat().st_mode)[-3:] for path in (Path(began.log), Path(began.log).parent)] == [
                "600",
                "700",
            ]
            let_go(call)
            (ended,) = await told(store)
            assert (ended.how, ended.exit_code) == ("exited", 7)
            assert Path(details["log"]).read_text() == "begun\n"
            await supervisor.cancel("s")


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        ("server &", "server"),
        ("a; b &\n", "a; b"),
        ("echo '&' & # forever", "echo '&'"),
        ('echo "$(a &)" &', 'echo "$(a &)"'),
        *((text, None) for text in ("a && b", "a &&", "echo '&'", 'echo "&"', "echo \\&", "a |&", "a 2>&", "a # &")),
        *((text, None) for text in ("(a &)", "f() { a & }", "echo 'a &", "cat <<E &", "a & b", "a & &", "&", "")),
    ],
)
def test_a_single_ampersand_at_the_end_is_told_from_all_others(command, rest):
    """Parsed, not searched for."""
    assert without_ampersand(command) == rest


async def test_a_command_that_ends_in_an_ampersand_is_a_job(call):
    """As if the call had said so; it ends with its session."""
    store = MemoryStore()
    result = await call_shell({**call, "background": False, "command": "setsid sleep 1000 &"}, store=store)
    assert result["details"]["job"] == events(store, "s", e.JobStarted)[0].job
    assert [event.how for event in events(store, "s", e.JobEnded)] == ["ended"]


async def test_a_job_ends_with_its_root_session(call, tmp_path):
    """Unless its agent says otherwise; its session is told, and nothing of it is left."""
    store = SqliteStore(tmp_path / "state.db")
    await call_shell(call, store=store)
    ended = reading(store.path, lambda s: events(s, "s", e.JobEnded))
    assert [(event.how, event.signal) for event in ended] == [("ended", 15)]


@agent
async def stubborn(ctx: Context, call: dict[str, Any]) -> None:
    for number in range(12):
        await ctx.call(shell, **call, command=f"trap '' TERM; : {number}; while :; do sleep 0.1; done")


@pytest.mark.parametrize("anyio_backend", ["trio"])  # it takes the grace of two seconds
async def test_jobs_that_ignore_their_end_are_ended_together(call, tmp_path):
    """T6: whoever leaves waits for as long as one of them takes; one by one, some would outlive the bound of that."""
    store = SqliteStore(tmp_path / "state.db")
    call = {name: value for name, value in call.items() if name != "command"}
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            await (await supervisor.start(stubborn, call, session="s")).outcome()
    assert [event.how for event in reading(store.path, lambda s: events(s, "s", e.JobEnded))] == ["ended"] * 12


async def test_a_kept_job_outlives_session_and_supervisor(call, tmp_path):
    """It is ended by whoever wants to, later."""
    store = SqliteStore(tmp_path / "state.db")
    await call_shell(call, keeper, store)
    (began,) = reading(store.path, lambda s: events(s, "s", e.JobStarted))
    assert find(began.process) is not None
    assert await end_job(began, "a test") == "ended"
    assert find(began.guard) is None or process_state(began.guard) in ("Z", None)


async def test_a_job_that_cannot_begin_is_a_failed_launch(call):
    """Known at once, and no job of its session any more."""
    store = MemoryStore()
    result = await call_shell({**call, "command": ["no-such-program"]}, store=store)
    assert (result["kind"], result["details"]["reason"]) == ("error", "launch")
    assert [event.how for event in await told(store)] == ["failed"]


async def test_a_job_whose_warden_dies_at_its_beginning_is_not_said_to_have_begun(call, tmp_path):
    """Whether it has, nobody can tell."""
    _, folder = make_job_folder(str(tmp_path), "s")
    with anyio.fail_after(120):
        async with BackgroundProcess("sleep 1000", folder, cwd=None, env=call["env"]) as process:
            os.kill(process.guard, signal.SIGSTOP)
            async with anyio.create_task_group() as group:
                group.start_soon(_begin, process, begun := [])
                while not process.is_released:
                    await anyio.sleep(0.005)
                os.kill(process.guard, signal.SIGKILL)
    assert begun == [False]


async def _begin(process, begun):
    begun.append(await process.begin())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio has no cancellation but that of scopes
async def test_a_job_that_is_cancelled_natively_as_it_is_committed_is_told_of(call):
    """T6: it is on disk, so its session hears of its end, though it never began."""
    tasks = []

    class Cancelling(MemoryStore):
        def write(self, rows) -> None:
            if any(isinstance(row.event, e.JobStarted) for row in rows):
                tasks[0].cancel()
            super().write(rows)

    @agent
    async def impatient(ctx: Context) -> None:
        tasks.append(asyncio.current_task())
        try:
            await ctx.call(shell, **call)
        except asyncio.CancelledError:
            tasks[0].uncancel()

    store = Cancelling()
    with anyio.fail_after(120):
        async with open_supervisor(store, unattended="allow") as supervisor:
            await (await supervisor.start(impatient, session="s")).result()
            assert [event.job for event in await told(store)] == [events(store, "s", e.JobStarted)[0].job]


async def test_a_job_whose_owner_dies_at_its_beginning_goes_on_under_its_warden(call, tmp_path):
    """Released, and nobody there any more to hear that it has begun: its end is written down as any other's."""
    _, folder = make_job_folder(str(tmp_path), "s")
    with anyio.fail_after(120):
        async with BackgroundProcess("sleep 0.1; exit 7", folder, cwd=None, env=call["env"]) as process:
            os.kill(process.guard, signal.SIGSTOP)
            await process.release()
        os.kill(process.guard, signal.SIGCONT)
        while not (end := Path(folder, "end")).exists():
            await anyio.sleep(0.02)
    assert json.loads(end.read_text())["code"] == 7


@agent
async def reading_a_log(ctx: Context, given: tuple[dict[str, Any], list[tuple[int | None, int]]]) -> list[Any]:
    """Read a job's log when it has ended, from these offsets on, so many bytes each."""
    call, places = given
    job = (await ctx.call(shell, **call)).details["job"]
    while (await ctx.call(jobs)).value[0].state == "running":
        await ctx.sleep(0.05)
    return [plain(await ctx.call(job_output, job, offset=offset, limit=limit)) for offset, limit in places]


async def read_log_of(call, *places):
    store = MemoryStore()
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            run = await supervisor.start(reading_a_log, (call, list(places)), session="s")
            pieces = await run.result()
            return pieces, Path(events(store, "s", e.JobStarted)[0].log).stat()


@pytest.mark.skipif(sys.platform != "linux", reason="holes in files are asked for as Linux has them")
async def test_the_log_of_a_chatty_job_is_bounded_and_says_so(call):
    """Its middle goes; a cursor stays true, and whoever reads from there is told how much is missing."""
    head_size = log_limit.HEAD
    talk = {**call, "command": "yes 0123456789abcde | head -c 83886080; echo last"}
    (head, middle, tail), found = await read_log_of(talk, (head_size - 100, 1000), (head_size, 1000), (None, 5))
    assert (found.st_size, found.st_blocks * 512 <= log_limit.LIMIT) == (83886085, True)
    assert head["value"].encode().endswith(log_limit.NOTE)
    start, gone = middle["details"]["offset"], middle["details"]["omitted"]
    assert (gone > 0, start - gone) == (True, head_size)
    assert (middle["value"][:16], str(gone) in middle["content"]) == ("0123456789abcde\n", True)
    assert (tail["value"], tail["details"]["omitted"]) == ("last\n", 0)


async def test_a_cursor_in_a_log_never_splits_a_character(call):
    """Nor does one go lost: what is cut off at one call begins the next."""
    pieces, _ = await read_log_of({**call, "command": "printf 'a€😀b€'"}, (0, 5), (4, 5), (9, 5), (None, 5))
    assert [piece["value"] for piece in pieces] == ["a€", "😀b", "€", "b€"]
    assert [piece["details"]["next_offset"] for piece in pieces] == [4, 9, 12, 12]


async def test_what_a_job_put_out_ends_with_how_it_is_and_where_to_read_on(call):
    """For a model, which gets the content alone: on a line of its own, whatever the output ends with."""
    (piece, empty), _ = await read_log_of({**call, "command": "printf abc; exit 3"}, (0, 2), (3, 5))
    line = piece["content"].splitlines()[-1]
    assert (piece["value"], piece["content"].splitlines()[0]) == ("ab", "ab")
    for said in ("exit code 3", "3 bytes", "offset 2"):
        assert said in line
    assert "offset 3" in empty["content"]


async def test_nobody_reads_more_of_a_log_at_once_than_there_is_room_for(call):
    """Whatever a model makes up: one piece has a bound, and says where it goes on."""
    (piece,), _ = await read_log_of({**call, "command": "head -c 3000000 /dev/zero"}, (0, 2**62))
    assert piece["details"]["next_offset"] == LARGEST_OUTPUT


@agent
async def looking_after(ctx: Context, call: dict[str, Any]) -> list[Any]:
    job = (await ctx.call(shell, **call)).details["job"]
    output = await ctx.call(job_output, job)
    while output.value != "begun\n":
        await ctx.sleep(0.05)
        output = await ctx.call(job_output, job)
    listed = await ctx.call(jobs)
    killed = await ctx.call(job_kill, job)
    again = await ctx.call(job_kill, job)
    unknown = await ctx.call(job_output, "another")
    states = [output.details["state"], listed.value[0].state, killed.value.state, again.value.state]
    return [*states, plain(unknown)["kind"]]


async def test_a_session_lists_reads_and_ends_its_jobs(call):
    """Without asking anybody: it was allowed to begin them. Nobody else's job has a name for it."""
    store = MemoryStore()
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            run = await supervisor.start(looking_after, call, session="s")
            assert await run.result() == ["running", "running", "ended", "ended", "error"]
            (ended,) = await told(store)
    assert (ended.how, ended.signal) == ("ended", 15)
    assert len(store.find_approvals(pending=False)) == 1


async def test_a_job_survives_a_crash_and_is_taken_up_again(anyio_backend_name, call, tmp_path):
    """Found by pid and start time; its end is told once, with its exit code."""
    path = str(tmp_path / "state.db")
    began = crash_with_job(anyio_backend_name, path, call)
    assert process_state(began.process) not in ("Z", None)
    store = SqliteStore(path)
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            await supervisor.resume("s")
            await anyio.sleep(0.5)
            assert events(store, "s", e.JobEnded) == []
            let_go(call)
            (ended,) = await told(store)
            assert (ended.how, ended.exit_code) == ("exited", 7)
            await supervisor.cancel("s")
    assert len(reading(path, lambda s: events(s, "s", e.JobEnded))) == 1


async def test_an_end_that_nobody_saw_is_told_at_the_next_start(anyio_backend_name, call, tmp_path):
    """The warden wrote it down: exit code and all."""
    path = str(tmp_path / "state.db")
    began = crash_with_job(anyio_backend_name, path, call)
    let_go(call)
    with anyio.fail_after(60):
        while find(began.guard) is not None and process_state(began.guard) != "Z":
            await anyio.sleep(0.02)
        store = SqliteStore(path)
        async with open_supervisor(store, unattended="allow") as supervisor:
            await supervisor.resume("s")
            assert [(event.how, event.exit_code) for event in await told(store)] == [("exited", 7)]
            await supervisor.cancel("s")


async def test_a_job_that_is_gone_without_a_word_is_lost_once(anyio_backend_name, call, tmp_path):
    """Its warden was killed with it; two more starts say it one time."""
    path = str(tmp_path / "state.db")
    began = crash_with_job(anyio_backend_name, path, call)
    os.kill(began.guard, signal.SIGKILL)
    os.killpg(began.process, signal.SIGKILL)
    with anyio.fail_after(60):
        while find(began.process) is not None and process_state(began.process) not in ("Z", None):
            await anyio.sleep(0.02)
        for _ in range(2):
            store = SqliteStore(path)
            with anyio.CancelScope() as leaving:
                async with open_supervisor(store, unattended="allow") as supervisor:
                    await supervisor.resume("s")
                    assert [event.how for event in await told(store)] == ["lost"]
                    leaving.cancel()
                    await anyio.sleep(1)
    assert len(reading(path, lambda s: events(s, "s", e.JobEnded))) == 1


@pytest.mark.parametrize("how", ["adopt", "resume"])
async def test_a_job_that_its_sessions_end_should_have_ended_is_ended_at_the_next_start(call, tmp_path, how):
    """T6: killed between the two; the tree has ended, so nothing else would take it up again."""
    path = str(tmp_path / "state.db")
    too_late = "import supervisor.tools.job_watch as watch; watch.LOOK_AGAIN = 1000\n"
    crash_with_job("asyncio", path, call, too_late + CRASHING.replace("sleeper", "caller"), e.RunFinished)
    store = SqliteStore(path)
    with anyio.fail_after(120):
        async with open_supervisor(store, adopt=how == "adopt") as supervisor:
            if how == "resume":
                assert await supervisor.resume_all() == []
            assert [event.how for event in await told(store)] == ["ended"]


async def test_a_job_whose_warden_was_killed_goes_on_and_can_be_ended(anyio_backend_name, call, tmp_path):
    """By its own pid and start time."""
    began = crash_with_job(anyio_backend_name, str(tmp_path / "state.db"), call)
    os.kill(began.guard, signal.SIGKILL)
    with anyio.fail_after(60):
        while is_guarded(began):  # it is being killed
            await anyio.sleep(0.01)
    assert await end_job(began, "a test") == "ended"
    assert process_state(began.process) in ("Z", None)


@agent
async def talking(ctx: Context, folder: str) -> str:
    if folder == "go on":
        return (await ctx.call(jobs)).value[0].state
    command = "while [ ! -e go ]; do sleep 0.02; done"
    return (await ctx.call(shell, command=command, cwd=folder, background=True)).kind


async def test_a_job_survives_the_turn_that_began_it(call):
    """The next turn of the conversation finds it running; leaving the supervisor ends it."""
    store = MemoryStore()
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            run = await supervisor.start(talking, call["cwd"], session="s")
            assert await run.result() == "ok"
            await supervisor.send("s", "go on")
            while events(store, "s", e.RunFinished)[1:] == []:
                await anyio.sleep(0.02)
            assert events(store, "s", e.JobEnded) == []
    assert (await supervisor.get_session("s")).outcome["value"] == "running"
    assert [event.how for event in events(store, "s", e.JobEnded)] == ["ended"]
