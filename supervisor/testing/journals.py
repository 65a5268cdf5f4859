"""A session's journal as a test reads it, with assertions that say what the journal holds instead."""

from collections.abc import Iterable
from typing import TypeVar

from supervisor.core.events import Event, OperationAbandoned, ToolCallFinished, ToolCallRequested, ToolCallStarted
from supervisor.core.rows import JournalEntry
from supervisor.seam.supervisor import Supervisor

E = TypeVar("E", bound=Event)


class Journal:
    """Journal entries in order: of a session, or of a tree."""

    entries: tuple[JournalEntry, ...]

    def __init__(self, entries: Iterable[JournalEntry]) -> None:
        self.entries = tuple(entries)

    @property
    def names(self) -> list[str]:
        """The names of the events."""
        return [type(entry.event).__name__ for entry in self.entries]

    def events(self, kind: type[E]) -> list[E]:
        """Return the events of a class of `supervisor.events`."""
        return [entry.event for entry in self.entries if isinstance(entry.event, kind)]

    def assert_order(self, *kinds: type[Event]) -> None:
        """Assert that events of these classes are in it in this order. Others may stand between them."""
        later = iter(self.entries)
        for kind in kinds:
            if not any(isinstance(entry.event, kind) for entry in later):
                expected = ", ".join(each.__name__ for each in kinds)
                raise AssertionError(f"no {kind.__name__} in its place of {expected}; the journal: {self._shown()}")

    def assert_started(self, tool: str, times: int) -> None:
        """Assert how often calls of a tool have begun to run. A call that was only asked or denied has not."""
        asked = {
            (entry.session, entry.event.operation)
            for entry in self.entries
            if isinstance(entry.event, ToolCallRequested) and entry.event.tool == tool
        }
        began = [
            entry
            for entry in self.entries
            if isinstance(entry.event, ToolCallStarted) and (entry.session, entry.event.operation) in asked
        ]
        if len(began) != times:
            raise AssertionError(f"{tool} started {len(began)} times, not {times}; the journal: {self._shown()}")

    def assert_results(self) -> None:
        """Assert that no call is left without a result."""
        asked: dict[tuple[str, str], str] = {}
        for entry in self.entries:
            event = entry.event
            if isinstance(event, ToolCallRequested):
                asked[entry.session, event.operation] = event.tool
            elif isinstance(event, ToolCallFinished | OperationAbandoned):
                asked.pop((entry.session, event.operation), None)
        if asked:
            raise AssertionError(f"calls without a result: {', '.join(asked.values())}; the journal: {self._shown()}")

    def _shown(self) -> str:
        return ", ".join(self.names) or "empty"


async def read_journal(supervisor: Supervisor, session: str, *, tree: bool = False) -> Journal:
    """Return the journal of a session, with `tree` also those of its sub-agents."""
    return Journal(await supervisor.find_entries(session, tree=tree, limit=None))
