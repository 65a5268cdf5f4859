"""Checks of the folder of a story that has ended.

Each check returns problems and does not assert, so that a test over many crashes shows all of them.
"""

import collections
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scenario

from supervisor import Answer, Approve, Deny, SqliteStore
from supervisor.core import events as e
from supervisor.core.ids import RULES
from supervisor.core.sessions.state import SessionState, replay_journal


def lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def effects(folder: Path) -> collections.Counter[str]:
    """Return the effects of calls in the world. Those of steps may happen more than once."""
    return collections.Counter(line for line in lines(folder, "effects") if not line.startswith("step "))


class Story:
    """A store as it is on disk, with the records of people and the world."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = SqliteStore(folder / "store.db", create=False)
        store.open()
        try:
            self.rows = store.rows(0)
            self.index = store.find_sessions()
            self.approvals = store.find_approvals(pending=False)
        finally:
            store.close()
        events: dict[str, list[e.AnyEvent]] = {}
        for row in self.rows:
            events.setdefault(row.session, []).append(row.event)
        self.rules = replay_journal(RULES, events.pop(RULES, []))
        self.states = {session: replay_journal(session, found) for session, found in events.items()}

    def tree(self, root: str) -> list[SessionState]:
        return [state for state in self.states.values() if state.facts.root == root]

    def is_cancelled(self, root: str) -> bool:
        return self.states[root].cancel is not None

    def kinds(self, root: str) -> dict[str, str | None]:
        """Return how the agents of a tree ended."""
        return {"/".join(s.facts.path): s.outcome and s.outcome.kind for s in self.tree(root)}

    def lost(self) -> collections.Counter[str]:
        """Return the effects of calls that were reported lost: they may have happened, or not."""
        found: collections.Counter[str] = collections.Counter()
        calls: dict[tuple[str, str], tuple[str, Any]] = {}
        for row in self.rows:
            match row.event:
                case e.ToolCallRequested(operation=operation, tool=tool, arguments=arguments):
                    calls[row.session, operation] = (tool, arguments)
                case e.ApprovalDecided(operation=operation, edited=arguments) if arguments is not None:
                    calls[row.session, operation] = (calls[row.session, operation][0], arguments)
                case e.ToolCallFinished(operation=operation, details=details) if b'"lost"' in bytes(details):
                    tool, arguments = calls[row.session, operation]
                    found[f"{tool} {json.loads(bytes(arguments))['x']}"] += 1
                case _:
                    pass
        return found


def problems(folder: Path, *roots: str, may_lose: bool = True) -> list[str]:
    """Yield the problems of trees that ran to their end over all their lives; there should be none."""
    story = Story(folder)
    found = [*_wrong_effects(story, roots, may_lose=may_lose), *_wrong_approvals(story), *left_open(story)]
    for root in roots:
        tree = story.tree(root)
        if len(tree) != scenario.SESSIONS:
            found.append(f"{len(tree)} sessions below {root}")
        for state in tree:
            wanted = "cancelled" if state.facts.path[-1] == "lingerer" else "succeeded"
            if state.outcome is not None and state.outcome.kind != wanted:
                found.append(f"{state.facts.path} {state.outcome.kind}: {state.outcome.cause}")
            if state.facts.path[-1] == "impatient" and state.outcome and bytes(state.outcome.value) != b"[true,false]":
                found.append(f"a scope of the agent's own ended otherwise: {bytes(state.outcome.value)!r}")
            if state.facts.path[-1] == "talker":
                found += _wrong_talk(story, state)
    return found


def _wrong_talk(story: Story, state: SessionState) -> Iterator[str]:
    """Check that each answer came to its question, the message was received, and each text was sent once."""
    if state.outcome is not None and json.loads(bytes(state.outcome.value)) != scenario.TOLD:
        yield f"told otherwise: {bytes(state.outcome.value)!r}"
    said = [r.event.text for r in story.rows if r.session == state.id and isinstance(r.event, e.MessageSent)]
    if len(said) != 1:
        yield f"said: {said}"


def _wrong_effects(story: Story, roots: tuple[str, ...], *, may_lose: bool) -> Iterator[str]:
    happened = effects(story.folder)
    wanted: collections.Counter[str] = collections.Counter()
    for root in roots:
        wanted += scenario.wanted(root)
        if f"step {root}" not in lines(story.folder, "effects"):
            yield f"no step of {root}"
    lost = story.lost()
    yield from (f"twice or unwanted: {line}" for line in happened - wanted)
    yield from (f"missing: {line}" for line in wanted - happened - lost)
    if not may_lose:
        yield from (f"lost: {line}" for line in lost)


def _wrong_approvals(story: Story) -> Iterator[str]:
    """Check that each approval was answered as the person decided, under the shown id, and that the person was told
    so."""
    known = {approval.id: approval for approval in story.approvals}
    ids: dict[tuple[str, str], set[str]] = {}
    for line in lines(story.folder, "shown"):
        session, operation, shown = line.split()
        ids.setdefault((session, operation), set()).add(shown)
        if shown not in known:
            yield f"an approval that was shown is gone: {shown}"
    yield from (f"asked again under another id: {key}" for key, found in ids.items() if len(found) > 1)
    for approval in known.values():
        said = scenario.answer_to(approval)
        if said is None:
            status = "withdrawn" if approval.kind == "call" else "expired"
        elif "(edited)" in scenario.words_of(approval):
            status = "approved"
        else:
            status = {Approve: "approved", Deny: "denied", Answer: "answered"}[type(said)]
        if approval.status != status:
            yield f"{scenario.words_of(approval)} is {approval.status}, not {status}"
    for line in lines(story.folder, "told"):
        told, kind = line.split()
        if kind not in ("accepted", "already"):
            yield f"a wanted decision was refused: {scenario.words_of(known[told])} {kind}"


def left_open(story: Story) -> Iterator[str]:
    """Yield what no story may leave open, in any end."""
    yield from lines(story.folder, "differences")
    for row in story.index:
        if row.outcome is None:
            yield f"open: {row.path}"
    for state in story.states.values():
        if state.outcome is None:
            yield f"open in its journal: {state.facts.path}"
        calls = ((operation, record) for operation, record in state.operations.items() if record.kind == "call")
        yield from (f"dangling: {operation} {record.state}" for operation, record in calls if record.is_open)
    yield from (
        f"pending: {scenario.words_of(approval)}" for approval in story.approvals if approval.status == "pending"
    )
    yield from _not_deepest_first(story)


def _not_deepest_first(story: Story) -> Iterator[str]:
    ended = {row.session: row.position for row in story.rows if isinstance(row.event, e.RunFinished)}
    for session, position in ended.items():
        parent = story.states[session].facts.parent
        if parent is not None and ended.get(parent, position + 1) < position:
            yield f"{story.states[session].facts.path} ended after its parent"


def log_of(folder: Path) -> str:
    """Return the end of the stderr of a story's lives."""
    return "\n".join(lines(folder, "log")[-200:])
