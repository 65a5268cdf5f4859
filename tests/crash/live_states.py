"""The live state equals the replayed state at any instant, for all applied entries and the notes that are not written
yet."""

from collections.abc import Iterator
from copy import copy

from msgspec.structs import asdict, replace

from supervisor import SqliteStore
from supervisor.core.ids import STORE_JOURNALS
from supervisor.core.sessions.state import replay_journal
from supervisor.runtime.journal.writer import Journal


class Replayed:
    """The states of a store, updated entry by entry: a replay of everything at each check would take most of the
    time."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._states = {name: replay_journal(name, []) for name in STORE_JOURNALS}
        self._position = 0

    def differences(self, journal: Journal) -> Iterator[str]:
        """Return the differences between the live states of a process and its store; there should be none."""
        for row in self._store.rows(self._position, journal.position):
            if row.session not in self._states:
                self._states[row.session] = replay_journal(row.session, [])
            self._states[row.session].apply(row.event)
        self._position = journal.position
        for session, live in journal.states.items():
            state = self._states[session]
            if notes := journal.notes.get(session):
                state = replace(
                    state, **{n: copy(v) for n, v in asdict(state).items() if isinstance(v, dict | list | set)}
                )
                for note in notes:
                    state.apply(note)
            for field in state.__struct_fields__:
                if (was := getattr(live, field)) != (should := getattr(state, field)):
                    yield f"{session} {field}: live {was}, replayed {should}"
