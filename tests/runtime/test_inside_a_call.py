"""Nothing that a supervised call runs counts as a person's decision, even through the Python API (A4)."""

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from msgspec.structs import replace
from scenes import deploy, opened
from watching import next_of

from supervisor import Approve, Context, Deny, MemoryStore, NotEntitled, agent, allow
from supervisor.core.marker import CALL_MARKER
from supervisor.core.rows import Owner
from supervisor.system import inside
from supervisor.testing import replaced

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]
STARTED_BY = Path(__file__).with_name("started_by.py")
CHILD = """
import anyio, sys
from supervisor import Approve, NotEntitled, open_supervisor
async def main():
    async with open_supervisor(sys.argv[1]) as supervisor:
        try:
            print((await supervisor.decide(sys.argv[2], Approve(by="ana"))).kind)
        except NotEntitled:
            print("refused")
anyio.run(main)
"""
WAYS = {
    "approve": lambda supervisor, asked: supervisor.decide(asked, Approve(by="ana")),
    "deny": lambda supervisor, asked: supervisor.decide(asked, Deny(by="ana")),
    "word": lambda supervisor, asked: supervisor.chat("s", f"yes {asked}", by="ana", shown_before=datetime.now(UTC)),
    "message": lambda supervisor, asked: supervisor.send("s", "go on", by="ana"),
    "allow": lambda supervisor, asked: supervisor.add_rule(allow("deploy"), by="ana"),
    "fork": lambda supervisor, asked: supervisor.fork("s", before=4),
    "revoke": lambda supervisor, asked: supervisor.revoke_rule("x", by="ana"),
}


@agent
async def deploying(ctx: Context) -> str:
    return (await ctx.call(deploy, target="moon")).kind


async def ask(supervisor):
    run = await supervisor.start(deploying, session="s")
    return (await next_of(run.watch_approvals())).id


@pytest.mark.parametrize("way", WAYS)
async def test_a_process_with_the_mark_of_a_call_speaks_for_no_person(tmp_path, monkeypatch, way):
    """Decisions, chat words, messages and rules are refused, and approvals stay pending. Reads are allowed."""
    async with opened(tmp_path / "state.db") as supervisor:
        asked = await ask(supervisor)
        monkeypatch.setenv(CALL_MARKER, "call:shell:0#1")
        with pytest.raises(NotEntitled):
            await WAYS[way](supervisor, asked)
        assert ((await supervisor.get_approval(asked)).status, list(await supervisor.find_rules())) == ("pending", [])
        await supervisor.cancel("s", by="ana")


async def test_a_process_with_the_mark_of_a_call_approves_nothing_unattended(tmp_path, monkeypatch):
    """`unattended="allow"` would also answer for people."""
    monkeypatch.setenv(CALL_MARKER, "call:shell:0#1")
    with pytest.raises(NotEntitled):
        async with opened(tmp_path / "state.db", unattended="allow"):
            pass


async def test_a_store_in_memory_is_the_process_own(monkeypatch):
    """It has no decisions of other people: a program under test may run as a supervised call."""
    monkeypatch.setenv(CALL_MARKER, "call:shell:0#1")
    async with opened(MemoryStore()) as supervisor:
        assert (await supervisor.decide(await ask(supervisor), Approve(by="ana"))).kind == "accepted"


async def test_a_child_of_the_owner_speaks_for_no_person(tmp_path):
    """Even without the mark, the owner of a tree of this store is among its ancestors."""
    async with opened(tmp_path / "state.db") as supervisor:
        asked = await ask(supervisor)
        child = [sys.executable, "-c", CHILD, str(tmp_path / "state.db"), asked]
        done = await anyio.to_thread.run_sync(lambda: subprocess.run(child, stdout=subprocess.PIPE, text=True))
        assert done.stdout.strip() == "refused"
        await supervisor.cancel("s", by="ana")


@pytest.mark.slow
@pytest.mark.parametrize("wrapper", [[], ["sh", "-c", '"$@"; true', "sh"]], ids=["bare", "wrapped"])
async def test_the_shell_of_a_program_that_started_an_owner_to_be_asked_by_it_decides_nothing(tmp_path, wrapper):
    """Such a shell is no child of the owner, and has no mark: the owner's lock file names the program that started it.
    A wrapper between the two makes no difference."""
    program = [sys.executable, str(STARTED_BY), str(tmp_path / "state.db"), *wrapper]
    done = await anyio.to_thread.run_sync(lambda: subprocess.run(program, capture_output=True, text=True))
    assert (done.stdout.strip(), done.stderr) == ("refused", "")


async def test_a_process_that_got_the_pid_of_a_starter_that_died_may_decide(enter):
    """A pid is used again: the start of the process tells the two apart."""
    pid, started = inside.identify(os.getppid())
    enter(replaced(inside, "STARTED_BY", []))
    owner = Owner("a", socket.gethostname(), 0, datetime.now(UTC), ((pid, started),))
    with pytest.raises(NotEntitled):
        inside.refuse_below_owner("deciding", [owner])
    inside.refuse_below_owner("deciding", [replace(owner, started_by=((pid, "earlier"),))])
