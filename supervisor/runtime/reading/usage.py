"""What was spent on models, by agent, model, person or day: from the journals, and so of what was not removed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, get_args

from supervisor.core import events as e
from supervisor.core.errors import InvalidInput
from supervisor.core.rows import JournalEntry, SessionRow
from supervisor.core.usage import NOTHING, Spent, UsageKind, UsagePart, UsageReport, spent_by, sum_of
from supervisor.runtime.reading.lists import SCANNED
from supervisor.runtime.reading.pieces import Pieces

if TYPE_CHECKING:
    from supervisor.runtime.reading.reader import Reader

_MEANT: Final = (e.UsageSpent.__name__,)
KINDS: Final[tuple[UsageKind, ...]] = get_args(UsageKind)
UNKNOWN: Final = "unknown"
"""The name of a model that is not known."""


def read_usage(reader: "Reader", session: str | None, by: UsageKind) -> Pieces[UsageReport]:
    """Return what a session and everything below it, or the whole store, has spent. Raises NotFound."""
    if by not in KINDS:
        raise InvalidInput(f"usage is shown by one of {', '.join(KINDS)}, not {by!r:.40}")
    store, end = reader.store, reader.store.last_position()
    first = reader.get_row(session) if session is not None else next(iter(store.find_sessions(limit=1)), None)
    name_of, known, parts = _NAMES[by], dict[str, SessionRow | None](), dict[str, Spent]()
    start = 0 if session is None or first is None else first.position - 1
    while start < end:
        to = min(start + SCANNED, end)
        for entry in store.rows(start, to, _MEANT):
            if entry.session not in known:
                is_meant = session is None or reader.is_below(entry.session, session)
                known[entry.session] = store.get_session(entry.session) if is_meant else None
            if (row := known[entry.session]) is not None:
                name = name_of(entry, row)
                parts[name] = parts.get(name, NOTHING) + spent_by(_usage_of(entry))
        start = to
        yield
    ordered = sorted(parts.items()) if by == "day" else sorted(parts.items(), key=lambda part: (-part[1].usd, part[0]))
    return UsageReport(
        by=by,
        session=session,
        since=None if first is None else first.created_at,
        total=sum_of(parts.values()),
        parts=tuple(UsagePart(name=name, spent=spent) for name, spent in ordered),
    )


def _usage_of(entry: JournalEntry) -> Any:
    assert isinstance(entry.event, e.UsageSpent)
    return entry.event.usage


_NAMES: Final[dict[UsageKind, Callable[[JournalEntry, SessionRow], str]]] = {
    "agent": lambda entry, row: row.agent,
    "model": lambda entry, row: _usage_of(entry).model or UNKNOWN,
    "person": lambda entry, row: row.requester,
    "day": lambda entry, row: f"{entry.event.at:%Y-%m-%d}",
}
