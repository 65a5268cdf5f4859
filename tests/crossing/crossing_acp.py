"""The agents of the recorded store `acp`, which follow a script (tests/agents/fake_agent.py). No name here may change.

The second prompt is that of a process which goes on after a death: the agent asks for the same call again.
"""

import json
import sys
from pathlib import Path
from typing import Any

from supervisor import AgentSpec
from supervisor.agents.acp import acp_agent

FAKE = Path(__file__).parents[1] / "agents" / "fake_agent.py"
HOME = "FAKE_AGENT_HOME"
"""The variable of the folder of its sessions and effects."""


def _declare(name: str, given: Any) -> AgentSpec[[str], str]:
    asks = {"do": "ask", "id": "c1", "title": "run rm x", "kind": "execute", "input": given, "effect": name}
    turn = [asks, {"do": "say", "text": "done"}]
    return acp_agent(name, [sys.executable, "-S", str(FAKE), json.dumps({"turns": [turn, turn]})])


acp_raw = _declare("acp_raw", {"command": "rm x"})
acp_bare = _declare("acp_bare", None)
"""Its requests have no raw input: its decisions cannot be told to belong to the same call."""
AGENTS = {"raw": acp_raw, "bare": acp_bare}
