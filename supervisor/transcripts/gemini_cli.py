"""Gemini CLI's sessions (`session-*.jsonl`): records that later records with the same id replace.

Theory: a message of the model has its calls, and each call has its own result, all in one record. A change of status is
the whole record again, with the same id, at the end of the file: the last one counts, at the place of the first. So a
repair appends the record of the call, with a result in it, and changes no line.

Rules:
- `$rewindTo` removes a message and all after it, and `$set.messages` replaces all of them.
- A call that lacks its result in such a list, or in a whole session on one line, is refused: its record is no line.
- Orphaned results do not exist. Appending is all that happens.
"""

from __future__ import annotations

from typing import Any

import msgspec

from supervisor.core.sessions.transcript import Findings
from supervisor.transcripts.formats import Addition, Format, Lines, Plan, ShapeError, Wish
from supervisor.transcripts.index import CALL, ENTRY, MESSAGE, POINTER, RESULT, Index
from supervisor.transcripts.lines import as_javascript_writes_it


class GeminiCall(msgspec.Struct):
    id: str
    result: Any = None


class GeminiRecord(msgspec.Struct):
    id: str | None = None
    toolCalls: list[GeminiCall] | None = None  # noqa: N815 # the maker's name
    messages: list[Any] | None = None
    rewind: str | None = msgspec.field(name="$rewindTo", default=None)
    set: dict[str, Any] | None = msgspec.field(name="$set", default=None)


class GeminiCli(Format):
    name = "Gemini CLI"
    framed = False
    speaking = frozenset({"gemini"})
    spoken = frozenset({"toolCalls"})
    decoder = msgspec.json.Decoder(GeminiRecord)

    def recognises(self, first: dict[str, Any]) -> bool:
        return isinstance(first.get("sessionId"), str) and isinstance(first.get("projectHash"), str)

    def read(self, entry: GeminiRecord, index: Index) -> None:
        if entry.rewind is not None:
            index.line(ENTRY | POINTER, parent=entry.rewind)
            return
        if entry.id is None:
            whole = (entry.set or {}).get("messages", entry.messages)
            if isinstance(whole, list) and any(_lacks_a_result(message) for message in whole):
                raise ShapeError("it has a whole conversation in which a call has no result")
            index.line(ENTRY | POINTER if isinstance(whole, list) else ENTRY)
            return
        at = index.line(ENTRY | MESSAGE, own=entry.id)
        for call in entry.toolCalls or ():
            index.mark(at, CALL, call.id)
            if call.result:
                index.mark(at, RESULT, call.id)

    def labels(self, index: Index) -> bytearray:
        latest: dict[int, int] = {}
        for at, kind in enumerate(index.kinds):
            if kind & POINTER:
                ids = list(latest)
                kept = ids[: ids.index(index.parents[at])] if index.parents[at] in latest else []
                latest = {each: latest[each] for each in kept}
            elif kind & MESSAGE:
                latest[index.ids[at]] = at
        labels = bytearray(len(index))
        for at in latest.values():
            labels[at] = 1
        return labels

    def plan(self, index: Index, found: dict[int, Findings], lines: Lines, wish: Wish) -> Plan:
        additions: list[Addition] = []
        records: dict[int, dict[str, Any]] = {}
        for call in (call for findings in found.values() for call in findings.dangling):
            record = records.setdefault(call.at, lines.entry(call.at))
            made = record["toolCalls"][call.nth]
            response = {"id": made["id"], "name": made.get("name", ""), "response": {"error": wish.text}}
            made |= {"status": "error", "result": [{"functionResponse": response}]}
            line = as_javascript_writes_it(record)  # each one replaces the one before
            additions.append(Addition(None, line, made["id"], str(made.get("name", ""))))
        return Plan(additions, {}, set(), [])


def _lacks_a_result(message: Any) -> bool:
    calls = message.get("toolCalls") if isinstance(message, dict) else None
    return isinstance(calls, list) and any(isinstance(call, dict) and not call.get("result") for call in calls)
