"""Sessions that are recognised and left alone: what they are called, and by what they are known.

Theory: a person who names such a file asks whether it can be repaired, and the answer names the program that wrote it.
What is like a format of ours is recognised here first, so that it is never read as ours.

Rules:
- The first line that can be read decides, and for a database its tables.
- Recognising a file changes nothing in it: it is not read further.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

_OLD_CODEX: Final = frozenset({"id", "timestamp", "instructions", "git"})
_KIRO: Final = frozenset({"Prompt", "AssistantMessage", "ToolResults"})


class Database(NamedTuple):
    """A SQLite database with sessions. Its file name decides if its tables are still in the log next to it."""

    name: str
    tables: frozenset[str]
    file_name: str
    said: str


_DATABASES: Final = (
    Database(
        "OpenClaw (SQLite)",
        frozenset({"transcript_events"}),
        "openclaw-agent.sqlite",
        "OpenClaw's database: since 2026.7.2 it contains the sessions, which cannot be repaired yet; only earlier "
        "sessions, in .jsonl files, can. The file is left alone. In OpenClaw, /new begins another session",
    ),
    Database(
        "OpenCode (SQLite)",
        frozenset({"session", "message", "part"}),
        "opencode.db",
        "OpenCode's database: it contains the sessions, which cannot be repaired. The file is left alone. In OpenCode, "
        "/new begins another session",
    ),
)


def name_of(first: dict[str, Any]) -> str | None:
    """Return the name of the format whose files begin with this line; None if it is none of those."""
    return next((name for name, is_written_by in _FIRST_LINES.items() if is_written_by(first)), None)


def database_of(real: Path) -> Database | None:
    """Return which database with sessions a SQLite file is; None if it is none of those."""
    tables = _tables_of(real)
    found = (each for each in _DATABASES if each.tables <= tables)
    return next(found, None) or next((each for each in _DATABASES if each.file_name == real.name), None)


def _tables_of(real: Path) -> set[str]:
    """Return the names of a database's tables without creating a lock, a log or any other file next to it."""
    try:
        with closing(sqlite3.connect(f"{real.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            return {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    except (sqlite3.Error, ValueError):
        return set()


def is_database_name(name: str) -> bool:
    """Return whether a file in a folder may be a database with sessions."""
    return (name.startswith("openclaw") and name.endswith(".sqlite")) or (
        name.startswith("opencode") and name.endswith(".db")
    )


def _is_qwen(first: dict[str, Any]) -> bool:
    message = first.get("message")
    has_parts = isinstance(message, dict) and "parts" in message and "content" not in message
    return "sessionId" in first and "uuid" in first and (has_parts or "systemPayload" in first)


def _is_antigravity(first: dict[str, Any]) -> bool:
    return "type" in first and ("step_index" in first or first.get("source") in ("USER_EXPLICIT", "MODEL"))


def _is_kiro(first: dict[str, Any]) -> bool:
    return str(first.get("kind")) in _KIRO and isinstance(first.get("data"), dict)


def _is_old_codex(first: dict[str, Any]) -> bool:
    return first.get("record_type") == "state" or {"id", "timestamp"} <= first.keys() <= _OLD_CODEX


def _is_opencode(first: dict[str, Any]) -> bool:
    return "sessionID" in first or (isinstance(first.get("info"), dict) and isinstance(first.get("messages"), list))


_FIRST_LINES: Final = {
    "Qwen Code": _is_qwen,
    "Antigravity": _is_antigravity,
    "Kiro": _is_kiro,
    "Codex before session_meta": _is_old_codex,
    "OpenCode": _is_opencode,
}
