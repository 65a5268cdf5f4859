"""Forks: a new tree that begins with a copy of another tree, as it was before one of its entries (R10).

Theory
    An agent is a function of the results that it was given, in their order. So a journal without its open operations
    is a valid journal, too: that of a run which has not asked for them yet. The agent asks for them again when it has
    asked for everything in the copy. Nothing in the copy can follow from an operation without a result.

    A sub-agent's session id is derived from its parent's session id and the operation that began it, and the ids of
    operations on a sub-agent contain its session id. So the copy renames sessions from the root downwards, and
    operations with them: the agent finds the ids that it derives itself.

What is copied
- Finished and abandoned operations with their results, saved state, marks, messages, timers with their instants,
  requester, folder, and rules from code. A sub-agent that a call began goes on if the call needed no decision.
- Questions to people and their answers, if the operation has its result: for the transcript, under ids that no
  approval has (core/events/asking.py). A decision counts in one session only.

What is not copied
- Open operations except timers: the agent asks for them again, decided or not.
- Attempts, cards, jobs, blocks, refused decisions, what was spent, and questions about budgets: they are facts of the
  source only.

Rules
- The cut is before the whole append of the entry, as far as entries of one append depend on each other: a sub-agent
  exists together with the entry that began it, and its end together with its parent's knowledge of it.
- A copy can be copied: the ids of its sources stay in its journal.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.masking import masked_event
from supervisor.core.errors import InvalidInput
from supervisor.core.events.asking import COPIED, is_copied
from supervisor.core.events.kinds import kind_of
from supervisor.core.ids import child_session_id
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.asides import is_of_budget
from supervisor.core.sessions.operations import Operation
from supervisor.core.sessions.state import SessionState
from supervisor.core.values import LaterCall

Entry = tuple[str, e.AnyEvent]

_LEFT_OUT: Final = e.having("not copied")
"""Facts of the source only."""
_LAST_APPEND: Final = e.having("last append")
"""Events that are journaled in one append with the end of a run."""
_WORDS: Final = re.compile(r"[a-z0-9]+")
_MADE: Final = re.compile(r"[a-z2-7]{22}")
"""A session id that we made. An id from a caller may be any word, and is not looked for in other ids."""


class Cut:
    """A tree as it was before the append of one of its entries. `rows`: the entries of all its sessions, in order."""

    def __init__(self, rows: Sequence[JournalEntry], session: str, entry: int) -> None:
        """Raises InvalidInput if no entry, or none from which a run could go on, is before the entry."""
        own = [place for place, row in enumerate(rows) if row.session == session]
        if not 1 <= entry <= len(own):
            raise InvalidInput(
                f"session {session} has entries 1 to {len(own)}, and no entry {entry}; supervisor show {session} "
                "prints the numbers"
            )
        self.rows = rows
        self.place = own[entry - 1]
        """How many entries of the tree are before the cut."""
        while not self._is_whole():
            self.place -= 1
        if not self.place:
            raise InvalidInput(
                f"nothing is before entry {entry} of session {session}: start the agent to begin from the beginning"
            )
        root = self.states[rows[0].session]
        if root.cancel is not None and root.is_open:
            raise InvalidInput(
                f"session {root.id} was being cancelled before entry {entry} of session {session}: name an earlier one"
            )

    def _is_whole(self) -> bool:
        """Return whether the cut splits no append."""
        before, after = self.rows[: self.place], self.rows[self.place :]
        if before and after and _are_together(before[-1], after[0]):
            return False
        self.states = _fold(before)
        if any(state.phase in ("created", "imported") for state in self.states.values()):
            return False
        return all(
            child in self.states and (ended is not None or self.states[child].is_open)
            for state in self.states.values()
            if state.is_open
            for child, ended in state.children.items()
        )

    def entries_of(self, session: str) -> int:
        """Return how many entries of a session are before the cut."""
        return sum(row.session == session for row in self.rows[: self.place])


def copy_tree(cut: Cut, fork: str) -> tuple[dict[str, str], list[Entry], list[int]]:
    """Return the new session id of each copied session, the entries of the new sessions, and the places of the
    copied entries. `fork`: the id of the new root."""
    root = cut.rows[0].session
    left_out, gone = _open_operations(cut)
    names: dict[str, str] = {root: fork}
    states: dict[str, SessionState] = {}
    lengths: dict[str, list[int]] = {}
    entries: list[Entry] = []
    places: list[int] = []
    for place, row in enumerate(cut.rows[: cut.place]):
        session, event = row.session, row.event
        state = states.setdefault(session, SessionState(id=session))
        state.apply(event)
        kept_before = lengths.setdefault(session, [0])
        is_kept = session not in gone and place not in left_out and type(event) not in _LEFT_OUT
        is_kept = is_kept and not is_of_budget(event)
        kept_before.append(kept_before[-1] + is_kept)
        if not is_kept:
            continue
        if isinstance(event, e.OperationFinished | e.ToolCallStarted) and (child := e.begins(event)) is not None:
            operation = _rename(event.operation, names)
            names[child] = child_session_id(names[session], f"{state.runs} {operation}")
        copied = _renamed(event, names)
        if isinstance(copied, e.RunFinished) and copied.stopped_at:
            copied = replace(copied, stopped_at=kept_before[min(copied.stopped_at, len(kept_before) - 1)])
        entries.append((names[session], copied))
        places.append(place)
    forks = Counter(session for session, event in entries if isinstance(event, e.SessionForked))
    entries = [
        (session, replace(event, forked=forks[session] + 1) if isinstance(event, e.SessionCreated) else event)
        for session, event in entries
    ]
    return {old: new for old, new in names.items() if old in states and old not in gone}, entries, places


def later_calls(cut: Cut, copied: Iterable[int]) -> list[LaterCall]:
    """Return the calls of the source that began and whose results were not copied: their effects remain, and the copy
    may repeat them."""
    known, numbers = set(copied), dict[str, int]()
    asked: dict[tuple[str, str], tuple[int, e.ToolCallRequested]] = {}
    begun: dict[tuple[str, str], LaterCall] = {}
    found: list[LaterCall] = []
    for place, row in enumerate(cut.rows):
        number = numbers[row.session] = numbers.get(row.session, 0) + 1
        key = row.session, getattr(row.event, "operation", "") or ""
        match row.event:
            case e.ToolCallRequested() as request:
                asked[key] = number, request
            case e.ToolCallStarted(child=None, at=at) if key in asked:
                begun.setdefault(key, _later_call(row.session, *asked[key], at))
            case e.ToolCallFinished() | e.OperationAbandoned() as ended if key in begun:
                call = begun.pop(key)
                if place not in known and msgspec.json.decode(ended.details).get("effect") != "none":
                    found.append(replace(call, result=getattr(ended, "kind", None)))
            case _:
                pass
    return sorted([*found, *begun.values()], key=lambda call: call.started_at)


def _later_call(session: str, entry: int, request: e.ToolCallRequested, at: Any) -> LaterCall:
    shown = masked_event(request)
    assert isinstance(shown, e.ToolCallRequested)
    arguments = msgspec.json.decode(shown.arguments)
    return LaterCall(
        session=session, entry=entry, tool=shown.tool, arguments=arguments, command=shown.command, started_at=at
    )


def _fold(rows: Iterable[JournalEntry]) -> dict[str, SessionState]:
    states: dict[str, SessionState] = {}
    for row in rows:
        states.setdefault(row.session, SessionState(id=row.session)).apply(row.event)
    return states


def _are_together(one: JournalEntry, other: JournalEntry) -> bool:
    """Return whether two adjacent entries of a tree were appended together and are meaningless without each other."""
    if other.position != one.position + 1:
        return False
    match other.event:
        case e.RunStarted(again=None):
            return True  # the session, or the message, that it begins with
        case e.OperationFinished(operation=operation):
            return isinstance(one.event, e.MessageSent) and one.event.operation == operation
        case e.CancelRequested(origin=origin) if _tells_to_end(one.event):
            return getattr(one.event, "child", origin) == origin and one.event.at == other.event.at
        case event:
            return _is_way_out(one.event) and _is_way_out(event) and one.event.at == event.at


def _tells_to_end(event: e.AnyEvent) -> bool:
    """Return whether a cancel may follow from an event: of a sub-agent, or of an abandoned call's sub-agent."""
    is_cancel = isinstance(event, e.OperationFinished) and kind_of(event.kind).child == "ends"
    return is_cancel or isinstance(event, e.OperationAbandoned)


