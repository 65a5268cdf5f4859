"""A session's journal as a conversation: messages, calls, who allowed them, and their results.

Rules
- The sentences are those of core/telling.py. This module says which events are entries, and what stands together.
- A call is one entry, where it was asked: its approval, its decision and its result stand with it (A15).
- What the agent reports of itself is marked. It may say much: its reports take no place from other entries.
- Pure and bounded: of a long journal the latest entries are shown, with the number of the others.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, Literal

import msgspec

from supervisor.channels.web.rendering import MOST_CHARACTERS
from supervisor.core import events as e
from supervisor.core.events.kinds import kind_of
from supervisor.core.rows import JournalEntry
from supervisor.core.telling import Part, Parts, Telling, told_at

MOST_ENTRIES: Final = 200
EntryKind = Literal["said", "heard", "call", "question", "step", "child", "life", "job", "report"]
_LIFE: Final = e.having("told", "wakes", "begins run")
_IMPORTED: Final[dict[str, EntryKind]] = {"user": "heard", "assistant": "said", "call": "call", "result": "call"}
_OF_CALL: Final = e.having("audited", "told")
"""What stands with the request of its operation."""


class Entry(msgspec.Struct, kw_only=True):
    """One entry; a call's grows while its journal is read. `state`: the latest word for how it is."""

    kind: EntryKind
    at: datetime
    told: list[Parts]
    state: str = ""

    @property
    def parts(self) -> Iterator[Part]:
        return (part for parts in self.told for part in parts)

    @property
    def is_cut(self) -> bool:
        return any(part.law.may_be_cut and len(part.text) > MOST_CHARACTERS for part in self.parts)


class Story(msgspec.Struct, frozen=True, kw_only=True):
    entries: tuple[Entry, ...]
    left_out: int


def story(rows: Iterable[JournalEntry], names: dict[str, tuple[str, ...]], most: int = MOST_ENTRIES) -> Story:
    """Tell a session's journal; `names` are the paths of its sub-agents, by their sessions."""
    teller = _Teller(names)
    for row in rows:
        teller.take(row)
    entries = _latest(teller.entries, most)
    return Story(entries=tuple(entries), left_out=len(teller.entries) - len(entries))


def _latest(entries: list[Entry], most: int) -> list[Entry]:
    """Return the latest entries: so many, and half as many reports."""
    left = {True: most // 2, False: most}
    found = []
    for entry in reversed(entries):
        is_report = entry.kind == "report"
        if left[is_report]:
            left[is_report] -= 1
            found.append(entry)
    return found[::-1]


class _Teller:
    def __init__(self, names: dict[str, tuple[str, ...]]) -> None:
        self.entries: list[Entry] = []
        self._telling = Telling(is_grouped=True)
        for session, path in names.items():
            self._telling.knows(session, path)
        self._calls: dict[str, Entry] = {}
        self._heard: dict[str, Entry] = {}
        self._said: e.Reported | None = None
        """The message that the last entry reports; pieces of it that were written one by one follow."""

    def take(self, row: JournalEntry) -> None:
        event = row.event
        if isinstance(event, e.Reported) and self._said is not None and _is_piece(event, self._said):
            self._said = _joined(self._said, event)
            self.entries[-1].told = [self._telling.tell(msgspec.structs.replace(row, event=self._said))]
            return
        self._said = event if isinstance(event, e.Reported) else None
        parts = self._telling.tell(row)
        if not self._follow(event, parts) and (kind := _kind_of(event)) is not None:
            entry = Entry(kind=kind, at=told_at(row), told=[parts], state=_state_of(parts))
            self.entries.append(entry)
            self._remember(event, entry)

    def _remember(self, event: e.AnyEvent, entry: Entry) -> None:
        """Know an entry again to which others belong."""
        match event:
            case e.ToolCallRequested() | e.QuestionAsked():
                self._calls[event.operation] = entry
                entry.state = "asked" if event.approval is not None else ""
            case e.MessageReceived():
                self._heard[event.message] = entry
                entry.state = "kept"
            case _:
                pass

    def _follow(self, event: e.AnyEvent, parts: Parts) -> bool:
        """Add an event to the entry that it belongs to. Return whether there is one."""
        entry = self._calls.get(getattr(event, "operation", None) or "") if type(event) in _OF_CALL else None
        is_state = isinstance(event, e.ToolCallStarted) and event.child is None  # its end has the sentence
        if entry is None and not isinstance(event, e.MessageReceived):
            entry = self._heard.get(getattr(event, "message", None) or "")
            is_state = not isinstance(event, e.MessageUndelivered)
        if entry is None:
            return False
        entry.state = _state_of(parts)
        if not is_state:
            entry.told.append(parts)
        return True


def _kind_of(event: e.AnyEvent) -> EntryKind | None:  # noqa: C901 # one case per kind of fact
    """Return the kind of the entry that an event begins; None if it is none."""
    match event:
        case e.MessageReceived():
            return "heard"
        case e.MessageSent():
            return "said"
        case e.MessageImported():
            return _IMPORTED[event.role]
        case e.RunStarted(again=None):
            return "heard"
        case e.ToolCallRequested():
            return "call"
        case e.QuestionAsked():
            return "question"
        case e.Reported():
            return "report"
        case e.OperationFinished() if kind_of(event.kind).effect == "again":
            return "step"
        case e.OperationFinished() if e.begins(event) is not None:
            return "child"
        case e.ChildEnded():
            return "child"
        case e.JobStarted() | e.JobEnded():
            return "job"
        case _:
            return "life" if type(event) in _LIFE or isinstance(event, e.ForkTaken) else None


def _state_of(parts: Parts) -> str:
    return next((part.text for part in reversed(parts) if part.kind == "state"), "")


def _is_piece(event: e.Reported, said: e.Reported) -> bool:
    same = (said.kind, said.tool, said.call, said.is_error) == (event.kind, event.tool, event.call, event.is_error)
    return same and event.kind in ("text", "thought")


def _joined(said: e.Reported, event: e.Reported) -> e.Reported:
    """Join two pieces; more than is shown of them, so that a credential at the cut is masked whole, and no more."""
    text = said.text if len(said.text) > 3 * MOST_CHARACTERS else said.text + event.text
    return msgspec.structs.replace(said, text=text, left_out=said.left_out + event.left_out)
