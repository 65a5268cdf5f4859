"""Formats that are known by name only: a person is told the name, and nothing is read as one of ours."""

import json
import sqlite3
from contextlib import closing

import pytest

FIRST_LINES = {
    "Qwen Code": {
        "uuid": "q1",
        "parentUuid": None,
        "sessionId": "s",
        "type": "user",
        "message": {"role": "user", "parts": [{"text": "list"}]},
    },
    "Antigravity": {
        "step_index": 0,
        "source": "USER_EXPLICIT",
        "type": "USER_INPUT",
        "status": "DONE",
        "created_at": "2026-06-11T20:14:42Z",
        "content": "hi",
    },
    "Kiro": {
        "version": "v1",
        "kind": "Prompt",
        "data": {"message_id": "m1", "content": [{"kind": "text", "data": "hi"}]},
    },
    "Codex before session_meta": {"id": "s", "timestamp": "2025-09-02T17:17:41.762Z", "instructions": None},
    "OpenCode": {"info": {"id": "ses_1"}, "messages": []},
}
LATER_QWEN = {"uuid": "q2", "parentUuid": "q1", "sessionId": "s", "type": "system", "systemPayload": {}}


@pytest.mark.parametrize("name", FIRST_LINES)
def test_a_format_that_is_only_recognised_is_named_and_left_alone(name, tmp_path, mend):
    """The report says whose file it is, and the file keeps its bytes."""
    path = tmp_path / "session.jsonl"
    path.write_text(json.dumps(FIRST_LINES[name]) + "\n")
    before = path.read_bytes()
    report = mend(path)
    assert (report.state, report.format, path.read_bytes()) == ("unknown", name, before)
    assert name in report.reason


def test_a_session_of_qwen_code_that_begins_with_a_line_of_the_system_is_recognised(tmp_path, mend):
    """Its lines have the ids of Claude Code's, and no content."""
    path = tmp_path / "session.jsonl"
    path.write_text(json.dumps(LATER_QWEN) + "\n")
    assert mend(path).format == "Qwen Code"


@pytest.mark.parametrize("is_closed", [True, False])
def test_opencodes_database_is_named_and_only_read(is_closed, tmp_path, mend):
    """Also while OpenCode has it open, when its tables may still be in the log next to it."""
    path = tmp_path / ("copy.sqlite" if is_closed else "opencode.db")
    with closing(sqlite3.connect(path)) as opencode:
        if not is_closed:
            opencode.execute("PRAGMA journal_mode=WAL")
        for table in ("session", "message", "part"):
            opencode.execute(f"CREATE TABLE {table} (id, data)")
        opencode.commit()
        before = {file: file.read_bytes() for file in tmp_path.iterdir()}
        report = mend(path)
        assert (report.state, report.format) == ("refused", "OpenCode (SQLite)")
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
