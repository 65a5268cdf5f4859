"""Conversations: a session keeps a message until its agent receives it or a turn begins with it (R7).

Rules
- In the transcript, a message stands where the agent took it: by `ctx.receive()`, or as the input of a turn. The
  message that began the current run is its input, and is in the transcript of the next run.
- Imported messages stand before all others in a transcript, and are marked as imported.
- A message that arrives during a run is kept for `ctx.receive()`. If the run ends before it is received, it begins the
  next turn (runtime/plans/turns.py).
- A message is taken from the inbox and given to the agent in one step, when no other result comes before it. So a
  cancelled `receive` leaves its message in the inbox.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.state import PENDING, ends_approval
from supervisor.core.encoding import printable_text, to_json
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.asides import is_of_budget
from supervisor.core.values import Message
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.seam.store import Store

_ABOUT_STATES: Final = frozenset([e.StateSaved.__name__, *(each.__name__ for each in e.BEGINS_RUN)])


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
        await attempt.end_operation(operation)
    assert isinstance(record.result, e.OperationFinished)
    return msgspec.json.decode(record.result.value, type=str)


def _taken(attempt: Attempt, operation: str) -> e.OperationFinished | None:
    """Take the oldest message; None if another receiver was faster, or another result comes before it."""
    if not attempt.has_place:
        return None
    for message in attempt.state.inbox.values():
        text = to_json(message.text, "a message")
        return attempt.finished(operation, "receive", value=text, message=message.message)
    return None


async def say(attempt: Attempt, branch: str, text: str) -> None:
    """Send a message to the session's readers; see Context.send."""
    operation = attempt.names.of_operation(branch, "send", "", text)

    async def send() -> None:
        done = attempt.finished(operation, "send")
        said = e.MessageSent(at=done.at, text=printable_text(text), operation=operation)
        attempt.host.hub.texts.note_said(attempt.session)
        await attempt.append(lambda view, state: [said, done])

    await attempt.do_once(operation, send)


def transcript(rows: Iterable[JournalEntry], runs: int) -> tuple[Message, ...]:
    """Return the messages before the start of run number `runs`, as the agent reads them: without questions about
    budgets, on which no agent's path depends."""
    told = Transcript()
    for row in rows:
        if type(row.event) in e.BEGINS_RUN:
            runs -= 1
            if not runs:
                break
        if not is_of_budget(row.event):
            told.take(row.event)
    return tuple(told.said)


class Transcript:
    """The messages of a journal. Each approval and question stands where it was asked, with its answer."""

    def __init__(self) -> None:
        self.said: list[Message] = []
        self._inbox: dict[str, e.MessageReceived] = {}
        self._asked: dict[str, tuple[int, str, e.ToolCallRequested | None]] = {}
        """By operation: its index in `said`, the text that was asked, and the call unless a question."""
        self._requester: str | None = None

    def take(self, event: e.AnyEvent) -> None:  # noqa: C901 # one case per kind of fact
        """Add what an event says."""
        said, asked = self.said, self._asked
        match event:
            case e.SessionCreated():
                self._requester = event.requester
            case e.MessageReceived():
                self._inbox[event.message] = event
            case e.RunStarted(message=None, again=None):
                if isinstance(text := msgspec.json.decode(event.input), str):  # then it is a message to the session
                    said.append(Message(kind="received", text=text, at=event.at, by=self._requester))
            case e.RunStarted(message=str() as taken) | e.OperationFinished(message=str() as taken):
                message = self._inbox.pop(taken)
                said.append(Message(kind="received", text=message.text, at=message.at, by=message.by))
            case e.MessageSent():
                said.append(Message(kind="sent", text=event.text, at=event.at))
            case e.MessageImported():
                said.append(_imported(event))
            case e.ToolCallRequested(approval=str() as approval):
                text = _call_text(event.tool, event.arguments)
                asked[event.operation] = len(said), text, event
                pending = _pending("approval", event.at, approval, text)
                said.append(replace(pending, tool=event.tool, call=event.operation))
            case e.QuestionAsked(approval=approval):
                asked[event.operation] = len(said), event.question, None
                said.append(_pending("question", event.at, approval, event.question))
            case _ if ends_approval(event) and (found := asked.get(event.operation)):
                place, question, call = found
                said[place] = _answered(said[place], question, call, event)
            case _:
                pass


def saved_before(store: Store, session: str, runs: int) -> tuple[Any, ...]:
    """Return the last saved state of each run of a session before run number `runs`."""
    states: dict[int, msgspec.Raw] = {}
    for row in store.journal(session, only=_ABOUT_STATES):
        if type(row.event) in e.BEGINS_RUN:
            runs -= 1
            if not runs:
                break
        elif isinstance(row.event, e.StateSaved):
            states[runs] = row.event.state
    return tuple(msgspec.json.decode(state) for state in states.values())


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
    """Return a question with its answer. If it has one already, it was answered before it was abandoned, and stays."""
    if message.text != f"{question}: pending":
        return message
    said = PENDING.apply(event)
    if said.answer is not None:
        value = msgspec.json.decode(said.answer)
        came = value if isinstance(value, str) else bytes(said.answer).decode()
    else:
        came = (said.decision or said.status) + (f" ({said.reason})" if said.reason else "")
    return replace(message, text=f"{_as_it_runs(question, call, said.edited)}: {came}", by=said.by or message.by)


def _as_it_runs(question: str, call: e.ToolCallRequested | None, edited: msgspec.Raw | None) -> str:
    """Return the text that was asked. For an edited call: the call that runs, and the arguments it asked for (A8)."""
    if call is None or edited is None or msgspec.json.decode(edited) == msgspec.json.decode(call.arguments):
        return question
    return f"{_call_text(call.tool, edited)} (edited; asked for {bytes(call.arguments).decode()})"
