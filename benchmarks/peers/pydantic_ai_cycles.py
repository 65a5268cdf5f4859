"""Pydantic AI: a tool that requires approval; the messages are written to a synced file, read, and continued."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts):
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart("act", {"note": "x" * 200}, tool_call_id="call")])


agent = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def act(note: str) -> str:
    return note


def write(path: Path, body: bytes) -> None:
    with path.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def main(folder: Path, count: int) -> float:
    begun = time.perf_counter()
    for number in range(count):
        asked = agent.run_sync("go")
        assert isinstance(asked.output, DeferredToolRequests)
        write(folder / f"{number}.json", asked.all_messages_json())
    for number in range(count):
        path = folder / f"{number}.json"
        messages = ModelMessagesTypeAdapter.validate_json(path.read_bytes())
        results = DeferredToolResults(approvals={"call": True})
        write(folder / f"{number}.decision", b"true")
        ended = agent.run_sync(message_history=messages, deferred_tool_results=results)
        assert ended.output == "done"
        write(path, ended.all_messages_json())
    return count / (time.perf_counter() - begun)


with tempfile.TemporaryDirectory(dir=".") as folder:
    rate = main(Path(folder), int(sys.argv[1]))
    print(json.dumps({"per_second": rate, "durability": "three synced files a cycle, written by this script"}))
