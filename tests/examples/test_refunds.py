"""A supervisor for programs without an event loop, as the page for Flask, Django and Celery shows it."""

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from processes import EXAMPLES

from supervisor import Context, agent
from supervisor.blocking import open_supervisor
from supervisor.core.errors import SupervisorError

PAGE = EXAMPLES.parent / "docs/how-to/flask-django-celery.md"
REFUNDS = str(EXAMPLES / "refunds.py")


@agent
async def listening(ctx: Context) -> str:
    return await ctx.receive()


def test_the_page_shows_what_the_example_does():
    """Its first program is a part of it, and its commands are its first lines."""
    page, example = PAGE.read_text(), (EXAMPLES / "refunds.py").read_text()
    first = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    commands = re.findall(r"^\$ (python [^#\n]*?) *(?:#.*)?$", page, re.MULTILINE)
    assert first in example
    assert [each for each in commands if each not in example] == []
    assert len(commands) == 3


def _run(folder, *given: str) -> str:
    ended = subprocess.run([sys.executable, REFUNDS, *given], cwd=folder, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_refund_waits_for_a_person_from_one_process_to_the_next(tmp_path):
    """The first process ends while it waits, without being asked to close anything."""
    _run(tmp_path, "ask", "order-7", "49.90")
    approval = _run(tmp_path, "list").split()[0]
    assert _run(tmp_path, "approve", approval).splitlines() == ["accepted", "49.90 paid back for order-7"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_any_thread_may_start_send_and_wait(backend):
    """At the same time. A wait that takes too long ends alone (W10)."""
    with open_supervisor("memory:", backend=backend) as supervisor, ThreadPoolExecutor(4) as threads:
        runs = list(threads.map(lambda _: supervisor.start(listening), range(4)))
        with pytest.raises(TimeoutError):
            runs[0].result(timeout=0.01)
        list(threads.map(lambda run: supervisor.send(run.session, f"to {run.session}"), runs))
        assert [run.result() for run in runs] == [f"to {run.session}" for run in runs]
        assert supervisor.result(runs[0].session) == runs[0].outcome().value
    with pytest.raises(SupervisorError, match="closed"):
        supervisor.approvals()


def test_a_store_that_cannot_be_opened_raises_and_leaves_no_thread(tmp_path):
    """As an asynchronous program is told."""
    with pytest.raises(SupervisorError):
        open_supervisor(str(tmp_path / "none.db"), create=False)


BUSY = """
import anyio
from supervisor import Context, agent
from supervisor.blocking import open_supervisor

async def long() -> None:
    await anyio.sleep(1000)

@agent(inactivity_timeout=2000)
async def busy(ctx: Context) -> None:
    await ctx.step(long)

open_supervisor("memory:").start(busy)
"""


def test_the_end_of_the_interpreter_stops_runs_that_could_go_on(tmp_path):
    """R8: it waits for none of them. They go on at the next start."""
    (tmp_path / "busy.py").write_text(BUSY)
    assert subprocess.run([sys.executable, "busy.py"], cwd=tmp_path, timeout=30, check=False).returncode == 0


def test_a_forked_process_is_refused_with_what_to_do(tmp_path):
    """Its parent goes on, and the child closes nothing of it."""
    with open_supervisor("memory:") as supervisor:
        if not (child := os.fork()):
            try:
                supervisor.approvals()
            except SupervisorError as error:
                supervisor.close()
                os._exit(0 if "worker_process_init" in str(error) else 1)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == 0
        assert list(supervisor.approvals()) == []
