"""`supervisor mcp --permissions`: a real MCP client, in a process of its own, asks, and people decide."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import preloaded
import pytest

from supervisor import SqliteStore

CLIENT = Path(__file__).with_name("permission_client.py")
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "claude-code.md"
SERVE = [sys.executable, "-m", "supervisor", "mcp", "--permissions", "--session"]
LIST = {"tool_name": "Bash", "input": {"command": "ls -l", "description": "List files"}, "tool_use_id": "toolu_1"}
WRITE = {"tool_name": "Write", "input": {"file_path": "/tmp/a", "content": "hello"}, "tool_use_id": "toolu_2"}


class Claude:
    """A client and its server."""

    def __init__(self, supervisor, *command):
        self.process = preloaded.Popen(
            [sys.executable, str(CLIENT), *command],
            cwd=supervisor.folder,
            env={**supervisor.env, "PYTHONPATH": str(Path(preloaded.__file__).parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        supervisor.started.append(self.process)
        assert self.hear() == {"tools": ["permission"]}

    def hear(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def tell(self, **order):
        print(json.dumps(order), file=self.process.stdin, flush=True)

    def ask(self, request, name="a"):
        self.tell(ask=request, **{"as": name})

    def answer(self, name="a"):
        """Return the next answer, which is one block of JSON."""
        heard = self.hear()
        assert heard["as"] == name, heard
        (block,) = heard["answer"]
        return json.loads(block)

    def shell(self, *words):
        self.tell(shell=words)
        return self.hear()

    def leave(self):
        self.process.stdin.close()
        self.process.stdin = None
        return self.process.wait(60)


class Sessions:
    def __init__(self, supervisor):
        self.supervisor = supervisor

    def claude(self, session="s", *options):
        return Claude(self.supervisor, *SERVE, session, *options)

    @contextmanager
    def store(self):
        """Read the store in this process: each command takes a tenth of a second of CPU."""
        store = SqliteStore(self.supervisor.store)
        store.open()
        yield store
        store.close()

    def pending(self, number=1):
        """Wait until so many approvals are pending, and return their ids, oldest first."""
        with self.store() as store:
            while len(found := store.find_approvals()) < number:
                time.sleep(0.01)
        assert len(found) == number
        return [each.id for each in found]

    def approve(self, approval, *options):
        assert self.supervisor("approve", approval, *options).code == 0

    def deny(self, approval, reason):
        assert self.supervisor("deny", approval, "--reason", reason, "--by", "ana").code == 0

    def events(self, *kinds):
        lines = self.supervisor("export", "s").out.splitlines()
        entries = [json.loads(line) for line in lines]
        return [each for each in entries if each.get("event") in kinds]

    def wait_for_owner(self, session, pid):
        """Wait until this process owns the session, or none if it is None."""
        with self.store() as store:
            while (found := store.get_owner(session)) is not pid and (found is None or found.pid != pid):
                time.sleep(0.01)

    def server(self):
        """The pid of the process that owns the session."""
        with self.store() as store:
            return store.get_owner("s").pid


@pytest.fixture
def sessions(supervisor):
    return Sessions(supervisor)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_approved_call_is_allowed_and_a_denied_one_is_not(sessions, backend):
    """Two requests at a time have two approvals, and each gets its own answer, in one block of JSON."""
    claude = sessions.claude("s", "--backend", backend)
    claude.ask(LIST, "list")
    first = sessions.pending(1)
    claude.ask(WRITE, "write")
    (second,) = [each for each in sessions.pending(2) if each not in first]
    sessions.deny(second, "not there")
    answer = claude.answer("write")
    assert (answer["behavior"], answer["message"].partition("\n")[0]) == ("deny", "denied by ana: not there")
    sessions.approve(first[0])
    assert claude.answer("list") == {"behavior": "allow", "updatedInput": LIST["input"]}
    assert claude.leave() == 0


def test_an_edited_input_is_the_input_that_claude_may_use(sessions):
    """The approval has the tool and the input as Claude gives them; how it describes a command is no argument."""
    claude = sessions.claude()
    claude.ask(LIST)
    sessions.pending()
    (found,) = sessions.supervisor("approvals", "--json").json
    assert (found["tool"], found["arguments"], found["agent"]) == (
        "Bash",
        {"command": LIST["input"]["command"]},
        "claude-code",
    )
    sessions.approve(found["id"], "--edit", '{"command": "ls"}')
    edited = {"command": "ls", "description": "List files"}
    assert claude.answer() == {"behavior": "allow", "updatedInput": edited}


def test_rules_decide_in_place_of_a_person(sessions):
    """A pattern for Bash is a shell command: a prefix covers no second command behind it."""
    assert sessions.supervisor("rules", "allow", "Bash", "git status *").code == 0
    assert sessions.supervisor("rules", "deny", "Write").code == 0
    claude = sessions.claude()
    status = {"command": "git status --short"}
    claude.ask({"tool_name": "Bash", "input": status})
    assert claude.answer() == {"behavior": "allow", "updatedInput": status}
    claude.ask(WRITE)
    assert claude.answer()["behavior"] == "deny"
    claude.ask({"tool_name": "Bash", "input": {"command": "git status --short; rm -rf ."}}, "both")
    sessions.pending(1)


def test_the_server_of_the_guide_starts_as_it_is_written_there(supervisor):
    (block,) = re.findall(r"```json\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    server = json.loads(block)["mcpServers"]["supervisor"]
    supervisor.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{supervisor.env['PATH']}"
    Claude(supervisor, server["command"], *server["args"]).ask(LIST)
    Sessions(supervisor).pending(1)


GARBAGE = [
    {},
    {"tool_name": "Bash"},
    {"tool_name": 7, "input": {}},
    {"tool_name": "Bash", "input": ["ls"]},
    {"tool_name": "B#1/ash:2", "input": {}},
    {"tool_name": "", "input": {}},
]


def test_a_request_that_cannot_be_asked_for_is_denied_with_the_reason(sessions):
    """Then the server goes on."""
    claude = sessions.claude()
    for garbage in GARBAGE:
        claude.ask(garbage)
        denied = claude.answer()
        assert denied["behavior"] == "deny"
        assert denied["message"]
    claude.ask(LIST)
    sessions.pending(1)


def test_a_decision_after_claude_died_is_given_to_the_same_call_once(sessions):
    """The server ends with Claude. The same call asked again there gets the decision; asked a third time, it is new."""
    claude = sessions.claude()
    claude.ask(LIST, "list")
    claude.ask(WRITE, "write")
    first, second = sessions.pending(2)
    claude.process.kill()
    sessions.approve(first)
    sessions.deny(second, "no")
    claude = sessions.claude()
    other_order = dict(reversed(LIST["input"].items()))
    claude.ask({"tool_name": "Bash", "input": other_order, "tool_use_id": "toolu_9"})
    both = [claude.answer()["behavior"]]
    claude.ask(WRITE)
    both.append(claude.answer()["behavior"])
    assert sorted(both) == ["allow", "deny"]
    claude.ask(LIST, "again")
    assert sessions.pending(1) not in ([first], [second])


def test_a_client_that_gives_up_leaves_its_approval_and_gets_the_decision_later(sessions):
    claude = sessions.claude()
    claude.ask(LIST)
    (asked,) = sessions.pending(1)
    claude.tell(give_up="a")
    assert claude.hear() == {"as": "a", "answer": None}
    sessions.approve(asked)
    claude.ask(LIST, "b")
    assert claude.answer("b")["behavior"] == "allow"
    assert len(sessions.events("ToolCallRequested")) == 1


def test_a_server_that_is_killed_loses_no_pending_request(sessions):
    """The approval was on disk before it could be shown, and its later decision counts."""
    claude = sessions.claude()
    claude.ask(LIST)
    (asked,) = sessions.pending(1)
    os.kill(sessions.server(), signal.SIGKILL)
    assert sessions.pending(1) == [asked]
    sessions.approve(asked)
    claude = sessions.claude()
    claude.ask(LIST)
    assert claude.answer()["behavior"] == "allow"
    assert [each["kind"] for each in sessions.events("ToolCallFinished")] == ["ok"]


def test_a_signal_ends_the_server_and_withdraws_nothing(sessions):
    claude = sessions.claude()
    claude.ask(LIST)
    asked = sessions.pending(1)
    os.kill(sessions.server(), signal.SIGTERM)
    sessions.wait_for_owner("s", None)
    assert sessions.pending(1) == asked
    assert sessions.events("ApprovalWithdrawn", "RunFinished") == []


def test_a_second_server_on_the_session_is_refused_in_one_line(sessions):
    sessions.claude()
    second = sessions.supervisor("mcp", "--permissions", "--session", "s")
    assert (second.code, second.out, second.err.count("\n")) == (6, "", 1)


def test_only_its_own_command_runs_the_session(sessions):
    """`resume` says which one does."""
    claude = sessions.claude()
    claude.ask(LIST)
    sessions.pending(1)
    claude.process.kill()
    refused = sessions.supervisor("resume", "s")
    assert (refused.code, "supervisor mcp --permissions" in refused.err) == (2, True)
    assert sessions.supervisor("resume").code == 0
    sessions.pending(1)


def test_a_cancelled_session_allows_nothing_and_ends_the_turn(sessions):
    claude = sessions.claude()
    claude.ask(LIST)
    sessions.pending(1)
    assert sessions.supervisor("cancel", "s").code == 0
    assert (claude.answer().items()) >= {"behavior": "deny", "interrupt": True}.items()
    claude.ask(WRITE)
    assert (claude.answer().items()) >= {"behavior": "deny", "interrupt": True}.items()


def test_the_server_of_a_session_that_was_cancelled_keeps_its_tool_and_denies(sessions):
    """Claude Code would say that the tool is missing. It reads why instead, and what to do."""
    sessions.claude().leave()
    assert sessions.supervisor("cancel", "s").code == 0
    claude = sessions.claude()
    claude.ask(LIST)
    answer = claude.answer()
    assert answer["behavior"] == "deny"
    assert all(word in answer["message"] for word in ("s was cancelled", "another --session"))
    assert claude.leave() == 0


@pytest.mark.parametrize("wrapper", [[], ["sh", "-c", '"$@"; true', "sh"]], ids=["bare", "wrapped"])
def test_the_shell_of_the_program_that_asks_decides_nothing(sessions, wrapper):
    """Also if a wrapper is between it and the server. A person's own shell decides."""
    claude = Claude(sessions.supervisor, *wrapper, *SERVE, "s")
    claude.ask(LIST)
    (asked,) = sessions.pending(1)
    for words in (["approve", asked], ["deny", asked], ["rules", "allow", "Bash", "ls"]):
        refused = claude.shell(sys.executable, "-m", "supervisor", *words)
        assert (refused["code"], refused["err"].count("\n")) == (6, 1), refused
    sessions.approve(asked)
    assert claude.answer()["behavior"] == "allow"


