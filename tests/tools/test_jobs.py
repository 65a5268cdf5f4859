"""Background jobs: they go on after their call, are found again after a crash, and their end is journaled once."""

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
from supervisor.tools.ampersand import as_job, in_background, without_ampersand
from supervisor.tools.background import BackgroundProcess, end_job, is_guarded, make_job_folder
from supervisor.tools.descendants import find_process
from supervisor.tools.session_jobs import LARGEST_OUTPUT_BYTES

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
    """Wait until the end of a job is journaled; return all JobEnded events of the session."""
    with anyio.fail_after(60):
        while not (found := events(store, session, e.JobEnded)):
            await anyio.sleep(0.02)
    return found


def crash_with_job(backend, store, call, program=CRASHING, until=e.OperationStarted, times=1):
    """Let a process begin a job, and kill it when the call's result is on disk; return how the job began."""
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{here}:{here.parent}"}
    with preloaded.Popen([sys.executable, "-c", program, backend, store, json.dumps(call)], env=env) as owner:
        while not (
            Path(store).exists() and reading(store, lambda s: s.journal("s") and events(s, "s", until)[times - 1 :])
        ):
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
    """The call returns the job's id, its pid and the path of its log, while the job is running."""
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
def test_a_single_ampersand_at_the_end_differs_from_all_others(command, rest):
    """The command is parsed, not searched."""
    assert without_ampersand(command) == rest


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("server & echo $!", ["server"]),
        ("nohup a > log 2>&1 & b | c & d", ["nohup a > log 2>&1", "b | c"]),
        ("(a &); { b & }", ["a", "b"]),
        ("x=1; rm -r d; cd d\nserver $x & curl", ["x=1; cd d; server $x"]),
        ("(cd d; a &); b & c", ["cd d; a", "b"]),
        ("cd d && a & b", ["cd d && a"]),
        ("a &&\nb & c", ["a &&\nb"]),
        ("setsid -f a & nohup setsid b & c", ["a", "nohup b"]),
        ("echo ${x} $(b &) & c", ["echo ${x} $(b &)"]),
        *((text, []) for text in ("for x in a; do b & done", "while a; do b; done & c", "if a; then b & fi")),
        *((text, []) for text in ("a && b", "echo '&'; a", "cat <<E & a", "echo 'a & b", "a &> b", "a # & b", "& a")),
    ],
)
def test_each_part_that_a_command_puts_into_the_background_stands_alone(command, parts):
    """Each part has the folder and the variables that were set before it. A part of a loop has no meaning alone."""
    assert in_background(command) == parts


@pytest.mark.parametrize(
    ("command", "job"),
    [
        ("setsid sleep 1 &", "sleep 1"),
        (["setsid", "-f", "sleep", "1"], ["sleep", "1"]),
        ("echo setsid", "echo setsid"),
        (["setsid"], ["setsid"]),
    ],
)
def test_a_job_begins_no_second_session(command, job):
    """It would exit, and so end, at once."""
    assert as_job(command) == job


async def test_a_command_that_ends_in_an_ampersand_is_a_job(call):
    """The same as `background=True`; the job ends with its session."""
    store = MemoryStore()
    result = await call_shell({**call, "background": False, "command": "setsid sleep 1000 &"}, store=store)
    assert result["details"]["job"] == events(store, "s", e.JobStarted)[0].job
    assert [event.how for event in events(store, "s", e.JobEnded)] == ["ended"]


async def test_a_job_ends_with_its_root_session(call, tmp_path):
    """Unless its agent keeps jobs: its end is journaled, and no process of it is left."""
    store = SqliteStore(tmp_path / "state.db")
    await call_shell(call, store=store)
    ended = reading(store.path, lambda s: events(s, "s", e.JobEnded))
    assert [(event.how, event.signal) for event in ended] == [("ended", 15)]


@agent
async def stubborn(ctx: Context, call: dict[str, Any]) -> None:
    for number in range(12):
        await ctx.call(shell, **call, command=f"trap '' TERM; : {number}; while :; do sleep 0.1; done")


