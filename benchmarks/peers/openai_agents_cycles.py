"""OpenAI Agents: a tool that needs approval; the run's state is written to a synced file, read, and continued."""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agents import Agent, ModelResponse, RunConfig, Runner, RunState, Usage, function_tool, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)


class Scripted(Model):
    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002 # theirs
        items = [] if isinstance(input, str) else input
        if any(item.get("type") == "function_call_output" for item in items):
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            said: Any = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            said = ResponseFunctionToolCall(
                id="f", call_id="call", type="function_call", name="act", arguments=json.dumps({"note": "x" * 200})
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


@function_tool(needs_approval=True)
async def act(note: str) -> str:
    return note


agent: Any = Agent(name="asker", model=Scripted(), tools=[act])
settings = RunConfig(tracing_disabled=True)


def write(path: Path, body: str) -> None:
    with path.open("w") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


async def main(folder: Path, count: int) -> float:
    begun = time.perf_counter()
    for number in range(count):
        asked = await Runner.run(agent, "go", run_config=settings)
        assert asked.interruptions
        write(folder / f"{number}.json", asked.to_state().to_string())
    for number in range(count):
        path = folder / f"{number}.json"
        state = await RunState.from_string(agent, path.read_text())
        write(folder / f"{number}.decision", "true")
        for interruption in state.get_interruptions():
            state.approve(interruption)
        ended = await Runner.run(agent, state, run_config=settings)
        assert ended.final_output == "done"
        write(path, ended.to_state().to_string())
    return count / (time.perf_counter() - begun)


with tempfile.TemporaryDirectory(dir=".") as folder:
    rate = asyncio.run(main(Path(folder), int(sys.argv[1])))
    print(json.dumps({"per_second": rate, "durability": "three synced files a cycle, written by this script"}))
