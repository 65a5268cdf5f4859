"""Commands on a server: what is done next to a store is done from elsewhere with a URL and a token."""

import getpass
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import preloaded
import pytest
from calling_agents import __file__ as AGENTS_FILE  # noqa: N812 # a path
from on_terminal import PtyProgram

SHORT = "[a-z2-7]{8}"
"""The short id of an approval."""
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "decide-from-another-machine.md"
TOKEN = "a-token-that-is-long-enough-for-tests"
DAEMON_AGENTS = '''
import sys, anyio
from supervisor import Context, agent, tool

@tool
async def note(text: str) -> str:
    return f"noted {text}"

@agent
async def noting(ctx: Context, text: str) -> str:
    """Notes a text; a person is asked."""
    return (await ctx.call(note, text)).content

@tool(policy="allow")
async def command(words: list[str]) -> int:
    said = [sys.executable, "-m", "supervisor", *words]
    return (await anyio.run_process(said, check=False)).returncode

@agent
async def commanding(ctx: Context, words: list[str]) -> int | None:
    return (await ctx.call(command, words)).value

@agent
async def doubling(ctx: Context, number: int) -> int:
    return number * 2

@agent
async def sleeping(ctx: Context) -> None:
    await ctx.sleep(3600)

@agent
async def failing(ctx: Context) -> str:
    raise ValueError("not today")
'''


