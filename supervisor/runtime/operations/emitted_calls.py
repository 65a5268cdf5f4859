"""Calls that a model emitted: each is looked up by name among the agent's tools, and answered whatever the model wrote.

Rules
- An unknown tool, or arguments that do not fit, make the call's result an error that the model can read. It is
  journaled like any other result. No approval is asked, and nothing runs. So do arguments that would be read as others
  than the model wrote: a key that stands twice, a NaN; and a deadline beyond the ceiling for models. A call that a
  former version has journaled with such goes on.
- The operation id of a call holds the model's id, the arguments, and a counter of calls with both the same: models
  repeat their ids, even within one message.
- A call of a sub-agent makes a child session, committed with `executing`. The child's outcome is the call's result.
  After a crash the call is not lost, since the child goes on by itself. If a scope of the agent cancels the call, the
  child is cancelled, too: no other caller could get its outcome.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from supervisor.core import events as e
from supervisor.core.calls.content import CallContent, content_of
from supervisor.core.declarations.agent_spec import AgentSpec, AnyTool
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.encoding import INEXACT, from_json, is_exact, printable_text, repeated_key, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.sessions.state import SessionState
from supervisor.core.text.masks import mask_arguments
from supervisor.core.values import OutcomeKind, ResultKind, ToolCall
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.operation_ids import Place
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.operations.calls import NOT_BEGUN, NOTHING_SAID, Call, Effect, Said
from supervisor.runtime.operations.children import begin_child
from supervisor.runtime.operations.function_calls import FunctionCall
from supervisor.runtime.plans.end import cancel_events
from supervisor.runtime.plans.results import finished_call
from supervisor.system.identity import host_of

_LONGEST_NAME_CHARACTERS: Final = 64  # characters of a name that a model made up
_RESULTS: Final[Mapping[OutcomeKind, tuple[ResultKind, Effect]]] = {
    "succeeded": ("ok", "done"),
    "failed": ("error", "maybe"),
    "stalled": ("error", "maybe"),
    "abandoned": ("error", "maybe"),
    "cancelled": ("interrupted", "maybe"),
}


def model_call(attempt: Attempt, place: Place, call: ToolCall, said: Said = NOTHING_SAID) -> Call:
    """Return the call for a model's ToolCall. Raises InvalidInput if two live tasks make the same call."""
    call = ToolCall(printable_text(str(call.id)), printable_text(str(call.tool)), call.arguments)
    tools = attempt.spec.tools
    if (tool := tools.get(call.tool)) is None:
        text = f"there is no tool {call.tool[:_LONGEST_NAME_CHARACTERS]!r}; the tools are: {', '.join(tools) or 'none'}"
        secret = {name for each in tools.values() if isinstance(each, ToolSpec) for name in each.secret}
        return RefusedCall(attempt, place, call, "unknown_tool", text, secret, ())
    try:
        arguments, problem = _read(call, tool)
        if not isinstance(tool, ToolSpec):
            return AgentCall(
                attempt, place, tool, tool.encode_input((), arguments), call.id, inexact=problem, said=said
            )
        made = FunctionCall(attempt, place, tool, *tool.spread(arguments), model_id=call.id, said=said)
        attempt.refuse_new(made.operation, problem or made.why_too_long)
        return made
    except InvalidInput as error:
        secret = set(tool.secret) if isinstance(tool, ToolSpec) else set()
        return RefusedCall(attempt, place, call, "invalid_arguments", str(error), secret, tool.offered_names)


def _read(call: ToolCall, tool: AnyTool) -> tuple[dict[str, Any], str | None]:
    """Return the arguments by name, as JSON values, and why they are not what the model wrote; None: they are. Raises
    InvalidInput unless they fit the tool."""
    raw, problem = _given(call)
    tool.read_offered(raw)
    arguments: dict[str, Any] = msgspec.json.decode(raw)
    return arguments, problem


def _given(call: ToolCall) -> tuple[msgspec.Raw, str | None]:
    """Return the arguments as JSON, and why that does not say what the model wrote; None: it does. An empty text means
    no arguments. Raises InvalidInput if they are not JSON."""
    what = f"the arguments of tool {call.tool}"
    if not isinstance(call.arguments, str):
        value = dict(call.arguments) if isinstance(call.arguments, Mapping) else call.arguments
        raw = to_json(value, what)
        return raw, None if is_exact(value, raw) else f"{what}: {INEXACT}"
    text = (printable_text(call.arguments).strip() or "{}").encode()
    raw = to_json(value := from_json(text, Any, what), what)
    key = repeated_key(text, value)
    return raw, None if key is None else f"{what}: {key!r} stands twice in one object: write it once"


