"""Check whether today's code can follow the journals of open runs, by a replay of a copy in memory.

The check runs each agent's function over the copy until the agent has asked for everything in its journal. There it is
held: no new operation begins, so no step, no call and no question. Plain code between operations does run.

Rules
- The copy is a separate MemoryStore. The check writes nothing to the original store. It owns no tree, ends no process,
  watches no job, and asks no one.
- Agents are found by name among the given ones; the path in the journal does not matter. Sessions whose agent only one
  command can run (supervisor/system/loading.py) are left out.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import anyio
import msgspec

from supervisor.core import events as e
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.blocking import Block
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, StoreUnreadable, UnknownAgent
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.people.posting import Posting
from supervisor.seam.store import Store
from supervisor.store.memory import MemoryStore
from supervisor.store.sqlite.schema import check_header, copy_to
from supervisor.store.sqlite.store import SqliteStore
from supervisor.system.loading import why_not_here
from supervisor.wiring.app import serving

LONG_SECONDS: Final = 10.0  # seconds after which a replay without a result counts as undecided


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the replay of one open session.

    follows: the code has asked for everything that the journal holds. blocked: it cannot, and `block` says why.
    undecided: neither within the time limit, because the agent's own code took longer.
    """

    session: str
    path: tuple[str, ...]
    kind: Literal["follows", "blocked", "undecided"]
    block: Block | None = None


async def check_replay(
    entries: Iterable[JournalEntry], agents: Mapping[str, AgentSpec[Any, Any]], *, seconds: float = LONG_SECONDS
) -> list[Checked]:
    """Replay the open sessions among these journal entries with agents of these names.

    `entries`: complete journals, in order, of a store (`read_store`) or of an export (`read_export`).
    `seconds`: the time limit, for agents whose own code takes long. After that they are undecided.
    Raises StoreUnreadable for a journal that contradicts itself.
    """
    rows = [JournalEntry(number, row.session, row.event) for number, row in enumerate(entries, start=1)]
    states = _open_states(rows)
    if not states:
        return []
    found: dict[str, Block | None] = {}

    def find(facts: e.SessionCreated) -> AgentSpec[Any, Any]:
        if (spec := agents.get(facts.path[-1])) is None:
            offered = ", ".join(sorted(agents)) or "none"
            raise UnknownAgent(f"there is no agent {facts.path[-1]}; the agents are: {offered}")
        return spec

    runner = Runner(_copy(rows), find_agent=find, replayed=found.setdefault)
    supervisor = LocalSupervisor(runner)
    supervisor.audience.has_readers = True  # so no approval is denied for lack of a reader
    async with serving(
        runner, supervisor, Posting(runner, supervisor.reader, supervisor.audience, (), "ask", Reminders())
    ):
        for root in dict.fromkeys(state.facts.root for state in states.values()):
            await supervisor.resume(root)
        for session in states:
            runner.launcher.launch(session)
        with anyio.move_on_after(seconds):
            await runner.attempts.wait_until(lambda: found.keys() >= states.keys())
        runner.attempts.suspend_all("the check is over")
    return [_checked(state, found) for state in states.values()]


def read_store(path: Path) -> list[JournalEntry]:
    """Return the entries of all open trees of a store, as they are now.

    They are read from a copy. If the store has an older format, only the copy is upgraded. Raises StoreUnreadable.
    """
    check_header(path)
    with TemporaryDirectory(prefix="supervisor-") as folder:
        copy = Path(folder) / "copy.db"
        copy_to(path, copy)
        return read_open_store(SqliteStore(copy, create=False))


def read_open_store(store: Store) -> list[JournalEntry]:
    """Open a store, return the entries of its open trees as they are at one instant, and close it. Raises
    StoreUnreadable."""
    store.open()
    try:
        with store.one_instant():
            roots = dict.fromkeys(row.root for row in store.find_sessions(is_open=True))
            sessions = [row.id for root in roots for row in store.find_sessions(root=root)]
            rows = [row for session in sessions for row in store.journal(session)]
        return sorted(rows, key=lambda row: row.position)
    finally:
        store.close()


def read_export(lines: Iterable[bytes]) -> list[JournalEntry]:
    """Return the entries of an export (`supervisor export`). Raises InvalidInput, naming the line."""
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            document = msgspec.json.decode(line, type=dict[str, Any])
            position, session = int(document.pop("position")), str(document.pop("session"))
            document.pop("entry", None)
            rows.append(JournalEntry(position, session, e.decode_event(msgspec.json.encode(document))))
        except (msgspec.MsgspecError, KeyError, ValueError, StoreUnreadable) as error:
            raise InvalidInput(f"line {number} is not an entry of an export: {error}") from None
    return rows


def _open_states(rows: list[JournalEntry]) -> dict[str, SessionState]:
    journals: dict[str, list[e.AnyEvent]] = {}
    for row in rows:
        journals.setdefault(row.session, []).append(row.event)
    states = {session: replay_journal(session, events) for session, events in journals.items() if _is_session(events)}
    mine = {session: state for session, state in states.items() if why_not_here(state.facts.agent) is None}
    return {session: state for session, state in mine.items() if state.phase == "open"}


def _is_session(events: list[e.AnyEvent]) -> bool:
    return isinstance(events[0], e.SessionCreated)


def _copy(rows: list[JournalEntry]) -> MemoryStore:
    store = MemoryStore()
    store.open()
    store.begin()
    store.write(rows)
    store.commit()
    return store


def _checked(state: SessionState, found: Mapping[str, Block | None]) -> Checked:
    session, path = state.id, state.facts.path
    if session not in found:
        return Checked(session=session, path=path, kind="undecided")
    block = found[session]
    return Checked(session=session, path=path, kind="follows" if block is None else "blocked", block=block)
