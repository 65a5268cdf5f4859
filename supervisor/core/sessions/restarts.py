"""Restarts: which failures another attempt may repair, what it forgets for that, and when it begins.

Theory
    An agent is a function of the results that it was given, in their order. If the failure of a step is the n-th
    result, everything that the agent had asked for by then follows from the n-1 results before it. An agent that has
    not been given that failure asks for exactly the same. Its later requests may follow from the failure. So a
    restart changes the operations into those of a run in which the failed step has no result yet:

    - An operation that was asked for before the failure was given stays, with its place in the order. The next attempt
      must ask for it again, as after a crash (core/sessions/replay_order.py), before any new operation begins. The step
      is new, and runs.
    - An operation that was asked for afterwards may never be asked for again, so no result waits for it. It is *kept*,
      outside the order: if the agent asks for it again, it gets the existing result, at the place in the order of this
      request, which is journaled (OperationRecalled). So no call runs twice, and a crash after the restart finds one
      order of results, as always.
    - An operation that a scope of the agent's own ended after the failure, mostly because the failure unwound the
      scope, need not be ended again: it begins again, or is kept with its `interrupted` result if it may have had an
      effect, or was denied.
    - A timer that was asked for before the failure, and was ended or left in time after it, is *reopened*: the next
      attempt enters its block again, with the same due instant. Operations inside the block stay, and the next attempt
      can reach them only through the timer.

    If one exception contains several failures, the first one that was answered counts: what came after it may follow
    from it.

    A stall is not a result that the agent was given. Operations that it asked for until it was told to stop stay;
    those that it asked for while it unwound are treated as above. So a step that was in flight has no result and runs
    again, and so does the agent's own code in a model call. A call that was in flight has the result `interrupted`, and
    keeps it; an approval stays pending, and a timer keeps its instant. A step that failed because it was cut off is
    forgotten, too.

Rules
- Only failures of steps are forgotten: those in the chain of the exception that ended the attempt. A failure that
  no step has caused would repeat, since the journal gives the same results; it is not restarted. A child's failure is
  its result.
- At most `max_restarts` within `restart_period` seconds, else the run ends. The delay doubles with each restart in the
  period, up to `max_restart_delay`. The actual wait is random, between half and all of it, so that runs that failed
  together do not return together. It is journaled, so that it holds over crashes.
- Timers, `now` and `random`, and requests about a child, have no effects: those asked for after the cut begin again.
"""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from supervisor.core import events as e
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import StepFailed
from supervisor.core.events.kinds import kind_of
from supervisor.core.sessions.state import Operation, SessionState


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended, which another attempt may follow."""

    kind: str
    """As in an outcome; only failed and stalled are followed by a restart."""
    cause: str
    failed: frozenset[str] = frozenset()
    """Steps whose failures are in the chain of the exception."""
    stopped_at: int = 0
    """For a stall: the length of the journal when the attempt was told to stop."""
    asked_late: Collection[str] = frozenset()
    """For a stall: the operations that the agent asked for after that."""


def failed_steps(error: BaseException | None) -> frozenset[str]:
    """Return the steps whose failures led to an exception."""
    return frozenset(each.operation for each in chain_of(error) if isinstance(each, StepFailed))


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield each exception once: an exception, its causes, its contexts (unless it was raised `from` another one), and
    the members of its groups."""
    seen, left = set[int](), [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            left.extend(each.exceptions)
        left.append(each.__cause__)
        if not each.__suppress_context__:
            left.append(each.__context__)


def next_restart(
    state: SessionState, limits: AgentSpec[Any, Any], ended: Ended, now: datetime, chance: float
) -> tuple[e.RunRestarted | None, str]:
    """Return the restart that follows the end of an attempt; or None, and why not: "" if no restart was to be expected.
    `chance` is between 0 and 1."""
    if limits.restart != "transient" or ended.kind not in ("failed", "stalled"):
        return None, ""
    failed = {step for step in ended.failed if _has_failed(state.operations.get(step))}
    if ended.kind == "failed" and not failed:
        return None, "not restarted: no step of it failed, so it would fail again"
    since = now - timedelta(seconds=limits.restart_period)
    recent = sum(at > since for at in state.restarts)
    if recent >= limits.max_restarts:
        return None, f"given up: restarted {recent} times in {limits.restart_period:g} s"
    doubled = limits.restart_delay * 2.0 ** min(recent, 64)  # a larger power would overflow
    delay = min(limits.max_restart_delay, doubled) * (0.5 + chance / 2)
    forgotten, kept, reopened = partition_operations(state, ended, failed)
    restarted = e.RunRestarted(
        at=now,
        kind="failed" if ended.kind == "failed" else "stalled",
        cause=ended.cause,
        number=len(state.restarts) + 1,
        due_at=now + timedelta(seconds=delay),
        forgotten=tuple(forgotten),
        kept=tuple(kept),
        reopened=tuple(reopened),
    )
    return restarted, ""


def _has_failed(record: Operation | None) -> bool:
    """Return whether a step failed and is not forgotten: a save may have forgotten it."""
    if record is None or kind_of(record.kind).effect != "again":
        return False
    return isinstance(record.result, e.OperationFinished) and record.result.error is not None


def partition_operations(
    state: SessionState, ended: Ended, failed: Collection[str]
) -> tuple[list[str], list[str], list[str]]:
    """Return the operations that the next attempt has forgotten, those kept for it outside the order, and the timers
    that are open again."""
    if ended.kind == "stalled":
        cut, late = ended.stopped_at - 1, set(ended.asked_late)  # the last entry before it was told to stop
        cut_off = {name for name, record in state.operations.items() if _has_failed(record)}
        failed = {name for name in cut_off if state.operations[name].answered > cut}
    else:
        cut = min(state.operations[step].answered for step in failed)
        late = {name for name, record in state.operations.items() if record.begun >= cut}
    forgotten, kept, reopened = [], [], []
    for name, record in _after_cut(state, cut, late):
        if isinstance(record.request, e.OperationStarted) and name not in late:
            reopened.append(name)
        elif name in failed or kind_of(record.kind).effect == "none" or not _is_settled(record):
            forgotten.append(name)
        else:
            kept.append(name)
    return [*forgotten, *(step for step in failed if step not in forgotten)], kept, reopened


def _after_cut(state: SessionState, cut: int, late: Collection[str]) -> Iterator[tuple[str, Operation]]:
    """Return the operations that may follow from the event at the cut, except calls that are executing or wait for a
    decision, and questions."""
    for name, record in state.operations.items():
        was_ended = record.answered > cut and (record.state == "abandoned" or _was_left_in_time(record))
        if (name in late or was_ended) and record.state not in ("asked", "posed", "settled", "executing"):
            yield name, record


def _was_left_in_time(record: Operation) -> bool:
    """Return whether the agent left the block of this timer before the timer was due."""
    result = record.result
    is_timer = isinstance(record.request, e.OperationStarted)
    return is_timer and isinstance(result, e.OperationFinished) and bytes(result.value) == b"false"


def _is_settled(record: Operation) -> bool:
    """Return whether it is never done again: it has a result, or it was ended after a denial or a possible effect."""
    is_denied = record.approval is not None and record.approval.status == "denied"
    is_kept = record.is_call and (record.started is not None or is_denied)
    return record.state == "finished" or (record.state == "abandoned" and is_kept)
