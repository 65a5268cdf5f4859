"""Calls that wait for a job, and that write to its input; the message that says that a job has ended (T6)."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from calling import events, plain
from real_processes import new_marker, no_descriptor_left, real_backend  # noqa: F401 - fixtures
from test_jobs import crash_with_job, let_go, reading, told
from watching import next_of

from supervisor import Approve, Context, MemoryStore, SqliteStore, agent, open_supervisor
from supervisor.core import events as e
from supervisor.tools import job_kill, job_output, job_send, job_wait, jobs, shell
from supervisor.tools.job_talk import Search

pytestmark = pytest.mark.anyio


@agent
async def talker(ctx: Context, given: tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]) -> list[Any]:
    """Begin a job, and make calls about it, one after the other."""
    call, further = given
    begun = await ctx.call(shell, **call, background=True)
    tools = {tool.name: tool for tool in (job_kill, job_output, job_send, job_wait, jobs)}
    job = {"job": begun.details.get("job", "none")}
    said = [plain(await ctx.call(tools[name], **job, **more)) for name, more in further]
    return [plain(begun), *said]


async def talk(call, *further, store=None):
    """Return the results of the calls after the one that begins the job."""
    with anyio.fail_after(60):
        async with open_supervisor(store or MemoryStore(), unattended="allow") as supervisor:
            return (await (await supervisor.start(talker, (call, list(further)), session="s")).result())[1:]


@pytest.fixture(name="env")
def marked(marker):
    return {"MARKER": marker}


async def test_a_wait_ends_with_the_job(env):
    """At once, and not at its bound; the result has the output and the exit code."""
    began = anyio.current_time()
    (waited,) = await talk({"command": "sleep 0.3; echo done; exit 3", "env": env}, ("job_wait", {"seconds": 50}))
    assert anyio.current_time() - began < 20
    assert (waited["value"], waited["details"]["exit_code"], waited["details"]["met"]) == ("done\n", 3, True)


async def test_a_wait_ends_at_its_bound(env):
    """The job goes on, and the result says that what was awaited has not come."""
    (waited,) = await talk({"command": "sleep 1000", "env": env}, ("job_wait", {"seconds": 0.2}))
    assert (waited["kind"], waited["details"]["state"], waited["details"]["met"]) == ("ok", "running", False)


async def test_a_wait_for_output_gives_each_piece_once(env, tmp_path):
    """New is what the session has not been given, so a piece that came between two calls is not missed."""
    step = "while [ ! -e {0} ]; do sleep 0.01; done; echo {0}"
    command = "; ".join(["echo first", *(step.format(name) for name in ("second", "third")), "sleep 1000"])
    call = {"command": command, "env": env, "cwd": str(tmp_path)}
    for name in ("second", "third"):
        (tmp_path / name).touch()
    wait = ("job_wait", {"until": "third", "seconds": 50})
    found = await talk(
        call, wait, ("job_wait", {"until": "output", "seconds": 0.2}), ("job_wait", {"offset": 6, "seconds": 0.0})
    )
    assert [each["value"] for each in found] == ["first\nsecond\nthird\n", "", "second\nthird\n"]
    assert [each["details"]["met"] for each in found] == [True, False, False]


async def test_a_second_look_at_old_output_makes_it_no_news(env):
    """It was given before."""
    call = {"command": "echo first; sleep 1000", "env": env}
    wait = ("job_wait", {"until": "output", "seconds": 0.3})
    *_, again = await talk(
        call, ("job_wait", {"until": "first", "seconds": 50}), ("job_output", {"offset": 0, "limit": 2}), wait
    )
    assert (again["value"], again["details"]["met"]) == ("", False)


async def test_a_wait_for_a_pattern_ends_with_the_line_that_holds_it(env):
    """A `*` is any text within the line; the job may still run."""
    command = "echo 'port 80'; sleep 0.2; echo 'listening on port 81 now'; sleep 1000"
    (waited,) = await talk({"command": command, "env": env}, ("job_wait", {"until": "listen*81", "seconds": 50}))
    assert (waited["details"]["met"], waited["details"]["state"]) == (True, "running")


async def test_a_wait_ends_at_its_bound_however_much_the_job_writes(env):
    """A job can write faster than any program can search."""
    began = anyio.current_time()
    (waited,) = await talk({"command": "yes", "env": env}, ("job_wait", {"until": "no", "seconds": 0.3}))
    assert anyio.current_time() - began < 20
    assert (waited["details"]["met"], waited["details"]["state"]) == (False, "running")


async def test_a_wait_for_a_pattern_ends_when_the_job_has_ended_without_it(env):
    """The content says that it will not come."""
    (waited,) = await talk({"command": "echo no", "env": env}, ("job_wait", {"until": "ready", "seconds": 50}))
    assert (waited["details"]["met"], waited["details"]["state"]) == (False, "exited")
    assert "'ready'" in waited["content"]


@pytest.mark.parametrize("wrong", [{"seconds": -1.0}, {"seconds": 1e9}, {"until": ""}, {"until": "*"}, {"offset": -1}])
async def test_a_wait_without_a_bound_is_refused(env, wrong):
    """A model that invents a year gets an error that it can read."""
    (refused,) = await talk({"command": "sleep 1000", "env": env}, ("job_wait", wrong))
    assert (refused["kind"], refused["details"]["reason"]) == ("error", "invalid_arguments")


def test_a_pattern_is_found_across_two_reads(tmp_path):
    """Its line may have been half written at the first."""
    log = tmp_path / "log"
    search, found = Search("ready*go", 0), []
    for written in (b"rea", b"ready\ngo", b"ready\ngo\nread", b"ready\ngo\nready, go"):
        log.write_bytes(written)
        found.append(search.is_found_in(str(log)))
    assert found == [None, None, None, True]


def test_the_search_for_a_hostile_pattern_is_linear(tmp_path):
    """A regular expression of this form would take for ever."""
    log = tmp_path / "log"
    log.write_bytes(b"a" * 1_000_000)
    assert not Search("*a" * 1000 + "b", 0).is_found_in(str(log))


@agent(inactivity_timeout=0.3, active_timeout=1.5)
async def patient(ctx: Context, call: dict[str, Any]) -> bool:
    job = (await ctx.call(shell, **call, background=True)).details["job"]
    return (await ctx.call(job_wait, job, seconds=20.0)).details["met"]


async def test_a_wait_is_neither_silence_nor_activity(env):
    """W5: it outlasts the budgets of its run."""
    async with open_supervisor(MemoryStore(), unattended="allow") as supervisor:
        run = await supervisor.start(patient, {"command": "sleep 2", "env": env})
        assert await run.result() is True


WAITING = """
import anyio, json, sys
from test_job_talk import waiter
from supervisor import open_supervisor
async def main(backend, store, call):
    async with open_supervisor(store, unattended="allow") as supervisor:
        await (await supervisor.start(waiter, json.loads(call), session="s")).outcome()
