"""Dependencies: an upper bound where a new major version would break us, and a lock that fits them."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "deploy" / "requirements.lock").read_text()
FOR_DEVELOPERS = {"bench", "dev", "docs"}
NUMBERED_BY_TIME = {"structlog", "cryptography"}
"""Their major version says when they were released, and nothing about what broke."""
LOCKED = ("acp", "client", "discord", "hook", "mcp", "ntfy", "slack", "telegram")


def requirements(*extras):
    found = PROJECT["dependencies"] + [line for each in extras for line in PROJECT["optional-dependencies"][each]]
    return [Requirement(line) for line in found]


def test_each_dependency_has_an_upper_bound():
    """But those whose versions are dates."""
    extras = PROJECT["optional-dependencies"].keys() - FOR_DEVELOPERS
    open_ended = {
        each.name for each in requirements(*extras) if not any(bound.operator == "<" for bound in each.specifier)
    }
    assert open_ended == NUMBERED_BY_TIME


def test_the_lock_pins_each_dependency_within_its_bounds():
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", LOCK, re.MULTILINE))
    for each in requirements(*LOCKED):
        assert each.specifier.contains(pinned[canonicalize_name(each.name)]), each


def test_the_lock_has_hashes_of_all_and_no_address():
    """Where they come from is the business of the person who installs them."""
    pins = re.findall(r"^[a-z0-9-]+==.*(?:\\\n.*)+", LOCK, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[a-z0-9-]+==", LOCK, re.MULTILINE)) > 20
    assert all("--hash=sha256:" in each for each in pins)
    assert "://" not in LOCK
    assert "index-url" not in LOCK.replace("--no-emit-index-url", "")
