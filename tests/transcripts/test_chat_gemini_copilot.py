"""Chat-completions lines (Mistral Vibe, Hermes, small agents), Gemini CLI and Copilot CLI: what dangles, and what a
repair adds."""

import json

import pytest

from supervisor.core.sessions.transcript import TEXT
from supervisor.transcripts.history import open_history
from supervisor.transcripts.session import RefusedError


def write(path, *entries, torn=b""):
    path.write_bytes(b"".join(json.dumps(entry).encode() + b"\n" for entry in entries) + torn)
    return path


def call(own, name="bash"):
    return {"id": own, "type": "function", "function": {"name": name, "arguments": "{}"}}


def asks(*calls):
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


HI, SYSTEM = {"role": "user", "content": "hi"}, {"role": "system", "content": "be kind"}
START = {"type": "session.start", "data": {"sessionId": "s", "version": 1}, "id": "e0", "parentId": None}
HEAD = {"sessionId": "s", "projectHash": "abc", "startTime": "2026-06-10T10:00:00Z", "kind": "main"}


def test_chat_lines_get_the_missing_result_after_its_siblings(tmp_path, mend, read):
    """In the middle before the next message, and at the end by an append. With a `name` where the file's results have
    one; ids repeat from message to message."""
    result = {"role": "tool", "tool_call_id": "call_0", "content": "ok", "name": "bash"}
    lines = [SYSTEM, HI, asks(call("call_0"), call("call_1")), result, HI, asks(call("call_0", "ls"))]
    path = write(tmp_path / "messages.jsonl", *lines)
    report = mend(path)
    assert (report.state, report.format, report.calls, report.dangling) == ("repaired", "chat messages", 3, 2)
    made = [
        {"role": "tool", "tool_call_id": i, "content": TEXT, "name": n}
        for i, n in (("call_1", "bash"), ("call_0", "ls"))
    ]
    assert read(path) == [*lines[:4], made[0], *lines[4:], made[1]]
    assert mend(path).state == "clean"


@pytest.mark.parametrize("has_dangling", [True, False])
def test_a_torn_line_of_chat_messages_is_moved_away(tmp_path, mend, read, has_dangling):
    """Mistral Vibe parses each line, and refuses a file with one that is torn."""
    lines = [HI, asks(call("c1"))] if has_dangling else [HI]
    path = write(tmp_path / "messages.jsonl", *lines, torn=b'{"role": "tool", "tool_call')
    assert mend(path).state == "repaired"
    assert [json.loads(line) for line in path.read_bytes().splitlines()][: len(lines)] == lines
    assert (tmp_path / "messages.jsonl.torn").read_bytes() == b'{"role": "tool", "tool_call\n'
    assert mend(path).state == "clean"


@pytest.mark.parametrize(
    "entry",
    [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]},
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
        {"role": "tool", "content": "ok"},
        {"role": "narrator", "content": "once"},
    ],
)
def test_messages_in_the_shape_of_another_api_are_left_alone(tmp_path, mend, entry):
    """A result in them would be overlooked, so the file is refused, whichever line it is."""
    for lines in ([HI, entry], [entry, HI]):
        path = write(tmp_path / "messages.jsonl", *lines)
        before = path.read_bytes()
        assert mend(path).state in ("refused", "unknown")
        assert path.read_bytes() == before


def record(own, *calls, **more):
    return {
        "id": own,
        "timestamp": "2026-06-10T10:00:01Z",
        "type": "gemini",
        "content": "",
        "toolCalls": list(calls),
        **more,
    }


def made(own, result=None):
    answered = (
        {"result": [{"functionResponse": {"id": own, "name": "ls", "response": {"output": result}}}]} if result else {}
    )
    return {"id": own, "name": "ls", "args": {}, "status": "success" if result else "executing", **answered}


