"""OpenAI Agents SDK: an agent of its own is an agent of ours. Extra: openai-agents.

    helper = openai_agent("helper", Agent("Helper", tools=[...], handoffs=[...]))

The SDK's runner runs copies of the agents (`_Bridge.supervised`). Their models make steps of their requests, and their
tools calls of their calls. So does an agent that is a tool (`Agent.as_tool`): the runner that it calls is ours.

Rules
- Copies are made anew in each attempt. The agents themselves are not changed.
- A copy's tool needs no approval and has no deadline for the SDK: the call is asked about, and has the deadline.
- A guardrail is a step. A tool that the provider runs is part of the request. A tool that the SDK runs here, and that
  is no function, is refused: it would act under no rule.
- Only an agent tool runs another agent. A tool or a hook that calls the Runner itself is refused: what that agent does
  would be lost in a crash, and would be under no rule.
- RunState is not used: with it, a tool that is killed inside its call runs again.
"""

import copy
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

import anyio

from supervisor.agents.framework import (
    RAISED,
    Answers,
    Names,
    ToolRaised,
    call_sub_agent,
    calling_sub_agents,
    check_deps,
    edit_line,
    framework_agent,
    may_end_run,
    name_word,
)
from supervisor.agents.model_arguments import read_arguments
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.tool_context import ToolContext
from supervisor.core.declarations.tool_schema import tool_schema
from supervisor.core.errors import InvalidInput, Suspended
from supervisor.core.limits import checked_limit
from supervisor.core.values import Policy, ToolResult
from supervisor.seam.context import Context, Operations

try:
    from agents import (
        Agent,
        CodeInterpreterTool,
        FileSearchTool,
        FunctionTool,
        Handoff,
        HostedMCPTool,
        ImageGenerationTool,
        RunConfig,
        ToolSearchTool,
        WebSearchTool,
    )
    from agents.exceptions import ToolTimeoutError
    from agents.run import DEFAULT_MAX_TURNS, AgentRunner

    from supervisor.agents.openai_agents.failures import RAISED as RAISED_AGAIN, noting, tells, with_failures
    from supervisor.agents.openai_agents.io import Connections, Server, StepModel, step_guardrail
    from supervisor.agents.openai_agents.results import as_sdk_reads, as_text, result_of, with_line
    from supervisor.agents.openai_agents.runner import Refusing, running
    from supervisor.agents.plain_json import as_json
    from supervisor.agents.written_context import WrittenContext
except ImportError as error:
    raise ImportError(
        f"supervisor.agents.openai_agents needs openai-agents, 0.21.1 or later ({error}): "
        "pip install 'subagent-supervisor[openai-agents]'"
    ) from error

__all__ = ["openai_agent", "supervisor_tool"]

_HOSTED: Final = (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    ToolSearchTool,
    WebSearchTool,
)
"""The tools that the provider runs while it answers."""
_GUARDS: Final = "guardrails of the run's configuration are steps"
_SUB_AGENT: Final = "__supervisor_agent__"
"""Marks the function of a tool that calls a sub-agent of ours: that call is its own."""


