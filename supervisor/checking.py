"""Whether today's code follows what open runs have done: a replay in memory, of a copy of their journals.

An agent's function is run over the copy until it has asked for everything that the journal holds. There it is held:
nothing new begins, so no step, no call and no question. What plain code does between operations does happen.

Rules
- The copy is a MemoryStore of its own. Nothing is written to the store that it was read from; no tree is owned, no
  process is ended, no job is looked after, nobody is asked.
- Agents are found by their names among those that are given, whatever path was recorded.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import anyio
import msgspec

from supervisor.app import serving
from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.blocking import Block
from supervisor.core.errors import InvalidInput, StoreUnreadable, UnknownAgent
from supervisor.core.reminders import Reminders
from supervisor.core.rows import JournalEntry
from supervisor.core.session import SessionState, replay
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.people.posting import Posting
from supervisor.store.memory import MemoryStore
from supervisor.store.sqlite.schema import check_header, copy_to
from supervisor.store.sqlite.store import SqliteStore

LONG: Final = 10.0  # seconds after which what has not been decided is undecided


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay of one open session came to.

    follows: the code has asked for everything that the journal holds. blocked: it cannot, and `block` says why.
    undecided: neither in the time that there was; code of its own took longer.
    """

    session: str
    path: tuple[str, ...]
    kind: Literal["follows", "blocked", "undecided"]
    block: Block | None = None


async def check_replay(
    entries: Iterable[JournalEntry], agents: Mapping[str, AgentSpec[Any, Any]], *, seconds: float = LONG
) -> list[Checked]:
    """Replay the open sessions among these journal entries with agents of these names.

    `entries`: whole journals, in order, of a store (`read_store`) or of an export (`read_export`).
    `seconds`: how long to wait for agents whose own code takes long; after that they are undecided.
    Raises StoreUnreadable for a journal that contradicts itself.
    """
    rows = [JournalEntry(number, row.session, row.event) for number, row in enumerate(entries, start=1)]
    states = _open_states(rows)
    if not states:
        return []
    found: dict[str, Block | None] = {}

    def find(facts: e.SessionCreated) -> AgentSpec[Any, Any]:
        if (spec := agents.get(facts.path[-1])) is None:
            raise UnknownAgent(f"there is no agent {facts.path[-1]}; there are: {', '.join(sorted(agents)) or 'none'}")
        return spec

    runner = Runner(_copy(rows), find_agent=find, replayed=found.setdefault)
    supervisor = LocalSupervisor(runner)
    supervisor.audience.has_readers = True  # nobody is denied for want of people
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
        store = SqliteStore(copy, create=False)
        store.open()
        try:
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
            raise InvalidInput(f"line {number} is no entry of an export: {error}") from None
    return rows


def _open_states(rows: list[JournalEntry]) -> dict[str, SessionState]:
    journals: dict[str, list[e.AnyEvent]] = {}
    for row in rows:
        journals.setdefault(row.session, []).append(row.event)
    states = {session: replay(session, events) for session, events in journals.items() if _is_session(events)}
    return {session: state for session, state in states.items() if state.phase == "open"}


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