def _is_way_out(event: e.AnyEvent) -> bool:
    is_result = isinstance(event, e.ToolCallFinished) and event.kind != "interrupted"
    return type(event) in _LAST_APPEND and not is_result


def _open_operations(cut: Cut) -> tuple[set[int], set[str]]:
    """Return the places of the entries of operations that the agent asks for again, and the sessions that begin again
    with them."""
    states: dict[str, SessionState] = {}
    places: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(cut.rows[: cut.place]):
        state = states.setdefault(row.session, SessionState(id=row.session))
        operation = None if is_of_budget(row.event) else getattr(row.event, "operation", None)
        if operation is not None and operation not in state.operations:
            places[row.session, operation] = []  # it begins: an earlier operation of this id was forgotten
        if operation is not None:
            places[row.session, operation].append(place)
        state.apply(row.event)
    left_out: set[int] = set()
    gone: set[str] = set()
    for session, state in states.items():
        for operation, record in state.operations.items():
            if state.is_open and _is_asked_anew(record):
                left_out.update(places[session, operation])
                if record.started is not None and record.started.child is not None:
                    gone.add(record.started.child)
    for session, state in states.items():  # a parent's session begins before its children's
        if state.facts.parent in gone:
            gone.add(session)
    return left_out, gone


def _is_asked_anew(record: Operation) -> bool:
    """Return whether an operation is open, and neither a timer nor a sub-agent's call that needed no decision."""
    if not record.is_open or record.state == "waiting":
        return False
    request = record.request
    is_sub_agent = record.started is not None and record.started.child is not None
    return not (is_sub_agent and isinstance(request, e.ToolCallRequested) and request.approval is None)


