"""Conversations: what is said to a session is kept until it is received or begins a turn, and its sender told which
(R7).

Rules
- A message during a run is kept for `ctx.receive()`; what was not received when the run ends begins the next turn
  (runtime/turns.py).
"""

import msgspec

from supervisor.abc import Row
from supervisor.core import events as e
from supervisor.core.specs import printable, to_json
from supervisor.core.values import Message
from supervisor.runtime.attempt import Attempt


async def receive(attempt: Attempt, branch: str) -> str:
    """Wait for a message; see Context.receive."""
    operation = attempt.name_operation(branch, "receive", "", None)
    with attempt.operating():
        if await attempt.enter(operation) is None:
            await attempt.wait(operation, e.MESSAGE, lambda: bool(attempt.state.inbox))
            while not await attempt.deliver(lambda: _taken(attempt, operation)):
                await attempt.wait(operation, e.MESSAGE, lambda: bool(attempt.state.inbox))
        record = await attempt.take(operation)
    return _text_of(record.result)


def _taken(attempt: Attempt, operation: str) -> e.OperationFinished | None:
    """Take the oldest message; None if another receiver was faster."""
    for message in attempt.state.inbox.values():
        now, text = attempt.host.clock.now(), to_json(message.text, "a message")
        return e.OperationFinished(at=now, operation=operation, kind="receive", value=text, message=message.message)
    return None


async def say(attempt: Attempt, branch: str, text: str) -> None:
    """Say something to whoever watches; see Context.send."""
    operation = attempt.name_operation(branch, "send", "", text)
    with attempt.operating():
        if await attempt.enter(operation) is None:
            now = attempt.host.clock.now()
            said = e.MessageSent(at=now, text=printable(text), operation=operation)
            done = e.OperationFinished(at=now, operation=operation, kind="send")
            await attempt.append(lambda view, state: [said, done])
        await attempt.take(operation)


def transcript(rows: list[Row], runs: int) -> tuple[Message, ...]:
    """Return what was said before the `runs`-th run began, with each approval where it was asked, and its answer."""
    said: list[Message] = []
    asked: dict[str, int] = {}
    for row in rows:
        event = row.event
        if isinstance(event, e.RunStarted):
            runs -= 1
            if not runs:
                break
        match event:
            case e.MessageReceived():
                said.append(Message(kind="received", text=event.text, at=event.at, by=event.by))
            case e.MessageSent():
                said.append(Message(kind="sent", text=event.text, at=event.at))
            case e.ToolCallRequested(approval=str() as approval):
                text = f"{event.tool} {bytes(event.arguments).decode()}: pending"
                asked[approval] = len(said)
                said.append(Message(kind="approval", text=text, at=event.at, approval=approval))
            case e.ApprovalDecided() | e.ApprovalWithdrawn():
                place = asked[event.approval]
                said[place] = _answered(said[place], event)
            case _:
                pass
    return tuple(said)


def _answered(message: Message, event: e.ApprovalDecided | e.ApprovalWithdrawn) -> Message:
    by, verdict = (event.by, event.decision) if isinstance(event, e.ApprovalDecided) else (None, "withdrawn")
    reason = f" ({event.reason})" if event.reason else ""
    return Message(
        kind="approval",
        text=f"{message.text.removesuffix(': pending')}: {verdict}{reason}",
        at=message.at,
        by=by,
        approval=message.approval,
    )


def _text_of(result: object) -> str:
    assert isinstance(result, e.OperationFinished)
    return msgspec.json.decode(result.value, type=str)
