"""Codex's rollouts: numbered lines in the order of the conversation.

Theory: Codex pairs by class of tool and by id, over everything after the last compaction, wherever the output is.
It answers a dangling call in memory on each resume, and never writes the answer. Next to the file it keeps indexes into
it (byte offsets, ordinals), which an insertion makes wrong.

Rules:
- By default a repaired copy is written. In it a result follows its call directly, unless lines carry ordinals.
- In place, and wherever lines carry ordinals, results are appended, with the next ordinals; a repeated ordinal would
  freeze the thread for good.
- Calls that a server runs are never answered.
"""

from __future__ import annotations

from typing import Any

import msgspec

from supervisor.core.sessions.transcript import Findings
from supervisor.transcripts.formats import (
    ABSENT,
    Addition,
    Format,
    Lines,
    Plan,
    ShapeError,
    Wish,
    iso,
    says_synthesised,
    to_drop,
)
from supervisor.transcripts.index import CALL, ENTRY, FORGET, RESULT, SAID, UNANSWERABLE, Index
from supervisor.transcripts.lines import as_javascript_writes_it


class Payload(msgspec.Struct):
    type: str
    call_id: str | None = None
    execution: str = ""
    arguments: msgspec.Raw = ABSENT
    input: msgspec.Raw = ABSENT
    action: msgspec.Raw = ABSENT


class CodexEntry(msgspec.Struct):
    type: str
    ordinal: int | msgspec.UnsetType = msgspec.UNSET
    payload: Payload | None = None


_CALLS = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_OUTPUTS = frozenset(_CALLS.values())
_LAST = 2**63  # of the ordinals: Codex could not write the next one


class Codex(Format):
    name = "Codex"
    framed = False
    writes_copy = True
    needs_utf8 = True
    key_prefixes = tuple(f"{output}:" for output in sorted(_OUTPUTS))
    speaking = frozenset({"response_item"})
    spoken = frozenset({"payload"})
    decoder = msgspec.json.Decoder(CodexEntry)

    def recognises(self, first: dict[str, Any]) -> bool:
        return first.get("type") == "session_meta" and isinstance(first.get("payload"), dict)

    def read(self, entry: CodexEntry, index: Index) -> None:
        at = index.line(ENTRY)
        if entry.ordinal is not msgspec.UNSET:
            if not 0 <= entry.ordinal < _LAST:
                raise ShapeError(f"its ordinal is {entry.ordinal}")
            index.notes["ordinal"] = max(entry.ordinal, index.notes.get("ordinal", 0))
        if entry.type == "compacted":
            index.mark(at, FORGET)
        elif entry.type in self.speaking:
            if entry.payload is None:
                raise ShapeError("it has no payload")
            self._mark(entry.payload, at, index)

    def _mark(self, payload: Payload, at: int, index: Index) -> None:
        kind = payload.type
        if kind in _OUTPUTS:
            if not payload.call_id:
                raise ShapeError("it is an output that names no call")
            index.mark(at, RESULT, f"{kind}:{payload.call_id}")
        elif kind in _CALLS:
            if kind == "tool_search_call" and payload.execution != "client":
                return  # the server runs it
            is_whole = bool(payload.call_id) and not (
                payload.arguments is ABSENT and payload.input is ABSENT and payload.action is ABSENT
            )
            index.mark(at, CALL if is_whole else UNANSWERABLE, f"{_CALLS[kind]}:{payload.call_id}")
        elif kind == "message":
            index.mark(at, SAID)

    def is_synthesised(self, entry: dict[str, Any]) -> bool:
        return says_synthesised((entry.get("payload") or {}).get("output"))

    def plan(self, index: Index, found: dict[int, Findings], lines: Lines, wish: Wish) -> Plan:
        ordinal = index.notes.get("ordinal")
        at_end = wish.append_only or ordinal is not None
        orphans, notes = to_drop(found, wish)
        drops = {orphaned.at for orphaned in orphans}
        if drops and wish.append_only:
            notes.append("orphaned results stay: a rollout is only appended to in place")
            drops = set()
        additions = []
        for findings in found.values():
            for call in findings.dangling:
                payload = lines.entry(call.at)["payload"]
                line: dict[str, Any] = {"timestamp": iso(wish.now)}
                if ordinal is not None:
                    ordinal += 1
                    line["ordinal"] = ordinal
                line |= {"type": "response_item", "payload": _output(payload, wish.text)}
                tool = str(payload.get("name") or payload["type"].removesuffix("_call"))
                place = None if at_end else call.after
                additions.append(Addition(place, as_javascript_writes_it(line), payload["call_id"], tool))
        return Plan(additions, {}, drops, notes)


def _output(call: dict[str, Any], text: str) -> dict[str, Any]:
    kind = _CALLS[call["type"]]
    if kind == "tool_search_output":
        said: dict[str, Any] = {"status": "completed", "execution": "client", "tools": []}
    else:
        said = {"output": text}
    return {"type": kind, "call_id": call["call_id"], **said}
