"""Pydantic AI: an agent of its own is an agent of ours. Extra: pydantic-ai.

    cleaner = pydantic_agent("cleaner", Agent("openai:gpt-5", tools=[...]))

Pydantic AI's seam for durable engines (`pydantic_ai.durable_exec`) gives each piece of I/O of its loop to a backend.
Ours makes steps of model requests, of validators, and of the lists of tools that a server or a function gives. A
toolset around all others makes the calls.

Rules
- The durability is made anew in each attempt, and given to that run alone: the wrapped agent is not changed.
- A tool asks because it is declared so (`requires_approval`), or because it raises ApprovalRequired: then the call is
  asked about and made once more, with `tool_call_approved`, as the framework does.
- What a tool returns is journaled as the framework writes it into its messages. Its signals (ModelRetry, ToolFailed and
  so on) are results, too, and are raised again from the journal.
- In a tool nothing is an operation of its own: the call is one.
"""

import json
import sys
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from supervisor.abc import Context, Operations, ToolContext
from supervisor.agents.framework import (
    Names,
    call_sub_agent,
    calling_sub_agents,
    framework_agent,
    word,
)
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.foreign_tool import foreign_tool
from supervisor.core.tool_schema import tool_schema
from supervisor.core.values import Policy, ToolResult

try:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_ai import Agent, AgentRunResult, ModelMessagesTypeAdapter, RunContext, Tool, UsageLimits
    from pydantic_ai.durable_exec import (
        JSON_CODEC,
        BaseDurabilityCapability,
        BoundDurableOperation,
        DurabilityEngineSpec,
        DurableOperation,
        DurableOperationBackend,
        EventStreamHandlerId,
        ModelRequestId,
        ToolsetCallToolId,
        durable_unit_scope,
    )
    from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, RunCancelled, ToolFailed, UserError
    from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturn, ToolReturnContent
    from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDefinition, ToolDenied
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
    from pydantic_core import PydanticSerializationError, to_jsonable_python
except ImportError as error:
    raise ImportError(
        f"supervisor.agents.pydantic_ai needs pydantic-ai-slim, 2.61 or later ({error}): "
        "pip install 'subagent-supervisor[pydantic-ai]'"
    ) from error

__all__ = ["pydantic_agent", "supervisor_tool"]

_SUB_AGENT: Final = "supervisor_agent"
"""Marks, in the metadata of a tool, one that calls a sub-agent of ours: that call is its own."""
_ASKS: Final = "supervisor_asks"
"""Marks, in the metadata of a tool, one that is declared to need an approval."""
_PART: Final[ContextVar[ToolCallPart | None]] = ContextVar("supervisor_tool_call_part", default=None)
_returned: Final[TypeAdapter[Any]] = TypeAdapter(ToolReturnContent)
_tool_return: Final[TypeAdapter[Any]] = TypeAdapter(ToolReturn)


