"""Tool calls: asked once, run at most once, answered exactly once (T1, A1).

    journaled, with its approval -> decided -> `executing` committed -> effect -> result committed -> result returned

What a call finds in the journal says where it goes on: asked, it waits; approved, it runs; executing is a call that may
run again (recovery has answered every other one), so it does; finished, it returns. What is called, and what its effect
is, is said by the kinds of call: a function (function_calls.py), a sub-agent, or nothing there is (model_calls.py).

Rules
- Immediately before the effect: the digest of what was approved and the arguments' types are checked again, and inside
  the plan that commits `executing` the run's life and the rules (A9).
- The result is committed whatever happened meanwhile; what a cancellation cut off is journaled as `interrupted` with
  its output so far, and the caller gets the cancellation, never a result.
- Cancelled by a scope of the agent's own, a call is abandoned: a re-run waits there until it is cancelled again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NoReturn

import anyio
import msgspec

from supervisor.core import events as e
from supervisor.core.encoding import JSON_NULL, printable
from supervisor.core.errors import InvalidInput, RunStopping, Suspended
from supervisor.core.rules import Rule, grantable
from supervisor.core.session import Operation, SessionState
from supervisor.core.values import Policy, ResultKind, ToolResult
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.divergence import block_here
from supervisor.runtime.attempt.native_cancellation import is_own_doing
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.operations.questions import expiry, wait_for_person
from supervisor.runtime.plans.results import denial, encode_details, finished, result_of

Effect = Literal["none", "maybe", "done"]
NOT_BEGUN: Final[Mapping[str, Any]] = {"reason": "cancelled", "effect": "none"}


class Call(ABC):
    """One call in one attempt. `name` is that of what is called: rules are on it, and people see it; `secret` are the
    names of the arguments that nobody but the effect may see."""

    __slots__ = ("arguments", "attempt", "digest", "is_idempotent", "name", "operation", "secret")

    def __init__(
        self,
        attempt: Attempt,
        operation: str,
        name: str,
        arguments: msgspec.Raw,
        digest: str,
        *,
        secret: tuple[str, ...] = (),
        is_idempotent: bool = False,
    ) -> None:
        self.attempt = attempt
        self.operation = operation
        self.name = name
        self.arguments = arguments
        self.secret = secret
        self.digest = digest
        self.is_idempotent = is_idempotent

    @property
    @abstractmethod
    def value_type(self) -> Any:
        """The type of the value of an ok result."""

    @abstractmethod
    def own_policy(self, arguments: msgspec.Raw) -> Policy:
        """Return what happens to the call, with these arguments, where no rule says anything."""

    @abstractmethod
    def begin(self) -> Iterable[e.AnyEvent]:
        """Return what is journaled with a call that nobody is asked about, in the same append."""

    @abstractmethod
    def check(self, arguments: msgspec.Raw, *, is_edited: bool) -> Any:
        """Return the arguments as the effect takes them; raises InvalidInput if they do not fit (A9)."""

    @abstractmethod
    async def perform(self, arguments: Any, *, is_executing: bool) -> None:
        """The effect, and its result on disk whatever happens. `is_executing`: that is committed already; else the
        plan that does so has to `check_rules`, and so has whoever makes anything before that."""

    @property
    def record(self) -> Operation:
        return self.attempt.state.operations[self.operation]

    async def request(self) -> None:
        """Journal the call, with its approval where a person must decide; where nobody must, it is executing at
        once."""
        approval = self.attempt.host.environment.new_approval_id(self.attempt.state.facts.root)
        own_policy = self.own_policy(self.arguments)

        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            ruled = self.ask_rules(view, state, self.arguments)
            policy = own_policy if ruled is None else ruled[0]
            asks = policy == "ask"
            if asks and (state.cancel is not None or self.attempt.stop_reason is not None):
                raise RunStopping("the run was told to stop; nobody is asked any more")
            yield e.ToolCallRequested(
                at=self.now(),
                operation=self.operation,
                tool=self.name,
                arguments=self.arguments,
                digest=self.digest,
                idempotent=self.is_idempotent,
                secret=self.secret,
                approval=approval if asks else None,
                patterns=self._patterns() if asks else (),
                rule=None if ruled is None else ruled[1].id or ruled[1].origin,
                expires_at=expiry(self.now(), self.attempt.spec.approval_expires_in) if asks else None,
            )
            if policy == "allow":
                yield from self.begin()

        with self.attempt.host.acting():  # a stop waits for the effect of a call that is executing with this commit
            await self.attempt.append(plan)

    def _patterns(self) -> tuple[str | None, ...]:
        arguments = msgspec.json.decode(self.arguments)
        return grantable(self.name, arguments, cwd=self.attempt.state.facts.cwd, secret=self.secret)

    def ask_rules(self, view: View, state: SessionState, arguments: msgspec.Raw) -> tuple[Policy, Rule] | None:
        """Return what the rules say of the call, and which one said so; None where the tool's own policy decides."""
        return self.attempt.host.rules.of_call(view, state.facts, self.name, arguments, self.secret)

    def check_rules(self, view: View, state: SessionState) -> None:
        """Raise Denied if the rules do not let the call begin now, whatever they said before (A8, A9)."""
        record = state.operations[self.operation]
        assert isinstance(record.request, e.ToolCallRequested)
        ruled = self.ask_rules(view, state, record.arguments)
        policy = self.own_policy(record.arguments) if ruled is None else ruled[0]
        if policy == "deny":
            raise Denied(f"denied by the policy of tool {self.name}" if ruled is None else _denied_by(ruled[1]))
        has_rules = ruled is not None or record.request.rule is not None
        if policy == "ask" and record.decision is None and has_rules:  # what allowed it must still hold
            raise Denied("the rules have changed since it was called, and nothing ran; call it again to ask")

    async def proceed(self, *, is_new: bool) -> None:
        """Bring the call, which nobody need be asked about any more, from wherever it is to its result."""
        record = self.record
        if record.state == "denied":
            assert isinstance(record.decision, e.ApprovalDecided)
            await self._commit(denial(record.decision, self.now()))
        elif record.state == "expired":
            late = {"reason": "expired", "effect": "none"}
            await self.finish("denied", "nobody decided in time: the approval has expired", late)
        elif record.state == "withdrawn":
            gone = {"reason": "withdrawn", "effect": "none"}
            await self.finish("interrupted", "the approval was withdrawn", gone)
        elif record.is_open:
            await self._execute(record, is_executing=is_new and record.state == "executing")

    async def _execute(self, record: Operation, *, is_executing: bool) -> None:
        assert isinstance(record.request, e.ToolCallRequested)
        if record.edited is None and record.request.digest != self.digest:
            self._block("the call would get other arguments than were shown")
        try:
            arguments = self.check(record.arguments, is_edited=record.edited is not None)
        except InvalidInput as error:
            if record.edited is None:
                self._block(str(error))
            await self.finish("error", str(error), {"reason": "invalid_arguments", "effect": "none"})
            return
        await self.attempt.pass_barrier()  # no effect before the agent has asked for all that its journal holds
        try:
            await self.perform(arguments, is_executing=is_executing)
        except Denied as denied:
            await self.finish("denied", str(denied), {"reason": "rule", "effect": "none"})

    def _block(self, cause: str) -> NoReturn:
        """Stop the attempt: today's code would not do what a person was shown, and nothing of it is spent (R1)."""
        self.attempt.stop_blocked(block_here(self.attempt, "call", self.operation, cause))
        raise Suspended

    async def abandon(self, content: str = "", details: Mapping[str, Any] = NOT_BEGUN) -> None:
        abandoned = e.OperationAbandoned(
            at=self.now(),
            operation=self.operation,
            kind="call",
            content=printable(content),
            details=encode_details(details),
        )
        await self.attempt.abandon(abandoned, self.follow_abandonment)

    def follow_abandonment(self, view: View) -> Iterable[Entry]:
        """Return what is journaled with the call's abandonment."""
        return ()

    async def finish(
        self,
        kind: ResultKind,
        content: str,
        details: Mapping[str, Any],
        value: msgspec.Raw = JSON_NULL,
        traceback: str = "",
    ) -> None:
        await self._commit(finished(self.operation, self.now(), kind, content, details, value, traceback))

    async def _commit(self, event: e.ToolCallFinished) -> None:
        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            return [event] if state.operations[self.operation].is_open else []

        await self.attempt.append(plan, bound=False)

    def now(self) -> datetime:
        return self.attempt.host.clock.now()


