"""Pydantic AI: an agent of its own is an agent of ours. Extra: pydantic-ai.

    cleaner = pydantic_agent("cleaner", Agent("openai:gpt-5", tools=[...]))

Pydantic AI's seam for durable engines (`pydantic_ai.durable_exec`) gives each piece of I/O of its loop to a backend.
Ours makes steps of model requests, of validators, and of the lists of tools that a server or a function gives. A
toolset around all others makes the calls.

Rules
- The durability is made anew in each attempt, and given to that run alone: the wrapped agent is not changed.
- A tool asks because it is declared so (`requires_approval`), or because it raises ApprovalRequired: then the call is
  asked about and made once more, with `tool_call_approved`, as the framework does.
- In a tool nothing is an operation of its own: the call is one.
"""

import json
import sys
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Final

from supervisor.agents.busy import telling_busy
from supervisor.agents.framework import (
    Answers,
    Names,
    answer_usage,
    call_sub_agent,
    cannot_stream,
    check_deps,
    framework_agent,
    setting,
)
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.tool_context import StepContext
from supervisor.core.declarations.tool_schema import tool_schema
from supervisor.core.errors import InvalidInput
from supervisor.core.limits import checked_limit
from supervisor.core.usage import Usage
from supervisor.core.values import Policy
from supervisor.seam.context import Context

try:
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
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.messages import (
        ModelResponse,
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ToolCallPart,
    )
    from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset

    from supervisor.agents.plain_json import as_json
    from supervisor.agents.pydantic_ai.leaves import check_call, with_checks
    from supervisor.agents.pydantic_ai.outside import around, events_of
    from supervisor.agents.pydantic_ai.tools import PART, SUB_AGENT, Tools, outcome_of
    from supervisor.agents.written_context import WrittenContext
except ImportError as error:
    raise ImportError(
        f"supervisor.agents.pydantic_ai needs pydantic-ai-slim, 2.61 or later ({error}): "
        "pip install 'subagent-supervisor[pydantic-ai]'"
    ) from error

__all__ = ["pydantic_agent", "supervisor_tool"]

_HEARD: Final[ContextVar[list[None] | None]] = ContextVar("supervisor_heard_events", default=None)
"""Gets the events of the request that this task streams."""


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
    limit: str | None = None,
    **options: Any,
) -> AgentSpec[[str], Any]:
    """Make an agent that takes a text and returns the output of a Pydantic AI agent as plain JSON. Assign it to a name
    at the top of a module, so that a later process finds it.

    `name`: what people and rules call it, as in `NAME.TOOL`.
    `deps`: makes the dependencies of a run. It is called in each attempt, since a resumed run has no others.
    `policy`: what happens to a call of a tool if no rule applies, and if the tool asks for no approval itself.
    `tool_timeout`: the deadline of a call, in seconds. `stream`: whether the model streams: people see what it writes,
    and each part is a heartbeat. A model that does not stream has `first_progress_timeout` for its whole answer.
    `limit`: the name of a Limit, which each request to the model holds (L1). The retries of the provider's SDK are off
    then: an endpoint that is busy closes the limit (L4). `options`: as in `@agent`.
    Raises InvalidInput for dependencies without a factory, and for a toolset without an id.
    """
    if not isinstance(agent, Agent):
        raise InvalidInput(f"pydantic_agent {name} takes a pydantic_ai.Agent, not {agent!r}")
    check_deps(deps, f"pydantic_agent {name}")
    if deps is None and agent.deps_type not in (type(None), object):
        raise InvalidInput(
            f"pydantic_agent {name}: the agent has dependencies ({agent.deps_type.__name__}); give a function of the "
            "context that makes them: deps=lambda ctx: ..."
        )
    bound = checked_limit(limit, f"pydantic_agent {name}")
    durability = partial(_Durability, name, policy=policy, tool_timeout=tool_timeout, stream=stream, limit=bound)
    try:
        durability(None).for_agent(agent)
    except UserError as error:
        raise InvalidInput(f"pydantic_agent {name}: {error}") from error

    async def run(ctx: Context, text: str) -> Any:
        saved = [json.dumps(each["messages"]) for each in ctx.saved_before()]
        history = [message for each in saved for message in ModelMessagesTypeAdapter.validate_json(each)]
        durable = durability(ctx, deps(ctx) if deps is not None else None)
        with events_of(durable):
            result = await agent.run(
                text,
                message_history=history or None,
                deps=durable.written.context,
                usage_limits=usage_limits,
                capabilities=around(durable, durable),
            )
        output = as_json(result.output, f"the output of agent {name}")
        await ctx.save({"output": output, "messages": _messages_of(result)})
        return output

    module = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001 # where a resumed run finds the agent
    return framework_agent(name, run, module, agent.name or "", options)


def supervisor_tool(agent: AgentSpec[..., Any], /) -> Tool[Any]:
    """Make a tool with which the model of a wrapped agent calls a sub-agent. Rules apply to it by the agent's name."""

    async def call(**arguments: Any) -> Any:
        return outcome_of(await call_sub_agent(agent, arguments))

    schema = tool_schema(agent)
    tool = Tool.from_schema(call, schema["name"], schema["description"], schema["parameters"])
    tool.metadata = {SUB_AGENT: agent.name}
    return tool


