"""Retries: a new run with the operations of one that ended badly, and which of them are done again (R10).

Theory As in a restart (core/sessions/restarts.py): what the agent had asked for before the cause of the end was given
    stays, and is answered from the journal. The cause is done again: steps that raised, and sub-agents that failed, if
    their failures are in the chain of the exception. So is what the end cut off without effect: calls that had not
    begun, questions without an answer, and sub-agents that were cancelled because their parent ended. A call that may
    have had an effect keeps its `interrupted` result.

    If no step and no sub-agent caused the end, the agent's own code did. Then everything stays, and code that was
    repaired meanwhile goes on from there.

Rules
- A sub-agent that is done again is retried on its own session, in the same append, with its own operations.
- The outcome of the run that ended stays in the journal: each run keeps its one outcome.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from supervisor.core import events as e
from supervisor.core.errors import RunError, StepFailed
from supervisor.core.sessions.restarts import Ended, chain_of, partition_operations
from supervisor.core.sessions.state import SessionState

PARENT_ENDED: Final = "the parent has ended"
"""The reason of a cancel that a sub-agent gets because its parent ended."""
_UNWINDING: Final = e.having("unwinding")
"""Events that a run journals while it unwinds."""


def led_by(error: BaseException | None) -> tuple[str, ...]:
    """Return the operations whose results caused an exception: steps that raised, failures of sub-agents."""
    found = dict.fromkeys(
        each.operation for each in chain_of(error) if isinstance(each, StepFailed | RunError) and each.operation
    )
    return tuple(found)


def why_not_retry(state: SessionState) -> str | None:
    """Return why the latest run of a session cannot be retried, and what to do instead; None if it can."""
    root = state.facts.root
    if state.facts.parent is not None:
        return f"session {state.id} is a sub-agent's: retry its root, supervisor retry {root}"
    if state.blocked is not None:
        return f"session {state.id} is blocked, not ended: run it with code that follows its journal, or cancel it"
    if state.is_open or state.outcome is None:
        return f"session {state.id} has not ended: supervisor resume {root}"
    if state.outcome.kind == "cancelled":
        return f"session {state.id} was cancelled: start it again under another id"
    if state.outcome.kind == "succeeded":
        return f"session {state.id} has succeeded: there is nothing to retry"
    return None


def done_again(state: SessionState, journal: Sequence[e.AnyEvent], by: str, cut_off: Iterable[str]) -> e.Again:
    """Return what a new run does again from a run that has ended; `journal` has the entries of its session.

    `cut_off`: sub-agents that were cancelled because this run ended.
    """
    ended = state.outcome
    assert ended is not None
    led = {name for name in ended.led_by if name in state.operations}
    forgotten, kept, reopened = partition_operations(state, _ended(state, journal, ended, led), led)
    aside = {*forgotten, *kept, *reopened}
    lost = [name for name in state.operations if name not in aside and _was_cut_off(state, name)]
    results = (state.operations[name].result for name in led)
    failed = {result.child for result in results if isinstance(result, e.OperationFinished)}
    children = [name for name in state.children if name in failed or name in {*cut_off}]
    return e.Again(
        by=by,
        forgotten=(*forgotten, *lost),
        kept=tuple(kept),
        reopened=tuple(reopened),
        children=tuple(children),
    )


def was_cut_off_by_its_parent(state: SessionState) -> bool:
    """Return whether a sub-agent was cancelled because its parent, or one above that, had ended. A sub-agent that
    finished all the same has its result."""
    was_told = state.cancel is not None and state.cancel.reason == PARENT_ENDED
    return was_told and state.outcome is not None and state.outcome.kind == "cancelled"


def _ended(state: SessionState, journal: Sequence[e.AnyEvent], ended: e.RunFinished, led: set[str]) -> Ended:
    if ended.kind == "failed" and led:
        return Ended(kind="failed", cause=ended.cause or "", failed=frozenset(led))
    stopped_at = ended.stopped_at or _unwound_from(journal)
    late = [name for name, record in state.operations.items() if record.begun >= stopped_at]
    return Ended(kind="stalled", cause=ended.cause or "", stopped_at=stopped_at, asked_late=late)


def _unwound_from(journal: Sequence[e.AnyEvent]) -> int:
    """Return the number of entries before those that a run wrote while it unwound, at the end of its journal."""
    length = max(number for number, event in enumerate(journal) if isinstance(event, e.RunFinished))
    while length and (type(journal[length - 1]) in _UNWINDING or _is_interrupted(journal[length - 1])):
        length -= 1
    return length


def _was_cut_off(state: SessionState, operation: str) -> bool:
    """Return whether the end cut off an operation before it was answered or had any effect."""
    record = state.operations[operation]
    if record.state == "settled":
        return record.approval is not None and record.approval.status == "withdrawn"
    result = record.result
    return isinstance(result, e.ToolCallFinished) and _is_interrupted(result) and _effect(result.details) == "none"


def _is_interrupted(event: e.AnyEvent) -> bool:
    return isinstance(event, e.ToolCallFinished) and event.kind == "interrupted"


def _effect(details: msgspec.Raw) -> Any:
    return msgspec.json.decode(details).get("effect")
