"""`supervisor repair` as a person runs it: what it prints, what it changes, how it exits."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import cyclopts
import pytest

from supervisor.cli.repair import register

CORPUS = Path(__file__).parent.parent / "transcripts" / "corpus"
STUCK, CLEAN, UNKNOWN = "pi_v3/dangling-at-the-end", "pi_v3/header-only", "unknown/other-json"


@pytest.fixture
def run(capsys):
    """Run the command in an app of the test's own; return its exit code, output and errors."""
    app = cyclopts.App(name="supervisor")
    register(app)

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            app([str(argument) for argument in ("repair", *arguments)])
        return left.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def session(tmp_path):
    def copy(name, folder="."):
        (tmp_path / folder).mkdir(exist_ok=True)
        return Path(shutil.copy(CORPUS / f"{name}.jsonl", tmp_path / folder))

    return copy


def test_looking_shows_the_very_line_and_exits_1(run, session):
    """By default it writes nothing, and prints the line that it would add, unwrapped."""
    path = session(STUCK)
    before = path.read_bytes()
    code, out, _ = run(path)
    assert code == 1
    line = json.loads(next(text for text in out.splitlines() if text.startswith('{"type":"message"')))
    assert line["message"]["toolCallId"] == "c1"
    assert "--write" in out
    assert path.read_bytes() == before


def test_writing_repairs_and_exits_0_and_names_the_backup(run, session):
    """The old file is kept, and its name is printed; the next look is clean."""
    path = session(STUCK)
    code, out, _ = run(path, "--write")
    backup = next(path.parent.glob("*.bak"))
    assert code == 0
    assert str(backup) in out
    assert run(path)[0] == 0


@pytest.mark.parametrize(
    "arguments", [(), ("x", "--watch", "."), (".", "--message", " "), ("--watch", ".", "--quiet", "-1")]
)
def test_wrong_usage_exits_2_with_one_line(arguments, run):
    """No path, a path and --watch, or an empty text."""
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--help" in err


def test_a_path_that_is_not_there_exits_5_before_anything_is_written(run, session):
    """One mistyped path, and no session is changed."""
    path = session(STUCK)
    before = path.read_bytes()
    code, _, err = run(path, path.with_name("nothing"), "--write")
    assert code == 5
    assert "nothing" in err
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", [UNKNOWN, "unknown/empty"])
def test_a_named_file_of_unknown_format_exits_6(name, run, session):
    """Asked about one file, the command answers about that file."""
    code, out, _ = run(session(name))
    assert code == 6
    assert "refused" in out


def test_in_a_folder_unknown_formats_are_skipped_and_counted(run, session, tmp_path):
    """Other files in a folder are no error; they are counted."""
    session(CLEAN)
    session(UNKNOWN, "deeper")
    session("unknown/empty", "deeper")
    code, out, _ = run(tmp_path)
    assert code == 0
    assert "2 files of other formats skipped" in out


def test_of_several_the_worst_decides_the_exit(run, session, tmp_path):
    """The worst state gives the exit code, and every session is reported."""
    clean, stuck, live = session(CLEAN), session(STUCK), session(STUCK, "live")
    live.with_name(live.name + ".lock").write_text(json.dumps({"pid": os.getppid()}))
    assert run(clean)[0] == 0
    assert run(clean, stuck)[0] == 1
    code, out, _ = run(tmp_path, "--json")
    assert code == 6
    reports = {report["path"]: report for report in json.loads(out)["files"]}
    assert [reports[str(path)]["state"] for path in (clean, stuck, live)] == ["clean", "found", "refused"]
    assert str(os.getppid()) in reports[str(live)]["reason"]


def test_json_says_the_same_for_programs(run, session, tmp_path):
    """One document: a report for each file, and how many were skipped."""
    path = session("pi_v3/dangling-in-the-middle")
    session(UNKNOWN)
    code, out, _ = run(tmp_path, "--json")
    said = json.loads(out)
    (report,) = said["files"]
    assert (code, said["skipped"]) == (1, 1)
    assert (report["path"], report["state"], report["format"]) == (str(path), "found", "pi v3")
    assert [report[key] for key in ("calls", "dangling", "orphaned", "unanswerable", "torn")] == [2, 1, 0, 0, 0]
    assert json.loads(report["added"][0]["line"])["message"]["toolCallId"] == "c2"
    assert (report["added"][0]["after"], report["changed"][0]["at"]) == (4, 5)


def test_unanswerable_calls_are_told_and_no_reason_to_fail(run, session):
    """Calls of failed messages remain as they are: exit 0, and they are counted."""
    code, out, _ = run(session("pi_v1/calls-of-a-failed-message"), "--write")
    assert code == 0
    assert "3 calls need no result" in out


def test_a_person_s_own_words_are_the_result(run, session):
    """--message is what the model will read."""
    path = session(STUCK)
    assert run(path, "--write", "--message", "Look before you run it again.")[0] == 0
    assert json.loads(path.read_bytes().splitlines()[-1])["message"]["content"][0]["text"].startswith("Look before")