def openai_agent(
    name: str,
    agent: Agent[Any],
    /,
    *,
    deps: Callable[[Context], Any] | None = None,
    policy: Policy = "allow",
    tool_timeout: float = 300.0,
    max_turns: int = DEFAULT_MAX_TURNS,
    run_config: RunConfig | None = None,
    stream: bool = True,
    limit: str | None = None,
    **options: Any,
) -> AgentSpec[[str], Any]:
    """Make an agent that takes a text and returns the final output of an OpenAI agent as plain JSON. Assign it to a
    name at the top of a module, so that a later process finds it.

    `name`: what people and rules call it, as in `NAME.TOOL`.
    `deps`: makes the context of a run, for its tools. It is called in each attempt, since a resumed run has no other.
    `policy`: what happens to a call of a tool if no rule applies, and if the tool needs no approval itself.
    `tool_timeout`: the deadline in seconds of a call whose tool has none.
    `stream`: whether the model streams: people see what it writes, and each part is a heartbeat. A model that does not
    stream has `first_progress_timeout` for its whole answer.
    `limit`: the name of a Limit, which each request to the model holds (L1). The retries of the provider's SDK are off
    then: an endpoint that is busy closes the limit (L4). `options`: as in `@agent`.
    Raises InvalidInput for a context that is no function, and for a tool that would act under no rule.
    """
    if not isinstance(agent, Agent):
        raise InvalidInput(f"openai_agent {name} takes an agents.Agent, not {agent!r}")
    check_deps(deps, f"openai_agent {name}")
    bound = checked_limit(limit, f"openai_agent {name}")
    settings = _Settings(name, policy, tool_timeout, stream, run_config or RunConfig(), bound)
    _Bridge(settings, None, name).supervised(agent)

    async def run(ctx: Context, text: str) -> Any:
        written = WrittenContext(name, deps(ctx) if deps is not None else None)
        own = settings.run_config
        guards = bool(own.input_guardrails or own.output_guardrails) and await ctx.patched(_GUARDS)
        bridge = _Bridge(settings._replace(guards=guards), ctx, name, written=written)
        before = ctx.saved_before()
        history = [item for saved in before for item in saved["messages"]]
        bridge.supervised(agent)
        try:
            with running(Refusing("a hook, a guardrail or a function of instructions")):
                result = await AgentRunner().run(
                    bridge.named(before[-1]["agent"]) if before else bridge.supervised(agent),
                    [*history, {"role": "user", "content": text}],
                    context=written.context,
                    max_turns=max_turns,
                    run_config=bridge.run_config,
                )
        except Exception:
            await bridge.connections.idle()
            raise
        finally:
            await bridge.connections.close()
        if result.interruptions:
            raise InvalidInput(
                f"agent {name}: the tool {result.interruptions[0].tool_name} waits for an approval that only the "
                "provider's side can use; give HostedMCPTool an on_approval_request, or need no approval there"
            )
        final = result.final_output
        if result.new_items and result.new_items[-1].type == "tool_call_output_item":  # a tool has ended the run
            final = bridge.outputs.get(str(final), final)
        output = as_json(final, f"the output of agent {name}")
        messages = as_json(result.to_input_list()[len(history) :], f"the messages of agent {name}")
        await ctx.save({"output": output, "messages": messages, "agent": result.last_agent.name})
        return output

    module = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001 # where a resumed run finds the agent
    return framework_agent(name, run, module, agent.handoff_description or "", options)


def supervisor_tool(agent: AgentSpec[..., Any], /) -> FunctionTool:
    """Make a tool with which the model of a wrapped agent calls a sub-agent. Rules apply to it by the agent's name."""

    async def call(context: Any, raw: str) -> str:
        return (await call_sub_agent(agent, raw)).content

    setattr(call, _SUB_AGENT, agent.name)
    schema = tool_schema(agent)
    return FunctionTool(schema["name"], schema["description"], schema["parameters"], call, strict_json_schema=False)


class _Settings(NamedTuple):
    """What a program chose for an agent."""

    name: str
    policy: Policy
    tool_timeout: float
    stream: bool
    run_config: RunConfig
    limit: str | None = None
    guards: bool = False
    """Whether the guardrails of `run_config` are steps. Those of a run of a former version are not."""


