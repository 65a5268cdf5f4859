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


def test_links_to_other_sites_are_checked_by_a_schedule_alone():
    """Another site that is down stops no change of ours."""
    checking = [file for file in WORKFLOWS if "linkcheck" in file.read_text()]
    assert [file.name for file in checking] == ["links.yml"]
    assert re.search(r"^on:\n  schedule: .*\n  workflow_dispatch:\n\w", checking[0].read_text(), re.MULTILINE)
    assert "linkcheck" not in (WORKFLOWS[0].parents[2] / ".ci" / "run").read_text()


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_may_only_read_and_only_publishing_may_identify_itself(file):
    text = file.read_text()
    assert "\npermissions:\n  contents: read\n" in text
    assert re.findall(r"^ +([\w-]+): write", text, re.MULTILINE) == (["id-token"] if file.name == "publish.yml" else [])
