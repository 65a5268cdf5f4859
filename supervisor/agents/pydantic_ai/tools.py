"""The tools of a Pydantic AI agent: each call of one is a call of ours, and its result is what the framework reads.

Rules
- What is shown of a call is what runs: the model's arguments, if the tool gets just these, else what the tool gets.
- What a tool returns is journaled as the framework writes it into its messages. Its signals (ModelRetry, ToolFailed and
  so on) are results, too, and are raised again from the journal. Any other exception ends the run, as in the framework.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import ModelRetry, RunContext, ToolReturn
from pydantic_ai.durable_exec import durable_unit_scope
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, RunCancelled, ToolFailed
from pydantic_ai.messages import ToolCallPart, ToolReturnContent
from pydantic_ai.tools import ToolDenied
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset
from pydantic_core import PydanticSerializationError

from supervisor.agents.framework import RAISED, Names, ToolRaised, calling_sub_agents, edit_line, may_end_run, name_word
from supervisor.agents.model_arguments import read_arguments
from supervisor.agents.plain_json import as_json, as_shown
from supervisor.agents.pydantic_ai.leaves import ChangedCall, expecting
from supervisor.agents.written_context import WrittenContext
from supervisor.core.declarations.tool_context import ToolContext
from supervisor.core.text.visible import json_text
from supervisor.core.values import Policy, ToolResult
from supervisor.seam.context import Context, Operations

SUB_AGENT: Final = "supervisor_agent"
"""Marks, in the metadata of a tool, one that calls a sub-agent of ours: that call is its own."""
_ASKS: Final = "supervisor_asks"
"""Marks, in the metadata of a tool, one that is declared to need an approval."""
PART: Final[ContextVar[ToolCallPart | None]] = ContextVar("supervisor_tool_call_part", default=None)
"""The call of the model that is made in this task."""
_returned: Final[TypeAdapter[Any]] = TypeAdapter(ToolReturnContent)
_tool_return: Final[TypeAdapter[Any]] = TypeAdapter(ToolReturn)


class SupervisedRun(Protocol):
    """The attempt that calls tools."""

    name: str
    policy: Policy
    tool_timeout: float
    names: Names
    written: WrittenContext

    @property
    def ctx(self) -> Context: ...


@dataclass
class Tools(WrapperToolset[Any]):
    """All tools of an agent; a call of one is a call of ours."""

    run: SupervisedRun

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools. One that needs an approval is called like the others, and the call is asked about."""
        return {name: _callable(tool) for name, tool in (await super().get_tools(ctx)).items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        call = _Call(self, name, tool_args, ctx, tool)
        marks = tool.tool_def.metadata or {}
        if SUB_AGENT in marks:
            with calling_sub_agents(call.operations()):
                return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        asks = _ASKS in marks or ctx.tool_call_approved
        result = await call.make(asks=asks, metadata=as_shown(ctx.tool_call_metadata))
        if result.details["reason"] == "approval_required":
            result = await call.make(asks=True, metadata=result.details.get("metadata"))
        if result.details["reason"] in RAISED and await may_end_run(self.run.ctx):
            raise ToolRaised(f"tool {self.run.name}.{name}: {result.content}")
        return outcome_of(result)


def _callable(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    definition = tool.tool_def
    if definition.kind != "unapproved":
        return tool
    marked = replace(definition, kind="function", metadata={**(definition.metadata or {}), _ASKS: True})
    return replace(tool, tool_def=marked)


class _Call:
    """A call of a tool: what is shown of it is what runs."""

    def __init__(
        self, tools: Tools, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> None:
        self._tools = tools
        self._name = name
        self._tool_args = tool_args
        self._ctx = ctx
        self._tool = tool
        part = PART.get()
        as_given = part.args_as_dict() if part is not None else {}
        self._is_editable = _equal(partial(self._read, as_given), tool_args)
        """Whether the model's arguments are what the tool gets: then they are shown, and a person may edit them."""
        shown = as_given if self._is_editable else as_json(tool_args, f"an argument of {name}")
        self._shown, self._refusal = read_arguments(name, shown)
        if self._is_editable and part is not None:  # what was read of its text does not show a name that stands twice
            self._refusal = read_arguments(name, part.args or "").problem

    def _read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as the tool takes them. Raises ValidationError if its own schema refuses them."""
        raw = json.dumps(dict(arguments))
        found: dict[str, Any] = self._tool.args_validator.validate_json(raw, context=self._ctx.validation_context)
        return found

    def operations(self) -> Operations:
        """Return the operations of the next use of the call."""
        run, ctx = self._tools.run, self._ctx
        name = run.names.call(ctx.run_step, ctx.tool_call_id or "", self._name, self._shown)
        return run.ctx.named(name)

    async def make(self, *, asks: bool, metadata: Any = None) -> ToolResult[Any]:
        """Make the call; `asks`: whether a person is asked if no rule applies. `metadata`: what the tool says to that
        person, and reads again if the call is approved."""
        supervised, definition = self._tools.run, self._tool.tool_def

        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult[Any]:
            return await self._run(arguments, metadata, is_approved=asks or context.is_allowed)

        return await supervised.written.call(
            self.operations(),
            f"{supervised.name}.{name_word(self._name)}",
            run,
            self._shown,
            refusal=self._refusal,
            because="" if metadata is None else json_text(metadata, indent=2),
            schema=definition.parameters_json_schema,
            description=definition.description or "",
            policy="ask" if asks else supervised.policy,
            timeout=supervised.tool_timeout,
            editable=self._is_editable,
        )

    async def _run(self, arguments: Mapping[str, Any], metadata: Any, *, is_approved: bool) -> ToolResult[Any]:
        ctx = replace(self._ctx, tool_call_approved=is_approved, tool_call_metadata=metadata)
        try:
            tool_args = self._tool_args
            if dict(arguments) != self._shown:
                tool_args = self._read(arguments)
                if (check := self._tool.args_validator_func) is not None:
                    await _awaited(check(ctx, **tool_args))
            with durable_unit_scope(), expecting(self._name, tool_args, self._tool):
                value = await self._tools.wrapped.call_tool(self._name, tool_args, ctx, self._tool)
        except ChangedCall as changed:
            return ToolResult(kind="error", content=str(changed), details=_details("changed", "none"))
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
            details = _details("approval_required", "none")
            if signal.metadata is not None:
                details["metadata"] = as_shown(signal.metadata)
            return ToolResult(kind="error", content="the tool asks for an approval", details=details)
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


def outcome_of(result: ToolResult[Any]) -> Any:
    """Return the value of a call to the framework, or raise what stands for its result."""
    reason, above = result.details["reason"], edit_line(result)
    match result.kind:
        case "denied":
            return ToolDenied(result.content)
        case "ok" if reason == "deferred":
            raise CallDeferred(metadata=result.details["metadata"], kind=result.details["kind"])
        case "ok":
            value = (_tool_return if reason == "tool_return" else _returned).validate_json(json.dumps(result.value))
            return _with_line(above, value) if above else value
        case "error" if reason == "retry":
            raise ModelRetry(above + result.content)
        case "error" if reason == "approval_required":
            raise ApprovalRequired
        case _:
            raise ToolFailed(above + result.content)


def _with_line(line: str, value: Any) -> Any:
    """Return what a tool returned with a line for the model: above a text, else after it as the framework allows."""
    if isinstance(value, str):
        return line + value
    if not isinstance(value, ToolReturn):
        return ToolReturn(return_value=value, content=line)
    if isinstance(value.return_value, str):
        return replace(value, return_value=line + value.return_value)
    others = value.content if isinstance(value.content, Sequence) and not isinstance(value.content, str) else None
    said = [line, *(others if others is not None else [value.content] if value.content else [])]
    return replace(value, content=said)
