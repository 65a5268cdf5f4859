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
_encode: Final = msgspec.json.Encoder().encode
_decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def to_micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def session_entry(row: Columns) -> SessionEntry:
    waiting_for = None if row[4] is None else _decode_names(row[4])
    due_at = None if row[5] is None else from_micros(row[5])
    return SessionEntry(row[0], row[1], row[2], from_micros(row[3]), waiting_for, due_at, row[6])


def approval_entry(row: Columns) -> ApprovalEntry:
    shown = () if row[6] == "[]" else _decode_names(row[6])
    return ApprovalEntry(row[0], row[1], row[2], row[3], row[4], row[5], shown, row[7])


def new_session(entry: SessionEntry) -> Columns:
    return (entry.created, entry.root, *_living(entry))


def changed_session(entry: SessionEntry) -> Columns:
    return (*_living(entry), entry.created)


def new_approval(entry: ApprovalEntry) -> Columns:
    return (entry.asked, entry.id, entry.session, entry.operation, *_answered(entry))


def changed_approval(entry: ApprovalEntry) -> Columns:
    return (*_answered(entry), entry.asked)


def full_session(row: Columns) -> SessionRow:
    """Read a row of the view session_full."""
    return session_row(session_entry(row), row[7], row[8])


def full_approval(row: Columns) -> Approval:
    """Read a row of the view approval_full."""
    return approval_row(approval_entry(row), row[8], row[9], row[10], row[11])


def owner_columns(owner: Owner) -> Columns:
    return (owner.id, owner.host, owner.pid, to_micros(owner.since))


def owner(row: Columns) -> Owner:
    return Owner(row[0], row[1], row[2], from_micros(row[3]))


def _living(entry: SessionEntry) -> Columns:
    due_at = None if entry.due_at is None else to_micros(entry.due_at)
    waiting_for = None if entry.waiting_for is None else _encode_names(entry.waiting_for)
    return (to_micros(entry.last_at), waiting_for, due_at, entry.finished)


def _answered(entry: ApprovalEntry) -> Columns:
    return (entry.status, entry.decided, _encode_names(entry.shown), entry.reminded)


def _encode_names(names: tuple[str, ...]) -> str:
    return _encode(names).decode() if names else "[]"
