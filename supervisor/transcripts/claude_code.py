"""Claude Code's sessions: a graph of lines in which one reply takes several lines.

Theory: every content block of a reply is a line of its own with the same `message.id`, and the parent of each result is
the line of its call. A walk from the tip to the root therefore misses siblings. The lines of a reply that is on the
path belong to the conversation, and so do the results whose parents those lines are.

Rules:
- The tip is the newest message by timestamp, the later one of two with equal timestamps. A `last-prompt` line after it
  whose `leafUuid` names another branch moves the tip to the newest message of that branch.
- Lines of sub-agents (`isSidechain`) are conversations of their own, one for each agent; in files from before
  `agentId` existed, one for each root.
- A line may have several results and a person's words. Dropping an orphaned result drops a line, so it is done only
  where the line contains nothing else.
- A result names its call's line as its parent and carries a timestamp that makes it the newest.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from supervisor.core.sessions.transcript import Dangling, Findings
from supervisor.transcripts.formats import (
    ABSENT,
    Format,
    Lines,
    Plan,
    ShapeError,
    Wish,
    begins_with,
    decode_blocks,
    iso,
    says_synthesised,
    to_drop,
)
from supervisor.transcripts.index import (
    CALL,
    ENTRY,
    FRAME,
    MESSAGE,
    RESULT,
    SAID,
    SIDECHAIN,
    UNANSWERABLE,
    Index,
)
from supervisor.transcripts.lines import as_javascript_writes_it
from supervisor.transcripts.tree import Graft, Keys, Result


class ClaudeBlock(msgspec.Struct):
    type: str
    id: str = ""
    tool_use_id: str = ""
    input: msgspec.Raw = ABSENT


class ClaudeMessage(msgspec.Struct):
    id: str = ""
    content: msgspec.Raw = ABSENT


class ClaudeEntry(msgspec.Struct):
    type: str
    uuid: str = ""
    parentUuid: str | None = None  # noqa: N815 - Claude Code's own spelling, here and below
    isSidechain: bool = False  # noqa: N815
    agentId: str = ""  # noqa: N815
    timestamp: str = ""
    leafUuid: str = ""  # noqa: N815
    message: ClaudeMessage | None = None


_BLOCKS = msgspec.json.Decoder(list[ClaudeBlock])
_COPIED = ("sessionId", "cwd", "version", "gitBranch", "userType", "isSidechain", "agentId", "slug")
_TYPES = frozenset(
    {"user", "assistant", "summary", "system", "progress", "attachment", "file-history-snapshot"}
    | {"queue-operation", "last-prompt", "custom-title", "agent-name", "ai-title", "mode", "permission-mode"}
    | {"pr-link", "worktree-state"}
)


class ClaudeCode(Format):
    name = "Claude Code"
    unique_ids = True
    speaking = frozenset({"user", "assistant"})
    spoken = frozenset({"message", "timestamp"})
    decoder = msgspec.json.Decoder(ClaudeEntry)

    def recognises(self, first: dict[str, Any]) -> bool:
        if first.get("type") in ("summary", "file-history-snapshot"):
            return "leafUuid" in first or "messageId" in first
        if str(first.get("type")) in self.speaking:
            message = first.get("message")
            return "sessionId" in first and "uuid" in first and isinstance(message, dict) and "content" in message
        return "sessionId" in first and (str(first.get("type")) in _TYPES or {"uuid", "parentUuid"} <= first.keys())

    def read(self, entry: ClaudeEntry, index: Index) -> None:
        message = entry.message
        is_message = entry.type in self.speaking
        if is_message and not (message and entry.uuid):
            raise ShapeError("it has no message, or no uuid")
        if is_message and message is not None and message.content is ABSENT:
            raise ShapeError("its message has no content")
        kind = ENTRY | (MESSAGE if is_message else 0) | (SIDECHAIN if entry.isSidechain else 0)
        at = index.line(kind, entry.uuid, entry.parentUuid)
        if entry.type == "last-prompt" and entry.leafUuid:
            index.notes["leaf"] = (hash(entry.leafUuid), at)
        chain = _chain(entry, at, index) if entry.isSidechain else 0
        if message is None or not is_message:
            return
        newest: dict[int, tuple[str, int]] = index.notes.setdefault("newest", {})
        if chain not in newest or entry.timestamp >= newest[chain][0]:
            newest[chain] = (entry.timestamp, at)
        blocks: list[ClaudeBlock] = decode_blocks(message.content, _BLOCKS)
        if entry.type == "assistant":
            index.mark(at, FRAME, message.id)
            _mark_reply(blocks, at, index)
        else:
            _mark_user(blocks, at, index)

    def labels(self, index: Index) -> Sequence[int] | None:
        labels = array("H", bytes(2 * len(index)))
        tips: dict[int, int] = {}
        newest: dict[int, tuple[str, int]] = index.notes.get("newest", {})
        for label, (chain, (_, at)) in enumerate(newest.items(), 1):
            tips[label] = at if chain else _tip(index, at)
            path = index.path(tips[label])
            _add_siblings(index, path)
            at = path.find(1)
            while at >= 0:
                labels[at] = labels[at] or label
                at = path.find(1, at + 1)
        index.notes["tips"] = tips
        return labels

    def is_synthesised(self, entry: dict[str, Any]) -> bool:
        blocks = _content(entry)
        result = next((b for b in blocks if b.get("type") == "tool_result"), {})
        return says_synthesised(result.get("content"))

    def plan(self, index: Index, found: dict[int, Findings], lines: Lines, wish: Wish) -> Plan:
        drops: set[int] = set()
        orphans, notes = to_drop(found, wish)
        for orphaned in orphans:
            if len(_content(lines.entry(orphaned.at))) == 1:  # the result alone
                drops.add(orphaned.at)
            else:
                notes.append(f"line {orphaned.at + 1}: its orphaned result shares the line and stays")
        notes += _keep_tips(index, found, drops)
        graft = Graft(index, lines, Keys("uuid", "parentUuid"), drops)

        for label, findings in found.items():
            tip = index.notes["tips"][label]
            newest = _later(lines.entry(tip).get("timestamp"), wish)

            def write(call: Dangling, _parent: str | None, newest: str = newest) -> Result:
                entry = lines.entry(call.at)
                # in the middle a new timestamp would make the result a tip of its own, and cut off the rest
                return _result(entry, call.nth, newest if call.is_tail else entry.get("timestamp"), wish)

            graft.add(findings.dangling, tip, write)
        return Plan(graft.additions, graft.changes(), drops, notes)


def _mark_reply(blocks: list[ClaudeBlock], at: int, index: Index) -> None:
    for block in blocks:
        if block.type == "tool_use":
            index.mark(at, CALL if block.id and begins_with(block.input, "{") else UNANSWERABLE, block.id)


def _mark_user(blocks: list[ClaudeBlock], at: int, index: Index) -> None:
    is_said = not blocks
    for block in blocks:
        if block.type != "tool_result":
            is_said = True
        elif block.tool_use_id:
            index.mark(at, RESULT, block.tool_use_id)
        else:
            raise ShapeError("it has a result that names no call")
    if is_said:
        index.mark(at, SAID)


def _keep_tips(index: Index, found: dict[int, Findings], drops: set[int]) -> list[str]:
    """Keep an orphaned result at a tip if the newest message without it could be on another branch."""
    notes = []
    for label, findings in found.items():
        tip = index.notes["tips"][label]
        if tip not in drops or any(call.is_tail for call in findings.dangling):
            continue
        path = index.path(tip)
        side = index.kinds[tip] & SIDECHAIN
        others = (at for at, kind in enumerate(index.kinds) if kind & MESSAGE and kind & SIDECHAIN == side)
        if not all(path[at] for at in others):
            drops.discard(tip)
            notes.append(f"line {tip + 1}: its orphaned result stays; without it another branch could be the newest")
    return notes


def _chain(entry: ClaudeEntry, at: int, index: Index) -> int:
    """Return the label of a sub-agent's conversation: the hash of its id, or of the root of its sidechain."""
    if entry.agentId:
        return hash(entry.agentId)
    roots: dict[int, int] = index.notes.setdefault("roots", {})
    chain = roots.get(index.parents[at], index.ids[at])
    roots[index.ids[at]] = chain
    return chain


