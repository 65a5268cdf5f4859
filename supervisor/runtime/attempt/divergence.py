"""Non-determinism: a block describes where an agent's code no longer follows its journal (core/blocking.py).

Rules
- The entry is the oldest one that the agent did not ask for. Its number counts the session's entries from 1.
- Lines are from the user's code: the innermost frame outside this package and the libraries, and the agent's own frame.
- Secret arguments are masked, and long texts are cut.
"""

import sys
from collections.abc import Mapping
from datetime import datetime
from types import CodeType, FrameType
from typing import Any, Final, Literal, Protocol

import msgspec

from supervisor.core import events as e
from supervisor.core.blocking import Block
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import printable_text
from supervisor.core.ids import split_operation_id
from supervisor.core.sessions.replay_order import ReplayOrder
from supervisor.core.sessions.state import SessionState
from supervisor.core.text.masks import hide, mask_arguments
from supervisor.runtime.attempt.host import Host
from supervisor.runtime.attempt.tracebacks import is_ours
from supervisor.seam.store import StoreAway

LONGEST_CHARACTERS: Final = 500  # characters of the description of an operation
_LIBRARIES: Final = ("/site-packages/", "/lib/python")


class Replaying(Protocol):
    """What a block tells of an attempt."""

    @property
    def session(self) -> str: ...
    @property
    def spec(self) -> AgentSpec[Any, Any]: ...
    @property
    def host(self) -> Host[Any]: ...
    @property
    def state(self) -> SessionState: ...
    @property
    def replay(self) -> ReplayOrder: ...
    @property
    def instead(self) -> Mapping[str, tuple[str, str, str]]: ...


def path_block(attempt: Replaying, cause: str, error: BaseException | None = None) -> Block:
    """Return a block with the entry that the agent did not ask for, and what it asked for instead or how it ended."""
    operation = attempt.replay.oldest_unclaimed(attempt.state)
    asked = next(iter(attempt.instead.values()), None)
    if asked is not None:
        text, where, in_agent = asked
        return _block(
            attempt,
            "path",
            f"the agent asked for {text} instead{_hint(attempt, operation)}",
            operation,
            where,
            in_agent,
        )
    where, in_agent = lines_of(error, attempt.spec.fn.__code__)
    return _block(attempt, "path", cause, operation, where, in_agent)


def _hint(attempt: Replaying, operation: str | None) -> str:
    """Return why an agent of a framework may not make a call again: its framework hands bad arguments to the model."""
    record = attempt.state.operations.get(operation or "")
    if not attempt.spec.asks_all_it_awaits or record is None or not isinstance(record.request, e.ToolCallRequested):
        return ""
    names = ", ".join(sorted(msgspec.json.decode(record.request.arguments)))
    return (
        f": it does not make the call of {record.request.tool} again, as if that tool did not take these arguments any "
        f"more ({names or 'none'}). Was one renamed, or the tool?"
    )


def block_here(attempt: Replaying, why: Literal["value", "call"], operation: str | None, cause: str) -> Block:
    """Return a block for an entry that today's types or arguments do not fit, at the line of the current task."""
    where, in_agent = lines_here(attempt.spec.fn.__code__)
    return _block(attempt, why, cause, operation, where, in_agent)


def told_operation(kind: str, name: str, arguments: Any) -> str:
    """Return an operation in one line: its kind, its name, its arguments."""
    text = f"{kind} {name}".strip()
    if arguments is not None:
        text += f" {msgspec.json.encode(arguments, enc_hook=repr).decode()}"
    return printable_text(text if len(text) <= LONGEST_CHARACTERS else text[: LONGEST_CHARACTERS - 1] + "…")


def lines_here(agent: CodeType) -> tuple[str, str]:
    """Return the current task's line in the user's code, and its line in the agent's function."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 # what `inspect` offers walks the whole stack
    where = in_agent = ""
    while frame is not None and not in_agent:
        place = _place(frame.f_code, frame.f_lineno)
        where = where or place
        in_agent = place if frame.f_code is agent else ""
        frame = frame.f_back
    return where, in_agent


def lines_of(error: BaseException | None, agent: CodeType) -> tuple[str, str]:
    """Return the line of the user's code where an exception was raised, and the line of the agent's function."""
    where = in_agent = ""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        place = _place(trace.tb_frame.f_code, trace.tb_lineno)
        where = place or where
        in_agent = place if trace.tb_frame.f_code is agent else in_agent
        trace = trace.tb_next
    return where, in_agent


def _place(code: CodeType, line: int) -> str:
    file = code.co_filename
    is_users = not (file.startswith("<") or is_ours(file) or any(part in file for part in _LIBRARIES))
    return f"{file}:{line} in {code.co_qualname}" if is_users else ""


def _block(attempt: Replaying, why: Any, cause: str, operation: str | None, where: str, in_agent: str) -> Block:
    entry, held_at = _find_entry(attempt, operation) if operation is not None else (None, None)
    record = attempt.state.operations.get(operation or "")
    return Block(
        why=why,
        cause=printable_text(cause),
        entry=entry,
        operation=operation,
        held="" if operation is None else told_request(operation, None if record is None else record.request),
        held_at=held_at,
        where=where,
        in_agent=in_agent,
    )


def _find_entry(attempt: Replaying, operation: str) -> tuple[int | None, datetime | None]:
    """Return the number and the instant of the entry that began an operation of this run.

    A retry has the operations of the run before it, except those that it runs again. A store that is away says none.
    """
    found: tuple[int | None, datetime | None] = (None, None)
    try:
        rows = attempt.host.journal.store.journal(attempt.session)
    except StoreAway:
        return found
    for number, row in enumerate(rows, start=1):
        match row.event:
            case e.ImportStarted():
                found = (None, None)
            case e.RunStarted(again=again) if again is None or operation in again.forgotten:
                found = (None, None)
            case event if found[0] is None and getattr(event, "operation", None) == operation:
                found = (number, event.at)
            case _:
                pass
    return found


def told_request(operation: str, request: object) -> str:
    """Return an operation in one line, by the entry that asks for it."""
    kind, name = split_operation_id(operation)[0].rsplit("/", 1)[-1].split(":", 2)[:2]
    match request:
        case e.ToolCallRequested(tool=tool, arguments=arguments, secret=secret):
            return told_operation(kind, tool, hide(mask_arguments(msgspec.json.decode(arguments), secret)))
        case e.QuestionAsked(question=question):
            return told_operation(kind, "", question)
        case _:
            return told_operation(kind, name, None)
