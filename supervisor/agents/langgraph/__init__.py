"""LangGraph: a compiled graph is an agent of ours. Extra: langgraph."""

from supervisor.agents.langgraph.agent import GraphFailed, langgraph_agent, supervisor_tool

__all__ = ["GraphFailed", "langgraph_agent", "supervisor_tool"]
