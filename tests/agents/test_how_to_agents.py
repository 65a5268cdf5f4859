"""What the how-to pages of coding agents show works as it is shown. test_real_agents.py runs their commands."""

import json

import pytest
from how_to import PAGES

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.wiring.config import read_configuration

each_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


@each_page
def test_the_configuration_that_a_page_shows_starts_its_command(page, tmp_path):
    """It is the command that the page runs by hand."""
    (shown,) = page.blocks("toml")
    file = tmp_path / "supervisor.toml"
    file.write_text(shown)
    assert list(read_configuration(file).agents["coder"].acp) == page.command


@each_page
def test_the_program_that_a_page_shows_declares_the_same_agent(page):
    (shown,) = page.blocks("python")
    names: dict[str, object] = {"__name__": "shown"}
    exec(compile(shown, "page", "exec"), names)
    assert isinstance(names["coder"], AgentSpec)
    assert all(json.dumps(word) in shown for word in page.command)
