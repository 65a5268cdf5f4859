"""run and resume: their output, their exit codes, and that stopping them loses nothing."""

import json
import signal
from pathlib import Path

import pytest

AGENTS = Path(__file__).with_name("command_agents.py")

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@BACKENDS
def test_stdout_is_one_json_document_whatever_an_agent_prints(supervisor, backend):
    """A script can parse stdout; everything else is on stderr. The JSON input is one argument, never spread."""
    answer = supervisor("run", f"{AGENTS}:printing", '{"a": 1, "b": 2}', "--json", "--backend", backend)
    assert answer.code == 0, answer
    assert answer.json["outcome"] == {"kind": "succeeded", "value": 3, "cause": None}
    assert "an agent prints this" in answer.err


@pytest.mark.parametrize(("typed", "means"), [("tidy up, please", "tidy up, please"), ('"tidy"', "tidy"), ("42", "42")])
def test_plain_words_are_the_input_of_an_agent_that_takes_text(supervisor, typed, means):
    """Plain text needs no second pair of quotes. A JSON text is decoded; other JSON is taken as plain text."""
    assert supervisor("run", f"{AGENTS}:echoing", typed, "--json").json["outcome"]["value"] == means


def test_an_input_that_does_not_fit_is_refused_before_anything_runs(supervisor):
    """For an agent that takes no text, plain text is an error."""
    answer = supervisor("run", f"{AGENTS}:asking", "plain words")
    assert answer.code == 2, answer
    assert supervisor("sessions", "--json").json == []


def test_the_folder_of_a_session_can_be_chosen(supervisor):
    """A folder that does not exist is an error, and nothing has begun."""
    (supervisor.folder / "src").mkdir()
    assert supervisor("run", f"{AGENTS}:echoing", "x", "--session", "s", "--cwd", "src").code == 0
    (created, *_) = supervisor("export", "s").out.splitlines()
    assert json.loads(created)["cwd"] == str(supervisor.folder / "src")
    answer = supervisor("run", f"{AGENTS}:echoing", "x", "--session", "t", "--cwd", "gone")
    assert (answer.code, [each["id"] for each in supervisor("sessions", "--json").json]) == (2, ["s"])


def test_a_failure_exits_with_1_and_its_cause_commands_no_terminal(supervisor):
    """Control characters in the text of an exception are escaped."""
    answer = supervisor("run", f"{AGENTS}:failing")
    assert answer.code == 1
    assert "no luck" in answer.err
    assert "\x1b" not in answer.err
    (session,) = supervisor("sessions", "--json").json
    shown = supervisor("show", session["id"]).out
    assert f'File "{AGENTS}", line' in shown  # where it was raised
    assert "\x1b" not in shown


def test_the_words_that_an_agent_reports_are_marked_as_its_own(supervisor):
    """In the progress of its run, in `show` and in `export`; control characters are escaped, and a cut says so."""
    told = supervisor("run", f"{AGENTS}:reporting", "--session", "s")
    shown = supervisor("show", "s")
    for text in (told.err, shown.out):
        lines = [line for line in text.splitlines() if "(reported)" in line]
        assert len(lines) == 5
        assert len([line for line in text.splitlines() if "rm -rf" in line or "approved by" in line]) == 2
        assert "4464 more bytes" in lines[4]
        assert "\x1b" not in text
    exported = [json.loads(line) for line in supervisor("export", "s").out.splitlines()]
    found = [each for each in exported if each["event"] == "Reported"]
    assert [each["kind"] for each in found] == ["text", "thought", "plan", "call", "result"]
    assert (found[4]["call"], found[4]["is_error"], found[4]["left_out"]) == ("c1", True, 4464)


def test_a_restart_is_told_once(supervisor):
    """The story tells it, so its log is not shown. Then follow the failure and its report."""
    answer = supervisor("run", f"{AGENTS}:restarting")
    assert answer.code == 1
    assert answer.err.count("no route") == 3


@BACKENDS
def test_without_a_terminal_a_run_passivates_and_a_decision_lets_it_go_on(supervisor, backend):
    """Exit code 3 while it waits for a person. After the decision, `resume` prints the result; ids stay the same."""
    (approval,) = supervisor.ask("it")
    again = supervisor("resume", "asking", "--json", "--backend", backend)
    assert (again.code, again.json) == (3, {"session": "asking", "outcome": None})
    assert [found["id"] for found in supervisor("approvals", "--json").json] == [approval]
    assert supervisor("approve", approval, "--by", "bob").code == 0
    done = supervisor("resume", "--json", "--backend", backend)
    assert done.code == 0, done
    assert done.json == [
        {"session": "asking", "outcome": {"kind": "succeeded", "value": ["noted it 1"], "cause": None}}
    ]
    assert supervisor("resume", "--json").json == []


