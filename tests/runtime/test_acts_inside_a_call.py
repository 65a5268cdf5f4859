"""A4: one table says what a process inside a supervised call may do; each row of it holds."""

import os
import socket
import sys
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from scenes import opened
from test_inside_a_call import ask, deploying
from watching import next_of

from supervisor import Approve, Budget, NotEntitled, Schedule, StoreSupervisor, Supervisor, agent, allow
from supervisor.cli import _COMMANDS, main
from supervisor.core.marker import CALL_MARKER
from supervisor.core.rows import Owner
from supervisor.seam.commands import LAWS
from supervisor.system import inside
from supervisor.system.refusals import COMMANDS, row_of
from supervisor.tools import shell

pytestmark = pytest.mark.anyio
METHODS = {law.method: law for law in LAWS.values()}
READS = ("get_", "find_", "watch_", "check", "listen", "wait_until_broken")
"""What the names of all methods begin with that only look."""
OF_A_PERSON = {
    "decide": lambda here, asked: here.decide(asked, Approve(by="ana")),
    "decide_all": lambda here, asked: here.decide_all([(asked, Approve(by="ana"))]),
    "chat": lambda here, asked: here.chat("s", "hello", by="ana"),
    "send": lambda here, asked: here.send("s", "hello", by="ana"),
    "add_rule": lambda here, asked: here.add_rule(allow("deploy"), by="ana"),
    "revoke_rule": lambda here, asked: here.revoke_rule("x", by="ana"),
    "add_schedule": lambda here, asked: here.add_schedule(Schedule("s", "a", cron="0 0 * * *"), by="ana"),
    "change_schedule": lambda here, asked: here.change_schedule("s", "paused", by="ana"),
    "run_schedule": lambda here, asked: here.run_schedule("s", by="ana"),
    "resume": lambda here, asked: here.resume("s", by="ana"),
    "resume_all": lambda here, asked: here.resume_all(by="ana"),
    "retry": lambda here, asked: here.retry("s", by="ana"),
    "fork": lambda here, asked: here.fork("s", before=4),
    "prune": lambda here, asked: here.prune(datetime.now(UTC)),
    "cancel": lambda here, asked: here.cancel("s", by="ana"),
    "raise_budget": lambda here, asked: here.raise_budget("s", Budget(usd=1), by="ana"),
    "acknowledge": lambda here, asked: here.acknowledge([asked], by="ana"),
    "snooze": lambda here, asked: here.snooze([asked], datetime.now(UTC), by="ana"),
    "reveal": lambda here, asked: here.reveal(asked, by="ana"),
    "import_session": lambda here, asked: import_one(here),
}


async def import_one(here):
    async with here.import_session("i", None):
        pass


def test_each_method_and_each_command_is_a_row():
    """So a new one is not forgotten. Of a command with commands, each of those that change anything is one, too."""
    methods = {name for each in (Supervisor, StoreSupervisor) for name, found in vars(each).items() if callable(found)}
    assert {name for name in methods if not name.startswith(("_", *READS))} == METHODS.keys()
    assert {key.split()[0] for key in COMMANDS} == {*_COMMANDS, "repair"}
    assert {f"rules {each}" for each in ("allow", "ask", "deny", "revoke")} | {"token revoke"} <= COMMANDS.keys()


@pytest.mark.parametrize("key", COMMANDS)
def test_a_command_inside_a_call_does_what_its_row_says(key, monkeypatch, capsys, tmp_path):
    """A refused one is refused before anything else; another one is not refused by its name."""
    monkeypatch.setenv(CALL_MARKER, "call:shell:0#1")
    monkeypatch.setenv("SUPERVISOR_STORE", str(tmp_path / "state.db"))
    is_refused = COMMANDS[key].says == "refused"
    assert row_of([*key.split(), "--store", "x"]) == COMMANDS[key]
    code = main([*key.split(), *(["--no-such-option"] if not is_refused else [])])
    assert ("SUPERVISOR_CALL" in capsys.readouterr().err) is is_refused
    assert code != 0
    assert not (tmp_path / "state.db").exists()


