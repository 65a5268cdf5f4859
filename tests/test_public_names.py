"""What the package offers, and what its floors are allowed to know."""

import ast
import importlib
import inspect
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from api_page import from_code

import supervisor
import supervisor.channels
import supervisor.tools
from supervisor.core import errors

ROOT = Path(__file__).parents[1]
LAZY = (supervisor, supervisor.channels, supervisor.tools)
"""Packages whose names are imported when they are asked for."""
PUBLIC = [(module, name) for module in LAZY for name in module.__all__]


def test_no_two_modules_of_tests_have_one_name():
    """Else pytest collects neither, and no test runs."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted({*names})


def test_a_folder_of_tests_has_the_name_of_what_it_tests():
    """It is where the package of ours is; or it tests several packages together."""
    packages = {path.parent.relative_to(ROOT / "supervisor") for path in (ROOT / "supervisor").rglob("__init__.py")}
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    others = {folder.as_posix() for folder in folders - packages}
    assert others == {"crash", "crossing", "examples", "fuzz", "goldens", "soak", "typing"}


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_a_public_name_is_there_and_says_what_it_is(module, name):
    """Documented where it is defined, not by what it inherits."""
    found = getattr(module, name)
    assert found.__doc__ or get_origin(found) is Literal  # the words themselves say it
    assert not inspect.isclass(found) or "__doc__" in vars(found)


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_the_public_methods_of_a_class_are_documented(module, name):
    """By itself, or by the seam that it implements."""
    found = getattr(module, name)
    members = vars(found).items() if inspect.isclass(found) else ()
    offered = [n for n, m in members if not n.startswith("_") and (inspect.isfunction(m) or isinstance(m, property))]
    assert [member for member in offered if not inspect.getdoc(getattr(found, member))] == []


@pytest.mark.parametrize("module", LAZY)
def test_all_names_are_sorted_and_given_once(module):
    """So that a diff shows what was added."""
    assert module.__all__ == sorted({*module.__all__})


PRIVATE = {
    "ApprovalFilter": "of stores, which a program only names",
    "Continued": "of stores, which a program only names",
    "SessionRow": "of stores, which a program only names",
    "Store": "of stores, which a program only names",
    "Field": "`interview_of` makes interviews",
    "NamedTool": "any tool is one",
    "NewJob": "only the package's own shell begins jobs",
}
"""The types in public signatures that no program needs to name, and why."""


def types_in(given):
    """Yield the types of an annotation, those of its parameters included."""
    if isinstance(given, list):
        yield from (each for part in given for each in types_in(part))
    else:
        yield get_origin(given) or given
        yield from types_in(list(get_args(given)))


def types_named_by(found):
    """Yield the types in the signatures and fields of a class, or in the signature of a function."""
    members = vars(found).items() if inspect.isclass(found) else ()
    offered = [getattr(member, "fget", member) for name, member in members if name == "__init__" or name[0] != "_"]
    for each in [found, *filter(inspect.isfunction, offered)]:
        for name, given in get_type_hints(each, localns=known_classes()).items():
            yield from types_in(given) if not name.startswith("_") else ()


@cache
def known_classes():
    """Return the classes of all modules of the package, by their names."""
    modules = [
        each for name, each in [*sys.modules.items()] if name.startswith("supervisor.") and "temporal" not in name
    ]
    return {name: each for module in modules for name, each in vars(module).items() if inspect.isclass(each)}


def test_a_public_signature_names_only_public_types():
    """So that a program under a strict type checker can write down what it gets."""
    modules = [importlib.import_module(name) for name in from_code.MODULES]
    offered = [getattr(module, name) for module in modules for name in from_code.public_names(module.__name__)]
    named = {each for one in offered if inspect.isclass(one) or inspect.isfunction(one) for each in types_named_by(one)}
    ours = {each for each in named if inspect.isclass(each) and each.__module__.startswith("supervisor")}
    assert {each.__name__ for each in ours if each not in offered} == {*PRIVATE}


def test_every_exception_that_a_user_may_meet_is_public():
    """All but a defect of the package itself, which no program can mend."""
    raised = {
        name for name, found in vars(errors).items() if inspect.isclass(found) and found.__module__ == errors.__name__
    }
    assert raised - {"IllegalEvent"} <= {*supervisor.__all__}


@pytest.mark.parametrize("module", LAZY)
def test_a_name_is_imported_from_where_type_checkers_find_it(module):
    """Its import is deferred, and stands a second time in a table."""
    tree = ast.parse(Path(module.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "supervisor.lazy"]
    tables = [ast.literal_eval(node) for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    places = {name: place for table in tables for place, names in table.items() for name in names.split()}
    assert {name.name: node.module for node in imports if node.module != "typing" for name in node.names} == places
    assert sorted(places) == module.__all__ == dir(module)


def test_the_package_is_imported_before_what_it_offers():
    """So that a command can hear Ctrl-C while it is imported."""
    code = "import sys, supervisor; sys.exit('msgspec' in sys.modules or 'anyio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_imports_go_down_only():
    """The floors of the house, core's purity, and channels that do not know each other, as pyproject.toml says."""
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
