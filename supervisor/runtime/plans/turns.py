"""Turns: which message begins a run, and which sessions may be spoken to. Pure planning.

Rules
- A message to a root session at rest begins a turn with it as input, if its agent's input may be text. A sub-agent at
  rest belongs to its parent's past: nobody would hear its answer, so a message to it is refused.
- A run that was cancelled or abandoned begins nothing by itself: its messages wait for the next one.
- What a run leaves in the inbox of a session that can have no further turn is journaled as undelivered, and shown to
  whoever looks on: nobody's word is swallowed. It is not handed on, for it was not said to anybody else.
"""

from collections.abc import Iterator
from datetime import datetime

from supervisor.core import events as e
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.session import SessionState


def next_turn(state: SessionState, kind: str, now: datetime) -> Iterator[e.AnyEvent]:
    """Begin the next turn with the oldest message that was not received, at the end of a run."""
    if state.inbox and kind not in ("cancelled", "abandoned") and _has_turns(state):
        yield turn(next(iter(state.inbox.values())), now)


def undelivered(state: SessionState, now: datetime) -> Iterator[e.AnyEvent]:
    """Say of each message that nobody will hear any more that it was not received, at the end of a run."""
    if not _has_turns(state):
        for said in state.inbox.values():
            yield e.MessageUndelivered(at=now, message=said.message, text=said.text, by=said.by)


def _has_turns(state: SessionState) -> bool:
    """Whether a message may begin a run of the session."""
    return state.facts.takes_text and state.facts.parent is None


def turn(message: e.MessageReceived, now: datetime) -> e.RunStarted:
    return e.RunStarted(at=now, input=to_json(message.text, "a message"), message=message.message)


def check_may_send(state: SessionState) -> None:
    """Raise InvalidInput, saying why, if a message to this session could never be heard."""
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
        raise InvalidInput(f"session {state.id} is being cancelled, and receives nothing any more")
    if state.facts.parent is not None:
        raise InvalidInput(
            f"session {state.id} is a sub-agent's and has ended; send to its root {state.facts.root} instead"
        )
    agent = state.facts.path[-1]
    raise InvalidInput(f"session {state.id} has ended, and agent {agent} takes no text: start it again with its input")
