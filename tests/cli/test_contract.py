"""What scripts rely on: exit codes of bad input, JSON fields, one clear line, and quick answers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.core.ids import short_ids

AGENTS = Path(__file__).with_name("command_agents.py")

APPROVAL_FIELDS = {
    *("id", "session", "root_session", "path", "agent", "tool", "arguments", "options", "requester", "status"),
    *("created_at", "expires_at", "decision", "by"),
}
SESSION_FIELDS = {"id", "parent", "root", "agent", "status", "outcome", "pending_approvals"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nonsense"], 2),
        (["run"], 2),
        (["run", "no-colon"], 2),
        (["run", "missing.py:agent"], 2),
        (["run", "no_such_module_x:agent"], 2),
        (["run", "broken.py:agent"], 2),
        (["run", "exiting.py:agent"], 2),
        (["run", f"{AGENTS}:missing"], 2),
        (["run", f"{AGENTS}:printing", "{nonsense"], 2),
        (["run", f"{AGENTS}:printing", "[1]"], 2),
        (["run", f"{AGENTS}:printing"], 2),
        (["run", f"{AGENTS}:failing", "--session", "No Good"], 2),
        (["run", f"{AGENTS}:failing", "--backend", "twisted"], 2),
        (["approve", "x", "--edit", "{nonsense"], 2),
        (["approve", "x", "--edit", "[]"], 2),
        (["run", f"{AGENTS}:printing", '{"\udcff": 1}'], 2),
        (["approve", "x", "--nonsense"], 2),
        (["prune", "--older-than", "soon"], 2),
        (["prune", "--older-than", "999999w"], 2),
        (["deny", "x", "--reason", "not", "on", "a", "Friday"], 2),
        (["serve", f"{AGENTS}", "--port", "99999"], 2),
        (["init", "nowhere/supervisor.toml"], 2),
        (["approve", "x"], 5),
        (["deny", "x"], 5),
        (["cancel", "x"], 5),
        (["show", "x"], 5),
        (["resume", "x"], 5),
        (["rules", "revoke", "x"], 5),
        (["rules", "allow", "shell"], 2),
        (["allow", "shell", "python *"], 2),
        (["rules", "allow", "note", '{"name":nonsense}'], 2),
        (["rules", "ask", "*"], 2),
        (["rules", "deny", "*"], 2),
        (["rules", "forbid", "note"], 2),
        (["allow", "note", "{}"], 2),
        (["forbid", "note"], 2),
        (["revoke", "x"], 2),
        (["approve", "x", "--scope", "sometimes"], 2),
    ],
)
def test_bad_input_is_one_clear_line(supervisor, tmp_path: Path, arguments, code):
    """No traceback, nothing on stdout, and an exit code that names the kind of error."""
    (tmp_path / "broken.py").write_text("def agent(:\n")
    (tmp_path / "exiting.py").write_text("raise SystemExit(9)\n")
    answer = supervisor(*arguments)
    assert answer.code == code, answer
    assert answer.out == ""
    assert len(answer.err.strip().splitlines()) == 1, answer


def test_an_id_that_is_nearly_right_is_offered(supervisor):
    """A mistyped id is answered with the closest ones; a session's id, with its approvals."""
    (approval,) = supervisor.ask("it")
    slip = supervisor("approve", approval[:-1] + "!")
    assert (slip.code, approval in slip.err) == (5, True)
    assert approval in supervisor("approve", approval[:8]).err
    assert f"  {short_ids([approval])[approval]} " in supervisor("approve", "asking").err
    assert "asking" in supervisor("show", "askin").err


def test_a_store_is_named_by_a_url_too(supervisor):
    """As an option and in the environment. A server and a store of one process are refused in one line."""
    (approval,) = supervisor.ask("it")
    url = f"sqlite://{supervisor.store}"
    assert approval in supervisor("approvals", "--store", url).out
    supervisor.env["SUPERVISOR_STORE"] = url
    assert approval in supervisor("approvals").out
    for other in ("https://inbox.example", "memory:", "redis://here", f"{url}?mode=ro", ""):
        refused = supervisor("run", f"{AGENTS}:asking", '["it"]', "--store", other)
        assert (refused.code, refused.out, len(refused.err.strip().splitlines())) == (2, "", 1), refused


@pytest.mark.parametrize("command", ["sessions", "approvals", "audit", "resume", "rules"])
def test_reading_never_creates_a_store(supervisor, command):
    """Where no store exists, lists are empty."""
    answer = supervisor(command, "--json")
    assert (answer.code, answer.json) == (0, [])
    assert not supervisor.store.exists()


def test_a_store_that_cannot_be_read_is_refused_and_left_untouched(supervisor):
    """A corrupt store is never read as an empty one (A5)."""
    supervisor.store.write_bytes(b"no store at all\n" * 100)
    serve = ["serve", f"{AGENTS}", "--port", "0"]
    for command in (["sessions", "--json"], ["approve", "x"], ["run", f"{AGENTS}:failing"], serve):
        answer = supervisor(*command)
        assert (answer.code, answer.out, len(answer.err.splitlines())) == (6, "", 1), answer
    assert supervisor.store.read_bytes() == b"no store at all\n" * 100


