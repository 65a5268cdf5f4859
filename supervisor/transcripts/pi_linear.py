"""pi's first session format: lines in the order of the conversation, without ids.

Theory: the file is the conversation. pi rewrites it as a tree when it opens it, and numbers the lines that it can read
from 0, including the header. A compaction names the first entry that it kept by that number.

Rules:
- A result is inserted after its frame, or appended if no content for a model follows.
- If a line before an entry that a compaction names is inserted or dropped, the number in the compaction changes, too.
  This is the only change to an existing line.
"""

from __future__ import annotations

from typing import Any

from supervisor.core.sessions.transcript import Dangling, Findings
from supervisor.transcripts import pi_messages
from supervisor.transcripts.formats import Addition, Format, Lines, Plan, Wish, insertions, iso, to_drop
from supervisor.transcripts.index import ENTRY, POINTER, Index
from supervisor.transcripts.lines import as_javascript_writes_it, with_value


class PiLinear(Format):
    name = "pi v1"
    speaking, spoken = pi_messages.SPEAKING, pi_messages.SPOKEN
    decoder = pi_messages.ENTRIES

    def recognises(self, first: dict[str, Any]) -> bool:
        return (
            first.get("type") == "session" and isinstance(first.get("id"), str) and first.get("version", 1) in (1, None)
        )

    def read(self, entry: pi_messages.PiEntry, index: Index) -> None:
        kind = ENTRY | POINTER if entry.firstKeptEntryIndex >= 0 else ENTRY
        pi_messages.mark_entry(entry, index.line(kind), index)

    def is_synthesised(self, entry: dict[str, Any]) -> bool:
        return pi_messages.is_synthesised(entry)

    def plan(self, index: Index, found: dict[int, Findings], lines: Lines, wish: Wish) -> Plan:
        def write(call: Dangling) -> tuple[bytes, str, str]:
            call_id, tool = pi_messages.call_of(lines.entry(call.at), call.nth)
            message = pi_messages.result_message(call_id, tool, wish)
            line = {"type": "message", "timestamp": iso(wish.now), "message": message}
            return as_javascript_writes_it(line), call_id, tool

        additions = insertions(found, write)
        orphans, notes = to_drop(found, wish)
        drops = {orphaned.at for orphaned in orphans}
        return Plan(additions, self._moved(index, lines, additions, drops), drops, notes)

    def _moved(self, index: Index, lines: Lines, additions: list[Addition], drops: set[int]) -> dict[int, bytes]:
        pointers = [at for at, kind in enumerate(index.kinds) if kind & POINTER]
        if not pointers:
            return {}
        # How much the number of entries changes after each line where a line is inserted or dropped.
        steps = [(a.after, 1) for a in additions if a.after is not None] + [(at, -1) for at in drops]
        changes = {}
        for pointer in pointers:
            named = lines.entry(pointer)["firstKeptEntryIndex"]
            target = _line_of(index, named)
            moved = named + sum(by for at, by in steps if at < target)
            if moved != named and pointer not in drops:
                changes[pointer] = with_value(lines.raw(pointer), "firstKeptEntryIndex", moved)
        return changes


def _line_of(index: Index, entry_number: int) -> int:
    """Return the line of the n-th readable entry; blank and torn lines have no number."""
    seen = -1
    for at, kind in enumerate(index.kinds):
        seen += kind & ENTRY
        if seen == entry_number:
            return at
    return len(index)
