"""What the tests of single frameworks share with the suite of all."""

import asyncio
from contextlib import asynccontextmanager, contextmanager

import anyio
import pytest

from supervisor import Approve, InvalidInput, MemoryStore, open_supervisor
from supervisor.testing import fast_disk


@contextmanager
def kept_in_the_loop():
    """Do at once what a thread would do: the virtual clock does not wait for one."""

    def run_in_executor(loop, executor, function, *args):
        future = loop.create_future()
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    with fast_disk(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.BaseEventLoop, "run_in_executor", run_in_executor)
        yield


@asynccontextmanager
async def opened(store=None, **options):
    """Open a supervisor on virtual time. A test that hangs fails after a month of it."""
    with anyio.fail_after(30 * 86_400.0):
        async with open_supervisor(MemoryStore() if store is None else store, **options) as supervisor:
            yield supervisor


async def approve_all(supervisor, run, **decided):
    """Approve whatever the run asks. Return what it asked about: (path, tool, arguments)."""
    asked = []
    async with run.watch_approvals() as watch:
        async for approval in watch:
            asked.append((approval.path, approval.tool, approval.arguments))
            await supervisor.decide(approval.id, Approve(by="ana", **decided))
    return asked


async def texts_of(supervisor, spec):
    """Run an agent, and return each text that people saw while its models wrote."""
    seen = []

    async def look(session):
        async with supervisor.watch_text(session) as watch:
            while True:
                seen.append((await anext(watch)).text)

    run = await supervisor.start(spec, "go", session="texts")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look, run.session)
        assert (outcome := await run.outcome()).kind == "succeeded", outcome
        tasks.cancel_scope.cancel()
    return [text for text in seen if text]


ANSWER = ("The tide ", "is low.")
"""What the scripted models write, piece by piece, a second apart; each does so twice."""
SEEN = ["The tide ", "The tide is low.", "The tide is low.\n\nThe tide ", "The tide is low.\n\nThe tide is low."]


def refusal_of(bad):
    """Return the test that each of these declarations is refused. `bad`: by name, how it is declared, and what the
    error must name."""

    @pytest.mark.parametrize("case", bad)
    def test(case):
        """The error names the object and the cure."""
        declare, named = bad[case]
        with pytest.raises(InvalidInput, match=named):
            declare()

    return test
