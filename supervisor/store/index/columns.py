"""Conversion between the index and its columns; their order is that of the queries of each database.

Instants are integers, microseconds since 1970: they sort, and are restored exactly.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from supervisor.core.approvals.state import EVIDENCE, VOTE, ApprovalState
from supervisor.core.events import decode_event
from supervisor.core.rows import JournalEntry, Owner, RunnableSession, SessionRow
from supervisor.core.usage import DECIMALS, NOTHING, Spent
from supervisor.core.values import Approval
from supervisor.store.index.listing import as_asked, as_ended, as_shown, session_row
from supervisor.store.index.prefixes import SharedPrefixes
from supervisor.store.index.projection import ApprovalEntry, SessionEntry

Columns = tuple[Any, ...]

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_PENDING: Final = 9
"""How many columns describe a pending approval completely."""
_ENDED: Final = _PENDING + 3
"""The same for an approval in any state."""
_ENTRY: Final = 8
"""How many columns of session_full are the session's entry in the index."""
_WITH_EVENTS: Final = _ENTRY + 4
"""The same, with the events by which it was created and finished."""
_SPENT: Final = _WITH_EVENTS + 1
"""Where the columns begin that say what was spent."""
_NANO: Final = 10**DECIMALS
_encode: Final = msgspec.json.Encoder().encode
_decode_numbers: Final = msgspec.json.Decoder(tuple[int, int, int, int, int, int, int, int]).decode
_decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def to_micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def session_entry(row: Columns) -> SessionEntry:
    session, root, created, last_at, waiting_for, due_at, finished, runs, *rest = row
    agent = rest[0] if rest else ""
    names = None if waiting_for is None else _decode_names(waiting_for)
    due = None if due_at is None else from_micros(due_at)
    return SessionEntry(session, root, created, from_micros(last_at), names, due, finished, runs, agent=agent)


def runnable(row: Columns) -> RunnableSession:
    session, root, position, last_at, waiting_for, due_at, agent = row
    return RunnableSession(
        id=session,
        root=root,
        agent=agent,
        due_at=None if due_at is None else from_micros(due_at),
        last_at=from_micros(last_at),
        waiting_for=None if waiting_for is None else _decode_names(waiting_for),
        position=position,
    )


def approval_entry(row: Columns) -> ApprovalEntry:
    approval, session, asked, status, decided, shown, reminded, by = row
    names = _names(shown)
    cards = tuple(each for each in names if not each.startswith((VOTE, EVIDENCE)))
    votes, evidence = (tuple(each for each in names if each.startswith(prefix)) for prefix in (VOTE, EVIDENCE))
    now = ApprovalState(status or "pending", decided, reminded, cards, votes, evidence=evidence)
    return ApprovalEntry(approval, session, asked, now, by)


def new_session(entry: SessionEntry) -> Columns:
    return (entry.created, entry.root, entry.parent, entry.agent, *_living(entry))


def changed_session(entry: SessionEntry) -> Columns:
    return (*_living(entry), entry.created)


def new_approval(entry: ApprovalEntry) -> Columns:
    return (entry.asked, entry.session, entry.tool, entry.agent, to_micros(entry.at), *_answered(entry))


def words(entry: ApprovalEntry) -> Columns:
    return (entry.asked, entry.words)


def changed_approval(entry: ApprovalEntry) -> Columns:
    return (*_answered(entry), entry.asked)


def full_session(prefixes: SharedPrefixes, row: Columns) -> SessionRow:
    """Read a row of the view session_full."""
    head, created, end_head, end = row[_ENTRY:_WITH_EVENTS]
    finished = None if end is None else prefixes.join(end_head, None, end)
    found = session_row(session_entry(row[:_ENTRY]), prefixes.path(head, created), created, finished)
    own, below = row[_SPENT:]
    return found if own is None and below is None else replace(found, spent=_spent(own), spent_below=_spent(below))


def spent_columns(added: tuple[str, Spent]) -> Columns:
    session, spent = added
    return (
        session,
        spent.requests,
        spent.input_tokens,
        spent.cached_input_tokens,
        spent.output_tokens,
        round(spent.usd * _NANO),
        spent.unpriced,
        spent.uncounted,
        spent.unnumbered,
    )


def _spent(numbers: str | None) -> Spent:
    if numbers is None:
        return NOTHING
    requests, given, cached, written, nano_usd, unpriced, uncounted, unnumbered = _decode_numbers(numbers)
    return Spent(
        requests=requests,
        input_tokens=given,
        cached_input_tokens=cached,
        output_tokens=written,
        usd=round(nano_usd / _NANO, DECIMALS),
        unpriced=unpriced,
        uncounted=uncounted,
        unnumbered=unnumbered,
    )


def full_approval(prefixes: SharedPrefixes, row: Columns) -> Approval:
    """Read a row of the view approval_full; for a pending approval the columns up to the reminder are enough."""
    is_pending = len(row) == _PENDING
    approval, session, position, head, created, *asked, shown, reminder = row if is_pending else row[:_PENDING]
    request = prefixes.join(asked[0], None, asked[1])
    found = as_asked(approval, session, position, prefixes.path(head, created), created, request)
    if shown is not None or reminder is not None:
        found = as_shown(found, _names(shown), reminder, prefixes.entry_at)
    if is_pending:
        return found
    status, end_head, end = row[_PENDING:_ENDED]
    return found if status is None else as_ended(found, status, prefixes.join(end_head, None, end))


def journal_row(session: str, prefixes: SharedPrefixes, row: Columns) -> JournalEntry:
    """Read an entry of one session's journal; raises StoreUnreadable."""
    position, head, approval, body = row
    return JournalEntry(position, session, decode_event(prefixes.join(head, approval, body)))


def latest_run(session: str, prefixes: SharedPrefixes, row: Columns) -> tuple[int, JournalEntry | None]:
    """Read the number of a session's latest run, and the entry that ended it; raises StoreUnreadable."""
    runs, *ended = row
    return runs, None if ended[0] is None else journal_row(session, prefixes, tuple(ended))


def entry(prefixes: SharedPrefixes, row: Columns) -> tuple[int, str, bytes]:
    """Read a journal entry: its position, its session, and its body."""
    position, session, head, approval, body = row
    return position, session, prefixes.join(head, approval, body)


def owner_columns(owner: Owner) -> Columns:
    return (owner.id, owner.host, owner.pid, to_micros(owner.since))


def owner(row: Columns) -> Owner:
    name, host, pid, since = row
    return Owner(name, host, pid, from_micros(since))


def _living(entry: SessionEntry) -> Columns:
    due_at = None if entry.due_at is None else to_micros(entry.due_at)
    waiting_for = None if entry.waiting_for is None else _encode_names(entry.waiting_for)
    return (to_micros(entry.last_at), waiting_for, due_at, entry.finished, entry.runs)


def _answered(entry: ApprovalEntry) -> Columns:
    now = entry.now
    status = None if now.status == "pending" else now.status
    names = (*now.cards, *now.votes, *now.evidence)
    return (status, now.ended, _encode_names(names) if names else None, now.reminded, entry.by)


def _names(text: str | None) -> tuple[str, ...]:
    return () if text is None else _decode_names(text)


def _encode_names(names: tuple[str, ...]) -> str:
    return _encode(names).decode()
