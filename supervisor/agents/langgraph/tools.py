"""The tools of a graph: which calls cannot run, so that no person is asked about them."""

from typing import Final

from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel, ValidationError

from supervisor.agents.langgraph.checks import Graph
from supervisor.agents.langgraph.guard import Asked
from supervisor.agents.model_arguments import read_arguments

_REVIEW: Final = "HumanInTheLoopMiddleware."
"""Middleware that makes no tools of its own."""


class Tools:
    """The tools of a graph and its subgraphs, by name. `are_all`: whether the graph has no others."""

    def __init__(self, graph: Graph) -> None:
        self.named: dict[str, list[BaseTool]] = {}
        self.are_all = True
        nodes = [
            node
            for each in (graph, *dict(graph.get_subgraphs(recurse=True)).values())
            for node in getattr(each, "nodes", {}).values()
        ]
        found = [node.bound for node in nodes if isinstance(node.bound, ToolNode)]
        for node in found:
            for name, tool in node.tools_by_name.items():
                self.named.setdefault(name, []).append(tool)
            wrapper = getattr(node, "_awrap_tool_call", None) or getattr(node, "_wrap_tool_call", None)
            if wrapper is not None and not getattr(wrapper, "__qualname__", "").startswith(_REVIEW):
                self.are_all = False  # middleware may make a tool for a call
        self.are_all &= bool(found)

    def why_unfit(self, call: Asked) -> str:
        """Return why a call cannot run; "" if it can, or if that is not known."""
        tools = self.named.get(call.tool, [])
        if not tools and self.are_all:
            return f"there is no tool {call.tool!r}; the tools are: {', '.join(self.named) or 'none'}"
        schema = tools[0].tool_call_schema if len(tools) == 1 else None
        problem = read_arguments(call.tool, call.arguments, schema if isinstance(schema, dict) else None).problem
        if problem or not isinstance(schema, type) or not issubclass(schema, BaseModel):
            return problem
        try:
            schema.model_validate(dict(call.arguments))
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            return f"the arguments of tool {call.tool} do not fit: {told}"
        except Exception:  # noqa: BLE001 # a validator of the user's may raise anything, and raises it again in the call
            return ""
        return ""