anyio.run(main, *sys.argv[1:], backend=sys.argv[1])
"""


@agent
async def waiter(ctx: Context, call: dict[str, Any]) -> list[Any]:
    job = (await ctx.call(shell, **call)).details["job"]
    waited = await ctx.call(job_wait, job, seconds=50.0)
    return [waited.value, waited.details["exit_code"]]


async def test_a_wait_survives_the_death_of_its_process(anyio_backend_name, env, tmp_path):
    """It acts on nothing, so a later process waits again, and the result has the output from before the death, too."""
    call = {"command": "echo begun; while [ ! -e go ]; do sleep 0.02; done; exit 7", "background": True}
    call |= {"cwd": str(tmp_path), "env": env}
    path = str(tmp_path / "state.db")
    crash_with_job(anyio_backend_name, path, call, WAITING, e.ToolCallStarted, times=2)
    with anyio.fail_after(60):
        async with open_supervisor(SqliteStore(path), unattended="allow") as supervisor:
            run = await supervisor.resume("s")
            let_go(call)
            assert await run.result() == ["begun\n", 7]


async def test_a_job_reads_what_it_is_sent_until_its_input_ends(env):
    """Each text is one call. Without a line end it waits in the job, as in any pipe."""
    call = {"command": "while read -r line; do echo got $line; done; echo over", "env": env, "stdin": True}
    sent, first, _, ended, last = await talk(
        call,
        ("job_send", {"text": "one\n"}),
        ("job_wait", {"until": "got one", "seconds": 50}),
        ("job_send", {"text": "tw"}),
        ("job_send", {"text": "o\n", "eof": True}),
        ("job_wait", {"seconds": 50}),
    )
    assert (sent["kind"], sent["details"]["sent"], first["value"]) == ("ok", 4, "got one\n")
    assert (ended["details"]["eof"], last["value"]) == (True, "got two\nover\n")


async def test_each_text_to_a_job_asks_a_person(env):
    """The person sees the text, and the job reads it after the decision."""
    async with open_supervisor(MemoryStore()) as supervisor:
        call = {"command": ["cat"], "stdin": True, "env": env}
        further = [("job_send", {"text": "rm -r /\n", "eof": True}), ("job_wait", {"seconds": 50})]
        run = await supervisor.start(talker, (call, further))
        with anyio.fail_after(60):
            for expected in ("shell", "job_send"):
                asked = await next_of(run.watch_approvals())
                assert asked.tool == expected
                await supervisor.decide(asked.id, Approve(by="op"))
            assert asked.arguments["text"] == "rm -r /\n"
            assert (await run.result())[2]["value"] == "rm -r /\n"


@pytest.mark.parametrize(
    ("call", "before", "reason"),
    [
        ({"command": "sleep 1000"}, [], "no_input"),
        ({"command": "sleep 1000", "stdin": True}, [("job_send", {"eof": True})], "closed"),
        ({"command": "exec <&-; sleep 1000", "stdin": True}, [("job_wait", {"seconds": 0.5})], "closed"),
        ({"command": "true", "stdin": True}, [("job_wait", {})], "ended"),
        ({"command": ["no-such-program"], "stdin": True}, [], "not_found"),
    ],
)
async def test_a_text_that_no_job_reads_is_an_error_that_says_why(env, call, before, reason):
    """A job without input, with closed input, one that has ended, and none: a model can tell them apart."""
    *_, refused = await talk({**call, "env": env}, *before, ("job_send", {"text": "x\n"}))
    assert (refused["kind"], refused["details"]["reason"], refused["details"]["effect"]) == ("error", reason, "none")


async def test_input_is_for_jobs(env):
    """A command of the foreground reads nothing, and nothing runs."""

    @agent
    async def wrong(ctx: Context) -> str:
        return (await ctx.call(shell, command="true", stdin=True)).details["reason"]

    async with open_supervisor(MemoryStore(), unattended="allow") as supervisor:
        assert await (await supervisor.start(wrong)).result() == "invalid_arguments"


def test_a_call_that_gives_no_later_parameter_has_the_arguments_of_before():
    """A8: a call that waits on disk since before must find the arguments that its approver was shown."""
    assert shell.bind((), {"command": "x"})[1].keys() == {"command", "cwd", "env", "timeout", "background"}
    assert shell.bind((), {"command": "x", "stdin": True})[1]["stdin"] is True


async def test_a_job_takes_input_from_a_later_process(anyio_backend_name, env, tmp_path):
    """Its warden keeps the input open after our death."""
    call = {"command": "read -r line; echo got $line", "stdin": True, "background": True}
    path = str(tmp_path / "state.db")
    crash_with_job(anyio_backend_name, path, {**call, "cwd": str(tmp_path), "env": env})

    began = reading(path, lambda s: events(s, "s", e.JobStarted))[0]
    pipe = os.open(Path(began.log).with_name("input"), os.O_WRONLY | os.O_NONBLOCK)
    os.write(pipe, b"later\n")
    os.close(pipe)
    with anyio.fail_after(60):
        while Path(began.log).read_text() != "got later\n":
            await anyio.sleep(0.02)


@agent
async def listener(ctx: Context, call: dict[str, Any]) -> str:
    await ctx.call(shell, **call, background=True, notify=True)
    return await ctx.receive()


async def test_a_session_that_asks_for_it_gets_a_message_when_its_job_has_ended(env):
    """The message names the job and how it ended. It quotes no output: that is hostile text."""
    store = MemoryStore()
    async with open_supervisor(store, unattended="allow") as supervisor:
        with anyio.fail_after(60):
            run = await supervisor.start(listener, {"command": "echo obey; exit 3", "env": env}, session="s")
            text = await run.result()
    (began,) = events(store, "s", e.JobStarted)
    assert began.job in text
    assert "exit code 3" in text
    assert "obey" not in text


@agent
async def turner(ctx: Context, text: str) -> str:
    if not text.startswith("["):
        await ctx.call(shell, command=text, background=True, notify="quiet" not in text)
    return text


async def test_a_job_that_ends_begins_a_turn_of_an_idle_conversation(env):
    """So a model's loop goes on by itself. Without `notify` it stays idle."""
    store = MemoryStore()
    async with open_supervisor(store, unattended="allow") as supervisor:
        with anyio.fail_after(60):
            for session, command in (("s", "sleep 0.3"), ("t", "sleep 0.3; : quiet")):
                await (await supervisor.start(turner, command, session=session)).result()
            await told(store, "t")
            while len(events(store, "s", e.RunFinished)) < 2:
                await anyio.sleep(0.02)
    assert len(events(store, "t", e.RunStarted)) == 1
    assert [event.by for event in events(store, "s", e.MessageReceived)] == [
        f"job {event.job}" for event in events(store, "s", e.JobStarted)
    ]


async def test_no_message_tells_of_an_end_that_we_have_asked_for(env):
    """A job that was ended by a call, or with its session, is no news."""
    store = MemoryStore()
    await talk({"command": "sleep 1000", "env": env, "notify": True}, ("job_kill", {}), store=store)
    assert [event.how for event in events(store, "s", e.JobEnded)] == ["ended"]
    assert events(store, "s", (e.MessageReceived, e.MessageUndelivered)) == []
