"""How the index becomes columns, and columns the index; the order is that of queries.sql.

Instants are integers, microseconds since 1970: they sort, and come back exactly as they were.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from supervisor.abc import Owner, SessionRow
from supervisor.core.values import Approval
from supervisor.store.projection import ApprovalEntry, SessionEntry, approval_row, session_row

Columns = tuple[Any, ...]

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_encode_shown: Final = msgspec.json.Encoder().encode
_decode_shown: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def to_micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def session_entry(row: Columns) -> SessionEntry:
    id_, parent, root, created, last_at, is_asleep, due_at, finished = row[:8]
    due = None if due_at is None else from_micros(due_at)
    return SessionEntry(id_, parent, root, created, from_micros(last_at), bool(is_asleep), due, finished)


def approval_entry(row: Columns) -> ApprovalEntry:
    id_, session, operation, asked, status, decided, shown = row[:7]
    return ApprovalEntry(id_, session, operation, asked, status, decided, _decode_shown(shown) if shown != "[]" else ())


def new_session(entry: SessionEntry) -> Columns:
    return (entry.id, entry.parent, entry.root, entry.created, *_living(entry))


def changed_session(entry: SessionEntry) -> Columns:
    return (*_living(entry), entry.id)


def new_approval(entry: ApprovalEntry) -> Columns:
    return (entry.id, entry.session, entry.operation, entry.asked, *_answered(entry))


def changed_approval(entry: ApprovalEntry) -> Columns:
    return (*_answered(entry), entry.id)


def full_session(row: Columns) -> SessionRow:
    """Read a row of the view session_full."""
    return session_row(session_entry(row), row[8], row[9])


def full_approval(row: Columns) -> Approval:
    """Read a row of the view approval_full."""
    return approval_row(approval_entry(row), row[7], row[8], row[9], row[10])


def owner_columns(owner: Owner) -> Columns:
    return (owner.id, owner.host, owner.pid, to_micros(owner.since))


def owner(row: Columns) -> Owner:
    return Owner(row[0], row[1], row[2], from_micros(row[3]))


def _living(entry: SessionEntry) -> Columns:
    due_at = None if entry.due_at is None else to_micros(entry.due_at)
    return (to_micros(entry.last_at), int(entry.is_asleep), due_at, entry.finished)


def _answered(entry: ApprovalEntry) -> Columns:
    return (entry.status, entry.decided, _encode_shown(entry.shown).decode() if entry.shown else "[]")
