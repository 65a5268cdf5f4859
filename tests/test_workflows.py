"""The workflows ask for no more than they need, and name the actions that they use by digest.

And what no test can try here, a container among it, says so, and fits the program.
"""

import json
import re
import tomllib
from pathlib import Path

import pytest

from supervisor.channels.web.table import endpoints
from supervisor.cli import make_app

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
COMPOSE = (ROOT / "deploy" / "compose.yaml").read_text()
UNTRIED = [*WORKFLOWS, ROOT / "deploy" / "Dockerfile", ROOT / "deploy" / "compose.yaml"]


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


def test_ci_runs_on_each_python_and_on_macos():
    """What the package says that it supports; publishing asks for no token, which only a trusted publisher can do."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    pythons = re.search(r"python: \[(.*)\]", text)[1].replace('"', "").split(", ")
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    assert pythons[0] in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert "macos-latest" in text
    assert "run: .ci/run" in text
    assert not [file.name for file in WORKFLOWS if "secrets." in file.read_text()]


def test_a_bot_updates_actions_and_the_versions_that_ci_takes():
    text = (ROOT / ".github" / "dependabot.yml").read_text()
    updated = dict(re.findall(r"package-ecosystem: (\S+)\n +directory: (\S+)", text))
    assert updated == {"github-actions": "/", "pip": "/.ci"}
    assert 'PIP_CONSTRAINT="$PWD/.ci/constraints.txt"' in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("file", UNTRIED, ids=lambda file: file.name)
def test_a_file_that_was_not_tried_says_so(file):
    """Take a mark away when it was tried, not before."""
    assert "Not tried yet" in file.read_text()


def test_the_container_starts_a_command_of_ours_without_rights():
    """As another user than root, with its store on a volume, and with extras that there are."""
    entry, command = map(json.loads, re.findall(r"^(?:ENTRYPOINT|CMD) (.*)", DOCKERFILE, re.MULTILINE))
    assert entry[-1] == "supervisor"
    make_app().parse_args(command, exit_on_error=False, print_error=False)
    assert re.search(r"^USER supervisor$", DOCKERFILE, re.MULTILINE)
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    assert f"- store:{volume} " in COMPOSE
    extras = re.search(r"/src\[(.*?)\]", DOCKERFILE)[1].split(",")
    assert {*extras} <= {*tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]}


def test_the_health_check_of_the_container_needs_no_token():
    """It asks the port that the daemon has, for a path that is open to everyone."""
    port, path = re.search(r"HEALTHCHECK[^\n]*\n[^\n]*http://127\.0\.0\.1:(\d+)(/\w+)", DOCKERFILE).groups()
    assert [each.need for each in endpoints() if each.path == path] == ["none"]
    assert f"EXPOSE {port}\n" in DOCKERFILE
    assert f":{port}:{port}" in COMPOSE
