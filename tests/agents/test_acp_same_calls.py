"""Which requests are for the same call: a decision that was made while no agent lived answers only such a one."""

import pytest

from supervisor.agents.acp.permissions import is_same, read


def request(**told):
    """Return a request with these fields of a tool call."""
    return read("coder", {"toolCallId": "c1", "kind": "execute", **told}, [])


def codex(call, command):
    """Return the raw input of a command as Codex gives it."""
    of_request = {"call_id": call, "turn_id": f"turn of {call}", "started_at_ms": len(call)}
    return {**of_request, "command": ["/bin/bash", "-lc", command], "cwd": "/srv"}


@pytest.mark.parametrize(
    ("before", "now", "are_same"),
    [
        ({"command": "ls"}, {"command": "ls"}, True),
        ({"command": "ls"}, {"command": "rm"}, False),
        (codex("call_1", "ls"), codex("call_20", "ls"), True),
        (codex("call_1", "ls"), codex("call_1", "rm"), False),
        ({"command": "ls", "description": "look"}, {"command": "ls", "description": "list"}, True),
        ({"path": "a", "description": "look"}, {"path": "a", "description": "list"}, False),
        ({}, {}, False),
        (None, None, False),
    ],
)
def test_the_same_call_has_the_same_raw_input_without_what_names_the_request(before, now, are_same):
    """OpenCode asks for the reading of any file with an empty raw input: such requests are never the same."""
    earlier = request(rawInput=before)
    assert is_same(earlier.tool, earlier.given, request(rawInput=now)) is are_same
