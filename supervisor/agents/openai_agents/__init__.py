"""OpenAI Agents SDK: an agent of its own is an agent of ours. Extra: openai-agents."""

from supervisor.agents.openai_agents.agent import openai_agent, supervisor_tool

__all__ = ["openai_agent", "supervisor_tool"]