def test_the_documents_have_the_fields_that_they_promise(supervisor):
    """Lists of objects; times in UTC; a parent's pending approvals are its own and those below it (A14)."""
    (approval,) = supervisor.ask("it")
    (found,) = supervisor("approvals", "--json").json
    assert found.keys() >= APPROVAL_FIELDS
    assert (found["path"], found["arguments"]) == (["asking", "asking_once"], {"name": "it", "count": 1})
    assert (found["decision"], found["by"], found["status"]) == (None, None, "pending")
    assert found["created_at"].endswith("Z")
    root, child = supervisor("sessions", "--open", "--json").json
    assert root.keys() >= SESSION_FIELDS
    assert (root["id"], child["parent"], child["root"]) == ("asking", "asking", "asking")
    assert [each["pending_approvals"][0]["id"] for each in (root, child)] == [approval, approval]
    assert {root["status"], child["status"]} == {"waiting_approval"}
    shown = supervisor("show", child["id"], "--json").json
    assert shown["timeline"][0]["event"] == "SessionCreated"
    assert next(entry["event"] for entry in supervisor("audit", "--json").json) == "ToolCallRequested"


def test_people_get_lines_that_name_ids_whole(supervisor):
    """Without --json, people see the same facts."""
    (approval,) = supervisor.ask("\x1b[31mred")
    for command in (["approvals"], ["show", "asking"], ["audit"], ["sessions"]):
        answer = supervisor(*command)
        assert answer.code == 0
        assert "\x1b" not in answer.out + answer.err
        assert ("asking" if command[0] in ("show", "sessions") else approval) in answer.out


def test_a_closed_pipe_is_no_error(supervisor):
    """A reader that closes the pipe (`| head`), or a closed stdout (`>&-`), causes no traceback."""
    supervisor.ask("it")
    ends, begins = os.pipe()
    os.close(ends)
    for command in ("approvals", "export asking", "approvals >&-", "sessions --json >&-"):
        line = f"{sys.executable} -m supervisor {command}"
        done = subprocess.run(line, shell=True, env=supervisor.env, stdout=begins, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, "Error" in done.stderr) == (0, False), done.stderr
    os.close(begins)


def test_an_agent_with_a_closed_output_is_stopped_and_goes_on_later(supervisor):
    """Its session has not ended, so the exit code is not 0."""
    ends, begins = os.pipe()
    os.close(ends)
    line = [sys.executable, "-m", "supervisor", "run", f"{AGENTS}:asking", '["it"]', "--session", "asking"]
    assert subprocess.run(line, env=supervisor.env, stdout=begins, stderr=begins).returncode == 141
    os.close(begins)
    assert supervisor("resume", "asking", "--unattended", "allow").code == 0


def test_commands_import_nothing_that_takes_long():
    """Commands answer within half a second: screens, log libraries and event loops are imported when needed."""
    heavy = "{'rich', 'structlog', 'trio', 'asyncio', 'watchfiles', 'platformdirs'}"
    code = f"import sys, supervisor.cli as cli; cli.make_app(); print(sorted({heavy} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


def imported(*command):
    """Return the modules that a command imports, and the packages that are neither ours nor Python's."""
    names = imported_by("-m", "supervisor", *command)
    packages = {name.partition(".")[0] for name in names - imported_by("-c", "")}
    return [name for name in names if name.startswith("supervisor")], packages - sys.stdlib_module_names - {
        "supervisor"
    }


def imported_by(*arguments):
    """Return the modules that an interpreter imports."""
    done = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def test_the_version_is_answered_before_the_command_line_is_imported():
    """Nor is any other package than ours."""
    ours, others = imported("--version")
    assert (sorted(ours), others) == (["supervisor", "supervisor.lazy"], set())


def test_a_command_that_reads_imports_few_modules(tmp_path: Path):
    """Each module costs a millisecond or more. Raise the number only for modules that every command needs."""
    ours, others = imported("approvals", "--store", str(tmp_path / "s.db"))
    assert len(ours) <= 258
    assert not others & {"rich", "markdown_it", "structlog", "trio", "watchfiles", "starlette", "httpx", "jinja2"}


def test_a_command_that_does_not_serve_imports_no_server(tmp_path: Path):
    """This holds for commands that open a store, too."""
    served = "{'starlette', 'hypercorn', 'httpx', 'jinja2', 'slack_sdk', 'cryptography'}"
    code = f"import sys, supervisor.cli as cli; cli.main(sys.argv[1:]); print(sorted({served} & sys.modules.keys()))"
    command = ["run", f"{AGENTS}:printing", "{}", "--store", str(tmp_path / "s.db")]
    found = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True).stdout
    assert found.split()[-1] == "[]"


def test_the_version_is_the_distributions(supervisor):
    """`supervisor --version` says which program this is."""
    answer = supervisor.real("--version")
    assert (answer.code, answer.out.split()[0]) == (0, "subagent-supervisor")


def test_the_help_of_a_command_says_more_than_its_line_in_the_list(supervisor):
    """It is the whole docstring of the command: of `send`, also the texts that decide."""
    assert "approve all" in supervisor("send", "--help").out
    assert "approve all" not in supervisor("--help").out