def _messages_of(result: AgentRunResult[Any]) -> Any:
    return json.loads(ModelMessagesTypeAdapter.dump_json(result.new_messages()))


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
        if isinstance(kind, ToolsetCallToolId):
            check_call(params.tool_args, getattr(params, "tool", None))
        if isinstance(kind, ToolsetCallToolId | EventStreamHandlerId):
            return await operation.handler(params)  # the body of a call of ours, and our own heartbeats

        async def body() -> Any:
            with durable_unit_scope(), telling_busy(limit):
                return await self._handle(params if limit is None else _without_retries(params))

        async def request(step: StepContext) -> Any:
            found = await body()
            if isinstance(found, ModelResponse):
                step.used(_usage_of(found))
            return operation.result_codec.dump(found)

        async def listing() -> Any:
            return operation.result_codec.dump(await body())

        is_request = isinstance(kind, ModelRequestId)
        limit = self._durability.limit if is_request else None
        name = self._durability.names.request("request" if is_request else _label(kind))
        async with ctx.model_call(limit=limit) if is_request else nullcontext():
            result = operation.result_codec.load(await ctx.named(name).step(request if is_request else listing))
        if isinstance(result, ModelResponse):
            return replace(result, parts=[self._with_own_id(part) for part in result.parts])
        return result

    async def _handle(self, params: Any) -> Any:
        """Do the operation. A model that cannot stream is asked for its answer as a whole."""
        kind = self._operation.operation_id
        whole = self._durability.whole_request(kind)
        if whole is None:
            return await self._operation.handler(params)
        heard: list[None] = []
        try:
            with setting(_HEARD, heard):
                return await self._operation.handler(params)
        except Exception as error:
            if heard or not cannot_stream(error):
                raise
        return await whole.handler(params)

    def _with_own_id(self, part: Any) -> Any:
        if not isinstance(part, ToolCallPart):
            return part
        return replace(part, tool_call_id=self._durability.names.call_id(part.tool_call_id))


def _without_retries(params: Any) -> Any:
    """Return the parameters of a request that the provider's SDK makes once (`ModelSettings.max_retries`)."""
    return replace(params, model_settings={**(params.model_settings or {}), "max_retries": 0})


def _usage_of(response: ModelResponse) -> Usage:
    """Return what an answer took."""
    said = response.usage
    return answer_usage(response.model_name, said.input_tokens, said.cache_read_tokens, said.output_tokens)


def _label(kind: Any) -> str:
    """Return a name for operations of a kind: its class, and the toolset or the capability."""
    of = getattr(kind, "toolset_id", None) or getattr(kind, "capability_id", "")
    return f"{type(kind).__name__} {of} {getattr(kind, 'operation', '')}".strip()


class _Backend(DurableOperationBackend[Any]):
    def __init__(self, durability: "_Durability") -> None:
        self._durability = durability

    def bind(self, operation: DurableOperation[Any, Any, Any]) -> _Bound:
        self._durability.note(operation)
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
        self,
        agent_name: str,
        ctx: Context | None,
        deps: Any = None,
        *,
        policy: Policy,
        tool_timeout: float,
        stream: bool,
        limit: str | None = None,
    ) -> None:
        self.limit = limit
        super().__init__(name=agent_name, event_stream_handler=self._show if stream else None)
        self._ctx = ctx
        self.policy: Policy = policy
        self.tool_timeout = tool_timeout
        self.names = Names()
        self.deferred: DeferredToolRequests | None = None
        self.written = WrittenContext(agent_name, deps)
        self._answers = Answers()
        self._whole: dict[Any, DurableOperation[Any, Any, Any]] = {}

    def note(self, operation: DurableOperation[Any, Any, Any]) -> None:
        """Keep the operation that asks a model for whole answers."""
        kind = operation.operation_id
        if isinstance(kind, ModelRequestId) and not kind.streaming:
            self._whole[kind] = operation

    def whole_request(self, kind: Any) -> DurableOperation[Any, Any, Any] | None:
        """Return the operation that asks the same model for a whole answer; None for one that does not stream."""
        is_streamed = isinstance(kind, ModelRequestId) and kind.streaming
        return self._whole.get(replace(kind, streaming=False)) if is_streamed else None

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

    async def _show(self, run: RunContext[Any], events: AsyncIterable[Any]) -> None:
        """Show what the model writes. Each part of a stream is a heartbeat."""
        answer, heard = object(), _HEARD.get()
        async for event in events:
            self.ctx.heartbeat()
            if heard is not None:
                heard.append(None)
            match event:
                case PartStartEvent(part=TextPart(content=piece)):
                    self._answers.write(self.ctx.stream, answer, piece)
                case PartDeltaEvent(delta=TextPartDelta(content_delta=piece)):
                    self._answers.write(self.ctx.stream, answer, piece)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return Tools(with_checks(super().get_wrapper_toolset(toolset) or toolset), self)

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, handler: Any
    ) -> Any:
        with setting(PART, call):
            return await handler(args)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Let calls go on that a validator or an outer toolset wants approved: a person is asked when they are made."""
        if not requests.approvals:
            return None
        metadata = {name: said for name, said in requests.metadata.items() if said is not None}
        return replace(requests.build_results(approve_all=True), metadata=metadata)
