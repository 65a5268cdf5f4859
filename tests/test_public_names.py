"""What the package offers, and what its floors are allowed to know."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_origin

import pytest

import supervisor
from supervisor.core import errors

ROOT = Path(__file__).parents[1]
CONTRACT = {
    *("agent", "tool", "shell", "open_supervisor", "Context", "ToolContext", "Terminal", "Approve", "Deny"),
    *("Run", "Outcome", "ToolResult", "RunFailed", "RunStalled", "RunCancelled", "RunAbandoned"),
    *("StepFailed", "RunStopping"),
}
"""The names that the README and the issue promise."""


@pytest.mark.parametrize("name", supervisor.__all__)
def test_a_public_name_is_there_and_says_what_it_is(name):
    """Documented where it is defined, not by what it inherits."""
    found = getattr(supervisor, name)
    assert found.__doc__ or get_origin(found) is Literal  # the words themselves say it
    assert not inspect.isclass(found) or "__doc__" in vars(found)


@pytest.mark.parametrize("name", supervisor.__all__)
def test_what_a_public_class_can_do_is_documented(name):
    """By itself, or by the seam that it implements."""
    found = getattr(supervisor, name)
    members = vars(found).items() if inspect.isclass(found) else ()
    offered = [n for n, m in members if not n.startswith("_") and (inspect.isfunction(m) or isinstance(m, property))]
    assert [member for member in offered if not inspect.getdoc(getattr(found, member))] == []


def test_all_names_are_sorted_and_given_once():
    """So that a diff shows what was added."""
    assert supervisor.__all__ == sorted({*supervisor.__all__})


def test_nothing_public_is_missing():
    """What the README promises, and every exception that a user may meet; and nothing is there by accident."""
    raised = {
        name for name, found in vars(errors).items() if inspect.isclass(found) and found.__module__ == errors.__name__
    }
    raised.remove("IllegalEvent")  # a defect of ours, not for anybody to catch
    assert CONTRACT | raised <= {*supervisor.__all__} == supervisor._MODULES.keys()


def test_a_name_is_imported_from_where_type_checkers_find_it():
    """Its import is deferred, and stands a second time in a table."""
    tree = ast.parse(Path(supervisor.__file__).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "supervisor" in node.module]
    assert {name.name: node.module for node in found for name in node.names} == supervisor._MODULES


def test_the_package_is_imported_before_what_it_offers():
    """So that a command can hear Ctrl-C while it is imported."""
    code = "import sys, supervisor; sys.exit('msgspec' in sys.modules or 'anyio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_imports_go_down_only():
    """The floors of the house, core's purity, and channels that do not know each other, as pyproject.toml says."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
