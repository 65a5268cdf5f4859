"""LangGraph: a compiled graph is an agent of ours. Extra: langgraph.

    planner = langgraph_agent("planner", graph)        # or a function that opens a graph with its checkpointer

    segment -> the graph waits: approvals, questions, sub-agents -> segment -> ... -> its output

Nodes run arbitrary code, and the graph's checkpointer remembers what they did. So what runs between two interrupts is
one call of ours, a segment. The journal says which segments ran and what was answered; the thread, in the checkpointer,
says how far the graph is.

Rules
- Rules and approvals cover the graph's interrupts, and not what its nodes do. A segment is the call `AGENT.segment`.
- The events of the graph's stream are heartbeats. A segment that is silent stalls, as a model call does.
- Before a segment resumes, it reads its thread. It gives answers only to interrupts that wait: LangGraph would give the
  answer of an interrupt that has one to the next interrupt of the same node.
- After a segment that an earlier attempt left without an end, its nodes may have acted. If the thread shows that it
  had come to its end, the run goes on from there. Otherwise a person is asked, unless the graph is idempotent.
- A session has one thread, whose id is the session's; a later turn sends only its message to it (threads.py). The place
  is journaled: a retry goes on with the thread of the run before it, and a fork of a run in progress is refused, since
  no two sessions can have one thread.
- All interrupts of a segment are answered before the next one begins.
"""

import re
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib.metadata import version
from typing import Any, Final

from supervisor.agents.framework import check_deps, framework_agent
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.tool_schema import tool_schema
from supervisor.core.errors import InvalidInput
from supervisor.core.limits import checked_limit
from supervisor.seam.context import Context

_NEEDED: Final = (1, 2, 20)  # the first in which each interrupt of a node has an id of its own
try:
    from langchain_core.tools import BaseTool, StructuredTool
    from langgraph.pregel import Pregel
    from langgraph.types import interrupt

    from supervisor.agents.langgraph.checks import Graph, check, check_saver
    from supervisor.agents.langgraph.guard import GraphFailed
    from supervisor.agents.langgraph.questions import SUB_AGENT, sub_agents
    from supervisor.agents.langgraph.run import GraphRun, Settings

    if tuple(map(int, re.findall(r"[0-9]+", version("langgraph"))[:3])) < _NEEDED:
        raise ImportError(f"{version('langgraph')} is installed")
except ImportError as error:
    raise ImportError(
        f"supervisor.agents.langgraph needs langgraph 1.2.20 or later ({error}): "
        "pip install 'subagent-supervisor[langgraph]'"
    ) from error

__all__ = ["GraphFailed", "langgraph_agent", "supervisor_tool"]


def langgraph_agent(
    name: str,
    graph: Graph | Callable[[], AbstractAsyncContextManager[Graph]],
    /,
    *,
    input: Callable[[str], Any] | None = None,  # noqa: A002 # LangGraph's word
    output: Callable[[Any], Any] | None = None,
    deps: Callable[[Context], Any] | None = None,
    segment_timeout: float = 3600.0,
    idempotent: bool = False,
    stream: bool = True,
    limit: str | None = None,
    **options: Any,
) -> AgentSpec[[str], Any]:
    """Make an agent that takes a text and returns the output of a LangGraph graph as plain JSON.

    `name`: its name, and that of the variable that holds it: `planner = langgraph_agent("planner", ...)`.
    `graph`: a graph compiled with a checkpointer; or a function that returns an async context manager of one, for a
    checkpointer that must be opened and closed. It is opened in each attempt.
    `input`: makes the graph's input of the text. Default: a message, for a graph with `messages`. It goes to the
    state that the turns before have left. `output`: makes the result of the graph's final values. Default: its
    structured response, else the text of its last message, else the values.
    `deps`: makes the graph's runtime context. It is called in each attempt, since a resumed run has no other.
    `segment_timeout`: the deadline in seconds of what runs between two interrupts.
    `idempotent`: whether nodes may run again after a crash without asking a person.
    `stream`: whether people see what chat models write, and each token is a heartbeat, as the end of a node is.
    `limit`: the name of a Limit. What runs between two interrupts holds a place of it, as a tool does (L1): none while
    a person is asked. A model's answer 429, 503 or 529 closes it, once that has left the graph: the models keep their
    own retries, which `max_retries=0` turns off. With `idempotent=True` the graph then goes on with the nodes that had
    not ended; else the run fails.
    `options`: as in `@agent`.
    Raises InvalidInput for a graph that cannot be resumed, or for one without `messages` and `input`.
    """
    if isinstance(graph, Pregel):
        check(name, graph, has_input=input is not None, idempotent=idempotent)
    elif not callable(graph):
        raise InvalidInput(f"langgraph_agent {name} takes a compiled graph or a function that opens one, not {graph!r}")
    check_deps(deps, f"langgraph_agent {name}")
    bound = checked_limit(limit, f"langgraph_agent {name}")
    settings = Settings(name, input, output, deps, segment_timeout, idempotent, stream, bound)

    async def run(ctx: Context, text: str) -> Any:
        async with nullcontext(graph) if isinstance(graph, Pregel) else graph() as opened:
            check(name, opened, has_input=input is not None, idempotent=idempotent)
            await check_saver(name, opened.checkpointer, is_durable=ctx.is_durable)
            return await GraphRun(ctx, settings, opened, text).converse()

    module = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001 # where a resumed run finds the agent
    made = framework_agent(name, run, module, "", options)
    made.asks_all_it_awaits = False  # nodes are code that awaits what it likes
    return made


def supervisor_tool(agent: AgentSpec[..., Any], /) -> BaseTool:
    """Make a tool with which the model of a graph calls a sub-agent. Rules apply to it by the agent's name.

    The tool interrupts the graph, and the sub-agent runs between two segments.
    """
    schema = tool_schema(agent)
    key = f"{agent.fn.__module__}:{agent.name}"
    sub_agents[key] = agent

    async def call(**arguments: Any) -> Any:
        return interrupt({SUB_AGENT: key, "arguments": arguments})

    return StructuredTool(
        name=schema["name"], description=schema["description"], args_schema=schema["parameters"], coroutine=call
    )
