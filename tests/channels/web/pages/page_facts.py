"""Approvals and journals to draw pages of."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.rows import JournalEntry
from supervisor.core.values import Approval, Option

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
START = NOW - timedelta(hours=1)


def an_approval(**changes: Any) -> Approval:
    facts: dict[str, Any] = {
        "id": "abcdefghijklmnopqrstuvwxyz234567",
        "session": "k3jq7x2m4n5p6r7s8t9u2v",
        "root_session": "cleanup",
        "path": ("janitor", "cleaner"),
        "agent": "cleaner",
        "operation": "call:shell:0#1",
        "tool": "shell",
        "command": "command",
        "arguments": {"command": "rm 'a b'", "cwd": None, "env": None, "timeout": 30},
        "digest": "0" * 64,
        "cwd": "/srv",
        "options": (Option("once"), Option("session", "rm 'a b'"), Option("always", "rm *")),
        "requester": "ana",
        "status": "pending",
        "created_at": NOW - timedelta(minutes=3),
    }
    return Approval(**{**facts, **changes})


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def began(seconds: float = 0, **facts: Any) -> list[e.AnyEvent]:
    """The first events of a session, and of its first attempt."""
    created = {"agent": "m:f", "file": None, "path": ("boss",), "root": "s", "requester": "ana", "cwd": "/"}
    return [
        e.SessionCreated(at=at(seconds), **{**created, **facts}),
        e.RunStarted(at=at(seconds), input=Raw(b'"go"')),
        e.AttemptStarted(at=at(seconds), host="box", pid=1),
    ]


def rows(*events: e.AnyEvent) -> list[JournalEntry]:
    return [JournalEntry(place, "s", event) for place, event in enumerate(events, 1)]


def asked(seconds: float, operation: str = "call:shell:1#1", approval: str = "a1") -> e.ToolCallRequested:
    arguments = Raw(b'{"command":"make"}')
    return e.ToolCallRequested(
        at=at(seconds),
        operation=operation,
        tool="shell",
        arguments=arguments,
        digest="0",
        approval=approval,
        command="command",
    )


def approved(seconds: float, operation: str = "call:shell:1#1", approval: str = "a1") -> e.ApprovalDecided:
    return e.ApprovalDecided(at=at(seconds), operation=operation, approval=approval, decision="approve", by="bob")


def executing(seconds: float, operation: str = "call:shell:1#1") -> e.ToolCallStarted:
    return e.ToolCallStarted(at=at(seconds), operation=operation, host="box", pid=1)


def finished(seconds: float, operation: str = "call:shell:1#1", kind: Any = "ok") -> e.ToolCallFinished:
    return e.ToolCallFinished(at=at(seconds), operation=operation, kind=kind, content="out")


def done(seconds: float, kind: str, **facts: Any) -> e.OperationFinished:
    return e.OperationFinished(at=at(seconds), operation=f"{kind}:x:1#1", kind=kind, **facts)


def ended(seconds: float) -> e.RunFinished:
    return e.RunFinished(at=at(seconds), kind="succeeded")