def test_a_file_named_twice_is_reported_once(run, session, tmp_path):
    """A folder and a file in it, or a link to it, are one file."""
    path = session(STUCK)
    (tmp_path / "link.jsonl").symlink_to(path)
    code, out, _ = run(tmp_path, path, "--json")
    assert (code, len(json.loads(out)["files"])) == (1, 1)


def test_a_table_of_80_columns_is_not_wider(run, session, tmp_path, monkeypatch):
    """Long names of sessions are folded, never cut."""
    monkeypatch.setenv("COLUMNS", "80")
    name = "2026-01-02T03-04-05-000Z_01940000-0000-7000-8000-000000000001.jsonl"
    session(CLEAN).rename(tmp_path / name)
    _, out, _ = run(tmp_path)
    assert max(len(line) for line in out.splitlines()) <= 80
    assert name in "".join(line[-40:].strip() for line in out.splitlines())


def test_looking_imports_no_loop_and_no_watcher():
    """A command that answers fast imports nothing heavy: registering imports not even the formats."""
    script = (
        "import sys, cyclopts; from supervisor.cli import repair; repair.register(cyclopts.App()); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"watchfiles", "rich.table", "supervisor.transcripts.repair"} & set(loaded)


def test_control_characters_are_escaped(run, session):
    """The name of a tool comes from a model, so its control characters are escaped."""
    path = session(STUCK)
    path.write_bytes(path.read_bytes().replace(b'"name":"bash"', rb'"name":"\u001b[2Jba\u009bsh"'))
    code, out, _ = run(path)
    assert code == 1
    assert not {"\x1b", "\x9b"} & set(out)
    assert "2Jba" in out


def test_names_that_are_no_text_are_reported_all_the_same(run, session):
    """File names are bytes."""
    path = session(STUCK)
    odd = Path(os.fsdecode(os.fsencode(path.parent) + b"/odd\xff.jsonl"))
    path.rename(odd)
    assert run(odd.parent)[0] == 1
    assert run(odd.parent, "--json")[0] == 1
    assert run(odd, "--write")[0] == 0


def test_a_pipe_is_not_waited_for(run, tmp_path):
    """A path that is no regular file is refused by its kind, and never opened."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert run(tmp_path / "pipe.jsonl")[0] == 6


ODD_CALL = '{"type":"message","id":"b0000001","parentId":null,"message":{"role":"assistant","content":[{"type":5}]}}'


def test_a_file_that_cannot_be_judged_keeps_no_other_from_it_and_the_json_whole(run, session, tmp_path):
    """An error in one file (here, a part of a message whose type is no text) becomes the report of that file."""
    good, better = session(STUCK), session("claude_code/dangling-at-the-end", "later")
    odd = tmp_path / "in-the-middle.jsonl"
    odd.write_text(good.read_text().splitlines()[0] + "\n" + ODD_CALL + "\n")
    code, out, _ = run(tmp_path, "--write", "--json")
    states = {report["path"]: report["state"] for report in json.loads(out)["files"]}
    assert states == {str(good): "repaired", str(better): "repaired", str(odd): "refused"}
    assert code == 6


@pytest.fixture
def database(tmp_path):
    """OpenClaw's sessions since 2026.7.2, while OpenClaw has them open."""
    path = tmp_path / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as openclaw:
        openclaw.execute("PRAGMA journal_mode=WAL")
        openclaw.execute("CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd)")
        yield path


@pytest.mark.parametrize("is_named", [True, False])
def test_openclaws_database_is_recognised_and_said_to_be_so_and_exits_6(is_named, run, database, tmp_path):
    """Users are told that it is not supported, and not that nothing is wrong."""
    code, out, _ = run(database if is_named else tmp_path, "--json")
    (report,) = json.loads(out)["files"]
    assert (code, report["path"], report["state"]) == (6, str(database), "refused")
    assert "OpenClaw" in report["format"]


def test_openclaws_database_is_only_read(run, database):
    """Whatever the options, none of its bytes changes, and no file is made next to it."""
    copy = database.parent.parent / "closed" / "openclaw-copy.sqlite"
    copy.parent.mkdir()
    with closing(sqlite3.connect(database)) as openclaw:
        openclaw.execute("VACUUM INTO ?", [str(copy)])
    with closing(sqlite3.connect(copy)) as closed:
        closed.execute("PRAGMA journal_mode=WAL")
    before = {path: path.read_bytes() for path in database.parent.parent.rglob("*.*")}
    assert run(database, copy, "--write", "--in-place")[0] == 6
    assert {path: path.read_bytes() for path in database.parent.parent.rglob("*.*")} == before


def test_another_database_is_of_no_known_format(run, tmp_path):
    """It is skipped in a folder, and refused where a person names it."""
    with closing(sqlite3.connect(tmp_path / "openclaw.sqlite")) as other:
        other.execute("CREATE TABLE settings (name, value)")
    code, out, _ = run(tmp_path, "--json")
    assert (code, json.loads(out)) == (0, {"files": [], "skipped": 1})
    assert run(tmp_path / "openclaw.sqlite")[0] == 6
