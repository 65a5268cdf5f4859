"""Copilot CLI's sessions (`events.jsonl`): events in a chain, each of which names the one before it.

Theory: an `assistant.message` requests calls (`toolRequests`), and a `tool.execution_complete` has the result of one,
by its id. Events of sub-agents are between them, so results are paired by id, wherever they are.

Rules:
- A result is an event of its own, after its siblings, and the event after it names it as its parent; at the end of the
  conversation it is appended.
- Only calls that the model requested need a result. A command that a person ran themselves is none of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from supervisor.core.sessions.transcript import Findings, is_synthesised_text
from supervisor.transcripts.formats import Addition, Format, Lines, Plan, ShapeError, Wish, by_place, iso, to_drop
from supervisor.transcripts.index import CALL, ENTRY, FRAME, RESULT, SAID, Index
from supervisor.transcripts.lines import as_javascript_writes_it, with_value


class Request(msgspec.Struct):
    toolCallId: str  # noqa: N815 # the maker's name


class Data(msgspec.Struct):
    toolCallId: str | None = None  # noqa: N815
    toolRequests: list[Request] | None = None  # noqa: N815


class CopilotEvent(msgspec.Struct):
    type: str
    id: str | None = None
    data: Data | None = None


class CopilotCli(Format):
    name = "Copilot CLI"
    unique_ids = True
    speaking = frozenset({"assistant.message", "tool.execution_complete"})
    spoken = frozenset({"data"})
    decoder = msgspec.json.Decoder(CopilotEvent)

    def recognises(self, first: dict[str, Any]) -> bool:
        return first.get("type") == "session.start" and isinstance(first.get("data"), dict) and "id" in first

    def read(self, entry: CopilotEvent, index: Index) -> None:
        at = index.line(ENTRY)
        if entry.type == "assistant.message":
            index.mark(at, FRAME)
            for request in (entry.data.toolRequests if entry.data else None) or ():
                index.mark(at, CALL, request.toolCallId)
        elif entry.type == "tool.execution_complete":
            if entry.data is None or not entry.data.toolCallId:
                raise ShapeError("it is a result that names no call")
            index.mark(at, RESULT, entry.data.toolCallId)
        elif entry.type == "user.message":
            index.mark(at, SAID)

    def is_synthesised(self, entry: dict[str, Any]) -> bool:
        error = (entry.get("data") or {}).get("error")
        return isinstance(error, dict) and is_synthesised_text(str(error.get("message", "")))

    def plan(self, index: Index, found: dict[int, Findings], lines: Lines, wish: Wish) -> Plan:
        additions: list[Addition] = []
        changes: dict[int, bytes] = {}
        last = next((at for at in range(len(index) - 1, -1, -1) if index.kinds[at]), 0)
        for (after, is_tail), calls in by_place(call for findings in found.values() for call in findings.dangling):
            place, parent = (None, lines.entry(last).get("id")) if is_tail else (after, lines.entry(after).get("id"))
            before = parent
            for call in calls:
                made = lines.entry(call.at)["data"]["toolRequests"][call.nth]
                own, call_id = wish.new_id(), made["toolCallId"]
                error = {"message": wish.text, "code": "interrupted"}
                line = {
                    "type": "tool.execution_complete",
                    "data": {"toolCallId": call_id, "success": False, "error": error},
                    "id": own,
                    "timestamp": iso(wish.now),
                    "parentId": parent,
                }
                additions.append(Addition(place, as_javascript_writes_it(line), call_id, str(made.get("name", ""))))
                parent = own
            if place is not None:
                changes |= self._re_parented(index, lines, after, before, parent)
        orphans, notes = to_drop(found, wish)
        if orphans:
            notes.append("orphaned results stay: other events name them as their parents")
        return Plan(additions, changes, set(), notes)

    def _re_parented(self, index: Index, lines: Lines, after: int, before: Any, parent: Any) -> dict[int, bytes]:
        """Return the event after a line, with the last inserted event as its parent."""
        following = next((at for at in range(after + 1, len(index)) if index.kinds[at]), None)
        if following is None or lines.entry(following).get("parentId") != before:
            return {}
        return {following: with_value(lines.raw(following), "parentId", parent)}
