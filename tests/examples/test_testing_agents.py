"""What the package offers to people who test their agents: the plugin, its page and its example, in another pytest."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import anyio
import httpx
import pytest
from processes import EXAMPLES

from supervisor import Context, InvalidInput, MemoryStore, agent, open_supervisor, pytest_plugin, tool
from supervisor.events import ApprovalDecided, ToolCallFinished, ToolCallRequested
from supervisor.testing import Journal, read_journal, scripted_approver, scripted_model

ROOT = EXAMPLES.parent
PAGE = ROOT / "docs/how-to/test-your-agents.md"
PLUGIN = "supervisor.pytest_plugin"


PAID = {"pay": "approve"}


@tool
async def pay(order: str) -> str:
    return order


@agent
async def clerk(ctx: Context) -> list[str]:
    return [await ctx.ask("Which order?"), (await ctx.call(pay, "A1")).kind]


def run_pytest(folder: Path, *arguments: str):
    """Run a pytest that has no plugin but ours and anyio's."""
    given = ["-c", os.devnull, "--rootdir", folder, "-p", "anyio", "-p", PLUGIN, "-p", "no:cacheprovider", "-q"]
    ours = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    env = {**ours, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *given, *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def test_the_example_passes_in_a_pytest_with_the_plugin():
    done = run_pytest(EXAMPLES, "test_agents.py")
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout


def test_the_programs_of_the_page_pass_and_fail_if_an_agent_is_broken(tmp_path):
    """The blocks of test-your-agents.md are one file of tests."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "test_page.py").write_text("\n\n".join(blocks))
    broken = "\n\n".join(blocks).replace("(await ctx.call(pay, order)).content", "'A1 is paid'")
    (tmp_path / "test_broken.py").write_text(broken)
    done = run_pytest(tmp_path, "test_page.py", "test_broken.py")
    assert "4 failed, 12 passed" in done.stdout, done.stdout
    assert "test_page.py::" not in done.stdout
    assert "pay started 0 times, not 1; the journal: SessionCreated, " in done.stdout


def test_the_plugin_imports_nothing_until_a_fixture_is_used():
    """Of ours it needs the package, whose names are lazy."""
    code = "import sys, pytest; known = {*sys.modules}; import supervisor.pytest_plugin; print(*{*sys.modules} - known)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == {"supervisor", "supervisor.lazy", PLUGIN}


def test_the_entry_point_and_the_option_name_one_plugin():
    """Under two names pytest would refuse the second."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points == {PLUGIN: PLUGIN}


def test_each_fixture_has_the_prefix_and_a_place_on_the_page():
    """So that none takes the place of a fixture of a project."""
    kind = type(pytest_plugin.supervisor_store)
    fixtures = {name for name, found in vars(pytest_plugin).items() if isinstance(found, kind)}
    assert fixtures == set(re.findall(r"^\| `(\w+)`", PAGE.read_text(), re.MULTILINE))
    assert all(name.startswith("supervisor_") for name in fixtures)


# -- what the fixtures offer -------------------------------------------------------------------------------------------


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("script", "error"),
    [
        (PAID, "no reply to 'Which order?', only to 'pay'"),
        ({**PAID, "Which order?": 7}, "the answer must be a text, not 7"),
        ({"Which order?": "A1", "pay": "perhaps"}, "write 'approve', 'deny', or a Decision"),
    ],
)
async def test_a_script_that_does_not_fit_fails_the_test_with_one_error(script, error):
    """Instead of a test that waits, or of a group of errors."""
    async with open_supervisor(MemoryStore()) as supervisor:
        with pytest.raises((AssertionError, InvalidInput), match=re.escape(error)):
            async with scripted_approver(supervisor, script):
                await (await supervisor.start(clerk)).result()


async def give_up(run) -> None:
    with anyio.fail_after(86_400):
        await run.result()


@pytest.mark.anyio
async def test_a_function_may_let_an_approval_wait():
    """An error of the block passes as it is."""
    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(clerk)
        with pytest.raises(TimeoutError):
            async with scripted_approver(supervisor, lambda approval: None):
                await give_up(run)
        (question,) = await supervisor.find_approvals()
        assert (question.question, question.status) == ("Which order?", "pending")


@pytest.mark.anyio
async def test_an_assertion_on_a_journal_fails_where_the_journal_differs():
    """Cut after each entry, it fails until the last of what it needs is there."""
    async with open_supervisor(MemoryStore()) as supervisor:
        async with scripted_approver(supervisor, {**PAID, "Which order?": "A1"}):
            assert await (await supervisor.start(clerk, session="s")).result() == ["A1", "ok"]
        journal = await read_journal(supervisor, "s")
    cut = [Journal(journal.entries[:end]) for end in range(len(journal.entries) + 1)]
    order = (ToolCallRequested, ApprovalDecided, ToolCallFinished)
    checks = {
        "order": lambda each: each.assert_order(*order),
        "started": lambda each: each.assert_started("pay", 1),
        "results": lambda each: each.assert_results(),
    }
    held = {name: [passes(check, each) for each in cut] for name, check in checks.items()}
    asked, started, finished = (journal.names.index(f"ToolCall{word}") for word in ("Requested", "Started", "Finished"))
    assert held["order"] == [end > finished for end in range(len(cut))]
    assert held["started"] == [end > started for end in range(len(cut))]
    assert held["results"] == [not asked < end <= finished for end in range(len(cut))]
    assert not passes(lambda each: each.assert_order(*reversed(order)), journal)


def passes(check, journal) -> bool:
    try:
        check(journal)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"messages": [{"role": "user", "content": "other"}]}, "other"),
        ({"messages": [{"role": "user", "content": "hi"}], "stream": True}, "does not stream"),
        ({"messages": [{"role": "user", "content": "hi"}, {"role": "tool", "content": "1"}]}, "turns are over"),
        ({"messages": []}, "user"),
        ({}, "messages"),
    ],
)
def test_a_model_answers_400_to_what_its_script_lacks(body, reason):
    with scripted_model({"hi": [[("look", {})]]}) as model:
        reply = httpx.post(f"{model.url}/chat/completions", json=body)
        assert reply.status_code == 400
        assert reason in reply.json()["error"]["message"]
        assert model.requests[0].body == body
