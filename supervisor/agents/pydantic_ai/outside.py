"""Results that come from outside of a Pydantic AI run: of external tools, of `CallDeferred`, and of external events.

Rules
- A person is asked for each result, by a question that waits on disk. The answer is what the model reads.
- A handler of the agent's own goes first (`RequestInput`, or another capability). What it answers at once is a step,
  and no person is asked. What it leaves to an external event is a question.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, Literal, Protocol

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults

from supervisor.agents.framework import Names, name_word
from supervisor.agents.model_arguments import read_arguments
from supervisor.core.errors import QuestionUnanswered
from supervisor.core.text.visible import json_text
from supervisor.seam.context import Context

try:
    from pydantic_ai.external_events import ExternalEventError, ExternalEventWaiter, external_event_scope
except ImportError:  # it came after 2.61, and without it there is nothing that waits so
    external_event_scope = None  # type: ignore[assignment]
    ExternalEventWaiter = object  # type: ignore[assignment,misc]
    ExternalEventError = Exception  # type: ignore[assignment,misc]


class AskedRun(Protocol):
    """The attempt whose calls wait. `deferred`: what the framework has asked for last, of which no result is known."""

    name: str
    names: Names
    deferred: DeferredToolRequests | None

    @property
    def ctx(self) -> Context: ...


async def _result_of(run: AskedRun, call: ToolCallPart, metadata: Any) -> Any:
    """Ask a person for the result of a call."""
    arguments = read_arguments(call.tool_name, call.args or "{}").arguments
    name = run.names.request(f"result of {name_word(call.tool_name)} {name_word(call.tool_call_id)}")
    also = f"\n{json_text(metadata, indent=2)}" if metadata else ""
    text = f"{run.name}.{call.tool_name} gets its result from a person. Its arguments: {json_text(arguments)}{also}"
    try:
        return await run.ctx.named(name).ask(text)
    except QuestionUnanswered as error:
        return ToolFailed(str(error))


class _Deferred(AbstractCapability[Any]):
    """Gets the results that the framework asks for before all other capabilities (outermost), or after them."""

    def __init__(
        self,
        position: Literal["outermost", "innermost"],
        handle: Callable[[DeferredToolRequests], Awaitable[DeferredToolResults | None]],
    ) -> None:
        self._position = position
        self._handle = handle

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position=self._position)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        return await self._handle(requests)


def around(run: AskedRun, capability: AbstractCapability[Any]) -> list[AbstractCapability[Any]]:
    """Return a capability of a run between one that notes what the framework asks for, and one that asks people for the
    results that no capability has."""

    async def note(requests: DeferredToolRequests) -> None:
        run.deferred = requests

    async def ask(requests: DeferredToolRequests) -> DeferredToolResults | None:
        if not requests.calls:
            return None
        said = requests.metadata
        found = {each.tool_call_id: await _result_of(run, each, said.get(each.tool_call_id)) for each in requests.calls}
        return requests.build_results(calls=found)

    return [_Deferred("outermost", note), capability, _Deferred("innermost", ask)]


def events_of(run: AskedRun) -> AbstractContextManager[Any]:
    """Let external events of the run in this block be questions."""
    return nullcontext() if external_event_scope is None else external_event_scope(_Waiter(run))


class _Waiter(ExternalEventWaiter):
    """Waits for an external event by a question."""

    def __init__(self, run: AskedRun) -> None:
        self._run = run

    async def wait(self, name: str, *, ask: Callable[[str], Awaitable[Any]], timeout: timedelta | None) -> Any:
        run = self._run
        operation = run.names.request(f"event {name_word(name)}")
        token = f"{run.ctx.session} {operation}"

        async def body() -> Any:
            return await ask(token)

        if (answer := await run.ctx.named(f"asking for {operation}").step(body)) is not None:
            return answer
        requests = run.deferred
        if requests is not None:
            run.deferred = None
            found = {}
            for each in requests.calls:
                said = await _result_of(run, each, requests.metadata.get(each.tool_call_id))
                if isinstance(said, ToolFailed):
                    raise ExternalEventError(str(said))
                found[each.tool_call_id] = said
            approved = {each.tool_call_id: True for each in requests.approvals}  # a person is asked when they are made
            return {"calls": found, "approvals": approved}
        seconds = None if timeout is None else timeout.total_seconds()
        try:
            return await run.ctx.named(operation).ask(f"{run.name} waits for {name} from outside", expires_in=seconds)
        except QuestionUnanswered as error:
            raise ExternalEventError(str(error)) from error