class _Bridge:
    """One loop of the SDK in one attempt. Without a context it only checks that the agents can be durable.

    `path`: the name of the loop's first agent, as cards and rules show it.
    """

    def __init__(
        self,
        settings: _Settings,
        ctx: Context | None,
        path: str,
        connections: Connections | None = None,
        written: WrittenContext | None = None,
    ) -> None:
        self.settings = settings
        self.path = path
        self.written_context = WrittenContext(path, None) if written is None else written
        self.names = Names()
        self.answers = Answers()
        self.requests = 0
        self.written: dict[str, str] = {}
        self.outputs: dict[str, Any] = {}
        """The outputs of tools by what the model is told: one that ends the run is told to no model."""
        self.run_config = replace(settings.run_config, model=None)
        if settings.guards:
            self.run_config.input_guardrails = [
                step_guardrail(self, each) for each in self.run_config.input_guardrails or ()
            ]
            self.run_config.output_guardrails = [
                step_guardrail(self, each) for each in self.run_config.output_guardrails or ()
            ]
        self.streams = settings.stream
        self.limit = settings.limit
        self.connections = Connections() if connections is None else connections
        self._ctx = ctx
        self._copies: dict[int, Agent[Any]] = {}

    @property
    def ctx(self) -> Context:
        assert self._ctx is not None
        return self._ctx

    def named(self, name: str) -> Agent[Any]:
        """Return the copy of an agent with a name; the first agent if today's code has none."""
        copies = [*self._copies.values()]
        return next((each for each in copies if each.name == name), copies[0])

    def supervised(self, agent: Agent[Any]) -> Agent[Any]:
        """Return a copy of an agent, and of those to which it hands off, whose requests and calls are operations."""
        if (known := self._copies.get(id(agent))) is not None:
            return known
        path = f"{self.path}.{name_word(agent.name)}" if self._copies else self.path
        for tool in agent.tools:
            self._check(path, tool)
        copied = copy.copy(agent)
        self._copies[id(agent)] = copied
        copied.model = StepModel(self, self.settings.run_config.model or agent.model)
        copied.handoffs = [self._handoff(each) for each in agent.handoffs]
        copied.mcp_servers = [cast(Any, Server(self, each)) for each in agent.mcp_servers]
        copied.input_guardrails = [step_guardrail(self, each) for each in agent.input_guardrails]
        copied.output_guardrails = [step_guardrail(self, each) for each in agent.output_guardrails]

        async def get_all_tools(run_context: Any) -> list[Any]:
            tools = await type(copied).get_all_tools(copied, run_context)
            return [self._tool(path, tool) for tool in tools]

        vars(copied)["get_all_tools"] = get_all_tools
        return copied

    def _handoff(self, handoff: Agent[Any] | Handoff[Any, Any]) -> Agent[Any] | Handoff[Any, Any]:
        if isinstance(handoff, Agent):
            return self.supervised(handoff)
        copied = copy.copy(handoff)

        async def invoke(context: Any, raw: str) -> Any:
            return self.supervised(await handoff.on_invoke_handoff(context, raw))

        copied.on_invoke_handoff = invoke
        return copied

    def _check(self, path: str, tool: Any) -> None:
        if not isinstance(tool, (FunctionTool, *_HOSTED)):
            raise InvalidInput(
                f"agent {path}: the SDK would run {type(tool).__name__} {tool.name} here, under no rule; give a "
                "function tool that does the same"
            )

    def _tool(self, path: str, tool: Any) -> Any:
        self._check(path, tool)
        if not isinstance(tool, FunctionTool):
            return tool
        copied = copy.copy(tool)
        copied.needs_approval = False
        copied.timeout_seconds = None

        async def invoke(context: Any, raw: str) -> Any:
            try:
                with self.connections.calling():
                    return await _Call(self, path, tool, context, raw).make()
            except Suspended:  # the run leaves memory; the SDK would log it as a fatal failure of the tool's task
                raise anyio.get_cancelled_exc_class() from None

        copied.on_invoke_tool = invoke
        return copied


