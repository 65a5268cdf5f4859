"""References to agents on the command line: a command that speaks ACP, and an agent that a factory made."""

import json
import shlex
import sys
from pathlib import Path

FAKE = Path(__file__).parents[1] / "agents" / "fake_agent.py"
ASK = {"do": "ask", "id": "c1", "title": "run rm x", "kind": "execute", "input": {"command": "rm x"}}


def test_a_command_runs_as_an_agent_and_goes_on_in_a_later_process(supervisor, tmp_path: Path):
    """People who write no Python run the coding agent that they have. The approved call is done once."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [[ASK, {"do": "say", "text": "fixed"}]] * 2}))
    supervisor.env["FAKE_AGENT_HOME"] = str(tmp_path)
    reference = f"acp:{shlex.join([sys.executable, str(FAKE), str(script)])}"
    begun = supervisor("run", reference, '"fix it"', "--session", "a")
    assert begun.code == 3, begun
    (asked,) = supervisor("approvals", "--json").json
    assert (asked["tool"].rpartition(".")[2], asked["arguments"]["command"], asked["command"]) == (
        "execute",
        "rm x",
        "command",
    )
    assert supervisor("approve", asked["id"]).code == 0
    ended = supervisor("resume", "a", "--json")
    assert (ended.code, ended.json["outcome"]["value"]) == (0, "fixed"), ended
    assert (tmp_path / "effects").read_text().split() == ["c1"]


def test_a_blocked_run_of_a_coding_agent_ends_resume_with_its_own_code(supervisor, tmp_path: Path):
    """R1: its configuration is missing here. Each `resume` says so and exits with 7, by its id, too."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [[ASK, {"do": "say", "text": "fixed"}]]}))
    (tmp_path / "supervisor.toml").write_text(f"""
        [server]
        port = 0
        [agents.fixer]
        acp = {json.dumps([sys.executable, str(FAKE), str(script)])}
        env = {{ FAKE_AGENT_HOME = {json.dumps(str(tmp_path))} }}
    """)
    daemon = supervisor.start("serve", "--config", "supervisor.toml")
    while not (line := daemon.stderr.readline()).startswith("Serving"):
        assert line, daemon.communicate()
    assert supervisor("start", "fixer", "fix it", "--session", "a").code == 3
    daemon.terminate()
    daemon.communicate(timeout=60)
    for words in (["resume"], ["resume", "a"], ["resume", "a", "--wait"]):
        answer = supervisor(*words)
        assert (answer.code, "is configured in" in answer.err) == (7, True), answer


def test_a_reference_without_a_command_is_bad_usage(supervisor):
    """One line, and nothing is started."""
    for reference in ("acp:", "acp:''", "acp:'opencode"):
        answer = supervisor("run", reference, '"x"')
        assert (answer.code, len(answer.err.strip().splitlines())) == (2, 1), answer
    assert not supervisor.store.exists()


def test_a_command_that_fails_is_told_in_one_line_with_what_to_do(supervisor):
    """However much its program has said last: the advice at the end is not cut off."""
    for number, (command, advice) in enumerate(
        (
            ("no-such-program", "install it, or write its path"),
            ("sh -c 'echo no licence >&2; exit 3'", "run it in a terminal"),
            ("sh -c 'printf %02000d 7 >&2; exit 3'", "run it in a terminal"),
        )
    ):
        answer = supervisor("run", f"acp:{command}", '"x"', "--session", f"s{number}")
        (line,) = [line for line in answer.err.splitlines() if f"[s{number}] failed" in line]
        assert (answer.code, advice in line, "TaskGroup" in answer.err) == (1, True, False), answer


FACTORY = """
from supervisor import Context, agent

def make(name):
    @agent(name=name)
    async def run(ctx: Context, text: str) -> str:
        return f"{name}: {await ctx.ask(text)}"
    return run

reviewer, other = make("the reviewer"), make("the other")
"""


def test_an_agent_of_a_factory_goes_on_in_a_later_process(supervisor, tmp_path: Path):
    """By the name that its file gives it, whatever the factory calls its function."""
    file = tmp_path / "factory.py"
    file.write_text(FACTORY)
    for name in ("reviewer", "other"):
        assert supervisor("run", f"{file}:{name}", "why", "--session", name).code == 3
    for asked in supervisor("approvals", "--json").json:
        assert supervisor("answer", asked["id"], "so").code == 0
    results = [supervisor("resume", name, "--json").json["outcome"]["value"] for name in ("reviewer", "other")]
    assert results == ["the reviewer: so", "the other: so"]
