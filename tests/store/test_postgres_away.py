"""A server that does not answer: the loop goes on, what waits goes on waiting, and all is there when it is back."""

import os
import secrets
import signal
import threading
import time
from contextlib import asynccontextmanager, closing, suppress

import anyio
import pytest
from postgres_server import running

from supervisor import Approve, Context, SupervisorError, agent, open_supervisor, tool
from supervisor.cli.exits import Exit, code_of
from supervisor.cli.options import PersonPlace
from supervisor.store.postgres.store import PostgresStore
from supervisor.tools.descendants import process_table, processes_below

pytestmark = pytest.mark.anyio


@tool(policy="ask")
async def deploy(target: str) -> str:
    return target


@agent
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def ticks(ctx: Context, times: int) -> int:
    """Commits as often as the store lets it."""
    for _ in range(times):
        await ctx.sleep(0.02)
    return times


@pytest.fixture(scope="module")
def own_server():
    """One that a test may stop."""
    with running() as server:
        yield server


@pytest.fixture
def silence(own_server):
    """Return a function that stops each process of the server, or lets all go on."""
    postmaster = int((own_server.data / "postmaster.pid").read_text().split()[0])
    known = []

    def send(number):
        known[:] = known or [postmaster, *processes_below(process_table(), postmaster)]
        for pid in known:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    yield send
    send(signal.SIGCONT)


@asynccontextmanager
async def probed():
    """Measure the longest step of the loop, in seconds."""
    found = [0.0]

    async def probe():
        while True:
            before = time.perf_counter()
            await anyio.sleep(0.001)
            found[0] = max(found[0], time.perf_counter() - before)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(probe)
        yield found
        tasks.cancel_scope.cancel()


async def refused(supervisor):
    """Return after how many seconds the supervisor says that its store does not answer."""
    before = time.monotonic()
    while time.monotonic() < before + 10:
        try:
            await supervisor.check()
        except SupervisorError:
            return time.monotonic() - before
        await anyio.sleep(0.01)
    return 10.0


async def test_a_server_that_was_stopped_holds_no_loop_and_loses_nothing(own_server, silence):
    """A probe runs in the loop while every process of the server stands still, in the middle of commits. /ready says so
    within a second; then what ran goes on, and what waits can be decided."""
    async with open_supervisor(f"{own_server.url}?schema=t{secrets.token_hex(6)}", adopt=True) as supervisor:
        waits, runs = await supervisor.start(asks, "prod"), await supervisor.start(ticks, 40)
        while not (pending := (await supervisor.find_approvals()).items):
            await anyio.sleep(0.01)
        await anyio.sleep(0.5)
        silence(signal.SIGCONT)  # finds the processes, before the loop is measured
        async with probed() as quiet:
            await anyio.sleep(0.5)
        async with probed() as stopped:
            silence(signal.SIGSTOP)
            assert await refused(supervisor) < 1
            with anyio.move_on_after(2):
                while True:
                    with suppress(SupervisorError):
                        await supervisor.find_approvals()
                    await anyio.sleep(0.01)
        silence(signal.SIGCONT)
        assert (
            stopped[0] < 0.3 + 8 * quiet[0]
        )  # a read that waits holds it for seconds; a loaded machine holds each loop
        with anyio.fail_after(20):
            assert (await runs.outcome()).value == 40
            while True:
                with suppress(SupervisorError):
                    await supervisor.check()
                    break
                await anyio.sleep(0.05)
            assert (await supervisor.decide(pending[0].id, Approve(by="ada"))).kind == "accepted"
            assert (await waits.outcome()).value == "ok"


async def _wait_for_end(place, session, server):
    async with place.open() as supervisor:
        run = await supervisor.get_run(session)
        server.stop("fast")
        await run.outcome()


async def test_a_command_whose_server_goes_away_says_so_and_ends_soon_or_goes_on(own_server, capsys):
    """It says once what it waits for, and for how long. One that waits for a commit or an outcome ends, too."""
    place = PersonPlace(store=f"{own_server.url}?schema=t{secrets.token_hex(6)}")
    async with open_supervisor(place.store) as supervisor:
        waits = await supervisor.start(asks, "prod")
        while not (pending := (await supervisor.find_approvals()).items):
            await anyio.sleep(0.01)
    begun = time.monotonic()
    with pytest.raises(SupervisorError) as ended:
        await _wait_for_end(place, waits.session, own_server)
    assert time.monotonic() < begun + 30  # 3 s, and what the server takes to stop on a busy machine
    assert code_of(ended.value) == Exit.REFUSED
    assert capsys.readouterr().err.count("\n") == 1
    own_server.start()
    async with place.open() as supervisor:
        own_server.stop("fast")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, own_server.start)
            assert (await supervisor.decide(pending[0].id, Approve(by="ada"))).kind == "accepted"


def test_a_command_waits_for_a_server_that_is_being_restarted(own_server):
    """`supervisor approve` in the middle of a restart decides, and does not say that there is no server."""
    own_server.stop("fast")
    starts = threading.Timer(0.5, own_server.start)
    starts.start()
    store = PostgresStore(f"{own_server.url}?schema=t{secrets.token_hex(6)}")
    store.coming_seconds = 60.0
    with closing(store):
        store.open()
        assert store.counts().sessions == 0
    starts.join()
