"""A session's journal as a conversation: messages, calls, who allowed them, and their results.

Rules
- A call is one entry, where it was asked: its approval, its decision and its result stand with it (A15).
- Texts stay as they were written, but for what a call runs; the rendering makes them visible and harmless.
- What the agent reports of itself is marked. It may say much: its reports take no place from other entries.
- Pure and bounded: of a long journal the latest entries are shown, with the number of the others.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from supervisor.core import events as e
from supervisor.core.approvals.drawing import direction_of
from supervisor.core.approvals.facts import argument_facts
from supervisor.core.calls.content import content_of_request
from supervisor.core.events.asking import COPIED
from supervisor.core.ids import split_operation_id
from supervisor.core.rows import JournalEntry

MOST_ENTRIES: Final = 200
MOST_CHARACTERS: Final = 20_000
"""Of one text; the journal has all of it."""

EntryKind = Literal["said", "heard", "call", "question", "step", "child", "life", "job", "report"]


_REPORTED: Final[dict[str, str]] = {
    "text": "says",
    "thought": "thinks",
    "plan": "plans",
    "call": "calls a tool",
    "result": "has a result",
}


class Entry(msgspec.Struct, kw_only=True):
    """One entry; a call's changes while its journal is read."""

    kind: EntryKind
    at: datetime
    title: str
    text: str = ""
    by: str | None = None
    state: str = ""
    """Of a call or a question: asked, approved, denied, answered, withdrawn, expired, running, ok, error, interrupted;
    of a life's end: its kind."""
    approval: str | None = None
    decided_by: str | None = None
    reason: str | None = None
    is_edited: bool = False
    command: str = ""
    """Of a call: its command or the first of its arguments, made visible."""
    direction: str = "ltr"
    """The `dir` of that."""
    session: str | None = None
    """A sub-agent that the entry is about."""
    is_cut: bool = False
    left_out: int = 0
    """Of a report: bytes that the journal does not have either."""
    traceback: str = ""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    entries: tuple[Entry, ...]
    left_out: int