def _rename(text: str, names: Mapping[str, str]) -> str:
    """Return the id of an operation, or its key, with the new ids of sessions."""

    def new(word: re.Match[str]) -> str:
        return names.get(word[0], word[0]) if _MADE.fullmatch(word[0]) else word[0]

    return _WORDS.sub(new, text)


def _renamed(event: e.AnyEvent, names: Mapping[str, str]) -> e.AnyEvent:
    """Return an event as it is in the copy."""
    changes: dict[str, Any] = {}
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if not value or isinstance(value, Raw):
            continue
        if field in ("operation", "parent_operation"):
            changes[field] = _rename(value, names)
        elif field in ("root", "parent", "child", "origin"):
            changes[field] = names.get(value, value)
        elif field in ("forgotten", "kept", "reopened", "led_by"):
            changes[field] = tuple(_rename(each, names) for each in value)
        elif field == "counts":
            changes[field] = {_rename(key, names): count for key, count in value.items()}
        elif field == "approval" and not is_copied(value):
            changes[field] = COPIED + value
        elif field == "again":
            changes[field] = _renamed_again(value, names)
    return replace(event, **changes) if changes else event


def _renamed_again(again: e.Again, names: Mapping[str, str]) -> e.Again:
    aside = {name: tuple(_rename(each, names) for each in getattr(again, name)) for name in _ASIDE}
    return replace(again, **aside, children=tuple(names.get(child, child) for child in again.children))


_ASIDE: Final = ("forgotten", "kept", "reopened")