def pydantic_agent(
    name: str,
    agent: Agent[Any, Any],
    /,
    *,
    deps: Callable[[Context], Any] | None = None,
    policy: Policy = "allow",
    tool_timeout: float = 300.0,
    usage_limits: UsageLimits | None = None,
    stream: bool = True,
    **options: Any,
) -> AgentSpec[[str], Any]:
    """Make an agent that takes a text and returns the output of a Pydantic AI agent as plain JSON. Assign it to a name
    at the top of a module, so that a later process finds it.

    `name`: what people and rules call it, as in `NAME.TOOL`.
    `deps`: makes the dependencies of a run. It is called in each attempt, since a resumed run has no others.
    `policy`: what happens to a call of a tool if no rule applies, and if the tool asks for no approval itself.
    `tool_timeout`: the deadline of a call, in seconds. `stream`: whether the model streams; each part is a heartbeat. A
    model that does not stream has `first_progress_timeout` for its whole answer. `options`: as in `@agent`.
    Raises InvalidInput for dependencies without a factory, and for a toolset without an id.
    """
    if not isinstance(agent, Agent):
        raise InvalidInput(f"pydantic_agent {name} takes a pydantic_ai.Agent, not {agent!r}")
    if deps is not None and not callable(deps):
        raise InvalidInput(
            f"pydantic_agent {name}: a resumed run cannot make {type(deps).__name__} again; give a function of the "
            "context that makes it: deps=lambda ctx: ..."
        )
    if deps is None and agent.deps_type not in (type(None), object):
        raise InvalidInput(
            f"pydantic_agent {name}: the agent has dependencies ({agent.deps_type.__name__}); give a function of the "
            "context that makes them: deps=lambda ctx: ..."
        )
    durability = partial(_Durability, name, policy=policy, tool_timeout=tool_timeout, stream=stream)
    try:
        durability(None).for_agent(agent)
    except UserError as error:
        raise InvalidInput(f"pydantic_agent {name}: {error}") from error

    async def run(ctx: Context, text: str) -> Any:
        history = [message for saved in ctx.saved_before() for message in _read_messages(saved["messages"])]
        result = await agent.run(
            text,
            message_history=history or None,
            deps=deps(ctx) if deps is not None else None,
            usage_limits=usage_limits,
            capabilities=[durability(ctx)],
        )
        output = _as_json(result.output, f"the output of agent {name}")
        await ctx.save({"output": output, "messages": _messages_of(result)})
        return output

    module = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001 # where a resumed run finds the agent
    return framework_agent(name, run, module, agent.name or "", options)


def supervisor_tool(agent: AgentSpec[..., Any], /) -> Tool[Any]:
    """Make a tool with which the model of a wrapped agent calls a sub-agent. Rules apply to it by the agent's name."""

    async def call(**arguments: Any) -> Any:
        return _outcome(await call_sub_agent(agent, arguments))

    schema = tool_schema(agent)
    tool = Tool.from_schema(call, schema["name"], schema["description"], schema["parameters"])
    tool.metadata = {_SUB_AGENT: agent.name}
    return tool


def _read_messages(messages: Any) -> Sequence[Any]:
    return ModelMessagesTypeAdapter.validate_json(json.dumps(messages))


def _messages_of(result: AgentRunResult[Any]) -> Any:
    return json.loads(ModelMessagesTypeAdapter.dump_json(result.new_messages()))


def _as_json(value: Any, what: str) -> Any:
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise InvalidInput(
            f"{what} cannot be written as JSON: {error}; return values that pydantic can write"
        ) from None


class _Bound(BoundDurableOperation[Any, Any, Any]):
    """An operation of Pydantic AI as a step of ours."""

    def __init__(self, operation: DurableOperation[Any, Any, Any], durability: "_Durability") -> None:
        self._operation = operation
        self._durability = durability

    @property
    def operation(self) -> DurableOperation[Any, Any, Any]:
        return self._operation

    async def __call__(self, params: Any, *, config: object | None = None) -> Any:
        operation, ctx = self._operation, self._durability.ctx
        kind = operation.operation_id
        if isinstance(kind, ToolsetCallToolId | EventStreamHandlerId):
            return await operation.handler(params)  # the body of a call of ours, and our own heartbeats

        async def body() -> Any:
            with durable_unit_scope():
                return operation.result_codec.dump(await operation.handler(params))

        is_request = isinstance(kind, ModelRequestId)
        name = self._durability.names.request("request" if is_request else _label(kind))
        async with ctx.model_call() if is_request else nullcontext():
            result = operation.result_codec.load(await ctx.named(name).step(body))
        if isinstance(result, ModelResponse):
            return replace(result, parts=[self._with_own_id(part) for part in result.parts])
        return result

    def _with_own_id(self, part: Any) -> Any:
        if not isinstance(part, ToolCallPart):
            return part
        return replace(part, tool_call_id=self._durability.names.call_id(part.tool_call_id))


def _label(kind: Any) -> str:
    """Return a name for operations of a kind: its class, and the toolset or the capability."""
    of = getattr(kind, "toolset_id", None) or getattr(kind, "capability_id", "")
    return f"{type(kind).__name__} {of} {getattr(kind, 'operation', '')}".strip()


