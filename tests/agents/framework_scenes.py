"""What the tests of single frameworks share with the suite of all."""

from contextlib import asynccontextmanager
from copy import deepcopy

import anyio

from supervisor import Approve, MemoryStore, open_supervisor


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
