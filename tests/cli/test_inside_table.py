"""Which commands of the command line a supervised call may give (A4): one table, with a row for each command.

    done      the command does its work         refused   exit code 6, and nothing has changed

A row such as `done!refused` is known to be wrong: it gives the first today, and must give the second. Whoever mends it
writes the second alone. Keys of `top` are no row: they move and leave, and command nothing.
"""

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from api_page import lines_of_commands

from supervisor.cli import main
from supervisor.core.marker import CALL_MARKER

AGENTS = str(Path(__file__).with_name("command_agents.py"))
TABLE = """
approve        refused         approve {asked}
deny           refused         deny {asked}
answer         refused         answer {asked} tea
send           refused         send asked hello
cancel         refused         cancel asked
budget         refused         budget asked usd=1
retry          refused         retry failed
fork           refused         fork asked --before 3
rules allow    refused         rules allow note {}
rules ask      refused         rules ask note
rules deny     refused         rules deny note
rules revoke   refused         rules revoke {rule}
schedules add  refused         schedules add s fixing x --cron 0_0_*_*_*
schedules pause   refused      schedules pause s
schedules resume  refused      schedules resume s
schedules remove  refused      schedules remove s
schedules run  refused         schedules run s
schedules      done            schedules
prune          refused         prune --older-than 0s --yes
serve          refused         serve FILE
token revoke   refused         token revoke sha256:0000000000000000000000000000000000000000000000000000000000000000
run            done            run FILE:fixing x --session new
start          refused         start fixing x
resume         refused         resume asked
import         refused         import FOLDER/other.jsonl --not-running
approvals      done            approvals
reveal         refused         approvals --reveal {asked}
ack            refused         ack
snooze         refused         snooze --until 07:00
rules          done            rules
sessions       done            sessions
show           done            show asked
usage          done            usage
top            done            top --once
jobs           done            jobs
audit          done            audit
export         done            export asked --output FOLDER/out.jsonl
check-replay   done            check-replay FILE
repair         done            repair FOLDER/other.jsonl
token          done            token
init           done            init FOLDER/new.toml
check          done            check FOLDER/supervisor.toml
"""
ELSEWHERE = {
    "demo": "as `run`",
    "worker": "it needs Temporal",
    "rescue": "it needs Temporal",
    "mcp": "it asks, and decides nothing: tests/cli/test_permission_server.py",
    "discord": "it needs Discord, and touches no store",
}
"""Commands without a row, and why."""
DANGLING = Path(__file__).parents[1] / "transcripts/corpus/claude_code/sidechain-in-the-main-file.jsonl"


def rows() -> Iterator[tuple[str, str, str, list[str]]]:
    """Give the command, what it gives today, what it must give, and its words."""
    for line in TABLE.strip().splitlines():
        command, gives, words = re.split(r" {2,}", line)
        given, _, right = gives.partition("!")
        yield command, given, right or given, words.split()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with a store: a session that asks, one that failed, a rule; and the ids of the two."""
    folder = tmp_path_factory.mktemp("inside")
    (folder / "other.jsonl").write_bytes(DANGLING.read_bytes())
    (folder / "supervisor.toml").write_text(f'[people.ana]\ntokens = ["sha256:{"0" * 64}"]\n')
    place = ["--store", str(folder / "state.db")]
    call(["run", f"{AGENTS}:fixing", "x", "--session", "asked", *place])
    call(["run", f"{AGENTS}:failing", "--session", "failed", *place])
    rule = json.loads(call(["rules", "deny", "shell", "--json", *place])[1])["id"]
    asked = json.loads(call(["approvals", "--json", *place])[1])[0]["id"]
    return folder, {"{asked}": asked, "{rule}": rule, "FILE": AGENTS}


def call(words: list[str]) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return code, out.getvalue() or err.getvalue()


@pytest.mark.parametrize(("command", "given", "right", "words"), [pytest.param(*row, id=row[0]) for row in rows()])
def test_a_supervised_call_gives_only_the_commands_of_the_table(command, given, right, words, prepared, monkeypatch):
    """The mark of a call is in the environment of all that it starts."""
    folder, ids = prepared
    words = [ids.get(word, word.replace("FILE", AGENTS).replace("FOLDER", str(folder))) for word in words]
    takes_store = command not in ("repair", "init", "check", "token")
    place = ["--store", str(folder / "state.db")]
    before = call(["audit", "--json", *place])
    monkeypatch.setenv(CALL_MARKER, "call:shell:0#1")
    code, said = call([*words, *(place if takes_store else [])])
    assert ("refused" if code == 6 else "done" if code in (0, 1, 3) else code) == given, said
    assert given == "done" or call(["audit", "--json", *place]) == before


def test_each_command_has_a_row():
    """A new command has to say whether what a call starts may give it."""
    known = {row[0] for row in rows()} | {*ELSEWHERE}
    named = {line.split("supervisor ")[1] for line in lines_of_commands()}
    commands = {" ".join(word for word in line.split(" ") if word.islower() and word[0].isalpha()) for line in named}
    assert {command.strip() for command in commands} <= known | {"token revoke"}
