"""The tree of exceptions is as its module shows it: `except` catches what is below a class, and nothing else."""

import builtins
import inspect
import re
from itertools import product

import pytest

from supervisor.core import errors

DRAWN = re.compile(r"^ {4}(?P<branch>[ |`-]*)(?P<name>[A-Z]\w+)", re.MULTILINE)


def drawn_parents():
    """Return each exception's parent, as in the module's docstring."""
    above, parents = [], {}
    for line in DRAWN.finditer(errors.__doc__):
        depth = len(line["branch"]) // 4
        parents[line["name"]] = above[depth - 1] if depth else None
        above[depth:] = [line["name"]]
    return parents


PARENTS = drawn_parents()


def chain(name):
    """Return an exception and all its parents in the docstring."""
    return [] if name is None else [name, *chain(PARENTS[name])]


def test_every_exception_is_in_the_docstring():
    """Suspended is below the tree: it is not an Exception."""
    found = {
        name for name, each in vars(errors).items() if inspect.isclass(each) and each.__module__ == errors.__name__
    }
    assert found == {*PARENTS, "Suspended"}
    assert not issubclass(errors.Suspended, Exception)


@pytest.mark.parametrize(("raised", "caught"), [*product(PARENTS, repeat=2)])
def test_an_exception_is_caught_by_its_parents_only(raised, caught):
    """Siblings do not catch each other."""
    assert issubclass(getattr(errors, raised), getattr(errors, caught)) == (caught in chain(raised))


@pytest.mark.parametrize(("above", "name"), [("ValueError", "InvalidInput"), ("LookupError", "NotFound")])
def test_two_branches_are_also_builtin_exceptions(above, name):
    """A wrong value is a ValueError, a missing thing a LookupError, and no other exception is either."""
    caught = {each for each in PARENTS if issubclass(getattr(errors, each), getattr(builtins, above))}
    assert caught == {each for each in PARENTS if name in chain(each)}
