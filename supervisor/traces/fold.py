"""The fold of a session's journal for its spans: a span is known when it ends, with its true start.

Rules
- The spans are the same whether the entries are folded as they come, or later from the journal.
- It keeps what is open, and nothing of what has ended.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.approvals.state import PENDING, ends_approval
from supervisor.core.encoding import JSON_NULL
from supervisor.core.text.masks import hide, mask_arguments
from supervisor.core.usage import NOTHING, Spent, spent_by
from supervisor.traces import names

_GOOD: Final = ("succeeded", "cancelled", "ok", "denied")
"""Outcomes of runs, and kinds of results, that are no errors."""


class Ended(NamedTuple):
    """A span that has ended. `operation`: that of a call. `error`: its `error.type`."""

    kind: Literal["run", "call", "wait"]
    name: str
    began: datetime
    at: datetime
    attributes: dict[str, Any]
    error: str | None = None
    operation: str = ""


class SessionFold:
    """What is open in one session. `contents`: whether inputs, arguments and results are told, too."""

    __slots__ = (
        "_asked",
        "_began",
        "_contents",
        "_input",
        "_run_began",
        "_spent",
        "_spent_by",
        "_waits",
        "agent",
        "attempt",
        "attempt_began",
        "id",
        "left",
        "root",
        "run",
        "traceparent",
        "version",
    )

    def __init__(self, session: str, contents: bool) -> None:
        self.id = session
        self.agent = self.root = ""
        self.traceparent: str | None = None
        self.run = self.attempt = 0
        self.attempt_began: datetime | None = None
        self.version: str | None = None
        self.left: str | None = None
        """How the latest attempt left memory, if the journal says so."""
        self._contents = contents
        self._run_began: datetime | None = None
        self._spent = NOTHING
        """By the run so far."""
        self._spent_by: dict[str, Spent] = {}
        """By calls without a result."""
        self._input = JSON_NULL
        self._waits: dict[str, tuple[str, datetime]] = {}
        self._asked: dict[str, tuple[e.ToolCallRequested, Raw]] = {}
        """Calls without a result, with the arguments that count."""
        self._began: dict[str, datetime] = {}

    @property
    def attributes(self) -> dict[str, Any]:
        """What every span of the session has."""
        return {
            names.AGENT_NAME: self.agent,
            names.CONVERSATION_ID: self.id,
            names.ROOT_SESSION: self.root,
            names.RUN: self.run,
        }

    def began(self, operation: str) -> datetime | None:
        """Return when an executing call began."""
        return self._began.get(operation)

    def take(self, event: e.AnyEvent) -> Iterator[Ended]:  # noqa: C901 # one case per kind of fact, none with logic
        """Take the session's next entry. Yield the spans that end with it: consume them all."""
        at = event.at
        match event:
            case e.SessionCreated():
                self.agent, self.root, self.traceparent = event.path[-1], event.root, event.traceparent
            case e.RunStarted():
                self.run += 1
                self.attempt = self.attempt if event.again is not None else 0
                self._run_began, self._input = at, event.input
                self._spent = self._spent if event.again is not None else NOTHING
            case e.ImportStarted():
                self.run += 1
            case e.SessionForked():
                self._run_began = at
                self._waits = {operation: (kind, at) for operation, (kind, _) in self._waits.items()}
            case e.AttemptStarted():
                self.attempt += 1
                self.attempt_began, self.version, self.left = at, event.version, None
            case e.RunPassivated():
                self.left = "passivated"
            case e.RunBlocked():
                self.left = "blocked"
            case e.RunRestarted():
                self.left = "restarted"
                self._waits |= dict.fromkeys(event.reopened, ("timer", at))
            case e.ToolCallRequested():
                self._asked[event.operation] = event, event.arguments
                if event.approval is not None:
                    self._waits[event.operation] = "approval", at
            case e.QuestionAsked():
                self._waits[event.operation] = "question", at
            case e.OperationStarted():
                self._waits[event.operation] = "timer", at
            case _ if ends_approval(event):
                said = PENDING.apply(event)
                if said.edited is not None and event.operation in self._asked:
                    self._asked[event.operation] = self._asked[event.operation][0], said.edited
                yield from self._end_wait(event.operation, at, said.decision or said.status)
                if isinstance(event, e.OperationAbandoned):
                    yield from self._end_call(event.operation, at, "interrupted", event.content, "cancelled")
            case e.OperationFinished():
                yield from self._end_wait(event.operation, at, None)
            case e.ToolCallStarted():
                self._began[event.operation] = at
            case e.UsageSpent():
                spent = spent_by(event.usage)
                self._spent += spent
                if event.operation in self._began:
                    self._spent_by[event.operation] = self._spent_by.get(event.operation, NOTHING) + spent
            case e.ToolCallFinished():
                yield from self._end_wait(event.operation, at, "withdrawn")
                yield from self._end_call(event.operation, at, event.kind, event.content, _reason(event))
            case e.RunFinished():
                self.left = event.kind
                for operation in [*self._waits]:
                    yield from self._end_wait(operation, at, "withdrawn")
                yield from self._end_run(event)
            case _:
                pass

    def _end_wait(self, operation: str, at: datetime, decision: str | None) -> Iterator[Ended]:
        if (wait := self._waits.pop(operation, None)) is None:
            return
        kind, began = wait
        found = {**self.attributes, names.WAIT: kind, names.OPERATION: operation}
        if decision is not None and kind != "timer":
            found[names.DECISION] = decision
        if operation in self._asked:
            found[names.TOOL_NAME] = self._asked[operation][0].tool
        yield Ended("wait", f"wait {kind}", began, at, found)

    def _end_call(self, operation: str, at: datetime, kind: str, content: str, reason: str) -> Iterator[Ended]:
        asked, began = self._asked.pop(operation, None), self._began.pop(operation, None)
        spent = self._spent_by.pop(operation, NOTHING)
        if asked is None or began is None:
            return
        request, arguments = asked
        found = {
            **self.attributes,
            **call_attributes(request.tool, operation),
            **usage_attributes(spent),
            names.RESULT: kind,
        }
        if self._contents:
            shown = hide(mask_arguments(msgspec.json.decode(arguments), request.secret))
            found[names.TOOL_CALL_ARGUMENTS] = msgspec.json.encode(shown).decode()
            found[names.TOOL_CALL_RESULT] = content
        error = None if kind in _GOOD else reason
        yield Ended("call", f"{names.EXECUTE_TOOL} {request.tool}", began, at, found, error, operation)

    def _end_run(self, event: e.RunFinished) -> Iterator[Ended]:
        if self._run_began is None:
            return
        found = {
            **self.attributes,
            names.OPERATION_NAME: names.INVOKE_AGENT,
            names.PROVIDER_NAME: names.PROVIDER,
            names.OUTCOME: event.kind,
            **usage_attributes(self._spent),
        }
        if self.version is not None:
            found[names.AGENT_VERSION] = self.version
        if self._contents:
            found[names.INPUT_MESSAGES] = _message("user", self._input)
            if event.kind == "succeeded":
                found[names.OUTPUT_MESSAGES] = _message("assistant", event.value, finish_reason="stop")
        error = None if event.kind in _GOOD else event.kind
        yield Ended("run", f"{names.INVOKE_AGENT} {self.agent}", self._run_began, event.at, found, error)
        self._run_began = None


