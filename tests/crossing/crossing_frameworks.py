"""The agents of the recorded store `frameworks`, with scripted models and a tool that asks. No name here may change.

Each deletes one file, and says what its tool has returned.
"""

import json
from typing import Any

import agents
import agents.testing
import crossing_agents
from pydantic_ai import Agent as PydanticAgent, Tool as PydanticTool
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from supervisor.agents import openai_agents, pydantic_ai

PATH = {"path": "a"}


async def delete(path: str) -> str:
    """Delete a file."""
    crossing_agents.effects.append(f"delete {path}")
    return f"deleted {path}"


# -- Pydantic AI


async def _stream(messages: Any, info: Any) -> Any:
    results = [p.content for each in messages for p in each.parts if isinstance(p, ToolReturnPart)]
    if results:
        yield f"done: {results[-1]}"
    else:
        yield {0: DeltaToolCall(name="delete", json_args=json.dumps(PATH), tool_call_id="c1")}


pydantic_cleaner = pydantic_ai.pydantic_agent(
    "pydantic_cleaner",
    PydanticAgent(FunctionModel(stream_function=_stream), tools=[PydanticTool(delete, requires_approval=True)]),
)


# -- OpenAI Agents


async def _respond(call: Any) -> Any:
    items = call.input if isinstance(call.input, list) else []
    results = [item["output"] for item in items if item.get("type") == "function_call_output"]
    if results:
        return [agents.testing.assistant_message(f"done: {results[-1]}")]
    return [agents.testing.function_call("delete", PATH, call_id="c1")]


openai_cleaner = openai_agents.openai_agent(
    "openai_cleaner",
    agents.Agent(
        "openai_cleaner",
        model=agents.testing.ScriptedModel([agents.testing.ModelStep.respond(_respond)] * 50),
        tools=[agents.function_tool(delete, needs_approval=True)],
    ),
    run_config=agents.RunConfig(tracing_disabled=True),
)

AGENTS = {"pydantic": pydantic_cleaner, "openai": openai_cleaner}
"""By the beginnings of their sessions' names."""