def story(rows: Iterable[JournalEntry], names: dict[str, str], most: int = MOST_ENTRIES) -> Story:
    """Tell a session's journal; `names` are those of its sub-agents, by their sessions."""
    teller = _Teller(names)
    for row in rows:
        teller.take(row.event)
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
    def __init__(self, names: dict[str, str]) -> None:
        self.entries: list[Entry] = []
        self._names = names
        self._calls: dict[str, Entry] = {}
        self._heard: dict[str, Entry] = {}
        self._requester: str | None = None
        self._said: tuple[Any, ...] | None = None
        """The message that the last entry reports; pieces of it that were written one by one follow."""

    def take(self, event: e.AnyEvent) -> None:
        if isinstance(event, e.SessionCreated):
            self._requester = event.requester
        if isinstance(event, e.Reported):
            self._report(event)
        else:
            self._said = None
            if not (self._call(event) or self._message(event)):
                self._life(event)

    def _report(self, event: e.Reported) -> None:
        said = (event.kind, event.tool, event.call, event.is_error)
        title = _REPORTED[event.kind] + (f", {event.tool}" if event.tool else "")
        if said == self._said and event.kind in ("text", "thought"):
            entry = self.entries[-1]
            whole = entry.text + event.text
            entry.text, entry.is_cut = whole[:MOST_CHARACTERS], entry.is_cut or len(whole) > MOST_CHARACTERS
        else:
            state = "error" if event.is_error else ""
            entry = self._add("report", event.at, title, event.text, state=state)
        entry.left_out += event.left_out
        self._said = said

    def _add(self, kind: EntryKind, at: datetime, title: str, text: str = "", **facts: Any) -> Entry:
        entry = Entry(kind=kind, at=at, title=title, text=text[:MOST_CHARACTERS], **facts)
        entry.is_cut = len(text) > MOST_CHARACTERS
        self.entries.append(entry)
        return entry

    def _call(self, event: e.AnyEvent) -> bool:
        if isinstance(event, e.ToolCallRequested):
            facts = argument_facts(content_of_request(event))
            command = facts[0].text if facts and not facts[0].is_unset else ""
            entry = self._add(
                "call", event.at, event.tool, command=command[:MOST_CHARACTERS], approval=_asked(event.approval)
            )
            entry.direction = "ltr" if event.command is not None else direction_of(command)
            entry.is_cut = len(command) > MOST_CHARACTERS
            entry.state = "asked" if event.approval is not None else ""
            self._calls[event.operation] = entry
            return True
        if isinstance(event, e.QuestionAsked):
            self._calls[event.operation] = self._add(
                "question", event.at, event.question, approval=_asked(event.approval), state="asked"
            )
            return True
        known = self._calls.get(getattr(event, "operation", None) or "")
        return known is not None and self._progress(known, event)

    def _progress(self, entry: Entry, event: e.AnyEvent) -> bool:
        match event:
            case e.ApprovalDecided():
                entry.state = "approved" if event.decision == "approve" else "denied"
                entry.decided_by, entry.reason, entry.is_edited = event.by, event.reason, event.edited is not None
            case e.ApprovalWithdrawn():
                entry.state, entry.reason = "withdrawn", event.reason
            case e.QuestionAnswered():
                entry.state, entry.decided_by = "answered", event.by
                value = msgspec.json.decode(event.value)
                entry.text = (f"“{value}”" if isinstance(value, str) else bytes(event.value).decode())[:MOST_CHARACTERS]
            case e.ApprovalExpired():
                entry.state, entry.reason = "expired", None
            case e.ToolCallStarted():
                entry.state = "running"
            case e.ToolCallFinished():
                entry.state, entry.text = event.kind, event.content[:MOST_CHARACTERS]
                entry.is_cut = entry.is_cut or len(event.content) > MOST_CHARACTERS
                entry.traceback = event.traceback
            case e.OperationAbandoned():
                entry.state, entry.text = "interrupted", event.content[:MOST_CHARACTERS]
            case _:
                return False
        return True

    def _message(self, event: e.AnyEvent) -> bool:
        match event:
            case e.MessageReceived():
                self._heard[event.message] = self._add("heard", event.at, "", event.text, by=event.by, state="kept")
            case e.RunStarted(message=str() as message) | e.OperationFinished(message=str() as message):
                if message in self._heard:
                    self._heard[message].state = ""
            case e.MessageUndelivered():
                if event.message in self._heard:
                    self._heard[event.message].state = "unheard"
            case e.RunStarted(again=e.Again(by=by)):
                self._add("life", event.at, "is retried", by=by)
            case e.RunStarted():
                self._add("heard", event.at, "started it with", _text(event.input), by=self._requester)
            case e.MessageSent():
                self._add("said", event.at, "", event.text)
            case e.MessageImported():
                self._imported(event)
            case _:
                return False
        return True

    def _imported(self, event: e.MessageImported) -> None:
        at = event.said_at or event.at
        match event.role:
            case "user":
                self._add("heard", at, "imported", event.text)
            case "assistant":
                self._add("said", at, "imported", event.text)
            case "call":
                tool = event.tool or "a tool"
                self._add("call", at, f"{tool} (imported; it did not run here)", command=event.text)
            case "result":
                state = "interrupted" if event.is_lost else "error" if event.is_error else "ok"
                self._add("call", at, f"result of {event.tool or 'a tool'} (imported)", event.text, state=state)

    def _life(self, event: e.AnyEvent) -> None:
        match event:
            case e.AttemptStarted():
                self._add("life", event.at, f"works in process {event.pid} on {event.host}")
            case e.RunRestarted():
                title = f"{event.kind}; it runs again (restart {event.number})"
                self._add("life", event.at, title, event.cause, state="error")
            case e.RunBlocked():
                entry = f" at entry {event.block.entry}" if event.block.entry else ""
                self._add("life", event.at, f"is blocked{entry}", event.block.cause, state="error")
            case e.RunUnblocked():
                self._add("life", event.at, "is not blocked any more")
            case e.CancelRequested():
                self._add("life", event.at, "is being cancelled", event.reason or "", by=event.by, state="cancelled")
            case e.RunFinished():
                text = _text(event.value) if event.kind == "succeeded" else event.cause or ""
                self._add("life", event.at, event.kind, text, state=event.kind, traceback=event.traceback)
            case e.SessionForked():
                title = f"all above is copied from session {event.source}, before its entry {event.before}"
                self._add("life", event.at, title, by=event.by)
            case e.ForkTaken():
                title = f"forked before entry {event.before}: session {event.fork}"
                self._add("life", event.at, title, by=event.by)
            case e.ImportStarted():
                self._add("life", event.at, f"imported from {event.format}", event.file)
            case _:
                self._work(event)

    def _work(self, event: e.AnyEvent) -> None:
        match event:
            case e.OperationFinished(kind="spawn", child=str()):
                self._add("child", event.at, "started", session=event.child, by=self._name(event.child or ""))
            case e.ChildEnded():
                text = event.cause or (_text(event.value) if event.kind == "succeeded" else "")
                name = self._name(event.child)
                self._add("child", event.at, event.kind, text, session=event.child, by=name, state=event.kind)
            case e.OperationFinished(kind="step"):
                failed = f"{event.error[0]}: {event.error[1]}" if event.error is not None else ""
                name = split_operation_id(event.operation)[0].rsplit(":", 2)[-2]
                text, state = failed or _text(event.value), "error" if failed else "ok"
                self._add("step", event.at, name, text, state=state, traceback=event.traceback)
            case e.JobStarted():
                self._add("job", event.at, f"job {event.job}", command=event.command, state="running")
            case e.JobEnded():
                self._add("job", event.at, f"job {event.job}", state=event.how)
            case _:
                pass

    def _name(self, session: str) -> str:
        return self._names.get(session, session)


def _text(raw: msgspec.Raw) -> str:
    """Return a text as it is, nothing for null, and any other value as JSON."""
    value = msgspec.json.decode(raw)
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.format(bytes(raw), indent=2).decode()


def _asked(approval: str | None) -> str | None:
    """Return the approval that an entry is about; of a copied entry, that of the session it was copied from."""
    return None if approval is None else approval.removeprefix(COPIED)
