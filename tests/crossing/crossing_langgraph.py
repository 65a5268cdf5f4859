"""The agent of the recorded store `langgraph`, with a scripted model and a tool that asks. No name here may change."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import crossing_agents
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from supervisor.agents.langgraph import langgraph_agent

threads = Path()
"""The file of its checkpoints, which the program or test chooses."""


async def delete(path: str) -> str:
    """Delete a file."""
    crossing_agents.effects.append(f"delete {path}")
    return f"deleted {path}"


class Model(BaseChatModel):
    """Deletes one file, and says what the tool has returned."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        results = [str(message.text) for message in messages if message.type == "tool"]
        call = {"name": "delete", "args": {"path": "a"}, "id": "c1"}
        answer = AIMessage(f"done: {results[-1]}") if results else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


@asynccontextmanager
async def open_graph() -> AsyncIterator[Any]:
    async with AsyncSqliteSaver.from_conn_string(str(threads)) as saver:
        yield create_agent(
            Model(),
            [StructuredTool.from_function(coroutine=delete)],
            middleware=[HumanInTheLoopMiddleware({"delete": True}, edit_notice="")],
            checkpointer=saver,
        )


langgraph_cleaner = langgraph_agent("langgraph_cleaner", open_graph)
AGENTS = {"langgraph": langgraph_cleaner}
"""By the beginning of its sessions' names."""
