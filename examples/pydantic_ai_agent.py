"""A Pydantic AI agent that waits for people: it lists the folder by itself, and asks you before it removes a file.

pip install 'subagent-supervisor[pydantic-ai]' 'pydantic-ai-slim[openai]'
export OPENAI_API_KEY=...
supervisor run pydantic_ai_agent.py:cleaner 'Remove what an editor has left here'
supervisor send SESSION 'And now the logs'
"""

import os
from pathlib import Path

from pydantic_ai import Agent

from supervisor.agents.pydantic_ai import pydantic_agent

tidy = Agent(os.environ.get("MODEL", "openai-chat:gpt-5"), instructions="You tidy the folder that you are in.")


@tidy.tool_plain
async def list_files() -> list[str]:
    """List the files of the folder."""
    return sorted(path.name for path in Path.cwd().iterdir())


@tidy.tool_plain(requires_approval=True)
async def remove(name: str) -> str:
    """Remove a file of the folder."""
    (Path.cwd() / name).unlink()
    return f"removed {name}"


cleaner = pydantic_agent("cleaner", tidy)
