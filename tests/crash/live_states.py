"""Live state == replayed state, at any instant: of all that this process has taken in, and of the notes not written
yet."""

from collections.abc import Iterator

from supervisor import SqliteStore
from supervisor.core.session import replay
from supervisor.runtime.journal.writer import Journal


def differences(store: SqliteStore, journal: Journal) -> Iterator[str]:
    """Return where the live states of a process differ from what its store says; nothing, we hope."""
    for session, live in journal.states.items():
        state = replay(session, [r.event for r in store.journal(session) if r.position <= journal.position])
        for note in journal.notes.get(session, ()):
            state.apply(note)
        for field in state.__struct_fields__:
            if (was := getattr(live, field)) != (should := getattr(state, field)):
                yield f"{session} {field}: live {was}, replayed {should}"
