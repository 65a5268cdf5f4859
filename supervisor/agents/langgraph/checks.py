"""Which graphs of LangGraph are refused: those that a later attempt could not resume."""

from typing import Any, TypeAlias

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel

from supervisor.core.errors import InvalidInput

Graph: TypeAlias = Pregel[Any, Any, Any, Any]


def check(name: str, graph: Graph, *, has_input: bool, idempotent: bool) -> None:
    """Raise InvalidInput for a graph that a later attempt could not resume."""
    if not isinstance(graph, Pregel):
        raise InvalidInput(f"langgraph_agent {name}: {graph!r} is no compiled graph; yield builder.compile(...)")
    if not isinstance(graph.checkpointer, BaseCheckpointSaver):
        raise InvalidInput(
            f"langgraph_agent {name}: the graph has no checkpointer, so nothing remembers what its nodes did; compile "
            "it with one: builder.compile(checkpointer=...)"
        )
    if not has_input and "messages" not in graph.channels:
        raise InvalidInput(
            f"langgraph_agent {name}: the graph has no `messages`; say what its input is: input=lambda text: {{...}}"
        )
    if idempotent and (graph.interrupt_before_nodes or graph.interrupt_after_nodes):
        raise InvalidInput(
            f"langgraph_agent {name}: after a crash an idempotent graph would pass its breakpoints unasked; use "
            "interrupt() in the nodes in place of interrupt_before and interrupt_after"
        )


async def check_saver(name: str, saver: Any, *, is_durable: bool) -> None:
    """Raise InvalidInput for a checkpointer that dies with the process, if our store does not."""
    if is_durable and (isinstance(saver, InMemorySaver) or await _is_sqlite_in_memory(saver)):
        raise InvalidInput(
            f"langgraph_agent {name}: the graph's {type(saver).__name__} dies with this process, and the store of the "
            "session does not; compile the graph with a checkpointer on disk, such as AsyncSqliteSaver"
        )


async def _is_sqlite_in_memory(saver: Any) -> bool:
    if type(saver).__module__ != "langgraph.checkpoint.sqlite.aio":
        return False
    async with saver.conn.execute("PRAGMA database_list") as rows:
        return not any([path async for _, name, path in rows if name == "main"])
