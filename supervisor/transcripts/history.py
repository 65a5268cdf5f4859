"""A session of another maker as its messages, in order: the input of an import.

Theory: repair judges ids and never looks at content. An import needs the content of the same lines. So the file is
judged as for a repair, and then read a second time, line by line: each line yields its messages, and after a frame come
the results that a repair would put there.

Rules
- One conversation: the active one (pi's path to the tip, Claude Code's main chain, or a sub-agent's in its own file).
- Only messages, calls and results: no thinking, labels, settings or summaries. An image becomes a word.
- Whatever is left out is counted in `left_out`: torn lines, and results without a call.
- A call is marked as lost only where a repair would do so: not while its program may be running.
- Text stays text: nothing in it is looked up, run or believed. Characters that UTF-8 cannot express are shown escaped.
- Memory is that of judging a file (index.py), and of one line.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from supervisor.core.encoding import printable_text
from supervisor.core.events import MessageImported
from supervisor.core.sessions.transcript import TEXT
from supervisor.transcripts.claude_code import ClaudeCode
from supervisor.transcripts.codex import Codex
from supervisor.transcripts.index import ENTRY
from supervisor.transcripts.liveness import find_holder
from supervisor.transcripts.session import Reader, RefusedError, Session, judging, read_session

_BLOCK_BYTES: Final = 1 << 18


class Said(NamedTuple):
    """One message of a line. A call and its result are paired by `key`."""

    role: Literal["user", "assistant", "call", "result"]
    text: str
    tool: str | None = None
    call: str | None = None
    key: str | None = None
    is_error: bool = False


class History:
    """A file that is open for an import."""

    def __init__(self, session: Session, lines: Reader) -> None:
        self.format = session.format.name
        self.left_out = len(session.torn)
        self._session = session
        self._lines = lines
        self._labels = session.format.labels(session.index)
        self._label = _main_label(session)
        self.source, self.cwd = self._facts()

    def digest(self) -> str:
        """Return the SHA-256 of the text as it was judged."""
        found, left = hashlib.sha256(), self._session.size
        self._lines.file.seek(0)
        while left and (block := self._lines.file.read(min(_BLOCK_BYTES, left))):
            found.update(block)
            left -= len(block)
        return found.hexdigest()

    def messages(self, now: datetime) -> Iterator[MessageImported]:
        """Read the messages, once; `now` is the time of the import. Raises RefusedError."""
        messages = _in_order(self._messages(now))
        while True:
            with judging(self._session.path):
                message = next(messages, None)
            if message is None:
                return
            yield message

    def _messages(self, now: datetime) -> Iterator[MessageImported]:
        findings = self._session.found.get(self._label)
        dangling = {(call.at, call.nth): call.after for call in findings.dangling} if findings else {}
        orphaned = Counter((orphan.at, orphan.key) for orphan in findings.orphaned) if findings else Counter()
        lost: defaultdict[int, list[Said]] = defaultdict(list)
        names: dict[str, str | None] = {}
        for at, entry in self._entries():
            said_at, nth = _instant(entry), 0
            for said in _messages_of(self._session, entry):
                if said.role == "call":
                    if (at, nth) in dangling:
                        missing = Said("result", TEXT, said.tool, said.call, is_error=True)
                        lost[dangling[at, nth]].append(missing)
                    elif said.call:
                        names[said.call] = said.tool
                    nth += 1
                elif said.role == "result":
                    if orphaned[at, hash(said.key) if said.key else 0]:
                        self.left_out += 1
                        continue
                    said = said._replace(tool=names.pop(said.call or "", None) or said.tool)
                yield _event(said, now, said_at)
            for missing in lost.pop(at, ()):
                yield _event(missing, now, said_at, is_lost=True)  # the last place where the result would have come
        for missing in (missing for group in lost.values() for missing in group):  # the decoder refused their line
            yield _event(missing, now, None, is_lost=True)

    def _entries(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for at, kind in enumerate(self._session.index.kinds):
            if not kind & ENTRY or (self._labels is not None and self._labels[at] != self._label):
                continue
            try:
                entry = self._lines.entry(at)
            except (ValueError, RecursionError):  # a number that is too long for us
                self.left_out += 1
                continue
            yield at, entry

    def _facts(self) -> tuple[str, str]:
        """Return the file's own id of the session, and the folder in which the session worked."""
        session, first = self._session, self._session.first
        if isinstance(session.format, Codex):
            first = first["payload"]
        elif isinstance(session.format, ClaudeCode):
            tip = session.index.notes.get("tips", {}).get(self._label)
            entry = self._lines.entry(tip) if tip is not None else first
            names = [entry.get("sessionId"), entry.get("agentId") if entry.get("isSidechain") else None]
            first = {**entry, "id": ".".join(name for name in names if isinstance(name, str))}
        source, cwd = first.get("id"), first.get("cwd")
        name = session.real.name.partition(".jsonl")[0]
        return source if isinstance(source, str) and source else name, cwd if isinstance(cwd, str) else "(not known)"


_REPAIRED_ONLY: Final = frozenset({"chat messages", "Copilot CLI", "Gemini CLI"})


