"""What a tree takes along when it goes on in a new workflow: its journal, without what no run needs any more.

A workflow has a limited history. So a tree continues as a new workflow after a while, as it would in a new process on
one machine: its journal is read again, and each open run gets another attempt (R1).

Rules
- Entries keep their positions, so that a reader goes on where it was.
- Of a sub-agent that has ended, its beginning and its end are taken along, and what a budget counts.
- Of an open run, what came before its last save is left out, if that save was made with no operation under way: the
  operations, and what the agent said of itself. Messages and sub-agents stay.
- The fold of what is left must be the state that the whole journal gives. Otherwise the whole journal is taken.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence, Set
from typing import Any

import msgspec

from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent, StoreUnreadable
from supervisor.core.ids import RULES
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.asides import is_of_budget
from supervisor.core.sessions.machine import MOVES_OPERATION
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.seam.store import Store

Row = tuple[int, str, str]
"""Position, session and event, the event as JSON text."""


def pack(store: Store, *, is_whole: bool = False, counts_calls: bool = False) -> str:
    """Return the journal of a tree as text. `is_whole`: with all that no run needs. `counts_calls`: with the calls that
    an agent's budget counts; those that the tree's budget counts are always there."""
    journals = dict[str, list[JournalEntry]]()
    for row in store.rows(0):
        journals.setdefault(row.session, []).append(row)
        if isinstance(row.event, e.SessionCreated) and row.event.budget is not None:
            counts_calls = counts_calls or row.event.budget.calls is not None
    kept = [
        row
        for session, rows in journals.items()
        for row in (rows if is_whole else _needed(session, rows, counts_calls=counts_calls))
    ]
    plain = [(row.position, row.session, e.encode_event(row.event).decode()) for row in sorted(kept, key=_position)]
    return b64encode(zlib.compress(msgspec.json.encode(plain))).decode()


def unpack(text: str) -> list[JournalEntry]:
    """Return the entries of a packed journal."""
    return [JournalEntry(position, session, e.decode_event(body.encode())) for position, session, body in rows_of(text)]


def rows_of(text: str) -> list[Row]:
    """Return the entries of a packed journal, as they are kept."""
    return msgspec.json.decode(zlib.decompress(b64decode(text)), type=list[Row])


def _position(row: JournalEntry) -> int:
    return row.position


def _needed(session: str, rows: list[JournalEntry], *, counts_calls: bool) -> list[JournalEntry]:
    """Return the entries of a session that a new attempt needs."""
    if session == RULES:
        return rows
    whole, place = SessionState(id=session), 0
    for number, row in enumerate(rows, 1):
        whole.apply(row.event)
        if isinstance(row.event, e.RunStarted):
            place = 0
        elif isinstance(row.event, e.StateSaved) and not whole.operations and not whole.kept:
            place = number
    counted = {row.event.operation for row in rows if counts_calls and isinstance(row.event, e.ToolCallRequested)}
    if not whole.is_open and whole.facts.parent is not None:
        kept = [row for row in rows if _begins_or_ends(row.event) or _is_of(row.event, counted)]
        is_same = _outline
    else:
        begins = {_operation(row.event) for row in rows[:place] if e.begins(row.event) is not None}
        kept = [row for row in rows[:place] if not _is_done_with(row.event, begins | counted)] + rows[place:]
        is_same = _meaning
    try:
        left = replay_journal(session, [row.event for row in kept])
    except (IllegalEvent, StoreUnreadable):
        return rows
    return kept if is_same(left) == is_same(whole) else rows


def _begins_or_ends(event: e.AnyEvent) -> bool:
    return type(event) in e.BEGINS_RUN or isinstance(event, e.SessionCreated | e.RunFinished)


def _is_of(event: e.AnyEvent, counted: Set[str]) -> bool:
    """Return whether budgets count an event: what was spent, or a part of a call."""
    return isinstance(event, e.UsageSpent) or (type(event) in MOVES_OPERATION and _operation(event) in counted)


def _operation(event: Any) -> str:
    """Return the operation that an event moves."""
    operation: str = event.operation
    return operation


def _is_done_with(event: e.AnyEvent, begins: Set[str]) -> bool:
    """Return whether an event before a save is needed no more. `begins`: the operations that began sub-agents, or
    count."""
    if isinstance(event, e.Reported):
        return True
    if is_of_budget(event):
        return False
    if type(event) not in MOVES_OPERATION:
        return False
    took_message = isinstance(event, e.OperationFinished) and event.message is not None
    return not took_message and _operation(event) not in begins


def _outline(state: SessionState) -> Sequence[object]:
    return state.phase, state.outcome, state.runs, state.input, state.spent


def _meaning(state: SessionState) -> Sequence[object]:
    """Return what a state says, without the places in its journal."""
    operations = [
        (name, msgspec.structs.replace(each, begun=0, answered=0)) for name, each in sorted(state.operations.items())
    ]
    fields = (name for name in state.__struct_fields__ if name not in ("operations", "order", "length", "barren"))
    return operations, [*state.order], *(_plain(getattr(state, name)) for name in fields)


def _plain(value: object) -> object:
    return dict(value) if hasattr(value, "keys") else value  # type: ignore[call-overload] # a map of some kind
