"""Plans that cancel or end a tree: the events of all its sessions in one append, deepest first (W8, W9, W13).

A caller hands in the endings of live attempts. A session without an attempt ends as it was told to.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.encoding import JSON_NULL, printable_text
from supervisor.core.sessions.retrying import PARENT_ENDED
from supervisor.core.sessions.state import Operation, SessionState, joined_words
from supervisor.core.values import NOT_ASKED_AGAIN, OutcomeKind
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.plans.interrupted import Found, orphan_of
from supervisor.runtime.plans.results import finished_call
from supervisor.runtime.plans.turns import next_turn, undelivered


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt's function ended: the outcome to journal."""

    kind: OutcomeKind
    value: Raw = JSON_NULL
    cause: str | None = None
    partial: Raw = JSON_NULL
    traceback: str = ""
    """For people only. The parent is an agent and is not told it."""
    led_by: tuple[str, ...] = ()
    stopped_at: int = 0
    """After a stall: the length of the journal when the attempt was told to stop."""
    asks_again: bool = False
    """Whether an approved call waits until another program asks for it again."""
    writing: str = ""
    """The text that the agent was writing (Context.stream)."""
    error: BaseException | None = None
    """The agent's exception, for the program that started the run in this process (runtime/reading/runs.py)."""


def open_tree(view: View, top: str) -> list[str]:
    """Return `top` and the open sessions below it, deepest first."""
    found, stack = [], [top]
    while stack:
        session = stack.pop()
        found.append(session)
        stack.extend(view.session(session).open_children)
    return found[::-1]


def cancel_events(view: View, origin: str, by: str, reason: str | None, now: datetime) -> Iterator[Entry]:
    """Tell a session and all open sessions below it to end, and withdraw their pending approvals. Yield nothing for a
    session that has ended or was told before."""
    for session in open_tree(view, origin):
        state = view.session(session)
        if state.phase != "open":
            continue
        yield (
            session,
            e.CancelRequested(at=now, by=printable_text(by), origin=origin, reason=reason and printable_text(reason)),
        )
        yield from ((session, event) for event in withdrawals(state, f"cancelled by {by}", now))


def cancel_children(view: View, session: str, now: datetime) -> Iterator[Entry]:
    """Tell the open children of a session to end, because it has not succeeded."""
    state = view.session(session)
    for child in state.open_children:
        yield from cancel_events(view, child, f"its parent {state.facts.path[-1]}", PARENT_ENDED, now)


def withdrawals(state: SessionState, reason: str, now: datetime) -> Iterator[e.AnyEvent]:
    for operation, approval in state.pending_approvals():
        yield e.ApprovalWithdrawn(at=now, operation=operation, approval=approval, reason=printable_text(reason))


def end_events(view: View, top: str, endings: Mapping[str, Ending], found: Found, now: datetime) -> Iterator[Entry]:
    """End a session and all open sessions below it, and tell the parent of each. Yield nothing if `top` has neither an
    ending nor a cancel request: then its open run is a later one, of a turn or a retry."""
    if top not in endings and view.session(top).cancel is None:
        return
    for session in open_tree(view, top):
        state = view.session(session)
        if not state.is_open:
            continue
        ending = endings.get(session) or _as_told(state)
        cause = ending.cause or "the run has ended"
        yield from ((session, event) for event in withdrawals(state, cause, now))
        for operation, record in (*state.operations.items(), *state.budgeting.asides.items()):
            if record.is_call and record.is_open:
                orphan = orphan_of(state, operation, found)
                yield session, _interrupted(operation, record, ending, now, orphan)
        if (said := _last_words(ending)) is not None:
            yield session, e.MessageSent(at=now, text=said)
        yield from ((session, event) for event in undelivered(state, now))
        told: dict[str, Any] = {name: getattr(ending, name) for name in ("kind", "value", "cause", "partial")}
        told["said"] = _said(state, ending)
        more: dict[str, Any] = {name: getattr(ending, name) for name in ("traceback", "led_by", "stopped_at")}
        yield session, e.RunFinished(at=now, **told, **more)
        yield from ((session, event) for event in next_turn(state, ending.kind, now))
        parent = state.facts.parent
        if parent is not None and view.session(parent).is_open:
            yield parent, e.ChildEnded(at=now, child=session, **told)


def _said(state: SessionState, ending: Ending) -> str:
    """Return the last words of a run that has not succeeded: its parent may go on from them."""
    if ending.kind == "succeeded":
        return ""
    return joined_words(state.said, ending.writing) if ending.writing else state.said


def _last_words(ending: Ending) -> str | None:
    """Return a run's result if it is text: it is shown to readers as a message of the agent."""
    if ending.kind != "succeeded" or not bytes(ending.value).startswith(b'"'):
        return None
    return str(msgspec.json.decode(ending.value))


def _as_told(state: SessionState) -> Ending:
    cancel = state.cancel
    if cancel is None:
        return Ending(kind="cancelled", cause="its parent has ended")
    return Ending(kind="cancelled", cause=cancel_cause(cancel), partial=state.saved or JSON_NULL)


def cancel_cause(cancel: e.CancelRequested) -> str:
    return f"cancelled by {cancel.by}" + (f": {cancel.reason}" if cancel.reason else "")


def _interrupted(
    operation: str, record: Operation, ending: Ending, now: datetime, orphan: Mapping[str, str]
) -> e.ToolCallFinished:
    cause = ending.cause or "the run has ended"
    effect = "maybe" if record.state == "executing" else "none"
    reason = "withdrawn" if record.state in ("asked", "withdrawn") else "cancelled"
    if record.state == "approved" and ending.asks_again:
        reason, cause = (
            NOT_ASKED_AGAIN,
            f"approved, and not asked for again before the run ended; it did not run: {cause}",
        )
    return finished_call(operation, now, "interrupted", cause, {"reason": reason, "effect": effect, **orphan})
