"""Restarts: which failures another attempt may mend, what it forgets for that, and when it begins.

Theory
    An agent is a function of the results that it was given, in their order. When the failure of a step is the n-th
    result, then what the agent had asked for by then follows from the n-1 results before it, and an agent that has yet
    to hear of that step asks for exactly the same. What it asked for afterwards may follow from the failure. So a
    restart makes of the memory that of a run in which the failed step has no result yet:

    - What was asked for before the failure was given stays, with its place in the order. The next attempt must ask for
      it again, as after a crash (core/replay_order.py), before anything new begins; the step is new, and runs.
    - What was asked for afterwards may never be asked for again, so nothing waits for it. It is *kept*, outside the
      order: if the agent asks for it once more it gets the result that there is, at the place in the order of this
      asking, which is journaled (OperationRecalled). So no call runs twice, and a crash after the restart finds one
      order of results, as always.
    - What was ended after the failure by a scope of the agent's own, mostly by the failure on its way out, is not
      waited for to be ended again: it begins anew, or is kept with its `interrupted` result if it may have had an
      effect, or was denied.
    - A timer that was asked for before the failure, and that was ended or left in time after it, is *reopened*: the
      next attempt enters its block again, with the same due instant. What was asked for inside the block stays, and the
      next attempt can reach it only through the timer.

    After several failures in one exception the first that was answered counts: what lies behind it may follow from it.

    A stall has no result that the agent was given. What it had asked for until it was told to stop stays; what it asked
    for on its way out is as above. So a step that was in flight has no result and runs again, as does what the agent's
    own code did in a model call; a call that was in flight has one, `interrupted`, and keeps it; an approval stays
    pending, and a timer keeps its instant. A step that failed after it was cut off is forgotten, too.

Rules
- Only the failures of steps are forgotten, those in the chain of what ended the attempt. A failure without one would
  repeat, since the memory answers the same; it is no restart. How a child failed is its result.
- At most `max_restarts` within `restart_period` seconds, else the run ends. The delay doubles with each restart in the
  period, up to `max_restart_delay`; of that, between half and all is waited, by chance: what failed together does not
  come back together. It is journaled, so that it holds over crashes.
- Timers, `now` and `random`, and what is asked of a child, touch nothing: those asked for after the cut begin anew.
"""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import StepFailed
from supervisor.core.session import Operation, SessionState

_ANEW: Final = ("sleep", "timer", "now", "random", "outcome", "cancel")
"""Kinds of operations that touch nothing."""
_TIMERS: Final = ("sleep", "timer")


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended that may be followed by another."""

    kind: str
    """An outcome's; only failed and stalled are followed by a restart."""
    cause: str
    failed: frozenset[str] = frozenset()
    """Steps whose failures are in the chain of the exception."""
    stopped_at: int = 0
    """Of a stall: the length of the journal when the attempt was told to stop."""
    asked_late: Collection[str] = frozenset()
    """Of a stall: what the agent asked for after that."""


def failed_steps(error: BaseException | None) -> frozenset[str]:
    """Return the steps whose failures led to an exception."""
    return frozenset(each.operation for each in chain_of(error) if isinstance(each, StepFailed))


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, its causes, its contexts (unless it was raised `from` something else), and what its groups
    hold, each once."""
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


def restart(
    state: SessionState, limits: AgentSpec[Any, Any], ended: Ended, now: datetime, chance: float
) -> tuple[e.RunRestarted | None, str]:
    """Return the restart that follows the end of an attempt; or None, and why not: "" if nobody would have expected
    one. `chance` is between 0 and 1."""
    if limits.restart != "transient" or ended.kind not in ("failed", "stalled"):
        return None, ""
    failed = {step for step in ended.failed if _has_failed(state.operations.get(step))}
    if ended.kind == "failed" and not failed:
        return None, "not restarted: no step of it failed, so it would fail again"
    since = now - timedelta(seconds=limits.restart_period)
    recent = sum(at > since for at in state.restarts)
    if recent >= limits.max_restarts:
        return None, f"given up: restarted {recent} times in {limits.restart_period:g} s"
    doubled = limits.restart_delay * 2.0 ** min(recent, 64)  # more would be no number
    delay = min(limits.max_restart_delay, doubled) * (0.5 + chance / 2)
    forgotten, kept, reopened = partition(state, ended, failed)
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
    """Whether a step is remembered as failed; a save may have put it behind the agent, and then it is no memory."""
    return record is not None and isinstance(record.result, e.OperationFinished) and record.result.error is not None


def partition(state: SessionState, ended: Ended, failed: Collection[str]) -> tuple[list[str], list[str], list[str]]:
    """Return what the next attempt has forgotten, what is kept for it outside the order, and which timers are open
    again."""
    if ended.kind == "stalled":
        cut, late = ended.stopped_at - 1, set(ended.asked_late)  # the last entry before it was told to stop
        cut_off = {name for name, record in state.operations.items() if record.kind == "step" and _has_failed(record)}
        failed = {name for name in cut_off if state.operations[name].answered > cut}
    else:
        cut = min(state.operations[step].answered for step in failed)
        late = {name for name, record in state.operations.items() if record.begun >= cut}
    forgotten, kept, reopened = [], [], []
    for name, record in _behind(state, cut, late):
        if record.kind in _TIMERS and name not in late:
            reopened.append(name)
        elif name in failed or record.kind in _ANEW or not _is_settled(record):
            forgotten.append(name)
        else:
            kept.append(name)
    return [*forgotten, *(step for step in failed if step not in forgotten)], kept, reopened


def _behind(state: SessionState, cut: int, late: Collection[str]) -> Iterator[tuple[str, Operation]]:
    """Return the operations that may follow from what happened at the cut, but for calls that somebody is at, and
    questions that somebody has answered or is going to."""
    for name, record in state.operations.items():
        was_ended = record.answered > cut and (record.state == "abandoned" or _was_left_in_time(record))
        if (name in late or was_ended) and record.state not in ("asked", "posed", "settled", "executing"):
            yield name, record


def _was_left_in_time(record: Operation) -> bool:
    """Whether the agent has left the block of this timer before the timer was due."""
    result = record.result
    return record.kind == "timer" and isinstance(result, e.OperationFinished) and bytes(result.value) == b"false"


def _is_settled(record: Operation) -> bool:
    """Whether it has a result, or was ended when it may have had an effect or a person had said no."""
    is_denied = isinstance(record.decision, e.ApprovalDecided) and record.decision.decision == "deny"
    is_kept = record.kind == "call" and (record.started is not None or is_denied)
    return record.state == "finished" or (record.state == "abandoned" and is_kept)
