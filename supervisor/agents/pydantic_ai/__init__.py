"""Pydantic AI: an agent of its own is an agent of ours. Extra: pydantic-ai."""

from supervisor.agents.pydantic_ai.agent import pydantic_agent, supervisor_tool

__all__ = ["pydantic_agent", "supervisor_tool"]
