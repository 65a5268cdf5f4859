"""The workflows ask for no more than they need, and name the actions that they use by digest."""

import re
from pathlib import Path

import pytest

WORKFLOWS = sorted((Path(__file__).parents[1] / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_an_action_is_named_by_its_digest_and_version(file):
    """A tag can be moved to other code. The version is for people, and for the bot that updates both."""
    used = re.findall(r"uses: (\S+)(.*)", file.read_text())
    assert used
    for action, remark in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", remark), action


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_may_only_read_and_only_publishing_may_identify_itself(file):
    text = file.read_text()
    assert "\npermissions:\n  contents: read\n" in text
    assert re.findall(r"^ +([\w-]+): write", text, re.MULTILINE) == (["id-token"] if file.name == "publish.yml" else [])
