"""Messages in the shape of Chat Completions, a line each: Mistral Vibe, Hermes, and many small agents.

Theory: the file is the conversation, as it is sent. A result is a line with the role `tool` that names its call, and
belongs between the message with the call and the next message of another role. The next reader parses each line, and
Mistral Vibe refuses a file with one that is torn.

Rules:
- A result is inserted after its siblings, or appended if no message follows.
- Ids repeat in small agents, so calls and results are paired within one message of the assistant.
- Messages in the shape of another API (blocks with calls or results) are refused: their results are not lines.
- A result has a `name` if the results of the file have one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from supervisor.core.sessions.transcript import Dangling, Findings
from supervisor.transcripts.formats import Format, Lines, Plan, ShapeError, Wish, insertions, says_synthesised, to_drop
from supervisor.transcripts.index import CALL, ENTRY, FRAME, RESULT, SAID, Index
from supervisor.transcripts.lines import as_javascript_writes_it

_SAYS = frozenset({"system", "developer", "user"})
_OF_OTHERS = ("tool_use", "tool_result", "functionCall", "functionResponse", "function_call", "function_response")


class Function(msgspec.Struct):
    name: str = ""


class ToolCall(msgspec.Struct):
    id: str
    function: Function = msgspec.field(default_factory=Function)


class ChatMessage(msgspec.Struct):
    role: str
    content: Any = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    function_call: Any = None


class ChatLines(Format):
    name = "chat messages"
    refuses_torn = True
    speaking: frozenset[str] = frozenset()
    spoken: frozenset[str] = frozenset()
    decoder = msgspec.json.Decoder(ChatMessage)

    def recognises(self, first: dict[str, Any]) -> bool:
        role = first.get("role")
        is_said = role in (*_SAYS, "assistant", "tool") and ("content" in first or "tool_calls" in first)
        return "type" not in first and "parts" not in first and (is_said or role == "session_meta")

    def read(self, entry: ChatMessage, index: Index) -> None:
        at = index.line(ENTRY)
        if isinstance(entry.content, list) and any(_is_of_another(block) for block in entry.content):
            raise ShapeError("its calls or results are blocks, as in another API")
        if entry.function_call is not None or entry.role == "function":
            raise ShapeError("it is a call without an id")
        if entry.role == "assistant":
            index.mark(at, FRAME)
            for call in entry.tool_calls or ():
                if not call.id:
                    raise ShapeError("a call has no id")
                index.mark(at, CALL, call.id)
        elif entry.role == "tool":
            if not entry.tool_call_id:
                raise ShapeError("it is a result that names no call")
            index.notes["names"] = index.notes.get("names", False) or entry.name is not None
            index.mark(at, RESULT, entry.tool_call_id)
        elif entry.role in _SAYS:
            index.mark(at, SAID)
        elif entry.role != "session_meta":
            raise ShapeError(f"its role is {entry.role!r}")

    def is_synthesised(self, entry: dict[str, Any]) -> bool:
        return says_synthesised(entry.get("content"))

    def plan(self, index: Index, found: dict[int, Findings], lines: Lines, wish: Wish) -> Plan:
        def write(call: Dangling) -> tuple[bytes, str, str]:
            made = lines.entry(call.at)["tool_calls"][call.nth]
            tool = str((made.get("function") or {}).get("name") or "")
            line: dict[str, Any] = {"role": "tool", "tool_call_id": made["id"], "content": wish.text}
            if index.notes.get("names") and tool:
                line["name"] = tool
            return as_javascript_writes_it(line), made["id"], tool

        orphans, notes = to_drop(found, wish)
        return Plan(insertions(found, write), {}, {orphan.at for orphan in orphans}, notes)


def _is_of_another(block: Any) -> bool:
    return isinstance(block, dict) and (block.get("type") in _OF_OTHERS or any(key in block for key in _OF_OTHERS))
