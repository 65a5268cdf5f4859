"""OpenAI agents that wait for people: one hands the work to another, which asks you before it removes a file.

pip install 'subagent-supervisor[openai-agents]'
export OPENAI_API_KEY=...
supervisor run openai_agents_agent.py:helper 'Remove what an editor has left here'
supervisor send SESSION 'And now the logs'
"""

import os
from pathlib import Path

from agents import Agent, function_tool

from supervisor.agents.openai_agents import openai_agent

MODEL = os.environ.get("MODEL", "gpt-5")


@function_tool
async def list_files() -> list[str]:
    """List the files of the folder."""
    return sorted(path.name for path in Path.cwd().iterdir())


@function_tool(needs_approval=True)
async def remove(name: str) -> str:
    """Remove a file of the folder."""
    (Path.cwd() / name).unlink()
    return f"removed {name}"


cleaner = Agent("Cleaner", instructions="You tidy the folder.", tools=[list_files, remove], model=MODEL)
triage = Agent("Triage", instructions="Hand all work on files to the Cleaner.", handoffs=[cleaner], model=MODEL)

helper = openai_agent("helper", triage)