class _Call:
    """A call of a function tool."""

    def __init__(self, bridge: _Bridge, path: str, tool: FunctionTool, context: Any, raw: str) -> None:
        self._bridge = bridge
        self._tool = tool
        self._context = context
        self._raw = raw
        self._wrote = bridge.written.get(context.tool_call_id, raw)
        self._path = path
        self._shown, self._refusal = read_arguments(tool.name, self._wrote, tool.params_json_schema)
        self._name = bridge.names.call(bridge.requests, context.tool_call_id, tool.name, self._shown)

    async def make(self) -> Any:
        operations = self._bridge.ctx.named(self._name)
        if hasattr(self._tool.on_invoke_tool, _SUB_AGENT):
            with calling_sub_agents(operations):
                return await self._tool.on_invoke_tool(self._context, self._wrote)
        is_agent = self._tool._is_agent_tool  # noqa: SLF001 # the SDK has no other mark for them
        result = await self._ask(operations, self._begin if is_agent else self._run)
        above = edit_line(result)
        if result.kind != "ok":
            return above + (await self._told(result))
        if not is_agent:
            if not above:
                return result.value
            told = with_line(above, result.value)
            self._bridge.outputs[str(told)] = result.value
            return told
        loop = self._bridge
        nested = _Bridge(loop.settings, loop.ctx.branch(self._name), self._path, loop.connections, loop.written_context)
        with running(nested):
            found = await self._tool.on_invoke_tool(self._context, self._text(result.value or {}))
        return above + found if isinstance(found, str) else found

    async def _ask(self, operations: Operations, fn: Callable[[Mapping[str, Any]], Any]) -> ToolResult[Any]:
        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult[Any]:
            return result_of(await fn(arguments))

        settings = self._bridge.settings
        return await self._bridge.written_context.call(
            operations,
            f"{self._path}.{name_word(self._tool.name)}",
            run,
            self._shown,
            refusal=self._refusal,
            schema=self._tool.params_json_schema,
            description=self._tool.description,
            policy="ask" if await self._needs_approval() else settings.policy,
            timeout=self._tool.timeout_seconds or settings.tool_timeout,
        )

    async def _told(self, result: ToolResult[Any]) -> str:
        """Return what the model reads of a call that failed. Raises what ends the run in the SDK."""
        reason, tool = result.details["reason"], self._tool
        has_raised = reason in RAISED and (RAISED_AGAIN in result.details or not tells(tool))
        is_late = reason == "deadline" and tool.timeout_seconds is not None
        if not (has_raised or is_late) or not await may_end_run(self._bridge.ctx):
            return result.content
        if has_raised:
            raise ToolRaised(f"tool {self._path}.{name_word(tool.name)}: {result.content}")
        late = ToolTimeoutError(tool_name=tool.name, timeout_seconds=cast(float, tool.timeout_seconds))
        if tool.timeout_behavior == "raise_exception":
            raise late
        told = None if tool.timeout_error_function is None else tool.timeout_error_function(self._context, late)
        return result.content if told is None else str(await told if inspect.isawaitable(told) else told)

    async def _needs_approval(self) -> bool:
        needs = self._tool.needs_approval
        if isinstance(needs, bool):
            return needs
        try:
            return bool(await needs(self._context, self._shown, self._context.tool_call_id))
        except Exception:  # noqa: BLE001 # the user's function may raise anything; in doubt a person is asked (A5)
            return True

    async def _begin(self, arguments: Mapping[str, Any]) -> Any:
        """Return what an agent that is a tool is given: it runs after this call, and its own calls are calls."""
        return dict(arguments)

    async def _run(self, arguments: Mapping[str, Any]) -> Any:
        refusing = Refusing(f"the tool {self._tool.name}")
        tool, failures = with_failures(self._tool)
        with running(refusing), noting(failures):
            value = await tool.on_invoke_tool(self._context, self._text(arguments))
        if refusing.refused is not None:  # the SDK has told the model only that the tool failed
            raise refusing.refused
        if failures:
            return ToolResult(kind="error", content=as_text(value), details=failures[0])
        return as_sdk_reads(value)

    def _text(self, arguments: Mapping[str, Any]) -> str:
        return self._raw if dict(arguments) == self._shown else json.dumps(dict(arguments))
