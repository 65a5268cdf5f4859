"""What the loop of an OpenAI agent reads: its model's answers, its guardrails and the lists of MCP servers are steps.

Rules
- Each part of a streamed answer is a heartbeat, and its text is shown. The journal has the whole answer, and it is read
  as the provider's client reads it: a server may leave out what it should say.
- The program may have connected an MCP server. Otherwise it is connected when it is first needed, so a replay that only
  reads the journal does not need it. Runs of one process share the connection, and the last one closes it.
"""

import copy
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol

import anyio
from agents import GuardrailFunctionOutput, Model, ModelResponse, RunConfig, Usage
from agents.exceptions import ModelBehaviorError
from agents.mcp import MCPServerManager
from agents.models._retry_runtime import provider_managed_retries_disabled
from mcp.types import Tool as McpTool
from openai.types.responses import Response, ResponseCompletedEvent, ResponseFunctionToolCall
from pydantic import TypeAdapter

from supervisor.agents.busy import telling_busy
from supervisor.agents.framework import Answers, Names, answer_usage, cannot_stream
from supervisor.agents.model_arguments import encodable
from supervisor.agents.openai_agents.failures import note_result
from supervisor.agents.openai_agents.runner import running
from supervisor.agents.plain_json import as_json
from supervisor.core.declarations.tool_context import StepContext
from supervisor.core.usage import Usage as Spending
from supervisor.seam.context import Context

_usages: Final = TypeAdapter(Usage)
CLOSE_TIMEOUT_SECONDS: Final = 5.0  # seconds that closing a connection may take


class Loop(Protocol):
    """The loop that a model and its servers are of."""

    names: Names
    answers: Answers
    requests: int
    written: dict[str, str]
    """What the model wrote as arguments, by the id of the call, where the SDK cannot read it."""
    run_config: RunConfig

    @property
    def ctx(self) -> Context: ...
    @property
    def connections(self) -> "Connections": ...
    @property
    def streams(self) -> bool: ...
    @property
    def limit(self) -> str | None: ...


class _Connection:
    """A connection to a server that the program has not connected itself."""

    def __init__(self, server: Any) -> None:
        self.users = 0
        self.is_open = False
        self.lock = anyio.Lock()
        self.manager = MCPServerManager([server], connect_in_parallel=True, strict=True)


_shared: Final[dict[int, _Connection]] = {}
"""The connections that runs of this process use now, by the id of the server."""


class Connections:
    """The connections that one run uses."""

    def __init__(self) -> None:
        self._used: dict[int, _Connection] = {}
        self._calls = 0
        self._is_idle = anyio.Event()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """A call is under way, which may use a connection."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._is_idle.set()
                self._is_idle = anyio.Event()

    async def idle(self) -> None:
        """Wait until the calls have ended: of a run that fails the SDK cancels them, and does not wait for that."""
        with anyio.move_on_after(CLOSE_TIMEOUT_SECONDS):
            while self._calls:
                await self._is_idle.wait()

    async def open(self, server: Any) -> None:
        """Connect a server, unless it is connected."""
        key = id(server)
        if key not in self._used:
            if key not in _shared and getattr(server, "session", server) is not None:
                return
            self._used[key] = _shared.setdefault(key, _Connection(server))
            self._used[key].users += 1
        connection = self._used[key]
        async with connection.lock:
            if not connection.is_open:
                await connection.manager.connect_all()
                connection.is_open = True

    async def close(self) -> None:
        """Close the connections that no other run uses, whatever happens meanwhile."""
        for key, connection in self._used.items():
            connection.users -= 1
            if not connection.users:
                del _shared[key]
                with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_TIMEOUT_SECONDS):
                    await connection.manager.cleanup_all()
        self._used.clear()


class Server:
    """An MCP server whose list of tools is a step. All else is the server's."""

    def __init__(self, loop: Loop, server: Any) -> None:
        self._loop = loop
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        async def body() -> Any:
            await self._loop.connections.open(self._server)
            return [
                tool.model_dump(mode="json", by_alias=True)
                for tool in await self._server.list_tools(run_context, agent)
            ]

        listed = await self._loop.ctx.named(self._loop.names.request(f"tools of {self._server.name}")).step(body)
        return [McpTool.model_validate(tool) for tool in listed]

    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        await self._loop.connections.open(self._server)
        return note_result(await self._server.call_tool(*args, **kwargs))


