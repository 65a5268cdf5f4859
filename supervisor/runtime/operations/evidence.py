"""Evidence: what the preview of a call has found out, for the person who decides, and whether it is so still (A18).

    journaled, with its approval -> evidence taken -> decided -> taken again -> `executing` committed -> effect

Rules
- The request and its approval are on disk first. Then the preview runs in a task of its own, as a body (bodies.py): the
  call waits for its person meanwhile, and a decision that comes first ends the preview.
- Evidence of other arguments than today's code would pass is not taken, and none before a replay has ended. Neither is
  that of a call that was asked before its tool had a preview.
- What goes wrong is evidence, too: it is journaled with its reason, shown, and blocks nothing.
- A person who edits the arguments sees evidence of these before the decision counts: the first submit journals that it
  is wanted, the call takes it, and the decision that names its code is made (runtime/people/unseen.py).
- If the process dies before evidence is on disk, the next attempt takes it. People get no second one.
- Just before the effect the preview is taken again. Another state denies the call, and so does a preview that fails
  now: it cannot say that all is as it was. Nothing guards the moment between this and the effect.
- A call that its preview failed for, or that was decided before there was evidence, is not compared with anything.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import count
from math import inf, nextafter
from typing import Any, Final, Protocol

import anyio
import msgspec

from supervisor.core import events as e
from supervisor.core.calls.content import CallContent, digest_of_edit
from supervisor.core.declarations.previews import (
    PREVIEW_SECONDS,
    PreviewContext,
    Previewed,
    cut_text,
    read_preview,
)
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.errors import InvalidInput, RunStopping, Suspended
from supervisor.core.sessions.state import Operation, SessionState
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.bodies import DeadlinePassed, Running
from supervisor.runtime.attempt.tracebacks import explain, secrets_in, without_values
from supervisor.runtime.journal.writer import View

_NUMBERS: Final = count()
"""Each preview that is taken has a number in this process."""


class Previewing(Protocol):
    """A call whose tool has a preview."""

    attempt: Attempt
    operation: str
    content: CallContent
    tool: ToolSpec[Any, Any]

    @property
    def record(self) -> Operation: ...
    def check(self, arguments: msgspec.Raw, *, is_edited: bool) -> dict[str, Any]: ...
    def now(self) -> datetime: ...


class PreviewFailed(Exception):
    """A preview has found out nothing; the text says why."""


class Taking:
    """Evidence that is being taken of a call which waits for a person."""

    def __init__(self, call: Previewing, approval: str) -> None:
        self._call = call
        self._approval = approval
        self._scope = anyio.CancelScope()

    def begin(self) -> None:
        """Begin, in a task of no attempt. The attempt is not quiet before it ends, so its run stays in memory."""
        self._call.attempt.begin_operation()
        self._call.attempt.host.start_soon(self._run)

    def cancel(self) -> None:
        """End it: the call waits no more."""
        self._scope.cancel()

    async def _run(self) -> None:
        call, attempt = self._call, self._call.attempt
        try:
            with self._scope:
                if not self._is_over:
                    await attempt.pass_barrier()
                if not self._is_over:
                    taken = await _taken(call, call.record.arguments, is_edited=False)
                    await attempt.append_if_live(plan_of(call, self._approval, call.content.digest, taken))
        except (Suspended, RunStopping):
            pass  # the call gets the same exception, and unwinds
        finally:
            attempt.past_operation()

    @property
    def _is_over(self) -> bool:
        """Whether the call waits no more. Its session may have left memory then."""
        return self._scope.cancel_called or self._call.attempt.has_ended


def plan_of(
    call: Previewing, approval: str, digest: str, taken: Previewed | PreviewFailed
) -> Callable[[View, SessionState], Iterable[e.AnyEvent]]:
    """Return the plan that journals evidence of the arguments with this digest, while the call waits."""

    def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
        record = state.operations.get(call.operation)
        if record is None or record.pending_approval != approval:
            return
        failure = str(taken) if isinstance(taken, PreviewFailed) else ""
        kind, text, state_read = Previewed("text", "", "") if isinstance(taken, PreviewFailed) else taken
        yield e.EvidenceTaken(
            at=call.now(),
            operation=call.operation,
            approval=approval,
            digest=digest,
            kind=kind,
            text=text,
            state=state_read,
            failure=failure,
        )

    return plan


async def take_wanted(call: Previewing) -> None:
    """Take evidence of the edit that a person wants. What cannot be taken is evidence, too: it blocks nothing."""
    approval = call.record.approval
    assert approval is not None
    assert approval.wanted is not None
    wanted = approval.wanted
    await call.attempt.pass_barrier()
    taken = (
        PreviewFailed("the tool has no preview any more")
        if call.tool.preview is None
        else await _taken(call, wanted.value, is_edited=True)
    )
    await call.attempt.append(plan_of(call, wanted.approval, wanted.digest, taken))


def to_take(call: Previewing) -> Taking | None:
    """Return the evidence that is to be taken of a call that waits for a person; None if there is none to take."""
    host, record = call.attempt.host, call.record
    approval = record.pending_approval
    assert isinstance(record.request, e.ToolCallRequested)
    is_as_asked = record.request.preview is not None and record.request.digest == call.content.digest
    if approval is None or not is_as_asked or host.only_replays or host.environment.runs_elsewhere:
        return None
    return None if evidence_of(record, call.content.digest) is not None else Taking(call, approval)


def evidence_of(record: Operation, digest: str) -> e.EvidenceTaken | None:
    """Return the journaled evidence of these arguments of a call."""
    found = () if record.approval is None else record.approval.evidence
    return next((each for each in found if each.digest == digest), None)


async def why_changed(call: Previewing) -> str | None:
    """Return why an approved call does not begin, since what its preview read is not so any more; None if it may."""
    record = call.record
    if record.approval is None or record.started is not None or call.tool.on_change == "run":
        return None
    asked = record.edited is None
    digest = call.content.digest
    if not asked:
        assert isinstance(record.request, e.ToolCallRequested)
        digest = digest_of_edit(msgspec.json.decode(record.arguments), record.request.secret, record.request.digest)
    before = evidence_of(record, digest)
    if before is None or not before.state:
        return None
    now = await _taken(call, record.arguments, is_edited=not asked)
    if isinstance(now, PreviewFailed):
        return (
            f"its preview failed when it was taken again, so what was approved may have changed: {now}; call it again"
        )
    return None if now.state == before.state else f"changed since {record.approval.by} approved; call it again"


async def _taken(call: Previewing, raw: msgspec.Raw, *, is_edited: bool) -> Previewed | PreviewFailed:
    """Take the preview of a call, with these arguments. Raises nothing but a cancellation."""
    attempt, what = call.attempt, f"the preview of tool {call.tool.name}"
    reason = f"preview:{call.operation}:{next(_NUMBERS)}"  # that of edited arguments may run next to the first one
    attempt.watch.pause(reason, "call")
    try:
        returned = await _call_preview(call, raw, what, is_edited=is_edited)
        found = read_preview(returned, what)
    except PreviewFailed as failure:
        return failure
    except InvalidInput as misfit:
        return PreviewFailed(_shown(call, raw, str(misfit)))
    except Exception as error:  # noqa: BLE001 # what it returned is the user's: its cells may raise anything
        return PreviewFailed(_shown(call, raw, explain(error, what)))
    finally:
        attempt.watch.resume(reason)
    return found._replace(text=_shown(call, raw, found.text))


async def _call_preview(call: Previewing, raw: msgspec.Raw, what: str, *, is_edited: bool) -> object:
    """Return what the preview returns. Raises PreviewFailed."""
    attempt, host = call.attempt, call.attempt.host
    if why := host.bodies.refusal:
        raise PreviewFailed(why)
    arguments = call.check(raw, is_edited=is_edited)
    facts = attempt.state.facts
    context = PreviewContext(session=attempt.session, requester=facts.requester, cwd=facts.cwd)
    args, kwargs = call.tool.spread_for_preview(context, arguments)
    running = Running(host.bodies, attempt.session, attempt.spec.name, call.operation, what, begins_again=False)
    fn = call.tool.preview or read_preview
    body = attempt.make_body(running, fn, args, kwargs, kind="call", name=call.tool.name, timeout=PREVIEW_SECONDS)
    try:
        deadline = nextafter(anyio.current_time() + PREVIEW_SECONDS, inf)
        returned = await host.bodies.run(running, lambda: host.environment.run_body(body), deadline)
    except DeadlinePassed:
        raise PreviewFailed(f"it did not end within {PREVIEW_SECONDS:g} s") from None
    except BaseException as error:
        if running.cancellation is not None:
            raise running.cancellation from None
        if isinstance(error, KeyboardInterrupt):
            raise
        raise PreviewFailed(_shown(call, raw, explain(error, what))) from None
    if running.cancellation is not None:
        raise running.cancellation
    return returned


def _shown(call: Previewing, raw: msgspec.Raw, text: str) -> str:
    """Return a text of a preview without the values of secret arguments."""
    return cut_text(without_values(text, secrets_in(raw, call.tool.secret)))