class _Backend(DurableOperationBackend[Any]):
    def __init__(self, durability: "_Durability") -> None:
        self._durability = durability

    def bind(self, operation: DurableOperation[Any, Any, Any]) -> _Bound:
        return _Bound(operation, self._durability)

    def config_for_tool(self, operation: Any, *, tool: object | None, tool_name: str) -> Any:
        return {}

    def registrations(self) -> Sequence[Callable[..., object]]:
        return ()


class _Durability(BaseDurabilityCapability[Any]):
    """What makes one attempt of a run durable. Without a context it only checks that an agent can be."""

    engine_spec = DurabilityEngineSpec(
        engine_name="supervisor",
        durable_unit_noun="step",
        durable_container_noun="run",
        codec=JSON_CODEC,
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
    )

    def __init__(
        self, agent_name: str, ctx: Context | None, *, policy: Policy, tool_timeout: float, stream: bool
    ) -> None:
        super().__init__(name=agent_name, event_stream_handler=self._beat if stream else None)
        self._ctx = ctx
        self.policy: Policy = policy
        self.tool_timeout = tool_timeout
        self.names = Names()

    @property
    def ctx(self) -> Context:
        assert self._ctx is not None
        return self._ctx

    @property
    def in_durable_context(self) -> bool:
        return self._ctx is not None

    def get_durable_operation_backend(self) -> _Backend:
        return _Backend(self)

    def get_default_run_id(self) -> str:
        return f"{self.ctx.session}-{len(self.ctx.saved_before())}"

    def get_default_conversation_id(self, run_id: str) -> str:
        return self.ctx.session

    async def _beat(self, run: RunContext[Any], events: AsyncIterable[Any]) -> None:
        async for _ in events:
            self.ctx.heartbeat()

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return _Tools(super().get_wrapper_toolset(toolset) or toolset, self)

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Any
    ) -> Any:
        token = _PART.set(call)
        try:
            return await handler(args)
        finally:
            _PART.reset(token)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Let calls go on that a validator or an outer toolset wants approved: a person is asked when they are made."""
        return requests.build_results(approve_all=True) if requests.approvals else None


@dataclass
class _Tools(WrapperToolset[Any]):
    """All tools of an agent; a call of one is a call of ours."""

    durability: _Durability

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools. One that needs an approval is called like the others, and the call is asked about."""
        return {name: _callable(tool) for name, tool in (await super().get_tools(ctx)).items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        call = _Call(self, name, tool_args, ctx, tool)
        marks = tool.tool_def.metadata or {}
        if _SUB_AGENT in marks:
            with calling_sub_agents(call.operations()):
                return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        result = await call.make(asks=_ASKS in marks or ctx.tool_call_approved)
        if result.details["reason"] == "approval_required":
            result = await call.make(asks=True)
        return _outcome(result)


def _callable(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    definition = tool.tool_def
    if definition.kind != "unapproved":
        return tool
    marked = replace(definition, kind="function", metadata={**(definition.metadata or {}), _ASKS: True})
    return replace(tool, tool_def=marked)


class _Call:
    """A call of a tool: what is shown of it is what runs."""

    def __init__(
        self, tools: _Tools, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> None:
        self._tools = tools
        self._name = name
        self._tool_args = tool_args
        self._ctx = ctx
        self._tool = tool
        part = _PART.get()
        as_given = part.args_as_dict() if part is not None else {}
        self._is_editable = _equal(partial(self._read, as_given), tool_args)
        """Whether the model's arguments are what the tool gets: then they are shown, and a person may edit them."""
        self._shown: dict[str, Any] = as_given if self._is_editable else _as_json(tool_args, f"an argument of {name}")

    def _read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as the tool takes them. Raises ValidationError if its own schema refuses them."""
        raw = json.dumps(dict(arguments))
        found: dict[str, Any] = self._tool.args_validator.validate_json(raw, context=self._ctx.validation_context)
        return found

    def operations(self) -> Operations:
        """Return the operations of the next use of the call."""
        durability, ctx = self._tools.durability, self._ctx
        name = durability.names.call(ctx.run_step, ctx.tool_call_id or "", self._name, self._shown)
        return durability.ctx.named(name)

    async def make(self, *, asks: bool) -> ToolResult[Any]:
        """Make the call; `asks`: whether a person is asked if no rule applies."""
        durability, definition = self._tools.durability, self._tool.tool_def

        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult[Any]:
            return await self._run(arguments, is_approved=asks or context.is_allowed)

        tool = foreign_tool(
            f"{durability.name}.{word(self._name)}",
            run,
            schema=definition.parameters_json_schema,
            description=definition.description or "",
            policy="ask" if asks else durability.policy,
            timeout=durability.tool_timeout,
            editable=self._is_editable,
        )
        return await self.operations().call(tool, self._shown)

    async def _run(self, arguments: Mapping[str, Any], *, is_approved: bool) -> ToolResult[Any]:
        ctx = replace(self._ctx, tool_call_approved=is_approved)
        try:
            tool_args = self._tool_args
            if dict(arguments) != self._shown:
                tool_args = self._read(arguments)
                if (check := self._tool.args_validator_func) is not None:
                    await _awaited(check(ctx, **tool_args))
            with durable_unit_scope():
                value = await self._tools.wrapped.call_tool(self._name, tool_args, ctx, self._tool)
        except RuntimeError as error:
            if "loop is already running" not in str(error):
                raise
            raise InvalidInput(
                f"the tool {self._name} calls run_sync while a loop runs: await run(...) instead, or make that agent "
                "one of ours and give it as supervisor_tool(agent)"
            ) from error
        except (ApprovalRequired, CallDeferred, ModelRetry, ToolFailed, RunCancelled, ValidationError) as signal:
            return _signalled(signal)
        return _result(value, f"the result of tool {self._name}")


def _equal(read: Callable[[], Any], value: Any) -> bool:
    try:
        return bool(read() == value)
    except (ValidationError, ModelRetry):
        return False


async def _awaited(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def _signalled(signal: Exception) -> ToolResult[Any]:
    """Return the result of a tool that raised one of the framework's signals."""
    match signal:
        case ApprovalRequired():
            return ToolResult(
                kind="error", content="the tool asks for an approval", details=_details("approval_required", "none")
            )
        case CallDeferred():
            details = {**_details("deferred", "maybe"), "metadata": signal.metadata, "kind": signal.kind}
            return ToolResult(kind="ok", content="the call goes on elsewhere", details=details)
        case ModelRetry():
            return ToolResult(kind="error", content=signal.message, details=_details("retry", "maybe"))
        case ValidationError():
            return ToolResult(kind="error", content=str(signal), details=_details("retry", "maybe"))
        case _:
            return ToolResult(kind="error", content=str(signal), details=_details("failed", "maybe"))


def _details(reason: str, effect: str) -> dict[str, Any]:
    return {"reason": reason, "effect": effect}


def _result(value: Any, what: str) -> ToolResult[Any]:
    is_whole = isinstance(value, ToolReturn)
    try:
        raw = json.loads((_tool_return if is_whole else _returned).dump_json(value))
    except PydanticSerializationError as error:
        text = f"{what} cannot be written as JSON: {error}; return values that pydantic can write"
        return ToolResult(kind="error", content=text, details=_details("invalid_result", "done"))
    said = value.return_value if is_whole else value
    content = said if isinstance(said, str) else json.dumps(raw)
    return ToolResult(kind="ok", content=content, value=raw, details={"reason": "tool_return"} if is_whole else {})


def _outcome(result: ToolResult[Any]) -> Any:
    """Return the value of a call to the framework, or raise what stands for its result."""
    reason = result.details["reason"]
    match result.kind:
        case "denied":
            return ToolDenied(result.content)
        case "ok" if reason == "deferred":
            raise CallDeferred(metadata=result.details["metadata"], kind=result.details["kind"])
        case "ok":
            return (_tool_return if reason == "tool_return" else _returned).validate_json(json.dumps(result.value))
        case "error" if reason == "retry":
            raise ModelRetry(result.content)
        case "error" if reason == "approval_required":
            raise ApprovalRequired
        case _:
            raise ToolFailed(result.content)
