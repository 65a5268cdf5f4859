"""Short sequences of events that a supervisor would write, and how a test commits them."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import preloaded
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.calls.rules import Rule
from supervisor.core.rows import ApprovalFilter, JournalEntry

SEARCHES = (
    *(ApprovalFilter(text=text) for text in ("ls", "shell comm", "zz")),
    *(ApprovalFilter(by="ben", decided=decided) for decided in (None, "approved", False)),
    ApprovalFilter(agent="agent", tool="shell", newest_first=True),
)
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds=0.0):
    return START + timedelta(seconds=seconds)


def created(root="a", parent=None, **changes):
    facts = {"agent": "m:agent", "file": None, "path": ("agent",), "requester": "ann", "cwd": "/work", **changes}
    return e.SessionCreated(at=at(), root=root, parent=parent, **facts)


def started():
    return e.RunStarted(at=at(), input=Raw(b"[]"))


def asked(approval="p", operation="o#1", **changes):
    facts = {"tool": "shell", "arguments": Raw(b'{"command":"ls"}'), "digest": "d" * 64, **changes}
    return e.ToolCallRequested(at=at(1), operation=operation, approval=approval, **facts)


def decided(approval="p", operation="o#1", decision="approve", by="ben", seconds=2, **changes):
    return e.ApprovalDecided(
        at=at(seconds), operation=operation, approval=approval, decision=decision, by=by, **changes
    )


def passivated(*waiting_for, due_at=None):
    return e.RunPassivated(at=at(3), waiting_for=waiting_for, due_at=due_at)


def ruled(name, by="ben", **changes):
    rule = Rule(kind="allow", tool="shell", pattern="ls", id=name, **changes)
    return e.RuleAdded(at=at(2), rule=rule, by=by, approval="p")


def finished(kind="succeeded", **changes):
    return e.RunFinished(at=at(9), kind=kind, **changes)


def cancelled(origin="a"):
    return e.CancelRequested(at=at(8), by="ben", origin=origin)


def rows(store, *entries):
    """Give entries the positions that follow the committed ones."""
    last = store.last_position()
    return [JournalEntry(last + n, session, event) for n, (session, event) in enumerate(entries, 1)]


def append(store, *entries):
    """Commit (session, event) pairs in one transaction; return the last position."""
    assert store.begin()
    store.write(rows(store, *entries))
    store.commit()
    return store.last_position()


def everything(store):
    """Return the content of a store, to compare two stores."""
    entries = [(row.position, row.session, e.encode_event(row.event)) for row in store.rows(0)]
    sessions = {row.id for row in store.find_sessions()}
    return {
        "entries": entries,
        "last": store.last_position(),
        "journals": {name: [row.position for row in store.journal(name)] for name in sessions},
        "sessions": store.find_sessions(),
        "open": store.find_sessions(is_open=True),
        "ended": store.find_sessions(is_open=False),
        "awake": store.find_sessions(is_awake=True),
        "asleep": store.find_sessions(is_awake=False),
        "due": store.next_due(),
        "pending": store.find_approvals(),
        "approvals": store.find_approvals(pending=False),
        "trees": {name: (store.find_sessions(root=name), store.find_approvals(root=name)) for name in sessions},
        "own": {name: store.find_approvals(session=name, pending=False) for name in sessions},
        "found": [store.search_approvals(only) for only in SEARCHES],
    }


def python(code, *arguments, prefix=(), **options):
    """Start a real process that runs `code` and can import these modules."""
    here = Path(__file__).parent
    prelude = (
        "import os, sys, time\nfrom store_stories import *\nfrom supervisor.store.sqlite.store import SqliteStore\n"
    )
    start = subprocess.Popen if prefix else preloaded.Popen
    return start(
        [*prefix, sys.executable, "-c", prelude + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{here}:{here.parent}"},
        **options,
    )
