"""What the documents show is real: each command parses, each program compiles, each configuration is accepted.

And each page with code is executed by a test, or the table below says why it is not.
"""

import ast
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from api_page import from_code

from supervisor.channels.web.metrics import FAMILIES
from supervisor.cli import make_app
from supervisor.cli.exits import Exit
from supervisor.wiring.config import read_configuration

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^ *```(console|python|toml)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
EXECUTED_BY = {
    "README.md": "test_readme.py",
    "docs/how-to/budgets.md": "examples/test_budgets_page.py",
    "docs/how-to/claude-code.md": "cli/test_permission_server.py",
    "docs/how-to/codex.md": "agents/how_to.py",
    "docs/how-to/decide-from-another-machine.md": "client/test_opening.py",
    "docs/how-to/discord.md": "channels/chat/test_guides_of_platforms.py",
    "docs/how-to/email.md": "channels/chat/test_guide_email.py",
    "docs/how-to/embed-in-fastapi.md": "examples/test_fastapi_app.py",
    "docs/how-to/flask-django-celery.md": "examples/test_refunds.py",
    "docs/how-to/gemini-cli.md": "agents/how_to.py",
    "docs/how-to/limits.md": "examples/test_limits_page.py",
    "docs/how-to/mcp-proxy.md": "cli/test_mcp_proxy.py",
    "docs/how-to/notices.md": "channels/test_notices.py",
    "docs/how-to/opencode.md": "agents/how_to.py",
    "docs/how-to/other-languages.md": "channels/web/test_generated_clients.py",
    "docs/how-to/people.md": "core/test_reservations.py",
    "docs/how-to/previews.md": "examples/test_previews_example.py",
    "docs/how-to/kubernetes.md": "test_kubernetes.py",
    "docs/how-to/postgresql.md": "store/test_postgres.py",
    "docs/how-to/repair.md": "transcripts/test_repaired_messages.py",
    "docs/how-to/schedules.md": "runtime/test_guide_of_schedules.py",
    "docs/how-to/slack.md": "channels/chat/test_guides_of_platforms.py",
    "docs/how-to/telegram.md": "channels/chat/test_guide_telegram.py",
    "docs/how-to/test-your-agents.md": "examples/test_testing_agents.py",
    "docs/how-to/triggers.md": "channels/web/test_triggers.py",
    "docs/how-to/use-a-model.md": "agents/test_objects_in_steps.py",
    "docs/how-to/temporal-cloud.md": "test_kubernetes.py",
    "docs/how-to/when-one-machine-is-not-enough.md": "temporal/test_temporal_commands.py",
    "docs/how-to/write-a-channel.md": "channels/board_bench.py",
    "docs/tutorial": "examples/test_tutorial.py",
}
"""A page, or the folder of pages -> the module in `tests` that reads it and does what it says."""
NOT_EXECUTED = {
    "docs/how-to/browser.md": "its command is that of the tutorial",
    "docs/how-to/chat-cards.md": "needs an app at a platform",
    "docs/how-to/daemon.md": "its commands are those of the tutorial, with other options",
    "docs/how-to/decide-in-code.md": "a part of a program; examples/policy.py is a whole one",
    "docs/how-to/deploy-while-approvals-wait.md": "shows what other people's code looks like",
    "docs/how-to/langgraph.md": "needs a model; examples/langgraph_agent.py is executed",
    "docs/how-to/openai-agents.md": "needs a model; examples/openai_agents_agent.py is executed",
    "docs/how-to/pydantic-ai.md": "needs a model; examples/pydantic_ai_agent.py is executed",
    "docs/how-to/questions.md": "a part of a program; examples/form.py is a whole one",
    "docs/how-to/run-it-for-long.md": "needs systemd; cli/test_unit.py starts what the unit says",
    "docs/how-to/traces.md": "needs a collector; channels/web/test_traced_daemon.py runs a daemon with an SDK",
    "docs/reference/command-line.md": "a list; its first commands are those of the tutorial",
}
MOST_NOT_EXECUTED = 33
"""Blocks of commands, programs and settings on those pages. A change that lowers the number lowers this one, too."""
API = "docs/reference/api.md"
"""Its blocks are stubs; tests/test_api_page.py holds them."""


def pages() -> dict[str, str]:
    """Each page that shows code, by its path from the root."""
    found = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        if "made" not in path.parts and path != ROOT / "docs/index.md"  # written by a build of the site
    }
    return {name: text for name, text in found.items() if name != API and BLOCK.search(text)}


def blocks(language: str) -> list[tuple[str, str]]:
    return [(name, text) for name, page in pages().items() for kind, text in BLOCK.findall(page) if kind == language]


COMMANDS = [
    (name, shlex.split(found, comments=True)[1:])
    for name, text in blocks("console")
    for line in text.splitlines()
    if line.strip().startswith("$ ")
    for part in re.split(r" && ", line.strip().removeprefix("$ "))
    if (found := part.strip().removeprefix(".venv/bin/")).startswith("supervisor ")
]


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[" ".join(words[:2]) for _, words in COMMANDS])
def test_a_command_of_a_page_is_one(page, words):
    """With all its options and arguments."""
    make_app().parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize(("page", "text"), blocks("python"))
def test_a_program_of_a_page_compiles(page, text):
    compile(text, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


@pytest.mark.parametrize(("page", "text"), blocks("toml"))
def test_a_configuration_of_a_page_is_accepted(page, text, tmp_path):
    """Together with the people whom it names."""
    people = "".join(f'\n[people.{name}]\nroles = ["approver"]\n' for name in ("ana", "cleo") if name in text)
    file = tmp_path / "supervisor.toml"
    file.write_text(text + ("" if "[people." in text else people))
    read_configuration(file)


PAGES = [
    path for path in sorted((ROOT / "docs").rglob("*.md")) if "made" not in path.parts and path.parent.name != "docs"
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_first_who_needs_it_and_is_listed(page):
    """A reader must see at the first sentence whether to go on, and find each page from the index."""
    first = page.read_text().split("\n\n")[1]
    assert re.match(r"This (page|tutorial) is for people ", first)
    assert f"({page.relative_to(ROOT / 'docs').as_posix()})" in (ROOT / "docs" / "README.md").read_text()


LINKED = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docs/README.md", "examples/README.md"))]


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_link_to_a_file_leads_to_one(page):
    """From the page's place in the repository. The build of the site finds links within its pages."""
    for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize(("variable", "is_on"), [(None, False), ("1", True)])
def test_the_site_fetches_inventories_only_if_a_variable_asks_for_it(variable, is_on, monkeypatch):
    """Else a build without a network would fail."""
    monkeypatch.setattr(from_code, "write_pages", lambda folder: None)
    monkeypatch.delenv("SUPERVISOR_DOCS_INTERSPHINX", raising=False)
    if variable is not None:
        monkeypatch.setenv("SUPERVISOR_DOCS_INTERSPHINX", variable)
    monkeypatch.setattr(sys, "path", [*sys.path])
    settings = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    assert ("sphinx.ext.intersphinx" in settings["extensions"]) == is_on


def test_each_metric_and_each_exit_code_is_on_a_page_of_the_site():
    """And the codes are those that the page of the command line lists."""
    metrics, codes = "\n".join(from_code._metrics()), from_code.exit_codes()
    assert re.findall(r"^\| `(\w+)`", metrics, re.MULTILINE) == [each.name for each in FAMILIES]
    numbers = sorted(int(number) for each in codes for number in each.split(", "))
    assert {*map(int, Exit)} <= {*numbers}
    listed = re.findall(r"^\| (\d[\d, ]*) \|", (ROOT / "docs/reference/command-line.md").read_text(), re.MULTILINE)
    assert sorted(int(number) for each in listed for number in each.split(", ")) == numbers


def test_each_page_with_code_is_executed_or_says_why_not():
    """What is not executed is counted, so that it does not grow unseen."""
    executed = {name for name in pages() if any(name.startswith(each) for each in EXECUTED_BY)}
    assert executed | set(NOT_EXECUTED) == set(pages())
    assert not executed & set(NOT_EXECUTED)
    assert sum(len(BLOCK.findall(pages()[page])) for page in NOT_EXECUTED) <= MOST_NOT_EXECUTED
    for page, module in EXECUTED_BY.items():
        assert Path(page).name in (ROOT / "tests" / module).read_text()


def test_the_map_of_the_architecture_is_the_tree():
    """Each folder with its modules, as the last drawing of the page has them; and each is on a floor."""
    page = (ROOT / "docs/project/architecture.md").read_text()
    drawing = page.rsplit("```", 2)[1]
    shown: dict[str, list[str]] = {}
    above: list[str] = []
    for line in drawing.strip().splitlines():
        name, *rest = line.split()
        if name.endswith("/"):
            above = [*above[: (len(line) - len(line.lstrip())) // 4], name]
            shown["".join(above)] = [*rest[:1]] if rest else []
        else:
            shown["".join(above)] += [name, *rest]
    there = {}
    for folder in [ROOT / "supervisor", *(each for each in (ROOT / "supervisor").rglob("*") if each.is_dir())]:
        modules = sorted(each.stem for each in folder.glob("*.py") if not each.stem.startswith("__"))
        if modules:
            count = sum(not each.stem.startswith("__") for each in folder.rglob("*.py"))
            there[f"{folder.relative_to(ROOT)}/"] = [*([str(count)] if folder.name != "supervisor" else []), *modules]
    assert shown == there
    floors = set(re.findall(r"`(\w+)`", page.split("## Floors", 1)[1].split("have floors of their own, too")[0]))
    assert {each.split("/")[0] for each in there["supervisor/"]} | {each.split("/")[1] for each in there} - {
        ""
    } <= floors


@pytest.mark.parametrize("page", ["opencode", "codex", "gemini-cli", "claude-code", "langgraph"])
def test_a_page_of_an_agent_whose_requests_cannot_be_stopped_says_when_a_budget_is_checked(page):
    """B2: people who rely on it must know what may come on top."""
    text = " ".join((ROOT / "docs" / "how-to" / f"{page}.md").read_text().split())
    assert re.search(r"A (\[budget\]\(budgets\.md\)|budget) is checked before each (turn|permission|segment)", text)