def _tip(index: Index, newest: int) -> int:
    leaf, said_at = index.notes.get("leaf", (0, -1))
    named = index.find(leaf, said_at) if said_at > newest else -1
    tip = newest if named < 0 or index.path(newest)[named] else named
    for at in range(tip + 1, len(index)):  # a child may be older than its parent if a clock went back
        is_message = index.kinds[at] & (MESSAGE | SIDECHAIN) == MESSAGE
        if is_message and index.parents[at] == index.ids[tip]:
            tip = at
    return tip


def _later(timestamp: Any, wish: Wish) -> str:
    """Return the time of the repair; if the tip's clock was ahead of ours, the instant after the tip."""
    now = iso(wish.now)
    if not isinstance(timestamp, str) or timestamp < now:
        return now
    try:
        return iso(datetime.fromisoformat(timestamp).astimezone(UTC) + timedelta(milliseconds=1))
    except ValueError:
        return now
    except OverflowError:  # the largest instant: of two equally old lines the later one is the tip
        return timestamp


def _add_siblings(index: Index, on: bytearray) -> None:
    """Add to a path the other lines of its replies, and the results whose parents those lines are."""
    if all(map(on.__getitem__, index.mark_lines)):
        return  # only parallel calls and branches have such lines
    replies = {
        key
        for at, mark, key in zip(index.mark_lines, index.marks, index.keys, strict=True)
        if mark == FRAME and key and on[at]
    }
    added = array("q")
    for at, mark, key in zip(index.mark_lines, index.marks, index.keys, strict=True):
        if mark == FRAME and key in replies and not on[at]:
            on[at] = 1
            added.append(index.ids[at])
    calls = {index.ids[at] for at in index.mark_lines if on[at]}
    for at, mark in zip(index.mark_lines, index.marks, strict=True):
        if mark == RESULT and not on[at] and index.parents[at] in calls:
            on[at] = 1


def _content(entry: dict[str, Any]) -> list[dict[str, Any]]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _result(entry: dict[str, Any], nth: int, timestamp: Any, wish: Wish) -> Result:
    block = [block for block in _content(entry) if block.get("type") == "tool_use"][nth]
    own_id = wish.new_id()
    line: dict[str, Any] = {"parentUuid": entry["uuid"]}
    line |= {key: entry[key] for key in _COPIED if key in entry}
    line |= {
        "type": "user",
        "message": {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": block["id"],
                    "content": wish.text,
                    "is_error": True,
                }
            ],
        },
        "uuid": own_id,
        "timestamp": timestamp,
        "toolUseResult": f"Error: {wish.text}",
        "sourceToolAssistantUUID": entry["uuid"],
    }
    return Result(as_javascript_writes_it(line), own_id, block["id"], str(block.get("name", "")))