async def run(make: Callable[[], Call]) -> ToolResult[Any]:
    """Make a call, in the task that awaits it, and return its result. This is the one frame of ours that an agent which
    waits for a person has on its stack."""
    call = make()
    del make
    attempt, operation = call.attempt, call.operation
    attempt.begin_operation()
    try:
        record = await attempt.enter(operation)
        if record is not None and record.state == "abandoned":
            await attempt.wait_for_scope()
        try:
            if record is None:
                await attempt.hold()
                await call.request()
            if call.record.state == "asked":
                await wait_for_person(attempt, operation)
            await call.proceed(is_new=record is None)
        except anyio.get_cancelled_exc_class():
            if await is_own_doing(attempt):
                await call.abandon()
            raise
        answered = await attempt.take(operation)
    finally:
        attempt.end_operation(operation)
    assert isinstance(answered.result, e.ToolCallFinished)
    result = answered.result
    return attempt.read(operation, lambda: result_of(result, call.value_type, f"the result of tool {call.name}"))


class Denied(Exception):
    """The rules do not let a call begin; raised before its effect, and becomes its result."""


def _denied_by(rule: Rule) -> str:
    """Say to the agent which rule denied its call."""
    whose = f"a rule from {rule.origin}" if rule.id is None else f"rule {rule.id}, which {rule.by} added"
    return f"denied by {whose}: {rule.tool}" + (f" {rule.pattern}" if rule.pattern else "")