def usage_attributes(spent: Spent) -> dict[str, Any]:
    """Return what the span of a run or a call says of the models that it asked; nothing if it asked none."""
    if spent == NOTHING:
        return {}
    tokens = {names.INPUT_TOKENS: spent.input_tokens, names.OUTPUT_TOKENS: spent.output_tokens}
    money = {} if spent.unpriced and not spent.usd else {names.USD: spent.usd}
    unpriced = {names.UNPRICED: spent.unpriced} if spent.unpriced else {}
    return {**tokens, names.MODEL_REQUESTS: spent.requests, **money, **unpriced}


def call_attributes(tool: str, operation: str) -> dict[str, Any]:
    """Return what the span of every call has."""
    return {
        names.OPERATION_NAME: names.EXECUTE_TOOL,
        names.TOOL_NAME: tool,
        names.TOOL_TYPE: "function",
        names.TOOL_CALL_ID: operation,
    }


def _reason(event: e.ToolCallFinished) -> str:
    """Return why a call failed: one of our words, and no text of the tool."""
    details = msgspec.json.decode(event.details)
    reason = details.get("reason") if isinstance(details, dict) else None
    return reason if reason in _REASONS else event.kind


_REASONS: Final = (
    "cancelled",
    "connection_lost",
    "busy",
    "deadline",
    "exception",
    "failed",
    "invalid_arguments",
    "invalid_result",
    "limit",
    "lost",
    "unknown_tool",
)
"""A tool may give its results other reasons, which are its own text."""


def _message(role: str, value: Raw, **more: str) -> str:
    """Return one message as the convention writes it."""
    decoded = msgspec.json.decode(value)
    text = decoded if isinstance(decoded, str) else bytes(value).decode()
    return msgspec.json.encode([{"role": role, "parts": [{"type": "text", "content": text}], **more}]).decode()
