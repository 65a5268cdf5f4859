"""What is not wrong, but not what a person expects: a rule that never matches, and files of ours within reach."""

from pathlib import Path

import pytest

from supervisor.cli import main
from supervisor.cli.configuring import check
from supervisor.system.known_tools import why_no_tool

AGENTS = """
from supervisor import Context, agent, tool
from supervisor.tools import shell

@tool(path="file")
async def note(file: str) -> str:
    return file

@agent
async def noting(ctx: Context, text: str) -> str:
    return (await ctx.call(note, text)).kind
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "agents.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["notes", "Note", "shel", "bash"])
def test_a_rule_on_a_tool_that_no_agent_has_is_accepted_with_a_warning(supervisor, folder, name):
    """It names the tool that may be meant. A rule on one that was called has none."""
    ran = supervisor("run", f"{folder / 'agents.py'}:noting", "x", "--session", "s")
    assert ran.code in (0, 3)
    answer = supervisor("rules", "deny", name)
    assert (answer.code, "note" in answer.err, "warning" in answer.err) == (0, True, True)
    assert "warning" not in supervisor("rules", "deny", "note").err


def test_a_misspelled_name_is_recognised_in_any_case():
    assert "did you mean shell?" in (why_no_tool("Shel", {"shell", "deploy"}) or "")
    assert why_no_tool("shell", {"shell"}) is why_no_tool("shell", set()) is None


def test_a_check_warns_of_rules_that_match_nothing_and_stays_valid(folder, capsys):
    """Of a tool that no agent has, and of a prefix that lost its review; not of the tools of a coding agent."""
    Path("conf").mkdir()
    file = folder / "conf" / "supervisor.toml"
    file.write_text("""
        [agents.noting]
        import = "../agents.py:noting"
        [agents.coder]
        acp = ["coder"]
        rules = [{ kind = "deny", tool = "coder.edit" }]
        [[rules]]
        kind = "allow"
        tool = "shell"
        pattern = "npm outdated *"
        [[rules]]
        kind = "deny"
        tool = "Shel"
    """)
    assert check(file) == 0
    said = capsys.readouterr().err
    assert "npm outdated" in said
    assert "did you mean shell" in said
    assert "coder.edit" not in said


@pytest.mark.parametrize("place", [".", "conf"])
def test_a_check_warns_of_files_of_ours_where_sessions_run(folder, monkeypatch, capsys, place):
    """A command that runs there can change who decides; in a folder of their own it cannot by accident."""
    for name in ("conf", "work"):
        (folder / name).mkdir()
    file = folder / place / "supervisor.toml"
    file.write_text(f"[agents.noting]\nimport = '{folder}/agents.py:noting'\n")
    monkeypatch.chdir(folder if place == "." else folder / "work")
    assert check(file) == 0
    assert ("supervisor.toml lies in" in capsys.readouterr().err) is (place == ".")


def test_a_configuration_is_named_as_for_serve(folder, capsys):
    """Alone or behind --config; two are not checked at once."""
    file = folder / "supervisor.toml"
    file.write_text("")
    for words in (["check", str(file)], ["check", "--config", str(file)]):
        assert main(words) == 0
        assert f"{file} is valid" in capsys.readouterr().out
    assert main(["check", str(file), "--config", str(file)]) == 2
    assert "two configurations" in capsys.readouterr().err
