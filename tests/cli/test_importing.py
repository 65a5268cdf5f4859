"""`supervisor import`: people read a session of another program, and go on with it."""

import os
import shutil
from pathlib import Path

import pytest

AGENTS = Path(__file__).with_name("command_agents.py")
CORPUS = Path(__file__).parent.parent / "transcripts" / "corpus"
MIDDLE = CORPUS / "pi_v1" / "dangling-in-the-middle.jsonl"
ID = "01940000-0000-7000-8000-000000000001"
RAN_HERE = {"RunStarted", "AttemptStarted", "RunFinished", "ToolCallRequested", "ToolCallFinished", "MessageReceived"}


@pytest.mark.parametrize("name", ["pi_v1", "pi_v2", "pi_v3", "claude_code", "codex"])
def test_a_session_of_each_format_is_at_rest_afterwards_and_can_be_read(supervisor, name):
    """It is completed, with its messages in its timeline; none of them looks like a run of ours."""
    answer = supervisor("import", str(CORPUS / name / "dangling-at-the-end.jsonl"), "--json")
    assert answer.code == 0, answer
    session = answer.json["session"]
    shown = supervisor("show", session, "--json").json
    assert (shown["status"], shown["outcome"]["kind"]) == ("completed", "succeeded")
    told = [event["role"] for event in shown["timeline"] if event["event"] == "MessageImported"]
    assert told[-2:] == ["call", "result"]
    assert not {event["event"] for event in shown["timeline"]} & RAN_HERE
    assert supervisor("audit", "--json").json == []
    assert supervisor("show", session).out.count("(imported)") == answer.json["messages"]


def test_no_store_takes_what_export_has_written(supervisor, tmp_path: Path):
    """A session in two stores would run twice. One line says what to do instead, and no store is made."""
    supervisor.ask("x", session="s")
    assert supervisor("export", "s", "--output", str(tmp_path / "s.jsonl")).code == 0
    said = supervisor("import", str(tmp_path / "s.jsonl"), "--store", str(tmp_path / "other.db"))
    assert (said.code, said.out, len(said.err.strip().splitlines())) == (6, "", 1)
    assert "move their store" in said.err
    assert not (tmp_path / "other.db").exists()


def test_importing_twice_says_that_it_is_there(supervisor):
    """It is found by the id in its file; nothing is added."""
    first = supervisor("import", str(MIDDLE), "--json").json
    again = supervisor("import", str(MIDDLE), "--json")
    assert (again.code, again.json["state"], again.json["session"]) == (0, "present", first["session"])
    assert again.json["messages"] == first["messages"] == 5
    assert len(supervisor("sessions", "--json").json) == 1


def test_the_demonstration_runs_next_to_an_imported_session(supervisor, tmp_path: Path):
    """It looks for its own session among all there are."""
    assert supervisor("import", str(MIDDLE)).code == 0
    assert supervisor("demo", "--unattended", "deny", TMPDIR=str(tmp_path)).code == 0


def test_another_session_file_or_agent_under_the_same_id_is_a_conflict(supervisor, tmp_path: Path):
    """The existing session does not change."""
    path = Path(shutil.copy(MIDDLE, tmp_path))
    assert supervisor("import", str(path)).code == 0
    before = supervisor("show", ID, "--json").json
    assert supervisor("import", str(path), "--agent", f"{AGENTS}:chatting").code == 4
    assert supervisor("import", str(CORPUS / "codex" / "dangling-at-the-end.jsonl"), "--session", ID).code == 4
    with path.open("a") as file:
        file.write('{"type":"message","message":{"role":"user","content":"more"}}\n')
    assert supervisor("import", str(path)).code == 4
    assert supervisor("import", str(path), "--session", "other").code == 0
    assert supervisor("show", ID, "--json").json == before


def test_a_message_goes_on_with_it_where_an_agent_was_named(supervisor):
    """The turn sees the imported messages. Without an agent, the message is refused with advice."""
    assert supervisor("import", str(MIDDLE), "--session", "mute").code == 0
    refused = supervisor("send", "mute", "go on")
    assert (refused.code, "--agent" in refused.err) == (2, True)
    assert supervisor("import", str(MIDDLE), "--agent", f"{AGENTS}:chatting", "--session", "talking").code == 0
    assert supervisor("send", "talking", "go on", "--json").json["kind"] == "begun"
    assert supervisor("resume", "talking", "--json").json["outcome"]["value"] == "go on after 5 of 5"
    assert supervisor("send", "talking", "and on").code == 0
    assert supervisor("resume", "talking", "--json").json["outcome"]["value"] == "and on after 5 of 7"


def test_a_failed_import_leaves_no_session(supervisor, tmp_path: Path):
    """One line, an exit code, and no partial import."""
    for arguments, code in (
        ([str(tmp_path / "missing.jsonl")], 5),
        ([str(CORPUS / "unknown" / "other-json.jsonl")], 6),
        ([str(MIDDLE), "--agent", f"{AGENTS}:missing"], 2),
        ([str(MIDDLE), "--agent", f"{AGENTS}:failing"], 2),
        ([str(MIDDLE), "--session", "No Good"], 2),
    ):
        answer = supervisor("import", *arguments)
        assert (answer.code, answer.out, len(answer.err.strip().splitlines())) == (code, "", 1), answer
    assert supervisor("sessions", "--json").json == []


@pytest.mark.skipif("SUPERVISOR_CORPUS" not in os.environ, reason="SUPERVISOR_CORPUS names no folder of real sessions")
def test_a_real_session_is_imported_and_gone_on_with(supervisor):
    """pi's own large session, with an agent."""
    path = Path(os.environ["SUPERVISOR_CORPUS"]) / "pi-large-session.jsonl"
    answer = supervisor("import", str(path), "--agent", f"{AGENTS}:chatting", "--json")
    assert (answer.code, answer.json["state"]) == (0, "imported")
    count = answer.json["messages"]
    assert count > 391 + 373
    assert supervisor("send", answer.json["session"], "go on").code == 0
    value = supervisor("resume", answer.json["session"], "--json").json["outcome"]["value"]
    assert value == f"go on after {count} of {count}"