class Server:
    """A daemon in a folder that its clients do not see."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.port = 0
        self.url = ""
        self.process: subprocess.Popen | None = None
        (folder / "agents.py").write_text(DAEMON_AGENTS)

    def start(self, **env: str) -> None:
        log = self.folder / f"log-{time.monotonic_ns()}"
        ours = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")}
        with log.open("wb") as out:
            self.process = preloaded.Popen(
                [sys.executable, "-m", "supervisor", "serve", "agents.py", "--port", str(self.port), "--store", "s.db"],
                cwd=self.folder,
                env={**ours, "SUPERVISOR_TOKEN": TOKEN, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=out,
            )
        end = time.monotonic() + 60
        while not (found := re.search(r"http://\S+:(\d+)", log.read_text())):
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        self.url, self.port = found[0], int(found[1])

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(60)


@pytest.fixture
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("server"))
    made.start()
    yield made
    made.kill()


@pytest.fixture
def laptop(supervisor, server):
    """A command line that knows the server, by another name, and a token file, and no store."""
    token = supervisor.folder / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    del supervisor.env["SUPERVISOR_STORE"]
    supervisor.env |= {
        "SUPERVISOR_SERVER": server.url.replace("127.0.0.1", "localhost"),
        "SUPERVISOR_TOKEN_FILE": str(token),
        "XDG_STATE_HOME": str(supervisor.folder / "state"),
    }
    return supervisor


def waiting(laptop) -> str:
    """Start an agent that asks, and return the id of its approval."""
    answer = laptop("start", "noting", "bread", "--session", "mine")
    assert answer.code == 3, answer
    (asked,) = laptop("approvals", "--json").json
    return asked["id"]


def test_a_person_decides_from_a_laptop_what_a_server_asks(laptop, server):
    """start, approvals, approve, show, sessions, audit, export, top; the daemon is killed and started in between."""
    asked = waiting(laptop)
    server.kill()
    server.start()
    approved = laptop("approve", asked)
    assert (approved.code, "approved" in approved.out) == (0, True), approved
    again = laptop("start", "noting", "bread", "--session", "mine")
    assert (again.code, again.out) == (0, "noted bread\n"), again
    assert laptop("show", "mine", "--json").json["outcome"]["value"] == "noted bread"
    assert [each["id"] for each in laptop("sessions", "--json").json] == ["mine"]
    assert {each["event"] for each in laptop("audit", "--json").json} >= {"ToolCallRequested", "ApprovalDecided"}
    assert len(laptop("export", "mine").out.splitlines()) > 5
    assert laptop("top", "--json").json["store"] == laptop.env["SUPERVISOR_SERVER"]
    assert laptop("deny", asked).code == 4
    assert not (laptop.folder / "state").exists()


def test_the_guide_shows_what_a_person_on_a_laptop_sees(laptop, server):
    """docs/how-to/decide-from-another-machine.md: the commands are given here, and say the same."""
    (guide,) = re.findall(r"^```text\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    asked = seen = ""
    for line in re.findall(r"^(?:\$ supervisor|# the daemon) .*", guide, re.MULTILINE):
        seen += f"{line}\n"
        match line.split():
            case ["#", *_, "killed"]:
                server.kill()
            case ["#", *_, "started"]:
                server.start()
            case [_, _, *words]:
                answer = laptop(*(asked if re.fullmatch(SHORT, word) else word for word in words))
                seen += answer.out + answer.err
                asked, *_ = *re.findall(rf"^{SHORT}(?=  since)", answer.out, re.MULTILINE), asked
                while words[0] == "approve" and laptop("show", "mine", "--json").json["outcome"] is None:
                    time.sleep(0.1)
    assert without_chance(seen) == without_chance(guide)


def without_chance(text: str) -> list[str]:
    """Return the lines without ids, instants, places and names, and without those that come at any time: those of a
    card, and the one that says that a resumed run waits again."""
    for found, instead in (
        (r"[a-z2-7]{42}", "ID"),
        (rf"^{SHORT}(?=  since)|(?<=approve ){SHORT}$", "ID"),
        (r"\d\d:\d\d:\d\d( +\d+)?", "TIME"),
        (r"\d+ s ago", "AGO"),
        (r"\w+day, \d{4}-\d\d-\d\d", "DAY"),
        (r"(where +|in )/\S+", r"\1FOLDER"),
        (r"process \d+ on \S+", "PROCESS"),
        (r"localhost:\d+", "SERVER"),
        (rf"\b(ana|{getpass.getuser()})\b", "USER"),
    ):
        text = re.sub(found, instead, text, flags=re.MULTILINE)
    chance = ("", "DAY", "  TIME  is where it was before")
    return [line for line in text.splitlines() if line not in chance and " in web " not in line]


def test_the_screen_says_that_the_server_is_silent_and_one_line_says_why_it_ends(laptop, server):
    """The daemon is killed, and comes back with another token."""
    waiting(laptop)
    screen = PtyProgram(["-m", "supervisor", "top"], is_whole=True, **laptop.env)
    screen.see("waiting for you")
    server.kill()
    screen.see("does not answer")
    server.start(SUPERVISOR_TOKEN="another-token-that-is-long-enough")
    assert screen.end()[0] == 6
    assert "Traceback" not in screen.text
    screen.close()


def test_a_start_that_loses_its_server_names_the_session(laptop, server):
    """The run goes on there, and its id was made here."""
    following = laptop.start("start", "sleeping")
    while not (found := laptop("sessions", "--json").json):
        assert following.poll() is None
    server.kill()
    server.start(SUPERVISOR_TOKEN="another-token-that-is-long-enough")
    out, err = following.communicate(timeout=60)
    assert (following.returncode, out, "Traceback" in err) == (6, "", False), err
    assert f"supervisor show {found[0]['id']}" in err


def test_agents_are_listed_and_their_results_printed(laptop):
    """The exit codes are those of `run`."""
    assert [each["name"] for each in laptop("start", "--json").json] == [
        "commanding",
        "doubling",
        "failing",
        "noting",
        "sleeping",
    ]
    assert "Notes a text" in laptop("start").out
    done = laptop("start", "doubling", "21")
    assert (done.code, done.out) == (0, "42\n")
    assert laptop("start", "failing").code == 1
    assert laptop("start", "nothing").code == 2
    assert laptop("start", "doubling", "many").code == 2
    detached = laptop("start", "doubling", "4", "--session", "later", "--detach")
    assert (detached.code, detached.out) == (0, "later\n")


def test_a_start_asks_for_the_input_at_a_terminal(laptop):
    """What does not fit is asked again. A script never waits for a person, and words and a form exclude each other."""
    program = PtyProgram(["-m", "supervisor", "start", "doubling", "--form"], **laptop.env)
    for line in ("many", "21"):
        program.see("whole number")
        program.press(f"{line}\n")
    assert program.end() == (0, b"42\n")
    program.close()
    assert [laptop("start", "doubling", *more, "--form").code for more in ((), ("21",))] == [2, 2]


def test_rules_messages_and_cancels_reach_the_server(laptop):
    """As the person of the token."""
    rule = laptop("rules", "allow", "note", '{"text": "bread"}', "--json").json
    assert [each["id"] for each in laptop("rules", "--json").json] == [rule["id"]]
    assert laptop("start", "noting", "bread").out == "noted bread\n"
    assert laptop("rules", "revoke", rule["id"]).code == 0
    waiting(laptop)
    assert laptop("send", "mine", "hello", "--json").json["kind"] == "kept"
    assert laptop("cancel", "mine").code == 0
    assert laptop("retry", "mine").code == 2
    assert laptop("fork", "mine", "--before", "3", "--session", "copy").code == 3
    assert laptop("resume", "copy").code == 3
    assert laptop("jobs", "--json").json == []


@pytest.mark.parametrize(
    "command",
    [
        ["run", "x.py:y"],
        ["demo"],
        ["serve"],
        ["prune", "--older-than", "30d"],
        ["check-replay"],
        ["token", "list"],
        ["import", "x.jsonl"],
        ["init"],
        ["check"],
        ["repair"],
        ["mcp", "--permissions", "--session", "x"],
        ["discord", "register"],
        ["worker"],
        ["rescue", "x"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_needs_the_store_at_hand_says_so(supervisor, command):
    """Exit code 2, and one line, before it connects to anything. Its help offers no server."""
    assert "--server" not in supervisor(command[0], "--help").out
    answer = supervisor(*command, "--server", "http://127.0.0.1:1")
    assert (answer.code, answer.out, len(answer.err.splitlines())) == (2, "", 1), answer
    assert "store" in answer.err


@pytest.mark.parametrize("command", [["run", f"{AGENTS_FILE}:calling"], ["demo"]], ids=lambda command: command[0])
def test_a_server_in_the_environment_is_not_taken_for_a_store(laptop, command):
    """What a person means for the server does not run here by mistake."""
    assert laptop(*command).code == 2
    assert not (laptop.folder / "state").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--store", "s.db", "--server", "http://127.0.0.1:1"],
        ["--by", "ana"],
        ["--server", "http://supervisor.example"],
        ["--server", "http://hidden@127.0.0.1:1"],
        ["--server", "nonsense"],
        ["--token-file", "/nowhere/token"],
        ["--store", "s.db", "--allow-http"],
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together_are_a_misuse(laptop, options):
    """Exit code 2; nothing is sent."""
    answer = laptop("approve", "x" * 42, *options)
    assert (answer.code, len(answer.err.splitlines())) == (2, 1), answer
    assert "hidden" not in answer.err


@pytest.mark.parametrize("command", [["show"], ["cancel"], ["approve"], ["rules", "revoke"]], ids=" ".join)
def test_an_unknown_id_leads_to_the_list_of_its_own_place(laptop, server, command):
    """The command that is offered has the options with which this one was given."""
    answer = laptop(*command, "nowhere", "--server", server.url)
    assert (answer.code, answer.err.rstrip().endswith(f"s --server {server.url}")) == (5, True), answer


def test_a_store_that_is_named_goes_before_the_server_of_the_environment(laptop):
    """--store wins."""
    assert laptop("sessions", "--json", "--store", str(laptop.folder / "none.db")).json == []


def test_a_server_that_is_not_there_is_exit_code_8(laptop, server):
    """One line, without the token."""
    server.kill()
    answer = laptop("approvals")
    assert (answer.code, len(answer.err.splitlines())) == (8, 1), answer
    assert TOKEN not in answer.err


def test_a_token_that_is_unknown_is_exit_code_6(laptop):
    """From the variable, where no file is named; the variable with a file's name goes first."""
    del laptop.env["SUPERVISOR_TOKEN_FILE"]
    assert laptop("approvals").code == 2
    assert laptop("approvals", SUPERVISOR_TOKEN=TOKEN).code == 0
    answer = laptop("approvals", SUPERVISOR_TOKEN="a-token-of-somebody-else")
    assert (answer.code, len(answer.err.splitlines())) == (6, 1), answer
    assert "a-token-of-somebody-else" not in answer.err