def step_guardrail(loop: Loop, guardrail: Any) -> Any:
    """Return a guardrail that is a step: it may ask a model, and its answer must be the same in each attempt."""
    copied = copy.copy(guardrail)

    async def check(*args: Any) -> GuardrailFunctionOutput:
        async def body() -> Any:
            with running(None):
                found = guardrail.guardrail_function(*args)
                found = await found if inspect.isawaitable(found) else found
            return {
                "info": as_json(found.output_info, "what a guardrail found"),
                "is_hit": found.tripwire_triggered,
            }

        said = await loop.ctx.named(loop.names.request(f"guardrail {guardrail.get_name()}")).step(body)
        return GuardrailFunctionOutput(output_info=said["info"], tripwire_triggered=said["is_hit"])

    copied.name = guardrail.get_name()
    copied.guardrail_function = check
    return copied


class StepModel(Model):
    """The model of a copied agent: each request is a step."""

    def __init__(self, loop: Loop, model: str | Model | None) -> None:
        self._loop = loop
        self._model = model

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        loop = self._loop
        loop.requests += 1

        async def body(step: StepContext) -> Any:
            model = self._model
            if not isinstance(model, Model):
                model = loop.run_config.model_provider.get_model(model)
            response = None
            with telling_busy(loop.limit), provider_managed_retries_disabled(loop.limit is not None):
                if loop.streams:
                    write = partial(loop.answers.write, step.stream, object())
                    response = await _streamed(lambda: model.stream_response(*args, **kwargs), step, write)
                if response is None:
                    response = await model.get_response(*args, **kwargs)
            step.used(_used(response.usage, getattr(model, "model", "")))
            return _dumped(response)

        async with loop.ctx.model_call(limit=loop.limit):
            raw = await loop.ctx.named(f"request {loop.requests}").step(body)
        response = _read_response(raw)
        for item in response.output:
            if isinstance(item, ResponseFunctionToolCall):
                item.call_id = loop.names.call_id(item.call_id)
                if (text := encodable(item.arguments)) != item.arguments:
                    loop.written[item.call_id], item.arguments = item.arguments, text
        return response

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Give an answer to a streaming run as one event."""
        response = await self.get_response(*args, **kwargs)
        whole = Response.model_construct(
            id=response.response_id or "",
            created_at=0.0,
            model="",
            object="response",
            output=response.output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(type="response.completed", sequence_number=0, response=whole)


def _used(said: Usage, model: Any) -> Spending:
    """Return what a response took."""
    cached = getattr(said.input_tokens_details, "cached_tokens", None)
    return answer_usage(model, said.input_tokens, cached, said.output_tokens, said.requests or 1)


def _dumped(response: ModelResponse) -> dict[str, Any]:
    return {
        "output": [item.model_dump(mode="json", exclude_unset=True, warnings=False) for item in response.output],
        "usage": _usages.dump_python(response.usage, mode="json"),
        "response_id": response.response_id,
        "request_id": response.request_id,
    }


def _read_response(raw: dict[str, Any]) -> ModelResponse:
    """Read a response as the provider's client does: a server may leave out what it should say."""
    return ModelResponse(
        output=Response.construct(output=raw["output"]).output,
        usage=_usages.validate_python(raw["usage"]),
        response_id=raw["response_id"],
        request_id=raw["request_id"],
    )


async def _streamed(ask: Callable[[], Any], step: StepContext, write: Callable[[str], None]) -> ModelResponse | None:
    """Return the response of a model that streams; None if the model cannot stream."""
    heard = False

    async def heard_of(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        nonlocal heard
        async for event in events:
            heard = True
            yield event

    try:
        events = ask()
        if not hasattr(events, "__aiter__"):  # a method that was written only because there must be one
            if inspect.iscoroutine(events):
                events.close()
            return None
        return await _collect(heard_of(events), step, write)
    except Exception as error:
        if heard or not cannot_stream(error):
            raise
        return None


async def _collect(events: AsyncIterator[Any], step: StepContext, write: Callable[[str], None]) -> ModelResponse:
    """Return the response that a stream ends with; each of its events is a heartbeat. `write` gets its text."""
    done: list[Any] = []
    async for event in events:
        step.heartbeat()
        match event.type:
            case "response.output_text.delta":
                write(event.delta)
            case "response.output_item.done":
                done.append(event.item)
            case "response.completed":
                response = event.response
                usage = Usage(requests=1)
                if (said := response.usage) is not None:
                    usage = Usage(
                        requests=1,
                        input_tokens=said.input_tokens or 0,
                        output_tokens=said.output_tokens or 0,
                        total_tokens=said.total_tokens or 0,
                        input_tokens_details=said.input_tokens_details,
                        output_tokens_details=said.output_tokens_details,
                    )
                return ModelResponse(output=response.output or done, usage=usage, response_id=response.id)
            case "response.failed" | "response.incomplete" | "error" | "response.error":
                raise ModelBehaviorError(f"the model's answer ended as {event.type}: {event}")
            case _:
                pass
    raise ModelBehaviorError("the model's answer ended before it was complete")
