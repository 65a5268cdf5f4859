"""Forks: a new tree is a new workflow, which begins with the copy of a journal (core/forking.py).

The client copies what its mirror has of the source, and starts the workflow with that. Then it tells the source.

Rules
- The fork counts when the server has its start. The same fork again is the same one, by the mark in its memo. It tells
  the source again, which journals each fork once: so what a client that died had left is made up for.
- A journal that is too large to be carried is refused before anything is sent.
"""

from typing import Any

import msgspec

from supervisor.abc import JournalEntry
from supervisor.core.errors import LimitExceeded, SessionConflict
from supervisor.core.ids import check_session_id, digest, new_session_id
from supervisor.core.session import SessionState
from supervisor.core.values import Fork
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.plans.fork import Forking
from supervisor.store.memory import MemoryStore
from supervisor.temporal.carry import pack
from supervisor.temporal.commands import command
from supervisor.temporal.payloads import VARIABLE, largest_for
from supervisor.temporal.starting import start_tree
from supervisor.temporal.trees import Trees
from supervisor.temporal.wire import CARRIED_LARGEST, LARGEST, Carried, ForkNote, Start


async def fork_tree(
    trees: Trees, runner: Runner, session: str, before: int, new: str | None, version: str | None, who: str
) -> Fork:
    """Fork a tree; see Supervisor.fork. `runner`: of the mirror. A version that the workers do not have blocks the new
    session. Raises SessionConflict, InvalidInput, NotFound, LimitExceeded."""
    root = await trees.read(session)
    fork = check_session_id(new) if new is not None else new_session_id()
    forking = Forking(trees.store, root, session, before, fork)
    mark = digest(["fork", root, forking.fork.before])
    start = _start(trees, runner, forking, version, who)
    if not await start_tree(trees, start, mark):
        described = await trees.mirror.describe(fork)
        if (await described.memo()).get("start") != mark:
            raise SessionConflict(f"session {fork} exists already; choose another id for the fork")
    note = ForkNote(fork=fork, before=forking.fork.before)
    await command(trees, root, "forked", root, who, msgspec.json.encode(note).decode(), check=_anything)
    await trees.until_accepted(fork)
    return forking.fork


def _anything(_: SessionState) -> None:
    """Allow it: any tree can be forked."""


def _start(trees: Trees, runner: Runner, forking: Forking, version: str | None, who: str) -> Start:
    """Return the Start of the new tree."""
    fork = forking.fork.session
    entries = forking.copied(who, version, runner.clock.now())
    rows = [JournalEntry(place, session, event) for place, (session, event) in enumerate(entries, 1)]
    store = MemoryStore()
    store.begin()
    store.write(rows)
    store.commit()
    journal, largest = pack(store, is_whole=True), largest_for(trees.client)
    if largest <= LARGEST and len(journal) > CARRIED_LARGEST:
        raise LimitExceeded(
            f"the copy of session {forking.fork.source} has {len(journal)} bytes, compressed, and {CARRIED_LARGEST} at "
            f"most are kept: name a folder for large payloads ({VARIABLE})"
        )
    state = _created(rows, fork)
    return Start(
        agent=state.path[-1],
        session=fork,
        cwd=state.cwd,
        requester=state.requester,
        by=who,
        largest=largest,
        carried=Carried(journal=journal, last=len(rows), earlier=None, answers={}),
    )


def _created(rows: list[JournalEntry], session: str) -> Any:
    return next(row.event for row in rows if row.session == session)
