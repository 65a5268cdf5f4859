"""What the tests of single frameworks share with the suite of all."""

from contextlib import asynccontextmanager
from copy import deepcopy

import anyio

from supervisor import Approve, MemoryStore, open_supervisor


def keep_in_the_loop(monkeypatch):
    """Do at once what a thread would do: the virtual clock does not wait for one."""

    def run_in_executor(loop, executor, function, *args):
        future = loop.create_future()
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    monkeypatch.setattr("supervisor.runtime.journal.writer.SLOW_COMMIT", 1e9)
    monkeypatch.setattr("asyncio.base_events.BaseEventLoop.run_in_executor", run_in_executor)


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


def killed(store):
    """Return the store that another process would find now."""
    copy = MemoryStore()
    copy._entries = list(store._entries)
    copy._journals = {session: list(entries) for session, entries in store._journals.items()}
    for name in ("_sessions", "_approvals", "_pending"):
        setattr(copy, name, dict(getattr(store, name)))
    copy._in_order, copy._asked_in_order = deepcopy((store._in_order, store._asked_in_order))
    return copy