@contextmanager
def open_history(path: Path, *, not_running: bool = False) -> Iterator[History]:
    """Judge a file and open it for an import. Raises RefusedError, with the reason, if the file is no session, or if a
    program may still answer its open calls. `not_running`: the person says that no program does."""
    with judging(path):
        session = read_session(path)
    if session.format.name in _REPAIRED_ONLY:
        raise RefusedError(f"{path}: sessions of {session.format.name} can be repaired, and not imported")
    with session.open() as lines:
        with judging(path):
            history = History(session, lines)
            if session.dangling:
                holder = find_holder(session.path, session.real, history.format, history.cwd, vouched=not_running)
                if holder is not None:
                    raise RefusedError(f"{path}: {holder}")
        yield history


def _main_label(session: Session) -> int:
    """Claude Code's sub-agents are conversations of their own; a sub-agent's own file contains nothing else."""
    chains = list(session.index.notes.get("newest", ()))
    return chains.index(0) + 1 if 0 in chains else 1


def _in_order(messages: Iterator[MessageImported]) -> Iterator[MessageImported]:
    """Put each result after its call: makers write a quick tool's result before the line of its call."""
    unanswered: Counter[str] = Counter()
    early: dict[str, MessageImported] = {}
    for message in messages:
        if message.role == "result" and message.call and not unanswered[message.call]:
            early[message.call] = message
            continue
        yield message
        if message.call:
            unanswered[message.call] += 1 if message.role == "call" else -1
            result = early.pop(message.call, None)
            if result is not None:
                unanswered[message.call] -= 1
                yield msgspec.structs.replace(result, tool=message.tool or result.tool)
    yield from early.values()


def _event(said: Said, now: datetime, said_at: datetime | None, *, is_lost: bool = False) -> MessageImported:
    return MessageImported(
        at=now,
        role=said.role,
        text=printable_text(said.text),
        said_at=said_at,
        tool=said.tool and printable_text(said.tool),
        call=said.call and printable_text(said.call),
        is_error=said.is_error,
        is_lost=is_lost,
    )


def _instant(entry: dict[str, Any]) -> datetime | None:
    """Return when a line was written; None if it does not say so, or not in a known way."""
    written = entry.get("timestamp")
    try:
        if isinstance(written, str):
            found = datetime.fromisoformat(written)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    return None


def _messages_of(session: Session, entry: dict[str, Any]) -> Iterator[Said]:
    if isinstance(session.format, Codex):
        return _codex(entry)
    return _claude_code(entry) if isinstance(session.format, ClaudeCode) else _pi(entry)


def _pi(entry: dict[str, Any]) -> Iterator[Said]:
    message = entry.get("message")
    if entry.get("type") != "message" or not isinstance(message, dict):
        return
    match message.get("role"):
        case "user":
            yield from _said("user", _text(message.get("content")))
        case "assistant":
            yield from _reply(message.get("content"), "toolCall", "arguments")
        case "toolResult":
            call, content = _name(message.get("toolCallId")), _text(message.get("content"))
            is_error = message.get("isError") is True
            yield Said("result", content, _name(message.get("toolName")), call, call, is_error)
        case "bashExecution":
            yield from _said("user", f"! {_text(message.get('command'))}\n{_text(message.get('output'))}".strip())


def _claude_code(entry: dict[str, Any]) -> Iterator[Said]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if entry.get("type") == "assistant":
        yield from _reply(content, "tool_use", "input")
    elif entry.get("type") == "user":
        for block in content if isinstance(content, list) else [content]:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                call = _name(block.get("tool_use_id"))
                yield Said("result", _text(block.get("content")), None, call, call, block.get("is_error") is True)
            else:
                yield from _said("user", _text([block]) if isinstance(block, dict) else _text(block))


def _codex(entry: dict[str, Any]) -> Iterator[Said]:
    payload = entry.get("payload")
    if entry.get("type") != "response_item" or not isinstance(payload, dict):
        return
    kind, call = str(payload.get("type")), _name(payload.get("call_id"))
    if kind == "message":
        role = payload.get("role")
        if role in ("user", "assistant"):
            yield from _said(role, _text(payload.get("content")))
    elif kind.endswith("_call"):
        given = next((payload[key] for key in ("arguments", "input", "action") if key in payload), None)
        yield Said("call", _json(given), _name(payload.get("name")) or kind.removesuffix("_call"), call)
    elif kind.endswith("_output"):
        output = payload["output"] if "output" in payload else payload.get("tools")
        yield Said("result", _text(output), None, call, call and f"{kind}:{call}")


def _reply(content: Any, call_type: str, arguments: str) -> Iterator[Said]:
    """Yield the text and the calls of one message of the assistant."""
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, dict) and block.get("type") == call_type:
            yield Said("call", _json(block.get(arguments)), _name(block.get("name")), _name(block.get("id")))
        else:
            yield from _said("assistant", _text([block]) if isinstance(block, dict) else _text(block))


def _said(role: Literal["user", "assistant"], text: str) -> Iterator[Said]:
    if text.strip():
        yield Said(role, text)


def _text(content: Any) -> str:
    """Return the text of a message: a string, or the text of its blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else _json(content)
    return "\n".join(filter(None, map(_block_text, content)))


def _block_text(block: Any) -> str:
    if not isinstance(block, dict):
        return block if isinstance(block, str) else ""
    kind, text = block.get("type"), block.get("text")
    if kind in ("text", "input_text", "output_text") and isinstance(text, str):
        return text
    return f"[{kind.removeprefix('input_')}]" if kind in ("image", "input_image", "document") else ""


def _json(value: Any) -> str:
    """Return arguments as they are in the file; Codex already writes them as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
