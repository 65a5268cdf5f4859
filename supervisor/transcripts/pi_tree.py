"""pi's session formats 2 and 3, which OpenClaw writes too: a tree of entries with 8-digit ids.

Theory: the tip is the last entry of the file, of whatever type. So an appended entry becomes the tip, and must name the
old tip as its parent. Dangling calls on abandoned branches are never sent, and are left as they are.

Rules:
- The header is not part of the tree, and pi treats a file without a header as empty: line 1 never changes.
- Entries that are not sent (labels, model changes) may be between a frame and its appended result.
- An entry that a `context_edit` on the path omits is not part of the conversation. A file with an edit that gives a
  message other calls than it had is refused: the place of their results would be unknown.
"""

from __future__ import annotations

from typing import Any

from supervisor.core.sessions.transcript import Dangling, Findings
from supervisor.transcripts import pi_messages
from supervisor.transcripts.formats import Format, Lines, Plan, ShapeError, Wish, iso, to_drop
from supervisor.transcripts.index import ENTRY, Index
from supervisor.transcripts.lines import as_javascript_writes_it
from supervisor.transcripts.tree import Graft, Keys, Result


class PiTree(Format):
    name = "pi v3"
    # unique_ids is false: some models number their calls from the start in each reply
    speaking, spoken = pi_messages.SPEAKING, pi_messages.SPOKEN
    decoder = pi_messages.ENTRIES

    def __init__(self, version: int) -> None:
        self.name = f"pi v{version}"
        self._version = version

    def recognises(self, first: dict[str, Any]) -> bool:
        return (
            first.get("type") == "session"
            and isinstance(first.get("id"), str)
            and first.get("version") == self._version
        )

    def read(self, entry: pi_messages.PiEntry, index: Index) -> None:
        if entry.type == "session":
            index.line(ENTRY)
            return
        at = index.line(ENTRY, entry.id, entry.parentId)
        if entry.id:
            index.notes["tip"] = at
        if entry.type == "context_edit":
            index.notes.setdefault("edits", []).append(pi_messages.edit_of(entry, at))
        pi_messages.mark_entry(entry, at, index)

    def labels(self, index: Index) -> bytearray | None:
        path = index.path(index.notes.get("tip", -1))
        edits: list[pi_messages.Edit] = index.notes.get("edits", [])
        latest = {edit.target: edit for edit in edits if path[edit.at]}
        omitted = []
        for edit in latest.values():
            target = index.find(edit.target, edit.at)
            if target < 0 or not path[target]:
                continue  # pi sends nothing of it
            if edit.calls is None:
                omitted.append(target)
            elif index.calls(target) not in (None, edit.calls):
                raise ShapeError(f"it gives line {target + 1} other calls", edit.at)
        for target in omitted:
            path[target] = 0
        return path

    def is_synthesised(self, entry: dict[str, Any]) -> bool:
        return pi_messages.is_synthesised(entry)

    def plan(self, index: Index, found: dict[int, Findings], lines: Lines, wish: Wish) -> Plan:
        orphans, notes = to_drop(found, wish)
        drops = {orphaned.at for orphaned in orphans}
        notes += self._keep_tip(index, found, drops)
        graft = Graft(index, lines, Keys("id", "parentId"), drops)

        taken: set[str] = set()

        def write(call: Dangling, parent: str | None) -> Result:
            call_id, tool = pi_messages.call_of(lines.entry(call.at), call.nth)
            own_id = wish.new_id()[:8]
            while own_id in taken or hash(own_id) in index.ids:
                own_id = wish.new_id()[:8]
            taken.add(own_id)
            line = {
                "type": "message",
                "id": own_id,
                "parentId": parent,
                "timestamp": iso(wish.now),
                "message": pi_messages.result_message(call_id, tool, wish),
            }
            return Result(as_javascript_writes_it(line), own_id, call_id, tool)

        for findings in found.values():
            graft.add(findings.dangling, index.notes["tip"], write)
        return Plan(graft.additions, graft.changes(), drops, notes)

    def _keep_tip(self, index: Index, found: dict[int, Findings], drops: set[int]) -> list[str]:
        """Keep an orphaned result at the tip if the entry that is last without it is on another branch."""
        tip = index.notes.get("tip", -1)
        if tip not in drops or any(call.is_tail for findings in found.values() for call in findings.dangling):
            return []
        last = next((at for at in range(tip, -1, -1) if index.ids[at] and at not in drops), -1)
        if last < 0 or index.path(tip)[last]:
            return []
        drops.discard(tip)
        return [f"line {tip + 1}: its orphaned result stays; without it the session would be on another branch"]