def test_approve_none_denies_pending_ones_too_and_says_who(supervisor):
    """The process's answer holds for the tree it owns, and is audited; the setting is not stored (A6)."""
    (approval,) = supervisor.ask("it")
    answer = supervisor("resume", "asking", "--unattended", "deny", "--json")
    assert answer.code == 0, answer
    (found,) = supervisor("approvals", "--all", "--json").json
    assert (found["id"], found["status"], found["decision"]) == (approval, "denied", "deny")
    assert found["by"] == "--unattended deny"
    assert supervisor.ask("other", session="later") != []


def test_of_several_roots_a_failure_comes_before_a_wait(supervisor):
    """`resume` alone reports all of them, and exits with the worst."""
    assert supervisor("run", f"{AGENTS}:insisting", '"one"', "--session", "one").code == 3
    assert supervisor("run", f"{AGENTS}:insisting", '"two"', "--session", "two").code == 3
    assert supervisor("deny", supervisor("approvals", "--json").json[1]["id"]).code == 0
    answer = supervisor("resume", "--json")
    assert answer.code == 1
    kinds = {each["session"]: each["outcome"] and each["outcome"]["kind"] for each in answer.json}
    assert kinds == {"one": None, "two": "failed"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@BACKENDS
def test_a_signal_stops_gracefully_and_says_how_to_go_on(supervisor, backend, number, code):
    """Approvals stay pending, and the output names the command that goes on (R8)."""
    process = supervisor.start("run", f"{AGENTS}:asking", '["it"]', "--session", "s", "--wait", "--backend", backend)
    approval = next(line.split()[-1] for line in process.stderr if line.strip().startswith("approval"))
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert "supervisor resume s" in err
    assert "Traceback" not in err
    (found,) = supervisor("approvals", "--json").json
    assert (found["id"], found["status"]) == (approval, "pending")


@BACKENDS
def test_a_second_signal_stops_at_once_and_loses_nothing(supervisor, backend):
    """The first signal lets the running call end; the second ends the process, and the call is lost (R8, T2)."""
    process = supervisor.start("run", f"{AGENTS}:taking_long", "--session", "s", "--backend", backend)
    next(line for line in process.stderr if "runs take_long" in line)
    process.send_signal(signal.SIGINT)
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert supervisor("resume", "s", "--json").json["outcome"]["value"] == "interrupted"


def test_an_agent_that_is_gone_is_refused_before_its_tree_is_taken(supervisor, tmp_path):
    """The session does not change, and goes on when the file is back."""
    moved = tmp_path / "moved.py"
    moved.write_bytes(AGENTS.read_bytes())
    assert supervisor("run", "moved.py:asking", '["it"]', "--session", "s").code == 3
    before = supervisor("show", "s", "--json").json
    moved.rename(tmp_path / "elsewhere.py")
    assert supervisor("resume", "s").code == 2
    assert supervisor("show", "s", "--json").json == before
    (tmp_path / "elsewhere.py").rename(moved)
    assert supervisor("resume", "s", "--unattended", "allow").code == 0


def test_a_tree_that_another_process_runs_is_refused_and_can_be_decided(supervisor):
    """`--wait` waits for decisions made elsewhere. A second process is told which one runs the session (R6)."""
    process = supervisor.start("run", f"{AGENTS}:asking", '["it"]', "--session", "s", "--wait", "--json")
    approval = next(line.split()[-1] for line in process.stderr if line.strip().startswith("approval"))
    refused = supervisor("resume", "s")
    assert refused.code == 6
    assert str(process.pid) in refused.err
    assert supervisor("approve", approval).code == 0
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "noted it 1" in out


def test_a_session_that_is_finished_gives_its_outcome_again(supervisor):
    """`run --session` is idempotent; another input is a conflict."""
    arguments = ["run", f"{AGENTS}:printing", "--session", "sum", "--json"]
    first = supervisor(*arguments, '{"a": 1}')
    again = supervisor(*arguments, '{"a": 1}')
    assert (again.code, again.json) == (0, first.json)
    assert "an agent prints this" not in again.err
    assert supervisor(*arguments, '{"a": 2}').code == 4


def test_resume_alone_says_of_each_session_why_it_cannot_run_and_goes_on_with_the_others(supervisor):
    """A missing agent blocks its session, with the reason and exit code 7; other sessions go on (R1)."""
    gone = supervisor.folder / "gone.py"
    gone.write_text(AGENTS.read_text())
    assert supervisor("run", f"{gone}:insisting", '"one"', "--session", "gone").code == 3
    supervisor.ask("it")
    for approval in supervisor("approvals", "--json").json:
        assert supervisor("approve", approval["id"]).code == 0
    gone.unlink()
    answer = supervisor("resume", "--json")
    assert answer.code == 7, answer
    assert [(run["session"], bool(run["outcome"])) for run in answer.json] == [("gone", False), ("asking", True)]
    assert str(gone) in answer.err
