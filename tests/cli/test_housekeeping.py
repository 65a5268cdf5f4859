"""Export and prune, as users see them."""

import json
import os
import stat
from pathlib import Path

AGENTS = Path(__file__).with_name("command_agents.py")


def test_an_export_is_the_whole_tree_line_by_line(supervisor, tmp_path: Path):
    """In the order of commits; the same for a sub-agent's id, on stdout and in a file of mode 0600."""
    supervisor.ask("first", "second")
    supervisor("run", f"{AGENTS}:chatting", '"other"', "--session", "other")
    lines = [json.loads(line) for line in supervisor("export", "asking").out.splitlines()]
    begun = [line for line in lines if line["event"] == "SessionCreated"]
    assert (len(begun), {line["root"] for line in begun}) == (3, {"asking"})
    assert {line["session"] for line in lines} == {line["session"] for line in begun}
    assert [line["position"] for line in lines] == sorted(line["position"] for line in lines)
    assert {"position", "session", "event", "at"} <= set.intersection(*(set(line) for line in lines))
    file = tmp_path / "tree.jsonl"
    file.write_text("what was there before")
    assert supervisor("export", lines[-1]["session"], "--output", str(file)).code == 0
    assert [json.loads(line) for line in file.read_text().splitlines()] == lines
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    refused = supervisor("export", "nobody", "--output", str(tmp_path / "none.jsonl"))
    assert (refused.code, (tmp_path / "none.jsonl").exists()) == (5, False)
    astray = supervisor("export", "asking", "--output", str(tmp_path / "nowhere" / "tree.jsonl"))
    assert (astray.code, len(astray.err.strip().splitlines())) == (2, 1)
    assert list(tmp_path.glob(".*")) == []


def test_an_export_replaces_no_pipe_and_no_link(supervisor, tmp_path: Path):
    """/dev/stdout and pipes are written to and not replaced; a link leads to its file."""
    supervisor.ask("it")
    pipe, link, file = (tmp_path / name for name in ("pipe", "link", "file"))
    os.mkfifo(pipe)
    link.symlink_to(file)
    writer = supervisor.start("export", "asking", "--output", str(pipe))
    lines = pipe.read_text()
    assert (writer.wait(60), lines) == (0, supervisor("export", "asking").out)
    assert supervisor("export", "asking", "--output", str(link)).code == 0
    assert (pipe.is_fifo(), link.is_symlink(), file.read_text()) == (True, True, lines)


def test_an_export_never_replaces_the_store(supervisor, tmp_path: Path):
    """By any of its names."""
    supervisor.ask("it")
    (tmp_path / "link").symlink_to(supervisor.store)
    for output in (supervisor.store, f"{supervisor.store}-wal", tmp_path / "link"):
        assert supervisor("export", "asking", "--output", str(output)).code == 2
    assert supervisor("show", "asking").code == 0


def test_prune_says_what_it_would_remove_and_asks(supervisor):
    """It removes nothing without a yes and keeps open trees. An approval of a removed tree is unknown (A3)."""
    (approval,) = supervisor.ask("it", session="ended")
    supervisor("cancel", "ended")
    supervisor("run", f"{AGENTS}:asking", '["it"]', "--session", "open")
    looked = supervisor("prune", "--older-than", "0s", "--dry-run", "--json")
    assert [tree["session"] for tree in looked.json["trees"]] == ["ended"]
    assert [tree["session"] for tree in looked.json["kept"]] == ["open"]
    assert supervisor("prune", "--older-than", "0s").code == 2
    assert supervisor("prune", "--older-than", "0s", "--yes", SUPERVISOR_CALL="x").code == 6
    assert supervisor("prune", "--older-than", "0s", "--yes", "--json").json["removed"] == ["ended"]
    assert {view["root"] for view in supervisor("sessions", "--json").json} == {"open"}
    assert supervisor("approve", approval).code == 5


def test_logs_of_jobs_go_with_their_sessions_and_what_a_killed_prune_left_goes_too(supervisor):
    """A log is kept as long as its session."""
    supervisor("run", f"{AGENTS}:asking", '["it"]', "--session", "open")
    jobs = Path(f"{supervisor.store}.jobs")
    for name, session in (("kept", "open"), ("left", "pruned-before")):
        (jobs / name).mkdir(parents=True, mode=0o700)
        (jobs / name / "session").write_text(session)
        (jobs / name / "log").write_text("output")
    assert supervisor("prune", "--older-than", "0s", "--yes").code == 0
    assert [folder.name for folder in jobs.iterdir()] == ["kept"]