class RefusedCall(Call):
    """A call that cannot be made: its result says what is wrong with it.

    `secret`: the names of the secret arguments of the tool, or of all tools if the tool is unknown. If there are any,
    arguments that are not in `offered` are masked, too: one may be a misspelt secret argument.
    """

    __slots__ = ("_reason", "_text")

    def __init__(
        self,
        attempt: Attempt,
        place: Place,
        call: ToolCall,
        reason: str,
        text: str,
        secret: set[str],
        offered: Collection[str],
    ) -> None:
        try:
            arguments, _ = _given(call)
        except InvalidInput:
            arguments = to_json(printable_text(str(call.arguments)), "what a model wrote")
        given = msgspec.json.decode(arguments)
        if secret and isinstance(given, dict):
            secret = secret.union(given.keys() - set(offered))
        name = re.sub(r"[^\w.-]", "_", call.tool, flags=re.ASCII)[:_LONGEST_NAME_CHARACTERS]
        named = mask_arguments(given, secret)
        operation = attempt.names.of_operation(place, "call", name, [call.id, named])
        folder, masked = attempt.state.facts.cwd, tuple(sorted(secret))
        content = content_of(call.tool[:_LONGEST_NAME_CHARACTERS], arguments, given, folder=folder, secret=masked)
        super().__init__(attempt, operation, content)
        self._reason = reason
        self._text = text

    @property
    def value_type(self) -> Any:
        return Any

    def ask_rules(
        self, view: View, state: SessionState, content: CallContent, now: datetime, kept: Collection[str] = ()
    ) -> None:
        """Return None: no rule applies to a call that cannot be made."""

    def begin_events(self, at: datetime) -> Iterable[e.AnyEvent]:
        yield finished_call(self.operation, at, "error", self._text, self._details)

    def check(self, arguments: msgspec.Raw, *, is_edited: bool) -> None:
        """Raise: the call was accepted by an earlier version of its tool, and today's code blocks the run (R1)."""
        raise InvalidInput(self._text)

    async def perform(self, arguments: None, *, is_executing: bool) -> None:
        """Finish with the error."""
        await self.finish("error", self._text, self._details)

    @property
    def _details(self) -> dict[str, Any]:
        return {"reason": self._reason, "effect": "none"}


class AgentCall(Call):
    """A call of a sub-agent."""

    __slots__ = ("_agent",)

    def __init__(
        self,
        attempt: Attempt,
        place: Place,
        agent: AgentSpec[..., Any],
        given: msgspec.Raw,
        model_id: str = "",
        *,
        inexact: str | None = None,
        said: Said = NOTHING_SAID,
    ) -> None:
        """`given`: the agent's input. `model_id`: the id of the call, if a model emitted it. `inexact`: why `given`
        does not say what the caller gave."""
        self._agent = agent
        arguments = agent.input_as_arguments(given)
        named = msgspec.json.decode(arguments)
        operation = attempt.names.of_operation(place, "call", agent.name, [model_id, named])
        attempt.refuse_new(operation, inexact or attempt.host.environment.why_too_large(arguments, agent.name))
        content = content_of(agent.name, arguments, named, folder=attempt.state.facts.cwd)
        super().__init__(attempt, operation, content, is_idempotent=True, said=said)

    @property
    def value_type(self) -> Any:
        return self._agent.return_type

    @property
    def refusal(self) -> str:
        return self._agent.refusal

    def check(self, arguments: msgspec.Raw, *, is_edited: bool) -> msgspec.Raw:
        self._agent.read_offered(arguments)
        return self._agent.encode_input((), msgspec.json.decode(arguments))

    async def perform(self, arguments: msgspec.Raw, *, is_executing: bool) -> None:
        attempt = self.attempt
        if self._child is None:
            await begin_child(attempt, self.operation, self._agent, arguments, self._entry)
        if (child := self._child) is None:
            return  # a limit refused the sub-agent, and the result says so
        await attempt.wait(self.operation, child, lambda: attempt.state.children[child] is not None)
        ended = attempt.state.children[child]
        assert ended is not None
        kind, effect = _RESULTS[ended.kind]
        value = msgspec.json.decode(ended.value)
        content = value if isinstance(value, str) else bytes(ended.value).decode()
        reason = None if kind == "ok" else ended.kind
        said = {"said": ended.said} if ended.said else {}
        details = {"reason": reason, "effect": effect, "child": child, "partial": ended.partial, **said}
        await self.finish(kind, content if kind == "ok" else ended.cause or ended.kind, details, ended.value)

    @property
    def _child(self) -> str | None:
        """The session of the sub-agent, once it has begun."""
        record = self.attempt.state.operations.get(self.operation)
        return record.started.child if record is not None and record.started is not None else None

    def check_rules(self, view: View, state: SessionState) -> None:
        """Check the rules only before the sub-agent has begun: after that it is too late to deny the call."""
        if self._child is None:
            super().check_rules(view, state)

    def _entry(self, view: View, now: datetime, child: str, limit: str | None) -> e.AnyEvent:
        self.check_rules(view, view.session(self.attempt.session))
        if limit is not None:
            return finished_call(self.operation, now, "error", limit, {"reason": "limit", "effect": "none"})
        host = host_of(is_shared=view.store.is_shared)
        return e.ToolCallStarted(at=now, operation=self.operation, host=host, pid=os.getpid(), child=child)

    async def abandon(self, content: str = "", details: Mapping[str, Any] = NOT_BEGUN) -> None:
        child = self._child
        await super().abandon(content, details if child is None else {**details, "effect": "maybe", "child": child})

    def follow_abandonment(self, view: View) -> Iterable[Entry]:
        child = self._child
        children = view.session(self.attempt.session).children
        if child is not None and child in children and children[child] is None:
            by = f"its parent {self.attempt.spec.name}"
            yield from cancel_events(view, child, by, "the call was cancelled", self.now())
