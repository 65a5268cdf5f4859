"""Commands run without a person: no program waits for one, and a model gets text (tools/call_environment.py)."""

import os
import shutil
import signal
import sys

import anyio
import pytest
from calling import call_shell, caller, events, keeper
from real_processes import new_marker, no_descriptor_left, real_backend  # noqa: F401 - fixtures
from watching import next_of

from supervisor import Approve, Context, MemoryStore, SqliteStore, agent, open_supervisor
from supervisor.core import events as e
from supervisor.tools import job_output, jobs, shell
from supervisor.tools.background import look_at
from supervisor.tools.output import CAP_CHARACTERS, Output

pytestmark = pytest.mark.anyio

WAITING = ("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "PAGER", "GIT_PAGER", "GIT_ASKPASS", "SSH_ASKPASS")


@pytest.fixture(name="person")
def persons_terminal(monkeypatch):
    """The environment of a person's terminal, in which everything waits."""
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in WAITING:
        monkeypatch.setenv(name, "sleep 1000 #")


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("name", WAITING)
async def test_no_program_of_a_person_is_started(name):
    """It fails at once, or copies what it gets."""
    result = await call_shell({"command": f'sh -c "${name} file" </dev/null; echo "$TERM"', "timeout": 20.0})
    assert result["details"]["reason"] is None
    assert result["content"].splitlines()[-1] == "dumb"


@pytest.mark.usefixtures("person")
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_git_neither_edits_nor_asks_nor_pages(tmp_path):
    """A model reads what it should have passed."""
    asks = "printf 'protocol=https\\nhost=example.invalid\\n\\n' | git credential fill"
    for command in ("git -c user.name=a -c user.email=a@b commit --allow-empty", asks, "git -p log -1 --format=x HEAD"):
        start = f"git init -q . 2>&1; {command}"
        result = await call_shell({"command": start, "cwd": str(tmp_path), "timeout": 20.0})
        assert result["details"]["reason"] == "exit_code", result
        assert "fatal" in result["content"] or "error" in result["content"]


@pytest.mark.usefixtures("person")
@pytest.mark.skipif(shutil.which("vim") is None or sys.platform != "linux", reason="vim is not installed")
async def test_an_editor_that_is_called_by_name_does_not_wait_either(tmp_path):
    """It does what its own words say, and fails where it would wait for keys. Keys from a pipe are keys."""
    for command, reason, content in (
        ("vim notes", "exit_code", "no person"),
        ("vim -c 'normal ihello' -c wq notes && cat notes", None, "hello"),
        ("printf 'ibye\\033:wq\\n' | vim others; cat others", None, "bye"),
    ):
        result = await call_shell({"command": command, "cwd": str(tmp_path), "timeout": 20.0})
        assert (result["details"]["reason"], content in result["content"]) == (reason, True), result


@pytest.mark.usefixtures("person")
async def test_the_environment_of_the_call_wins():
    """Its author knows which editor needs no person."""
    wanted = {"GIT_EDITOR": "true", "TERM": "ansi"}
    result = await call_shell({"command": 'echo "$GIT_EDITOR $TERM"', "env": wanted})
    assert result["content"] == "true ansi\n"


@agent(call_timeout=0.5)
async def begins_a_server(ctx: Context, _: None) -> str:
    job = await ctx.call(shell, command=["sleep", "1000"], background=True)
    await ctx.call(shell, command=["sleep", "0.8"], timeout=20.0)
    listed = await ctx.call(jobs)
    assert "deadline" not in job.content
    return listed.content


async def test_the_deadline_that_an_agent_gives_its_calls_is_none_of_its_jobs():
    """Only a `timeout` that is passed is the deadline of a job."""
    async with open_supervisor(MemoryStore(), unattended="allow") as supervisor:
        assert "running" in await (await supervisor.start(begins_a_server, None)).result()


@pytest.mark.parametrize(
    "command", [{"command": "sleep 1000 & sleep 1000", "background": True}, {"command": "sleep 1000 &"}]
)
async def test_a_job_is_ended_at_the_deadline_that_it_was_given(command):
    """Also one of 30 seconds, the default of a call that is waited for. The result says so, and the journal why."""
    store = MemoryStore()
    async with open_supervisor(store, unattended="allow") as supervisor:
        run = await supervisor.start(keeper, {**command, "timeout": 0.5}, session="s")
        begun = await run.result()
        assert "deadline of 0.5 s" in begun["content"]
        with anyio.fail_after(30):
            while not (ended := events(store, "s", e.JobEnded)):
                await anyio.sleep(0.02)
        assert (ended[0].how, ended[0].by) == ("ended", "its deadline of 0.5 s")
        thirty = await (await supervisor.start(keeper, {**command, "timeout": 30.0}, session="t")).result()
        assert "deadline of 30 s" in thirty["content"]
        os.kill(thirty["details"]["pid"], signal.SIGKILL)


@pytest.mark.parametrize("edited", [True, False])
async def test_a_person_who_edits_the_deadline_of_a_job_has_given_one(edited):
    """A person who approves it as it is has given none."""
    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(caller, {"command": ["true"], "background": True})
        asked = await next_of(run.watch_approvals())
        arguments = {**asked.arguments, "timeout": 50.0} if edited else None
        await supervisor.decide(asked.id, Approve(by="op", arguments=arguments))
        assert ("deadline of 50 s" in (await run.result())["content"]) is edited


DYING = """
import anyio, os, sys
from calling import keeper
from supervisor import open_supervisor
async def main():
    async with open_supervisor(sys.argv[1], unattended="allow") as supervisor:
        call = {"command": ["sleep", "1000"], "background": True, "timeout": 1.0}
        await (await supervisor.start(keeper, call, session="s")).result()
        os.kill(os.getpid(), 9)
anyio.run(main, backend=sys.argv[2])
"""


async def test_the_deadline_of_a_job_holds_after_our_death(anyio_backend_name, tmp_path):
    """Its warden keeps it."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", DYING, tmp_path / "s.db", anyio_backend_name]
    done = await anyio.run_process(command, env=env, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    store = SqliteStore(tmp_path / "s.db")
    store.open()
    (job,) = events(store, "s", e.JobStarted)
    with anyio.fail_after(30):
        while (seen := look_at(job)).state == "running":
            await anyio.sleep(0.02)
    assert (seen.how, seen.by) == ("ended", "its deadline of 1 s")
    store.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("b'\\xff' * 1_000_000", "unknown"),
        ("open(sys.executable, 'rb').read()", "ELF"),
        ("'text'.encode('utf-16') * 1000", "UTF-16"),
        ("b'a\\0' * 100", "unknown"),
    ],
)
async def test_output_that_is_not_text_is_one_line(code, kind):
    """Its size, its kind and its first bytes; programs find the bytes in the details."""
    result = await call_shell({"command": [sys.executable, "-c", f"import sys; sys.stdout.buffer.write({code})"]})
    assert len(result["content"].splitlines()) == 1
    assert len(result["content"]) < 200
    assert f"[{result['details']['output_bytes']} bytes" in result["content"]
    if sys.platform == "linux" or kind != "ELF":
        assert kind in result["content"]
    assert result["details"]["output_base64"]


@pytest.mark.parametrize("share", [1, 4, 20])
def test_the_text_of_some_foreign_bytes_is_within_the_cap(share):
    """An escape has four characters. Both ends are kept, and the count of what is left out is exact."""
    raw = (b"\xe9" + b"x" * share) * (CAP_CHARACTERS // (share + 1))
    shown = Output(head=raw, total=len(raw)).show().text
    assert len(shown) <= CAP_CHARACTERS + 100
    if share > 3:
        assert shown.startswith("\\xe9x")
        assert shown.endswith("xxx")
        left = int(shown.split("[... ")[1].split()[0])
        head, tail = shown.split("\n[...")[0], shown.split("out ...]\n")[1]
        assert len(raw) - left == sum(len(each.replace("\\xe9", ".")) for each in (head, tail))


async def test_an_empty_output_says_so():
    """Some model APIs refuse an empty text."""
    result = await call_shell({"command": "true"})
    assert (result["content"], result["value"]) == ("[no output]", "")


@agent
async def reads_its_log(ctx: Context, _: None) -> list[str]:
    job = await ctx.call(shell, command="head -c 1000 /dev/zero", background=True)
    while "running" in (await ctx.call(jobs)).content:
        await ctx.sleep(0.05)
    read = await ctx.call(job_output, job=job.details["job"])
    return [read.content, read.details["output_base64"]]


async def test_a_log_that_is_not_text_is_described_too():
    """Its bytes are in the details."""
    async with open_supervisor(MemoryStore(), unattended="allow") as supervisor:
        content, raw = await (await supervisor.start(reads_its_log, None)).result()
    assert "\0" not in content
    assert "[1000 bytes that are not text" in content
    assert len(raw) > 1000
