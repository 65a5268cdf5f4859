"""The public face is what docs/reference/api.md says: names, signatures, commands and HTTP paths, and no others."""

import ast

import pytest
from api_page import BLOCK, MODULES, PAGE, block_of, bound_by
from from_code import public_names

BLOCKS = [match.groups() for match in BLOCK.finditer(PAGE.read_text())]
REFRESH = "write the page again: python -m tests.api_page"


@pytest.mark.parametrize("module", MODULES)
def test_the_page_names_what_a_module_offers(module):
    """Each public name once; a name that the page lacks is private."""
    shown = [ast.parse(body).body for _, kind, body in BLOCKS if kind == module]
    named = [{name for node in nodes for name in bound_by(node)} for nodes in shown]
    assert sorted(name for names in named for name in names) == public_names(module), REFRESH


@pytest.mark.parametrize(("kind", "body"), [(kind, body) for _, kind, body in BLOCKS])
def test_the_page_shows_what_the_code_says(kind, body):
    """Signatures and fields with their defaults, the commands' options, and the paths of the OpenAPI document."""
    assert body == block_of(kind, body), REFRESH


def test_the_page_has_commands_and_paths():
    """So that a block that is lost is noticed."""
    kinds = [kind for _, kind, _ in BLOCKS]
    assert {*kinds} == {*MODULES, "commands", "http"}
    assert all(len(body.splitlines()) > 15 for _, kind, body in BLOCKS if kind in ("commands", "http"))
