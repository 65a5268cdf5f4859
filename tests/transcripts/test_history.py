"""An import reads a session's messages in order, with lost results where a repair would put them."""

import json
import os
import shutil
from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard

from supervisor.core.sessions.transcript import is_synthesised_text
from supervisor.transcripts.history import open_history
from supervisor.transcripts.session import RefusedError, read_session

CORPUS = Path(__file__).parent / "corpus"
NOW = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)
SESSIONS = sorted(
    f"{path.parent.name}/{path.stem}" for path in CORPUS.rglob("*.jsonl") if path.parent.name != "unknown"
)


def messages(path):
    """Return (role, text, call) of each message; the text of a lost result is `lost`."""
    with open_history(path) as history:
        found = list(history.messages(NOW))
    assert all(is_synthesised_text(one.text) and one.is_error for one in found if one.is_lost)
    return [(one.role, "lost" if one.is_lost else one.text, one.call) for one in found]


LS = '{"command": "ls"}'
TOLD = {
    "claude_code/dangling-in-the-middle": [
        ("user", "hi", None),
        ("call", LS, "t1"),
        ("result", "lost", "t1"),
        ("user", "go on", None),
        ("assistant", "fine", None),
    ],
    "pi_v1/dangling-in-the-middle": [
        ("user", "hi", None),
        ("call", LS, "c1"),
        ("result", "lost", "c1"),
        ("user", "go on", None),
        ("assistant", "fine", None),
    ],
    "pi_v3/one-of-three-parallel-calls-dangling": [
        ("user", "hi", None),
        *(("call", LS, call) for call in ("c1", "c2", "c3")),
        ("result", "ok", "c1"),
        ("result", "ok", "c3"),
        ("result", "lost", "c2"),
    ],
    "claude_code/result-written-before-its-call": [
        ("user", "edit both", None),
        *((role, text, call) for call in ("t1", "t2") for role, text in (("call", "{}"), ("result", "done"))),
        ("assistant", "Done.", None),
    ],
    "claude_code/sub-agent-file": [("user", "do", None), ("call", LS, "t1"), ("result", "lost", "t1")],
}


@pytest.mark.parametrize("name", TOLD)
def test_messages_come_in_order_and_lost_results_after_their_frame(name):
    """Messages of user and assistant, calls with their results; a dangling call gets a lost result."""
    assert messages(CORPUS / f"{name}.jsonl") == TOLD[name]


@pytest.mark.parametrize("name", SESSIONS)
def test_as_many_results_are_lost_as_a_repair_would_add(name):
    """Only in the conversation that is imported; a sub-agent's chain in the main file is not part of it."""
    path = CORPUS / f"{name}.jsonl"
    found, judged = messages(path), read_session(path)
    lost = [call for role, text, call in found if role == "result" and text == "lost"]
    assert len(lost) == (judged.dangling if "sidechain-in-the-main-file" not in name else 0)
    answered = Counter(call for role, _, call in found if role == "result")
    asked = Counter(call for role, _, call in found if role == "call")
    assert all(answered[call] <= asked[call] for call in answered)


def test_lines_that_are_left_out_are_counted():
    """A torn line and a result without a call are left out, and counted."""
    for name in ("pi_v3/torn-last-line", "pi_v3/call-lost-result-kept", "codex/output-whose-call-is-lost"):
        with open_history(CORPUS / f"{name}.jsonl") as history:
            list(history.messages(NOW))
            assert history.left_out == 1


def test_messages_keep_their_own_time():
    """`at` is the time of the import; a time in an unknown form is left out."""
    with open_history(CORPUS / "claude_code" / "dangling-in-the-middle.jsonl") as history:
        first = next(history.messages(NOW))
    assert (first.at, first.said_at) == (NOW, datetime(2026, 1, 2, 3, 4, 1, tzinfo=UTC))


def test_a_compressed_rollout_reads_like_the_plain_one(tmp_path):
    """Codex compresses old rollouts."""
    plain = CORPUS / "codex" / "dangling-in-the-middle.jsonl"
    packed = tmp_path / "rollout.jsonl.zst"
    packed.write_bytes(zstandard.compress(plain.read_bytes()))
    assert messages(packed) == messages(plain)
    with open_history(packed) as one, open_history(plain) as other:
        assert (one.source, one.cwd, one.digest()) == (other.source, other.cwd, other.digest())


def test_hostile_or_odd_content_becomes_text(tmp_path):
    """Half surrogate pairs, escape sequences, content of any shape: nothing raises, and nothing is executed."""
    strange = [None, 7, "\x1b[2J", ["x", 3, {"type": 5}, {"type": "text", "text": None}], {"type": "text"}]
    lines = [json.dumps({"type": "session", "version": 3, "id": "s\ud800", "cwd": 7})]
    for number, content in enumerate([*strange, [{"type": "text", "text": "\ud800 $(rm -rf ~) \x00"}]]):
        for role in ("user", "toolResult", *(["assistant"] if content not in strange else [])):
            ids = {"id": f"{role}{number}", "parentId": None}
            message = {"role": role, "content": content, "toolCallId": f"c{number}", "toolName": {}}
            lines.append(json.dumps({"type": "message", **ids, "timestamp": "9" * 40, "message": message}))
    for at in range(1, len(lines)):
        (tmp_path / "s.jsonl").write_text("\n".join(lines[: at + 1]) + "\n")
        for _, text, _ in messages(tmp_path / "s.jsonl"):
            text.encode()


def test_no_call_is_lost_while_its_program_holds_the_session(tmp_path):
    """A repair would refuse it, too; a session without dangling calls may be read while it is written."""
    for name, is_refused in (("dangling-at-the-end", True), ("blank-lines", True), ("header-only", False)):
        path = Path(shutil.copy(CORPUS / "pi_v3" / f"{name}.jsonl", tmp_path))
        lock = {"pid": os.getppid(), "createdAt": "2026-01-02T03:04:05.000Z"}
        path.with_name(path.name + ".lock").write_text(json.dumps(lock))
        with pytest.raises(RefusedError) if is_refused else nullcontext(), open_history(path):
            pass


def test_a_file_of_unknown_format_is_not_imported(tmp_path):
    """A file that no format recognises is refused, and nothing in it is guessed."""
    for path in [tmp_path, *(CORPUS / "unknown").glob("*.jsonl")]:
        with pytest.raises(RefusedError), open_history(path):
            pass


@pytest.mark.skipif("SUPERVISOR_CORPUS" not in os.environ, reason="SUPERVISOR_CORPUS names no folder of real sessions")
def test_a_real_session_is_imported_whole(tmp_path):
    """pi's own large session: every call and every result; no call is lost, since none may be answered."""
    path = Path(shutil.copy(Path(os.environ["SUPERVISOR_CORPUS"]) / "pi-large-session.jsonl", tmp_path))
    found = messages(path)
    roles = Counter(role for role, _, _ in found)
    assert (roles["call"], roles["result"], roles["user"]) == (391, 373, 88)
    assert not [text for _, text, _ in found if text == "lost"]