@pytest.mark.parametrize("anyio_backend", ["trio"])  # it takes the grace of two seconds
async def test_jobs_that_ignore_sigterm_are_ended_together(call, tmp_path):
    """T6: closing takes as long as one of them; ended one by one, some would outlive the bound."""
    store = SqliteStore(tmp_path / "state.db")
    call = {name: value for name, value in call.items() if name != "command"}
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            await (await supervisor.start(stubborn, call, session="s")).outcome()
    assert [event.how for event in reading(store.path, lambda s: events(s, "s", e.JobEnded))] == ["ended"] * 12


async def test_a_kept_job_outlives_session_and_supervisor(call, tmp_path):
    """A later process can end it."""
    store = SqliteStore(tmp_path / "state.db")
    await call_shell(call, keeper, store)
    (began,) = reading(store.path, lambda s: events(s, "s", e.JobStarted))
    assert find_process(began.process) is not None
    assert await end_job(began, "a test") == "ended"
    with anyio.fail_after(60):
        while is_guarded(began):  # the last thing that its warden does is to write down the end
            await anyio.sleep(0.005)


async def test_a_job_that_cannot_begin_fails_to_launch(call):
    """The call says so at once, and the job is over."""
    store = MemoryStore()
    result = await call_shell({**call, "command": ["no-such-program"]}, store=store)
    assert (result["kind"], result["details"]["reason"]) == ("error", "launch")
    assert [event.how for event in await told(store)] == ["failed"]


@agent
async def failing(ctx: Context, call: dict[str, Any]) -> list[Any]:
    await ctx.call(shell, **call)
    listed = await ctx.call(jobs)
    await ctx.receive()
    named = [(await ctx.call(each, job="x")).content for each in (job_output, job_kill)]
    return [listed.content, *named]


async def test_a_job_that_could_not_begin_is_no_job(call):
    """No list has it, at once and later, and no folder is left of it."""
    store = MemoryStore()
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            run = await supervisor.start(failing, {**call, "command": ["no-such-program"]}, session="s")
            await told(store)
            (began,) = events(store, "s", e.JobStarted)
            while Path(began.log).parent.exists():
                await anyio.sleep(0.01)
            assert tuple(await supervisor.find_jobs(running=False)) == ()
            await supervisor.send("s", "go on")
            listed, *named = await run.result()
    assert listed == "no jobs"
    assert [began.job in each for each in named] == [False, False]


async def test_begin_returns_false_if_the_warden_dies_at_the_gate(call, tmp_path):
    """Whether the job has begun is not known."""
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


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio cancels by scopes only
async def test_a_native_cancel_at_a_jobs_commit_leaves_its_end_journaled(call):
    """T6: the job is on disk, so its end is journaled, though it never began."""
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
            (ended,) = await told(store)
            assert (ended.job, ended.how) == (events(store, "s", e.JobStarted)[0].job, "lost")


async def test_a_job_goes_on_under_its_warden_if_its_owner_dies_at_the_start(call, tmp_path):
    """Released, with no owner left to hear that it has begun: the warden writes its end like any other."""
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
    """Read a job's log when the job has ended: pairs of offset and limit."""
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
async def test_a_long_log_is_bounded_and_says_so(call):
    """Its middle is removed; an offset stays valid, and a reader of that part is told how much is missing."""
    head_size = log_limit.HEAD_BYTES
    talk = {**call, "command": "yes 0123456789abcde | head -c 83886080; echo last"}
    (head, middle, tail), found = await read_log_of(talk, (head_size - 100, 1000), (head_size, 1000), (None, 5))
    assert (found.st_size, found.st_blocks * 512 <= log_limit.LIMIT_BYTES) == (83886085, True)
    assert head["value"].encode().endswith(log_limit.NOTE)
    start, gone = middle["details"]["offset"], middle["details"]["omitted"]
    assert (gone > 0, start - gone) == (True, head_size)
    assert (middle["value"][:16], str(gone) in middle["content"]) == ("0123456789abcde\n", True)
    assert (tail["value"], tail["details"]["omitted"]) == ("last\n", 0)


async def test_an_offset_in_a_log_never_splits_a_character(call):
    """No character is lost: the part that one call leaves out begins the next."""
    pieces, _ = await read_log_of({**call, "command": "printf 'a€😀b€'"}, (0, 5), (4, 5), (9, 5), (None, 5))
    assert [piece["value"] for piece in pieces] == ["a€", "😀b", "€", "b€"]
    assert [piece["details"]["next_offset"] for piece in pieces] == [4, 9, 12, 12]


