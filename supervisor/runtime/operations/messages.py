"""Conversations: what is said to a session is kept until it is received or begins a turn, and its sender told which
(R7).

Rules
- A message is in the transcript where the agent took it: received it, or began a turn with it. What began this run is
  its input, and stands in the transcript of the next.
- What was imported stands before everything else in a transcript, marked as imported.
- A message during a run is kept for `ctx.receive()`; what was not received when the run ends begins the next turn
  (runtime/plans/turns.py).
- A message is taken and given to the agent in one step, when no result stands before it: a `receive` that is cancelled
  leaves its message in the inbox.
"""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from supervisor.abc import JournalEntry
from supervisor.core import events as e
from supervisor.core.encoding import printable, to_json
from supervisor.core.values import Message
from supervisor.runtime.attempt.attempt import Attempt


async def receive(attempt: Attempt, branch: str) -> str:
    """Wait for a message; see Context.receive."""
    operation = attempt.names.of_operation(branch, "receive", "", None)
    attempt.begin_operation()
    try:
        if await attempt.enter(operation) is None:
            is_taken = False
            while not is_taken:
                await attempt.wait(operation, e.MESSAGE, lambda: bool(attempt.state.inbox))
                await attempt.wait_for_place()
                is_taken = await attempt.deliver(lambda: _taken(attempt, operation))
        record = await attempt.take(operation)
    finally:
        attempt.end_operation(operation)
    return _text_of(record.result)


def _taken(attempt: Attempt, operation: str) -> e.OperationFinished | None:
    """Take the oldest message; None if another receiver was faster, or other results stand before it."""
    if not attempt.has_place:
        return None
    for message in attempt.state.inbox.values():
        now, text = attempt.host.clock.now(), to_json(message.text, "a message")
        return e.OperationFinished(at=now, operation=operation, kind="receive", value=text, message=message.message)
    return None


async def say(attempt: Attempt, branch: str, text: str) -> None:
    """Say something to whoever watches; see Context.send."""
    operation = attempt.names.of_operation(branch, "send", "", text)
    attempt.begin_operation()
    try:
        if await attempt.enter(operation) is None:
            now = attempt.host.clock.now()
            said = e.MessageSent(at=now, text=printable(text), operation=operation)
            done = e.OperationFinished(at=now, operation=operation, kind="send")
            await attempt.append(lambda view, state: [said, done])
        await attempt.take(operation)
    finally:
        attempt.end_operation(operation)


def transcript(rows: list[JournalEntry], runs: int) -> tuple[Message, ...]:  # noqa: C901 # one case per kind of fact
    """Return what was said before the `runs`-th run began, with each approval where it was asked, and its answer."""
    said: list[Message] = []
    inbox: dict[str, e.MessageReceived] = {}
    asked: dict[str, tuple[int, str, e.ToolCallRequested | None]] = {}
    """Approval, or operation, -> its place, what was asked, and the call if it was one."""
    requester: str | None = None
    for row in rows:
        event = row.event
        if type(event) in e.BEGINS_RUN:
            runs -= 1
            if not runs:
                break
        match event:
            case e.SessionCreated():
                requester = event.requester
            case e.MessageReceived():
                inbox[event.message] = event
            case e.RunStarted(message=None, again=None):
                if (text := _text_in(event.input)) is not None:
                    said.append(Message(kind="received", text=text, at=event.at, by=requester))
            case e.RunStarted(message=str() as taken) | e.OperationFinished(message=str() as taken):
                message = inbox.pop(taken)
                said.append(Message(kind="received", text=message.text, at=message.at, by=message.by))
            case e.MessageSent():
                said.append(Message(kind="sent", text=event.text, at=event.at))
            case e.MessageImported():
                said.append(_imported(event))
            case e.ToolCallRequested(approval=str() as approval):
                text = _call_text(event.tool, event.arguments)
                asked[approval] = asked[event.operation] = len(said), text, event
                said.append(_pending("approval", event.at, approval, text))
            case e.QuestionAsked(approval=approval):
                asked[approval] = asked[event.operation] = len(said), event.question, None
                said.append(_pending("question", event.at, approval, event.question))
            case e.ApprovalDecided() | e.QuestionAnswered() | e.ApprovalExpired() | e.ApprovalWithdrawn():
                place, question, call = asked[event.approval]
                said[place] = _answered(said[place], question, call, event)
            case e.OperationAbandoned() if event.operation in asked:
                place, question, call = asked[event.operation]
                said[place] = _answered(said[place], question, call, event)
            case _:
                pass
    return tuple(said)


def _text_in(raw: msgspec.Raw) -> str | None:
    """Return the input of a run, if it is text: then it was said to the session."""
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) else None


def _imported(event: e.MessageImported) -> Message:
    kinds: dict[str, Literal["received", "sent", "call", "result"]]
    kinds = {"user": "received", "assistant": "sent", "call": "call", "result": "result"}
    return Message(
        kind=kinds[event.role],
        text=event.text,
        at=event.said_at or event.at,
        imported=True,
        tool=event.tool,
        call=event.call,
        is_error=event.is_error,
    )


def _call_text(tool: str, arguments: msgspec.Raw) -> str:
    return f"{tool} {bytes(arguments).decode()}"


def _pending(kind: Literal["approval", "question"], at: datetime, approval: str, question: str) -> Message:
    return Message(kind=kind, text=f"{question}: pending", at=at, approval=approval)


def _answered(message: Message, question: str, call: e.ToolCallRequested | None, event: e.AnyEvent) -> Message:
    """Return what was asked with what came of it, unless it has an answer already: it was decided, and then given
    up."""
    if message.text != f"{question}: pending":
        return message
    match event:
        case e.ApprovalDecided():
            came = event.decision + (f" ({event.reason})" if event.reason else "")
            return replace(message, text=f"{_as_it_runs(question, call, event.edited)}: {came}", by=event.by)
        case e.QuestionAnswered():
            value = msgspec.json.decode(event.value)
            answer = value if isinstance(value, str) else bytes(event.value).decode()
            return replace(message, text=f"{question}: {answer}", by=event.by)
        case e.ApprovalExpired():
            return replace(message, text=f"{question}: expired")
        case _:
            reason = getattr(event, "reason", None)
            return replace(message, text=f"{question}: withdrawn" + (f" ({reason})" if reason else ""))


def _as_it_runs(question: str, call: e.ToolCallRequested | None, edited: msgspec.Raw | None) -> str:
    """Return what was asked; of an edited call what runs, and what it asked for (A8)."""
    if call is None or edited is None or msgspec.json.decode(edited) == msgspec.json.decode(call.arguments):
        return question
    return f"{_call_text(call.tool, edited)} (edited; asked for {bytes(call.arguments).decode()})"


def _text_of(result: object) -> str:
    assert isinstance(result, e.OperationFinished)
    return msgspec.json.decode(result.value, type=str)
