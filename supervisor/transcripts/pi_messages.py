"""pi's messages, which all its session formats share.

Theory: `toolResult` messages answer the `toolCall` blocks of an assistant's message. pi leaves a message that ended in
an error, or was aborted, out of every request, but not the results that refer to it. A later `context_edit` on the
same branch may replace or omit what pi sends of an entry; of several edits the latest counts.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from supervisor.transcripts.formats import ABSENT, ShapeError, Wish, begins_with, decode_blocks, iso, says_synthesised
from supervisor.transcripts.index import CALL, FRAME, RESULT, SAID, SKIPPED, UNANSWERABLE, Index
from supervisor.transcripts.lines import TooDeepError


class PiBlock(msgspec.Struct):
    type: str
    id: str = ""
    arguments: msgspec.Raw = ABSENT
    partialJson: msgspec.Raw = ABSENT  # noqa: N815 - pi's own spelling


class PiMessage(msgspec.Struct):
    role: str
    content: msgspec.Raw = ABSENT
    stopReason: str = ""  # noqa: N815
    toolCallId: str = ""  # noqa: N815


class PiEntry(msgspec.Struct):
    type: str
    id: str = ""
    parentId: str | None = None  # noqa: N815
    message: PiMessage | None = None
    firstKeptEntryIndex: int = -1  # noqa: N815
    targetId: str = ""  # noqa: N815
    replacement: msgspec.Raw = ABSENT


class Replacement(msgspec.Struct):
    content: msgspec.Raw


class Edit(NamedTuple):
    """The effect of a `context_edit` on another entry."""

    at: int
    target: int
    """The hash of the entry's id."""
    calls: list[tuple[int, int]] | None
    """Marks and keys of the calls that the assistant's message has then; None if the entry is omitted."""


ENTRIES = msgspec.json.Decoder(PiEntry)
SPEAKING = frozenset({"message"})
SPOKEN = frozenset({"message"})
_REPLACEMENTS = msgspec.json.Decoder(Replacement | None)
_BLOCKS = msgspec.json.Decoder(list[PiBlock])
_SENT = frozenset({"compaction", "branch_summary", "custom_message", "reset"})


def mark_entry(entry: PiEntry, at: int, index: Index) -> None:
    """Mark the calls and the result of an entry, and whether any of its content is sent to a model."""
    message = entry.message
    if entry.type != "message":
        if entry.type in _SENT:
            index.mark(at, SAID)
        return
    if message is None:
        raise ShapeError("it has no message")
    if message.role == "toolResult":
        if not message.toolCallId:
            raise ShapeError("it is a result that names no call")
        index.mark(at, RESULT, message.toolCallId)
    elif message.role == "assistant":
        index.mark(at, SKIPPED if message.stopReason in ("error", "aborted") else FRAME)
        for mark, call_id in _calls(message.content):
            index.mark(at, mark, call_id)
    else:
        index.mark(at, SAID)


def edit_of(entry: PiEntry, at: int) -> Edit:
    """Read a `context_edit`."""
    if not entry.targetId:
        raise ShapeError("it is a context_edit that names no entry")
    try:
        replacement = _REPLACEMENTS.decode(entry.replacement)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ShapeError(f"its replacement: {error}") from None
    calls = None
    if replacement is not None:
        calls = [(mark, hash(own) if own else 0) for mark, own in _calls(replacement.content)]
    return Edit(at, hash(entry.targetId), calls)


def _calls(content: msgspec.Raw) -> list[tuple[int, str]]:
    blocks: list[PiBlock] = decode_blocks(content, _BLOCKS)
    return [(CALL if _is_whole(block) else UNANSWERABLE, block.id) for block in blocks if block.type == "toolCall"]


def _is_whole(block: PiBlock) -> bool:
    if not block.id or not begins_with(block.arguments, "{"):
        return False
    return block.partialJson is ABSENT or _is_buffer_of(block.arguments, block.partialJson)


def _is_buffer_of(arguments: msgspec.Raw, partial: msgspec.Raw) -> bool:
    """Return whether the buffer in which pi collected a call's arguments contains all of them: pi kept it on finished
    calls of some models."""
    try:
        buffer = json.loads(bytes(partial))
        return isinstance(buffer, str) and _canonical(buffer) == _canonical(bytes(arguments))
    except ValueError:
        return False
    except RecursionError:
        raise TooDeepError from None


def _canonical(text: str | bytes) -> str:
    """Return one text for all texts of one JSON value; JavaScript knows no integers."""
    return json.dumps(json.loads(text, parse_int=float), sort_keys=True)


def call_of(entry: dict[str, Any], nth: int) -> tuple[str, str]:
    """Return the id and the tool's name of the n-th call in an entry."""
    blocks = [b for b in entry["message"]["content"] if isinstance(b, dict) and b.get("type") == "toolCall"]
    return blocks[nth]["id"], str(blocks[nth].get("name", ""))


def result_message(call_id: str, tool: str, wish: Wish) -> dict[str, Any]:
    """Return the message of a synthesised result."""
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": tool,
        "content": [{"type": "text", "text": wish.text}],
        "details": {"synthetic": True, "reason": "interrupted", "at": iso(wish.now)},
        "isError": True,
        "timestamp": int(wish.now.timestamp() * 1000),
    }


def is_synthesised(entry: dict[str, Any]) -> bool:
    message = entry.get("message")
    if not isinstance(message, dict):
        return False
    details = message.get("details")
    if isinstance(details, dict) and details.get("synthetic") is True:
        return True
    return says_synthesised(message.get("content"))
