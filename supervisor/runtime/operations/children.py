"""Sub-agents: spawned in one append (the parent's entry and the child's session), awaited and cancelled as operations.

The end of a child also writes its outcome into its parent's journal (runtime/plans/end.py). The outcome gets its place
in the replay order when the parent asks for it. If the parent stops waiting, the child goes on, and nothing is
journaled (W10).
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, TypeVar
from weakref import WeakSet

import msgspec
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.calls.rules import inherit, without_effect
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import from_json, printable_text
from supervisor.core.errors import InvalidInput, LimitExceeded, RunError, RunStopping
from supervisor.core.ids import STORE_JOURNALS, child_session_id
from supervisor.core.values import Outcome, result_of
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.plans.begin import exceeded_limit, first_events
from supervisor.runtime.plans.end import cancel_events
from supervisor.seam.runs import ChildRun
from supervisor.system.identity import attempt_started
from supervisor.system.loading import locate, refuse_nameless
from supervisor.system.logs import FactLog

log = FactLog(__name__)
R = TypeVar("R")

_warned: Final[WeakSet[AgentSpec[Any, Any]]] = WeakSet()
"""The agents of which this process has logged that rules of theirs have no effect."""

_REFUSALS: Final = {each.__name__: each for each in (LimitExceeded, InvalidInput)}


async def spawn(
    attempt: Attempt, branch: str, agent: AgentSpec[Any, Any], args: Any, kwargs: Any, cwd: str | None
) -> str:
    """Start a sub-agent and return its session; see Context.spawn."""
    if cwd is not None and not args and agent.input_name == "cwd":
        raise InvalidInput(f"the input of agent {agent.name} is named cwd, as the sub-agent's folder: pass it first")
    given = agent.encode_input(args, kwargs)
    attempt.host.environment.check_size(given, f"the input of agent {agent.name}")
    asked = msgspec.json.decode(given)
    asked = asked if cwd is None else {"input": asked, "cwd": printable_text(cwd)}
    operation = attempt.names.of_operation(branch, "spawn", agent.name, asked)
    attempt.refuse_new(operation, agent.why_inexact(args, kwargs, given))

    def entry(view: View, now: datetime, child: str, limit: str | None) -> e.AnyEvent:
        became: dict[str, Any] = {"child": child} if limit is None else {"error": ("LimitExceeded", limit)}
        return e.OperationFinished(at=now, operation=operation, kind="spawn", **became)

    async def begin() -> None:
        try:
            folder = None if cwd is None else attempt.host.environment.find_folder(cwd, attempt.state.facts.cwd)
        except InvalidInput as misfit:
            refusal = ("InvalidInput", str(misfit))
            await attempt.append(lambda view, state: [attempt.finished(operation, "spawn", error=refusal)])
        else:
            await begin_child(attempt, operation, agent, given, entry, folder)

    record = await attempt.do_once(operation, begin)
    assert isinstance(record.result, e.OperationFinished)
    if record.result.error is not None:
        name, why = record.result.error
        raise _REFUSALS[name](why)
    assert record.result.child is not None
    return record.result.child


def _exceeded_here(attempt: Attempt) -> str | None:
    """Return which limit of this runtime another child would exceed, in words; None for no limit."""
    most = attempt.host.environment.most_live
    live = len(attempt.host.journal.pinned.difference(STORE_JOURNALS)) - 1  # without the child itself
    return None if most is None or live < most else f"the tree has {live} sessions at work; here it may have {most}"


async def begin_child(
    attempt: Attempt,
    operation: str,
    agent: AgentSpec[Any, Any],
    given: Raw,
    entry: Callable[[View, datetime, str, str | None], e.AnyEvent],
    cwd: str | None = None,
) -> None:
    """Commit a child session together with the entry of the operation that begins it, and run it. `cwd`: the folder
    that its parent chose; None: the parent's own.

    `entry` is called with the plan's view, the instant, the child's session, and the limit that refuses the child, or
    None. If a limit refuses it, there is no child.
    """
    await attempt.refuse_if_stopping()
    child = child_session_id(attempt.session, f"{attempt.state.runs} {operation}")
    begun = attempt.host.environment.agent_to_begin(agent, child, 1)
    _warn_of_rules(attempt, begun)
    traceparent = attempt.host.environment.continue_trace(agent.name, attempt.state.facts.traceparent)

    def plan(view: View) -> Iterator[Entry]:
        state = view.session(attempt.session)
        if state.cancel is not None or attempt.stop_reason is not None:
            raise RunStopping("the run was told to stop, so it spawns no sub-agents any more")
        if view.store.is_durable:
            refuse_nameless(agent)
        now = attempt.host.clock.now()
        limit = exceeded_limit(state, attempt.spec) or _exceeded_here(attempt)
        yield attempt.session, entry(view, now, child, limit)
        if limit is None:
            facts = state.facts
            first = first_events(
                agent,
                locate(agent),
                given,
                attempt_started(begun.version, now),
                path=(*facts.path, agent.name),
                root=facts.root,
                requester=facts.requester,
                requester_roles=facts.requester_roles,
                cwd=attempt.host.environment.folder_of_agent(agent.cwd, facts.cwd if cwd is None else cwd),
                parent=state.id,
                parent_operation=operation,
                rules=inherit(facts.rules, begun.rules),
                traceparent=traceparent,
            )
            for event in first:
                yield child, event

    attempt.host.expect(child)
    try:
        await attempt.append_to_many(plan)
    finally:  # a native cancellation may come with the commit
        if child in attempt.state.children:
            attempt.host.begin(child, begun)
        else:
            attempt.host.forget(child)


def _warn_of_rules(attempt: Attempt, agent: AgentSpec[Any, Any]) -> None:
    """Log once in a process that rules of a sub-agent have no effect, since its parents do not allow as much (A14)."""
    if not agent.rules or agent in _warned:
        return
    if vain := without_effect((*attempt.state.facts.rules, *attempt.host.rules.from_code), agent.rules):
        _warned.add(agent)
        log.warning(
            "rules.without_effect",
            agent=agent.name,
            parent=attempt.spec.name,
            rules="; ".join(
                f"{rule.kind} {rule.tool}{'' if rule.pattern is None else f' {rule.pattern}'}" for rule in vain
            ),
            why="a sub-agent allows no more than its parents: give them to the root agent, or to open_supervisor",
        )


class LocalChild(ChildRun[R]):
    """A sub-agent as its parent sees it. Each method that waits is an operation of the parent."""

    def __init__(self, attempt: Attempt, branch: str, session: str, spec: AgentSpec[Any, R]) -> None:
        self.session = session
        self._attempt = attempt
        self._branch = branch
        self._spec = spec
        self._taken_in_by: str | None = None
        """The operation by which the parent got the outcome."""

    def __repr__(self) -> str:
        return f"<sub-agent {self._spec.name} on {self.session}>"

    async def outcome(self) -> Outcome[R]:
        attempt, child = self._attempt, self.session
        operation = self._taken_in_by = attempt.names.of_operation(self._branch, "outcome", child, None)
        attempt.begin_operation()
        try:
            if await attempt.enter(operation) is None:
                await attempt.wait(operation, child, lambda: attempt.state.children[child] is not None)
                delivered = attempt.finished(operation, "outcome", child=child)
                await attempt.deliver(lambda: delivered)
            await attempt.take(operation)
            ended = attempt.state.children[child]
        finally:
            await attempt.end_operation(operation)
        assert ended is not None
        return attempt.read(operation, lambda: outcome_of(ended, self._spec))

    async def result(self) -> R:
        outcome = await self.outcome()
        try:
            return result_of(outcome)
        except RunError as failed:
            failed.operation = self._taken_in_by
            raise

    async def cancel(self, reason: str | None = None) -> None:
        attempt, child = self._attempt, self.session
        operation = attempt.names.of_operation(self._branch, "cancel", child, reason)
        by = f"its parent {attempt.spec.name}"

        def plan(view: View) -> Iterator[Entry]:
            done = attempt.finished(operation, "cancel", child=child)
            yield attempt.session, done
            yield from cancel_events(view, child, by, reason, done.at)

        await attempt.do_once(operation, lambda: attempt.append_to_many(plan))


def outcome_of(ended: e.RunFinished | e.ChildEnded, spec: AgentSpec[Any, R] | None) -> Outcome[R]:
    """Return a journaled outcome. Its value is decoded as the agent's return annotation says."""
    returned: Any = None
    if ended.kind == "succeeded":
        type_ = spec.return_type if spec is not None else Any
        returned = from_json(ended.value, type_, "the result of a run")
    partial = msgspec.json.decode(ended.partial)
    return Outcome(kind=ended.kind, cause=ended.cause, partial=partial, said=ended.said, value=returned)
