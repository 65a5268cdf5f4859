"""A LangGraph agent that waits for people: its model lists files, and asks you before it removes one.

pip install 'subagent-supervisor[langgraph]' langchain langchain-openai langgraph-checkpoint-sqlite
export OPENAI_API_KEY=...
supervisor run langgraph_agent.py:planner 'Remove what an editor has left here'
supervisor send SESSION 'And now the logs'
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from supervisor.agents.langgraph import langgraph_agent


@tool
async def list_files() -> str:
    """List the files of the folder."""
    return ", ".join(sorted(path.name for path in Path.cwd().iterdir()))


@tool
async def remove(name: str) -> str:
    """Remove a file of the folder."""
    (Path.cwd() / name).unlink()
    return f"removed {name}"


@asynccontextmanager
async def open_graph() -> AsyncIterator[Any]:
    """Open the checkpointer while a run is at work. Its file outlives the process, as the store of the session does."""
    async with AsyncSqliteSaver.from_conn_string(os.environ.get("THREADS", "threads.db")) as threads:
        yield create_agent(
            init_chat_model(os.environ.get("MODEL", "openai:gpt-5")),
            [list_files, remove],
            middleware=[HumanInTheLoopMiddleware({"remove": {"allowed_decisions": ["approve", "edit", "reject"]}})],
            checkpointer=threads,
        )


planner = langgraph_agent("planner", open_graph)