@pytest.mark.slow
def test_a_daemon_shows_the_card_and_leaves_the_session_to_its_server(sessions):
    """When the server has died, the daemon adopts the sessions of others, and not this one."""
    daemon = sessions.supervisor.start("serve", "--port", "0")
    claude = sessions.claude()
    claude.ask(LIST)
    (asked,) = sessions.pending(1)
    while not sessions.events("CardPosted"):
        assert daemon.poll() is None, daemon.communicate()
        time.sleep(0.1)
    claude.process.kill()
    sessions.wait_for_owner("s", None)
    sessions.supervisor.ask("x", session="other")
    sessions.wait_for_owner("other", daemon.pid)
    sessions.wait_for_owner("s", None)
    sessions.approve(asked)
    claude = sessions.claude()
    claude.ask(LIST)
    assert claude.answer()["behavior"] == "allow"


def spoken(supervisor, *lines):
    """Speak to a server by lines of bytes. Return its answers by their ids, when it has ended."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    second = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    server = preloaded.Popen(
        [*SERVE, "s"], cwd=supervisor.folder, env=supervisor.env, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL
    )
    supervisor.started.append(server)
    for line in (json.dumps(first).encode(), json.dumps(second).encode(), *lines):
        server.stdin.write(line + b"\n")
    server.stdin.flush()
    answers = [json.loads(server.stdout.readline()) for _ in range(1 + len(lines) // 2)]
    server.stdin.close()
    server.stdin = None
    assert server.wait(60) == 0
    return {each["id"]: each for each in answers}


def test_a_line_that_is_no_message_is_passed_over_and_half_a_character_is_denied(supervisor):
    """JavaScript writes half a surrogate pair as an escape. What is no JSON at all has no id to answer."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "permission", "arguments": {"tool_name": "Bash", "input": {"command": "echo \ud800"}}}
    answers = spoken(supervisor, b"{not json \xff", json.dumps({**call, "params": params}).encode())
    (block,) = answers[1]["result"]["content"]
    assert json.loads(block["text"])["behavior"] == "deny"


@pytest.mark.parametrize("words", [["--permissions"], ["--session", "s"]], ids=["no-session", "no-permissions"])
def test_a_command_line_that_does_not_say_what_to_serve_is_refused_in_one_line(supervisor, words):
    refused = supervisor("mcp", *words)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_a_terminal_is_no_client(supervisor):
    ours, theirs = pty.openpty()
    try:
        with preloaded.Popen([*SERVE, "s"], env=supervisor.env, stdin=theirs, stderr=-1, text=True) as server:
            assert "docs/how-to/claude-code.md" in server.communicate(timeout=60)[1]
            assert server.returncode == 2
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_missing_extra_is_named_with_the_line_that_installs_it(supervisor, tmp_path):
    (tmp_path / "mcp_types.py").write_text("raise ModuleNotFoundError('no module', name='mcp_types')")
    supervisor.env["PYTHONPATH"] = str(tmp_path)
    refused = supervisor.real("mcp", "--permissions", "--session", "s")
    assert (refused.code, "subagent-supervisor[mcp]" in refused.err) == (6, True)
