"""Coding agents that speak ACP, the Agent Client Protocol, as sub-agents: `acp_agent`."""

from typing import TYPE_CHECKING

from supervisor.lazy import lazily

if TYPE_CHECKING:
    from supervisor.agents.acp.agent import acp_agent as acp_agent

if not TYPE_CHECKING:  # a type checker reads the imports above
    __all__, __getattr__, __dir__ = lazily(__name__, {"supervisor.agents.acp.agent": "acp_agent"})