@pytest.mark.parametrize("name", METHODS)
async def test_a_method_inside_a_call_does_what_its_law_says(name, monkeypatch, tmp_path):
    """On a tree that another process runs. Noting is allowed, and starting asks people itself."""
    async with opened(tmp_path / "state.db") as other, opened(tmp_path / "state.db") as here:
        asked = await ask(other)
        monkeypatch.setenv(CALL_MARKER, "call:shell:0#1")
        assert (METHODS[name].inside == "allowed") is (name not in OF_A_PERSON)
        if METHODS[name].inside != "allowed":
            with pytest.raises(NotEntitled, match=METHODS[name].doing):
                await OF_A_PERSON[name](here, asked)
        elif name == "start":
            run = await here.start(deploying, session="new")
            assert (await next_of(run.watch_approvals())).status == "pending"
            with pytest.raises(NotEntitled, match="resuming"):
                await here.start(deploying, session="s")
            await run.cancel()
        monkeypatch.delenv(CALL_MARKER)
        assert (await other.get_approval(asked)).status == "pending"
        await other.cancel("s", by="ana")


async def test_a_process_inside_a_call_may_look(monkeypatch, tmp_path):
    """Reads have no law."""
    async with opened(tmp_path / "state.db") as other, opened(tmp_path / "state.db") as here:
        asked = await ask(other)
        monkeypatch.setenv(CALL_MARKER, "call:shell:0#1")
        assert [each.id for each in await here.find_approvals()] == [asked]
        for name in (name for name in dir(here) if name.startswith("find_") and name != "find_entries"):
            await getattr(here, name)()
        monkeypatch.delenv(CALL_MARKER)
        await other.cancel("s", by="ana")


@agent(rules=[allow("shell")])
async def cancelling(ctx, given: tuple[list[str], str]) -> list[str]:
    """Cancel sessions by commands of its own."""
    sessions, store = given
    command = f"{sys.executable} -m supervisor cancel {{}} --store {store}"
    return [(await ctx.call(shell, command.format(each), timeout=60.0)).kind for each in sessions]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])  # real time: there is a real process
async def test_a_process_inside_a_call_cancels_its_own_tree_only(tmp_path):
    """The process of a call of that tree is among its ancestors."""
    store = tmp_path / "state.db"
    async with opened(store) as here:
        await ask(here)
        run = await here.start(cancelling, (["s", "own"], str(store)), session="own")
        assert (await run.outcome()).kind == "cancelled"
        assert (await here.get_session("s")).outcome is None


def test_an_owner_that_is_not_seen_is_a_doubt_whatever_its_host_is_called():
    """Its pid with the start of its process is a process here, or the answer is no."""
    me = inside.itself()
    seen = Owner("a", "elsewhere", me[0], datetime.now(UTC), (me,))
    inside.refuse_below_owner("deciding", [seen], in_doubt=True)
    for unseen in (
        replace(seen, started_by=((me[0], "earlier"),)),
        replace(seen, pid=4_194_305, started_by=((4_194_305, me[1]),)),
        replace(seen, started_by=()),
        replace(seen, host=socket.gethostname(), pid=4_194_305, started_by=()),
    ):
        with pytest.raises(NotEntitled, match="--server"):
            inside.refuse_below_owner("deciding", [unseen], in_doubt=True)
        inside.refuse_below_owner("deciding", [unseen])  # on a server, whose owners may be anywhere


def test_an_owner_of_an_earlier_version_is_seen_by_its_pid_and_host():
    """Its lock file does not say when it started."""
    earlier = Owner("a", socket.gethostname(), os.getpid(), datetime.now(UTC))
    inside.refuse_below_owner("deciding", [earlier], in_doubt=True)
