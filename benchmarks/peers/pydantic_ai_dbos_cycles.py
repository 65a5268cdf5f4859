"""Pydantic AI on its DBOS engine: a run of so many cycles, each a model request and its call of a tool.

The model does not stream: this engine makes a step of each event that a handler is given, two for each call.
"""

import asyncio
import json
import os
import sys
import tempfile
import time

from dbos import DBOS
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

COUNT = int(sys.argv[1])


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    done = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
    if done < COUNT:
        return ModelResponse(parts=[ToolCallPart("nothing", {"number": done}, tool_call_id=f"c{done}")])
    return ModelResponse(parts=[TextPart("done")])


agent = Agent(FunctionModel(model), name="measured", capabilities=[DBOSDurability()])


@agent.tool_plain
@DBOS.step()
async def nothing(number: int) -> str:
    """Do nothing."""
    return "nothing"


@DBOS.workflow()
async def work() -> str:
    return (await agent.run("go")).output


async def main() -> float:
    DBOS(config={"name": "measured", "system_database_url": "sqlite:///dbos.sqlite", "log_level": "ERROR"})
    DBOS.launch()
    begun = time.perf_counter()
    assert await work() == "done"
    seconds = (time.perf_counter() - begun) / COUNT
    workflow = (await DBOS.list_workflows_async())[0]
    steps = [step["function_name"] for step in await DBOS.list_workflow_steps_async(workflow.workflow_id)]
    assert sorted(steps) == ["measured__model.request"] * (COUNT + 1) + ["nothing"] * COUNT, steps
    DBOS.destroy()
    return seconds


with tempfile.TemporaryDirectory(dir=".") as folder:
    os.chdir(folder)
    print(json.dumps({"seconds": asyncio.run(main()), "durability": "SQLite, as DBOS sets it up"}))
    os.chdir("..")
