"""What a server answers to `tools/call`, as the result of a call of ours; and what a client is told of it. Pure.

    {"result": {"content": [...], "structuredContent": {...}}} <-> ToolResult("ok", value={"content": [...], ...})

Rules
- The whole result passes on: every block, structured content, `_meta`, and what a later protocol adds.
- A result that says `isError`, and an error of JSON-RPC, are errors of the call. They pass on as they are, too.
- What the server did not say itself (a denial, a lost call, a deadline) is a result with `isError` and a text.
- Words of ours are a block of text before the server's. A client that shows a model structured content alone finds
  them in `_meta`, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from supervisor.core.errors import ToolFailed
from supervisor.core.values import ToolResult

Reply = dict[str, Any]
"""The part of a JSON-RPC answer that is not its id: a `result` or an `error`."""

NOTE: Final = "subagent-supervisor/note"
"""The name in `_meta` of what we say of a result."""
OLD: Final = (
    "[this is the result of an earlier call, equal to this one, whose client had left before it was told. It did not "
    "run again]"
)
LARGEST_ERROR_BYTES: Final = 16 * 1024 * 1024  # bytes of an error that the journal keeps whole


def read_reply(answer: Mapping[str, Any]) -> ToolResult[Any]:
    """Return a server's answer as the result of the call. Raises ToolFailed for one that is none."""
    result, error = answer.get("result"), answer.get("error")
    if isinstance(result, Mapping) and result.get("isError") is not True:
        return ToolResult(kind="ok", content=text_of(result), value=result)
    told = {"result": result} if isinstance(result, Mapping) else {"error": error}
    if not isinstance(result, Mapping) and not isinstance(error, Mapping):
        raise ToolFailed("the MCP server answered with no result", reason="invalid_result", effect="maybe")
    text = text_of(result) if isinstance(result, Mapping) else str(dict(error or {}).get("message", "an error"))
    if len(msgspec.json.encode(told)) > LARGEST_ERROR_BYTES:
        told = {}
    return ToolResult(kind="error", content=text, details={"reason": "server", "effect": "maybe", **told})


def text_of(result: Mapping[str, Any]) -> str:
    """Return the text of a result, for people; other blocks are named by their types."""
    blocks = result.get("content")
    lines = []
    for block in blocks if isinstance(blocks, Sequence) and not isinstance(blocks, str) else ():
        if isinstance(block, Mapping):
            text = block.get("text")
            lines.append(text if isinstance(text, str) else f"[{block.get('type')}]")
    return "\n".join(lines)


def reply_of(result: ToolResult[Any], said: str = "") -> Reply:
    """Return what a client is told of the result of its call. `said`: our words about it."""
    if result.kind == "ok":
        return with_words({"result": result.value}, said)
    if isinstance(error := result.details.get("error"), Mapping):
        return {"error": dict(error)}
    if isinstance(told := result.details.get("result"), Mapping):
        return with_words({"result": dict(told)}, said)
    return with_words(failed(result.content), said)


def failed(text: str) -> Reply:
    """Return a result that says that the call has failed, and why."""
    return {"result": {"content": [{"type": "text", "text": text}], "isError": True}}


def marked(reply: Reply) -> Reply:
    """Return a reply to a client whose call did not make it."""
    if isinstance(error := reply.get("error"), Mapping):
        return {"error": {**error, "message": f"{OLD} {error.get('message', '')}"}}
    return with_words(reply, OLD)


def with_words(reply: Reply, words: str) -> Reply:
    """Return a reply with words of ours before the server's."""
    if not words:
        return reply
    result = reply["result"]
    content, meta = result.get("content"), result.get("_meta")
    block = {"type": "text", "text": words}
    return {
        "result": {
            **result,
            "content": [block, *(content if isinstance(content, list) else ())],
            "_meta": {**(meta if isinstance(meta, Mapping) else {}), NOTE: words},
        }
    }
