"""The frameworks whose agents are ours: for each, how the suite makes its agents, tools and models.

All models follow the same scripts. A script is stateless: it sees what a real model sees, and answers. So a model that
is asked again gives the same answer, and a suite that counts requests knows which ones were asked twice.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import agents
import agents.mcp
import agents.testing
from fastmcp.client import Client
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent, Tool as McpTool
from pydantic_ai import Agent as PydanticAgent, Tool as PydanticTool
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from supervisor import AgentSpec
from supervisor.agents import langgraph, openai_agents, pydantic_ai


class Said(NamedTuple):
    """What a model sees: what people have said, and what the tools of this turn have returned."""

    texts: tuple[str, ...]
    results: tuple[str, ...]


class Wanted(NamedTuple):
    """A call that a model wants."""

    tool: str
    arguments: dict[str, Any]
    id: str


Answer = str | list[Wanted]
Script = Callable[[Said], Awaitable[Answer]]


class Framework(NamedTuple):
    """How one framework makes what the suite needs."""

    name: str
    agent: Callable[..., AgentSpec[[str], Any]]
    """`agent(name, script, tools, below=(), **options)`. `below`: agents of the same framework that are its tools."""
    tool: Callable[..., Any]
    """`tool(function, asks=False)`."""
    sub_agent: Callable[[AgentSpec[..., Any]], Any]
    """Its `supervisor_tool`."""
    mcp_agent: Callable[..., AgentSpec[[str], Any]]
    """`mcp_agent(name, script, function)`: its tool is one of an MCP server, and needs an approval."""
    cannot: Mapping[str, str] = MappingProxyType({})
    """By the name of a test: why the framework cannot do that."""


# -- Pydantic AI


def _pydantic_model(script: Script) -> FunctionModel:
    async def stream(messages: Sequence[Any], info: Any) -> Any:
        texts, results = [], []
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, UserPromptPart):
                texts.append(str(part.content))
                results.clear()
            elif isinstance(part, ToolReturnPart):
                results.append(str(part.content))
        answer = await script(Said(tuple(texts), tuple(results)))
        if isinstance(answer, str):
            yield answer
        else:
            for place, want in enumerate(answer):
                arguments = json.dumps(want.arguments)
                yield {place: DeltaToolCall(name=want.tool, json_args=arguments, tool_call_id=want.id)}

    return FunctionModel(stream_function=stream)


def _pydantic_agent(name: str, script: Script, tools: Sequence[Any] = (), **options: Any) -> AgentSpec[[str], Any]:
    return pydantic_ai.pydantic_agent(name, PydanticAgent(_pydantic_model(script), tools=tools), **options)


def _pydantic_mcp_agent(name: str, script: Script, function: Any) -> AgentSpec[[str], Any]:
    server = MCPServer("files")
    server.tool()(function)
    toolset = MCPToolset(Client(server), id="files").approval_required()
    return pydantic_ai.pydantic_agent(name, PydanticAgent(_pydantic_model(script), toolsets=[toolset]))


def _pydantic_tool(function: Any, *, asks: bool = False) -> Any:
    return PydanticTool(function, requires_approval=asks)


# -- OpenAI Agents


def _openai_model(script: Script) -> Any:
    async def respond(call: Any) -> Any:
        items = [{"role": "user", "content": call.input}] if isinstance(call.input, str) else call.input
        texts, results = [], []
        for item in items:
            if item.get("role") == "user":
                texts.append(item["content"])
                results.clear()
            elif item.get("type") == "function_call_output":
                said = item["output"]
                results.append(said if isinstance(said, str) else "".join(part["text"] for part in said))
        answer = await script(Said(tuple(texts), tuple(results)))
        if isinstance(answer, str):
            return [agents.testing.assistant_message(answer)]
        return [agents.testing.function_call(want.tool, want.arguments, call_id=want.id) for want in answer]

    return agents.testing.ScriptedModel([agents.testing.ModelStep.respond(respond)] * 50)


def _openai_agent(name: str, script: Script, tools: Sequence[Any] = (), **options: Any) -> AgentSpec[[str], Any]:
    agent = agents.Agent(name, model=_openai_model(script), tools=[*tools])
    quiet = agents.RunConfig(tracing_disabled=True)
    return openai_agents.openai_agent(name, agent, run_config=quiet, **options)


class _Server(agents.mcp.MCPServer):
    """A server in this process, of one tool."""

    name = "files"

    def __init__(self, function: Any) -> None:
        super().__init__(require_approval="always")
        self._function = function

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...
    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[McpTool]:
        schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        return [McpTool(name=self._function.__name__, input_schema=schema)]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=await self._function(**arguments))])


def _openai_mcp_agent(name: str, script: Script, function: Any) -> AgentSpec[[str], Any]:
    agent = agents.Agent(name, model=_openai_model(script), mcp_servers=[_Server(function)])
    return openai_agents.openai_agent(name, agent, run_config=agents.RunConfig(tracing_disabled=True))


def _openai_tool(function: Any, *, asks: bool = False) -> Any:
    return agents.function_tool(function, needs_approval=asks)


# -- LangGraph


class ChatModel(BaseChatModel):
    """A chat model that follows a script."""

    script: Script

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        texts, results = [], []
        for message in messages:
            if message.type == "human":
                texts.append(str(message.text))
                results.clear()
            elif message.type == "tool":
                said = str(message.text)
                results.append(said.partition(" with reason: ")[2] or said)
        answer = await self.script(Said(tuple(texts), tuple(results)))
        if isinstance(answer, str):
            message = AIMessage(answer)
        else:
            calls = [{"name": want.tool, "args": want.arguments, "id": want.id} for want in answer]
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


class _Asks(NamedTuple):
    tool: Any


def _langgraph_agent(name: str, script: Script, tools: Sequence[Any] = (), **options: Any) -> AgentSpec[[str], Any]:
    asking = {each.tool.name: True for each in tools if isinstance(each, _Asks)}
    graph = create_agent(
        ChatModel(script=script),
        [each.tool if isinstance(each, _Asks) else each for each in tools],
        middleware=[HumanInTheLoopMiddleware(asking, edit_notice="")],
        checkpointer=InMemorySaver(),
    )
    return langgraph.langgraph_agent(name, graph, **options)


def _langgraph_tool(function: Any, *, asks: bool = False) -> Any:
    tool = StructuredTool.from_function(coroutine=function)
    return _Asks(tool) if asks else tool


def _langgraph_mcp_agent(name: str, script: Script, function: Any) -> AgentSpec[[str], Any]:
    server = MCPServer("files")
    server.tool()(function)

    async def call(**arguments: Any) -> str:
        async with Client(server) as client:
            return (await client.call_tool(function.__name__, arguments)).content[0].text

    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tool = StructuredTool(name=function.__name__, description="", args_schema=schema, coroutine=call)
    return _langgraph_agent(name, script, [_Asks(tool)])


FRAMEWORKS = (
    Framework("pydantic_ai", _pydantic_agent, _pydantic_tool, pydantic_ai.supervisor_tool, _pydantic_mcp_agent),
    Framework("openai_agents", _openai_agent, _openai_tool, openai_agents.supervisor_tool, _openai_mcp_agent),
    Framework(
        "langgraph",
        _langgraph_agent,
        _langgraph_tool,
        langgraph.supervisor_tool,
        _langgraph_mcp_agent,
        cannot={
            "test_edited_arguments_must_fit_the_tool": "a request shows a schema in one mode only: see test_langgraph",
            "test_a_rule_beats_what_the_framework_says": "rules see its interrupts, and not the tools of its nodes",
            "test_the_wrapper_says_what_other_tools_do": "the wrapper sees interrupts, and not the tools of nodes",
            "test_a_model_reads_the_error_of_a_tool": "its agent fails if a tool raises",
            "test_after_a_death_at_any_append_nothing_happens_twice": "its nodes run again if a person says so",
            "test_a_failed_request_is_begun_again_by_a_restart": "a request is part of a segment",
        },
    ),
)
