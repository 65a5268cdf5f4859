"""Plans of messages: what a message to a session becomes, which message begins a turn, and which sessions accept any.

Rules
- A message to an idle root session begins a turn with the message as its input, if the agent's input may be text. A
  message to an idle sub-agent is refused: no agent would read its answer, since its parent already has its outcome.
- A run that was cancelled or abandoned begins no turn. Its messages wait for the next run.
- When the run of a session that can have no further turn ends, each message left in its inbox is journaled as
  undelivered and shown to readers, so no message is lost silently. It is not delivered to another session.
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Literal

from supervisor.core import events as e
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.sessions.state import SessionState
from supervisor.runtime.journal.view import Entry


def next_turn(state: SessionState, kind: str, now: datetime) -> Iterator[e.AnyEvent]:
    """At the end of a run, begin the next turn with the oldest message that the agent did not receive."""
    if state.inbox and kind not in ("cancelled", "abandoned") and _has_turns(state):
        yield turn(next(iter(state.inbox.values())), now)


def undelivered(state: SessionState, now: datetime) -> Iterator[e.AnyEvent]:
    """At the end of a run, journal each message in the inbox as undelivered if no later turn can receive it."""
    if not _has_turns(state):
        for said in state.inbox.values():
            yield e.MessageUndelivered(at=now, message=said.message, text=said.text, by=said.by)


def _has_turns(state: SessionState) -> bool:
    """Return whether a message may begin a run of the session."""
    return state.facts.takes_text and state.facts.parent is None


def turn(message: e.MessageReceived, now: datetime) -> e.RunStarted:
    return e.RunStarted(at=now, input=to_json(message.text, "a message"), message=message.message)


def message_entries(
    state: SessionState, received: e.MessageReceived, waits: Collection[str]
) -> tuple[list[Entry], Literal["delivered", "kept", "begun"]]:
    """Return the entries of a message to a session, and what becomes of the message. `waits`: what an attempt in this
    process waits for. Raises InvalidInput if no run could ever receive it; SessionConflict if it has the id of another
    one. A message that came before has no entries, and what became of it."""
    if (known := state.heard.get(received.message)) is not None:
        known.check_same(received.message, received.text, received.by, is_word=False)
        return [], "kept" if received.message in state.inbox else "begun" if known.has_begun_turn else "delivered"
    check_may_send(state)
    if state.is_open:
        is_awaited = e.MESSAGE in (state.waiting_for or waits)
        return [(state.id, received)], "delivered" if is_awaited else "kept"
    oldest = next(iter(state.inbox.values()), received)  # a cancelled run may have left older messages
    entries: list[Entry] = [(state.id, received), (state.id, turn(oldest, received.at))]
    return entries, "begun" if oldest is received else "kept"


def check_may_send(state: SessionState) -> None:
    """Raise InvalidInput, and say what to do, if no run of this session could ever receive a message."""
    if state.origin is not None and not state.facts.agent:
        raise InvalidInput(
            f"session {state.id} was imported without an agent and can only be read; to go on with it, import its file "
            f"under another id, with an agent: supervisor import {state.origin.file} --agent FILE.py:NAME --session ID"
        )
    if state.phase == "imported":
        raise InvalidInput(f"the import of session {state.id} was interrupted; import its file again, then send")
    if state.phase == "open" or _has_turns(state):
        return
    if state.is_open:
        raise InvalidInput(f"session {state.id} is being cancelled and accepts no messages; send when it has ended")
    if state.facts.parent is not None:
        raise InvalidInput(
            f"session {state.id} belongs to a sub-agent and has ended; send to its root {state.facts.root} instead"
        )
    agent = state.facts.path[-1]
    raise InvalidInput(f"session {state.id} has ended, and agent {agent} takes no text; start a new session with input")
