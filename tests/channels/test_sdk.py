"""What the channels of this package are built with is public, so that another author's channel can do the same."""

import ast
import importlib
from pathlib import Path

import pytest

from supervisor.channels import sdk

CHANNELS = Path(sdk.__file__).parent
OTHERS = {"web", "terminal", "chat", "wording"}
"""The first two show sessions, rules and trees, too; of the others the public names are made."""
BUILT = sorted(path.parent.name for path in CHANNELS.glob("*/__init__.py") if path.parent.name not in OTHERS)


def imports(package):
    """Iterate over (module, name) of all that a channel imports from the rest of this package."""
    nodes = (node for path in (CHANNELS / package).rglob("*.py") for node in ast.walk(ast.parse(path.read_text())))
    for node in nodes:
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        is_own = f"{module}.".startswith(f"supervisor.channels.{package}.")
        if module.partition(".")[0] == "supervisor" and not is_own:
            yield from ((module, alias.name) for alias in node.names)


@pytest.mark.parametrize("package", BUILT)
def test_a_channel_is_built_with_public_names_only(package):
    """Each is one of supervisor.channels.sdk, the module of events, or the table of our own kinds: a stranger's kind
    declares its secrets in its own settings."""
    assert {"slack", "discord", "telegram", "notices"} <= {*BUILT}
    used = {(module, name) for module, name in imports(package) if name not in ("events", "KINDS")}
    private = {
        f"{module}.{name}"
        for module, name in used
        if getattr(sdk, name, None) is not getattr(importlib.import_module(module), name)
    }
    assert not private
