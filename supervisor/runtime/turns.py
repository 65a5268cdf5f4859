"""Turns: which message begins a run, and which sessions may be spoken to. Pure planning.

Rules
- A message to a root session at rest begins a turn with it as input, if its agent's input may be text. A sub-agent at
  rest belongs to its parent's past: nobody would hear its answer, so a message to it is refused.
- A run that was cancelled or abandoned begins nothing by itself: its messages wait for the next one.
"""

from collections.abc import Iterator
from datetime import datetime

from supervisor.core import events as e
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.session import SessionState


def next_turn(state: SessionState, kind: str, now: datetime) -> Iterator[e.AnyEvent]:
    """Begin the next turn with the oldest message that was not received, at the end of a run."""
    if state.inbox and kind not in ("cancelled", "abandoned") and state.facts.takes_text and not state.facts.parent:
        yield turn(next(iter(state.inbox.values())), now)


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
    if state.is_open or (state.facts.takes_text and state.facts.parent is None):
        return
    if state.facts.parent is not None:
        raise InvalidInput(
            f"session {state.id} is a sub-agent's and has ended; send to its root {state.facts.root} instead"
        )
    agent = state.facts.path[-1]
    raise InvalidInput(f"session {state.id} has ended, and agent {agent} takes no text: start it again with its input")