def test_gemini_cli_gets_the_record_again_with_the_result_in_it(tmp_path, mend, read):
    """Records of one id replace each other. What was rewound, or has its result in a later record, does not dangle."""
    lines = [
        HEAD,
        record("m1", made("c1")),
        record("m1", made("c1", "files")),
        record("m2", made("lost")),
        {"$rewindTo": "m2"},
        record("m3", made("c2", "ok"), made("c3")),
        {"$set": {"lastUpdated": "2026-06-10T10:00:09Z"}},
    ]
    path = write(tmp_path / "session-x.jsonl", *lines)
    report = mend(path)
    assert (report.state, report.format, report.dangling) == ("repaired", "Gemini CLI", 1)
    *kept, added = read(path)
    assert kept == lines
    first, second = added["toolCalls"]
    assert (added["id"], first, second["status"]) == ("m3", made("c2", "ok"), "error")
    assert second["result"] == [{"functionResponse": {"id": "c3", "name": "ls", "response": {"error": TEXT}}}]
    assert mend(path).state == "clean"


def test_a_checkpoint_of_gemini_cli_with_a_call_without_a_result_is_left_alone(tmp_path, mend):
    """The record is no line of its own. A complete checkpoint takes the place of all that is before it."""
    whole = {"$set": {"messages": [record("m1", made("c1", "ok"))]}}
    path = write(tmp_path / "session-x.jsonl", HEAD, record("m0", made("lost")), whole)
    assert mend(path).state == "clean"
    path = write(tmp_path / "session-x.jsonl", HEAD, {"$set": {"messages": [record("m1", made("c1"))]}})
    assert mend(path).state == "refused"


def event(number, kind, **data):
    return {"type": kind, "data": data, "id": f"e{number}", "parentId": f"e{number - 1}"}


def test_copilot_cli_gets_an_event_in_its_chain(tmp_path, mend, read):
    """A result counts wherever it is, so events of a sub-agent may come between. The event after an inserted one names
    it as its parent."""
    lines = [
        START,
        event(1, "user.message", content="hi"),
        event(
            2,
            "assistant.message",
            toolRequests=[{"toolCallId": "a", "name": "task"}, {"toolCallId": "b", "name": "ls"}],
        ),
        event(3, "tool.execution_start", toolCallId="a", toolName="task"),
        event(4, "assistant.message", toolRequests=[{"toolCallId": "s", "name": "ls"}], parentToolCallId="a"),
        event(5, "tool.execution_complete", toolCallId="s", success=True),
        event(6, "tool.execution_complete", toolCallId="a", success=True),
        event(7, "user.message", content="go on"),
        event(8, "assistant.message", toolRequests=[{"toolCallId": "z", "name": "ls"}]),
        event(9, "tool.execution_start", toolCallId="z", toolName="ls"),
    ]
    path = write(tmp_path / "events.jsonl", *lines)
    report = mend(path)
    assert (report.state, report.format, report.calls, report.dangling) == ("repaired", "Copilot CLI", 4, 2)
    entries = read(path)
    added = {each["data"]["toolCallId"]: each for each in entries if each.get("data", {}).get("success") is False}
    assert added.keys() == {"b", "z"}
    assert all(each["data"]["error"]["message"] == TEXT for each in added.values())
    assert [each["parentId"] for each in entries[1:]] == [each["id"] for each in entries[:-1]]
    assert mend(path).state == "clean"


def test_these_sessions_are_repaired_and_not_imported(tmp_path):
    """The reader of an import knows other shapes."""
    for first in (HI, HEAD, START):
        with pytest.raises(RefusedError, match="not imported"), open_history(write(tmp_path / "s.jsonl", first)):
            pass


@pytest.mark.parametrize(
    "first", [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "user", "type": "message", "content": []}]
)
def test_no_other_shape_is_taken_for_chat_messages(tmp_path, mend, first):
    """Gemini's contents, and the items of the Responses API."""
    assert mend(write(tmp_path / "s.jsonl", first)).state == "unknown"