async def test_the_output_of_a_job_ends_with_its_state_and_next_offset(call):
    """For a model, which gets the content only: on a line of its own, whatever the output ends with."""
    (piece, empty), _ = await read_log_of({**call, "command": "printf abc; exit 3"}, (0, 2), (3, 5))
    line = piece["content"].splitlines()[-1]
    assert (piece["value"], piece["content"].splitlines()[0]) == ("ab", "ab")
    for said in ("exit code 3", "3 bytes", "offset 2"):
        assert said in line
    assert "offset 3" in empty["content"]


async def test_one_read_of_a_log_is_bounded(call):
    """Whatever limit a model invents, one piece is bounded and says where the next one begins."""
    (piece,), _ = await read_log_of({**call, "command": "head -c 3000000 /dev/zero"}, (0, 2**62))
    assert piece["details"]["next_offset"] == LARGEST_OUTPUT_BYTES


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
    """No person is asked: the session was allowed to begin them. It cannot name the jobs of other sessions."""
    store = MemoryStore()
    with anyio.fail_after(60):
        async with open_supervisor(store, unattended="allow") as supervisor:
            run = await supervisor.start(looking_after, call, session="s")
            assert await run.result() == ["running", "running", "ended", "ended", "error"]
            (ended,) = await told(store)
    assert (ended.how, ended.signal) == ("ended", 15)
    assert len(store.find_approvals(pending=False)) == 1


async def test_a_job_survives_a_crash_and_is_watched_again(anyio_backend_name, call, tmp_path):
    """It is found by pid and start time; its end is journaled once, with its exit code."""
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


async def test_an_end_while_no_process_watched_is_journaled_at_the_next_start(anyio_backend_name, call, tmp_path):
    """The warden wrote it down, with the exit code."""
    path = str(tmp_path / "state.db")
    began = crash_with_job(anyio_backend_name, path, call)
    let_go(call)
    with anyio.fail_after(60):
        while find_process(began.guard) is not None and process_state(began.guard) != "Z":
            await anyio.sleep(0.02)
        store = SqliteStore(path)
        async with open_supervisor(store, unattended="allow") as supervisor:
            await supervisor.resume("s")
            assert [(event.how, event.exit_code) for event in await told(store)] == [("exited", 7)]
            await supervisor.cancel("s")


async def test_a_job_that_is_gone_without_a_record_is_lost_once(anyio_backend_name, call, tmp_path):
    """It was killed together with its warden; two more starts journal that once."""
    path = str(tmp_path / "state.db")
    began = crash_with_job(anyio_backend_name, path, call)
    os.kill(began.guard, signal.SIGKILL)
    os.killpg(began.process, signal.SIGKILL)
    with anyio.fail_after(60):
        while find_process(began.process) is not None and process_state(began.process) not in ("Z", None):
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
async def test_a_job_that_outlived_its_session_in_a_crash_is_ended_at_the_next_start(call, tmp_path, how):
    """T6: the process died between the two ends; the tree has ended, so no other cause would load it."""
    path = str(tmp_path / "state.db")
    too_late = "import supervisor.tools.job_watch as watch; watch.LOOK_AGAIN_SECONDS = 1000\n"
    crash_with_job("asyncio", path, call, too_late + CRASHING.replace("sleeper", "caller"), e.RunFinished)
    store = SqliteStore(path)
    with anyio.fail_after(120):
        async with open_supervisor(store, adopt=how == "adopt") as supervisor:
            if how == "resume":
                assert await supervisor.resume_all() == []
            assert [event.how for event in await told(store)] == ["ended"]


async def test_a_job_whose_warden_was_killed_goes_on_and_can_be_ended(anyio_backend_name, call, tmp_path):
    """It is ended by its own pid and start time."""
    began = crash_with_job(anyio_backend_name, str(tmp_path / "state.db"), call)
    os.kill(began.guard, signal.SIGKILL)
    with anyio.fail_after(60):
        while is_guarded(began):  # the kill is under way
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
    """The next turn of the conversation finds it running; closing the supervisor ends it."""
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