@pytest.mark.parametrize(
    "command",
    [
        ["approve", "x" * 42],
        ["rules", "deny", "note"],
        ["start", "doubling", "1"],
        ["send", "mine", "yes"],
        ["retry", "x"],
    ],
    ids=lambda command: command[0],
)
def test_a_supervised_call_does_none_of_this_for_a_person(laptop, command):
    """A4: the marker is in its environment."""
    answer = laptop(*command, SUPERVISOR_CALL="1")
    assert answer.code == 6, answer
    assert laptop("sessions", "--json").json == []


def test_a_process_that_the_daemon_started_decides_nothing_there(laptop, server):
    """A4: even with a token and without the marker, since an owner of the store's trees is above it. Nor does it make
    rules or start agents."""
    asked = waiting(laptop)
    there = ["--server", server.url, "--token-file", laptop.env["SUPERVISOR_TOKEN_FILE"]]
    for words in (["approve", asked], ["rules", "deny", "note"], ["start", "doubling", "1"]):
        assert laptop("start", "commanding", json.dumps([*words, *there])).out == "6\n"
    assert [each["id"] for each in laptop("approvals", "--json").json] == [asked]
    assert laptop("rules", "--json").json == []
    assert {each["agent"] for each in laptop("sessions", "--json").json} == {"noting", "commanding"}
