"""Waiting for people: for the decision on a call, or for the answer to a question that an agent asks itself.

Rules
- An answer is delivered like a sub-agent's outcome: any process may write it at any time, and it gets its place in the
  replay order when the agent is given it.
- An expiry is an instant in the journal, and a timer of the run: it survives a restart and wakes a passivated run. From
  that instant on no decision counts, even if the expiry is not journaled yet (runtime/people/decide.py).
- A question without an answer raises QuestionUnanswered. It comes from the journal, so it is the same in every attempt.
"""

from collections.abc import Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import anyio

from supervisor.core import events as e
from supervisor.core.approvals.questions import Question, make_question
from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput, QuestionUnanswered, RunStopping
from supervisor.core.sessions.state import Operation, SessionState
from supervisor.core.values import Urgency
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.native_cancellation import is_own_doing
from supervisor.runtime.attempt.operation_ids import Place
from supervisor.runtime.journal.writer import View
from supervisor.runtime.operations.timers import FOREVER_SECONDS, wait_until

ON_ITS_WAY_SECONDS: Final = 30.0
"""Seconds for which a decision that was made in time, but has not come, is waited for before it is asked for again."""


def expiry(now: datetime, *seconds: float | None) -> datetime | None:
    """Return when an approval that is asked now expires, by the first of `seconds` that is not None; None for never."""
    found = next((each for each in seconds if each is not None), None)
    return None if found is None else now + timedelta(seconds=min(found, FOREVER_SECONDS))


def wait_for_person(attempt: Attempt, operation: str) -> Coroutine[Any, Any, None]:
    """Wait until a person has decided or wants evidence, or the approval has expired or was withdrawn. This is no
    coroutine of its own: most waits are for people, and one more frame would add a tenth to the memory of each."""
    record = attempt.state.operations[operation]
    if record.expires_at is None:
        return attempt.wait(operation, operation, partial(_is_over, attempt, operation))
    return _wait_until(attempt, operation, record.expires_at, record.began_at)


async def _wait_until(attempt: Attempt, operation: str, expires_at: datetime, since: datetime) -> None:
    deadline = attempt.host.clock.timer(expires_at, since)
    attempt.timers[operation] = expires_at
    try:
        await wait_until(attempt, operation, deadline, lambda: _is_over(attempt, operation))
        if wants_evidence(attempt, operation) and anyio.current_time() < deadline:
            return
        approval = attempt.state.operations[operation].pending_approval
        while approval is not None and not await attempt.host.environment.claim_expiry(approval):
            deadline = anyio.current_time() + ON_ITS_WAY_SECONDS
            await wait_until(attempt, operation, deadline, lambda: _is_over(attempt, operation))
            approval = attempt.state.operations[operation].pending_approval
    finally:
        del attempt.timers[operation]

    def expire(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
        if (approval := state.operations[operation].pending_approval) is not None:
            yield e.ApprovalExpired(at=attempt.host.clock.now(), operation=operation, approval=approval)

    if not _is_settled(attempt, operation):
        await attempt.append(expire)


def _is_settled(attempt: Attempt, operation: str) -> bool:
    return not attempt.state.operations[operation].is_asking


def _is_over(attempt: Attempt, operation: str) -> bool:
    """Whether a wait for a person ends: they have decided, or would edit a call and want its evidence first."""
    return _is_settled(attempt, operation) or wants_evidence(attempt, operation)


def wants_evidence(attempt: Attempt, operation: str) -> bool:
    """Whether the call that waits is to take evidence of an edit. One that is only replayed takes none."""
    return attempt.state.operations[operation].wants_evidence and not attempt.host.only_replays


async def ask(
    attempt: Attempt,
    place: Place,
    text: str,
    choices: Sequence[str] | None,
    schema: Any,
    expires_in: float | None,
    urgency: Urgency | None,
) -> Any:
    """Ask a person; see Context.ask."""
    if expires_in is not None and not expires_in > 0:
        raise InvalidInput(f"expires_in is more than 0 seconds, not {expires_in}; leave it out for no expiry")
    asked = make_question(text, choices, schema)
    attempt.host.environment.check_size([asked.text, asked.choices, asked.schema], "a question")
    operation = attempt.names.of_operation(place, "ask", asked.name, asked.meaning)
    attempt.begin_operation()
    try:
        record = await attempt.enter(operation)
        if record is not None and record.state == "abandoned":
            await attempt.wait_for_scope()
        try:
            if record is None:
                await _pose(attempt, operation, asked, expires_in, urgency)
            await wait_for_person(attempt, operation)
            if attempt.state.operations[operation].is_open:
                await attempt.deliver(lambda: attempt.finished(operation, "ask"))
        except anyio.get_cancelled_exc_class():
            if await is_own_doing(attempt):
                await attempt.abandon(operation, "ask")
            raise
        settled = await attempt.take(operation)
    finally:
        await attempt.end_operation(operation)
    return _value(settled, asked, schema if schema is not None else str)


async def _pose(
    attempt: Attempt, operation: str, asked: Question, expires_in: float | None, urgency: Urgency | None
) -> None:
    await attempt.refuse_if_stopping()
    approval = attempt.host.environment.new_approval_id(attempt.state.facts.root)

    def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
        if state.cancel is not None or attempt.stop_reason is not None:
            raise RunStopping("the run was told to stop, so it asks no questions any more")
        now = attempt.host.clock.now()
        yield e.QuestionAsked(
            at=now,
            operation=operation,
            approval=approval,
            question=asked.text,
            digest=asked.digest,
            choices=asked.choices,
            schema=asked.schema,
            expires_at=expiry(now, expires_in, attempt.spec.approval_expires_in),
            urgency=None if attempt.host.environment.is_former else urgency,
        )

    await attempt.append(plan)


def _value(settled: Operation, asked: Question, type_: Any) -> Any:
    """Return the answer, decoded as `type_`. Raises QuestionUnanswered if there is none."""
    said = settled.approval
    assert said is not None
    if said.answer is not None:
        return from_json(said.answer, type_, f"the answer to {asked.text!r}")
    raise QuestionUnanswered(asked.text, said.status, said.by, said.reason)
