"""Tool calls: asked once, run at most once, answered exactly once (T1, A1).

    journaled, with its approval -> decided -> `executing` committed -> effect -> result committed -> result returned

The state of a call in the journal decides how it goes on. If it is asked, it waits. If it is approved, it runs. If it
is executing, it runs again, because it is idempotent: recovery has answered every other one. If it is finished, it
returns its result. Each kind of call has its own effect: a function (function_calls.py), a sub-agent, or an error for a
call that cannot be made (emitted_calls.py).

Rules
- Immediately before the effect, the call checks again the digest of the approved arguments and their types. The plan
  that commits `executing` checks that the run goes on, and the rules (A9).
- The result is committed whatever happens meanwhile. A cancelled call is journaled as `interrupted` with its output so
  far, and its caller gets the cancellation, never a result.
- If a scope of the agent's own cancels a call, the call is abandoned. A replay waits there until the scope cancels it
  again.

The module is longer than 400 lines because the request, the rules, the effect and the result of a call are one life.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn

import anyio
import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.budgets import A_CALL, Used
from supervisor.core.calls.content import CallContent, content_of_request
from supervisor.core.calls.rules import grantable, named_edits, offered
from supervisor.core.encoding import JSON_NULL, printable_text
from supervisor.core.errors import InvalidInput, RunStopping, Suspended
from supervisor.core.sessions.state import Operation, SessionState
from supervisor.core.text.masks import mask_arguments
from supervisor.core.values import Policy, ResultKind, ToolResult, Urgency
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.attempt.divergence import block_here
from supervisor.runtime.attempt.native_cancellation import is_own_doing
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.operations.questions import expiry, wait_for_person, wants_evidence
from supervisor.runtime.plans.allowances import key_of, uses_of
from supervisor.runtime.plans.decisions import restored
from supervisor.runtime.plans.results import denial, encode_details, finished_call, result_of
from supervisor.runtime.plans.rules import Ruled, first_of, why_not_begun

if TYPE_CHECKING:
    from supervisor.runtime.operations.evidence import Taking

Effect = Literal["none", "maybe", "done"]
ASKED_WITHIN_SECONDS: Final = 10.0
"""How old rules that are kept elsewhere may be when a call is asked for, if its body compares them."""
NEXT_CALLS: Final = 10
SOME_MINUTES: Final = 15
"""The allowances that surfaces offer first."""
is_allowance: Final = attrgetter("is_allowance")
LATELY: Final = 50
"""The number of results among which a denial of the same call is looked for."""
_UNDECIDED: Final[dict[str, tuple[ResultKind, str]]] = {
    "expired": ("denied", "the approval expired before a person decided"),
    "withdrawn": ("interrupted", "the approval was withdrawn"),
}
NOT_BEGUN: Final[Mapping[str, Any]] = {"reason": "cancelled", "effect": "none"}
UNFIT: Final[Mapping[str, Any]] = {"reason": "invalid_arguments", "effect": "none"}
"""The details of the result of a call that cannot be made as it was asked for."""
MOST_WORDS_CHARACTERS: Final = 65_536
"""Characters that are kept of the caller's words to the person who decides."""


class Said(NamedTuple):
    """What the caller says to the person who decides: why, and how urgent it is at most."""

    because: str = ""
    urgency: Urgency | None = None


NOTHING_SAID: Final = Said()


class Call(ABC):
    """One call in one attempt. `content`: what is journaled, ruled and shown of it; its tool may be a sub-agent. What
    the request journals of it counts for the whole life of the call, whatever today's code declares."""

    __slots__ = ("attempt", "content", "is_editable", "is_idempotent", "operation", "said", "settled")

    def __init__(
        self,
        attempt: Attempt,
        operation: str,
        content: CallContent,
        *,
        is_idempotent: bool = False,
        is_editable: bool = True,
        said: Said = NOTHING_SAID,
    ) -> None:
        self.attempt = attempt
        self.said = said._replace(because=_kept(said.because)) if said.because else said
        self.operation = operation
        self.content = content
        self.settled: Mapping[str, str] | None = None
        """Where its paths lead on the machine that runs its body; None: that is this one."""
        self.is_idempotent = is_idempotent
        self.is_editable = is_editable

    has_body = False
    """Whether its effect is a body, which compares the rules that are kept elsewhere just before it begins."""

    @property
    def name(self) -> str:
        """The name of the tool or sub-agent, which rules match and people see."""
        return self.content.tool

    @property
    def arguments(self) -> msgspec.Raw:
        """The arguments as they are journaled, and as the effect gets them."""
        return self.content.raw

    @property
    @abstractmethod
    def value_type(self) -> Any:
        """The type of the value of an ok result."""

    def own_policy(self, arguments: msgspec.Raw) -> Policy:
        """Return the policy of the call with these arguments, if no rule matches. Only rules ask or deny where there is
        no function: a sub-agent's own calls are asked about one by one."""
        return "allow"

    @property
    def refusal(self) -> str:
        """Why a call that is new to the journal cannot be made; "" if it can. It has this as its result, no rule and no
        person is asked, and nothing runs. A call that the journal knows goes on as it was asked."""
        return ""

    @property
    def wants(self) -> Used:
        """What the call takes of budgets before it is journaled."""
        return A_CALL

    def asked_with(self) -> dict[str, Any]:
        """Return the fields of a request about which a person is asked that say what they may put in its place, and for
        how long cards wait for evidence of it."""
        return {}

    def begin_events(self, at: datetime) -> Iterable[e.AnyEvent]:
        """Return the events that are appended together with the request of a call that needs no approval, `at` the same
        instant."""
        return ()

    @abstractmethod
    def check(self, arguments: msgspec.Raw, *, is_edited: bool) -> Any:
        """Return the arguments decoded for the effect. Raises InvalidInput if they do not fit (A9)."""

    def check_edit(self, edited: msgspec.Raw) -> None:
        """Raise InvalidInput for arguments that a person puts in place of the agent's and that do not fit (A8)."""
        assert isinstance(self.record.request, e.ToolCallRequested)
        self.check(restored(edited, self.record.request), is_edited=True)

    @abstractmethod
    async def perform(self, arguments: Any, *, is_executing: bool) -> None:
        """Run the effect, and commit its result whatever happens. `is_executing`: `executing` is committed already.
        Otherwise call `check_rules` in the plan that commits it, and before anything is made before that commit."""

    def begin_evidence(self) -> "Taking | None":
        """Begin to take evidence of the call, which waits for a person; None if there is none to take."""
        return None

    async def take_wanted(self) -> None:
        """Take the evidence of an edit that a person wants."""
        raise NotImplementedError(f"{self.name} has no preview")

    @property
    def claimed(self) -> str:
        """What the caller says that the call would do, which is shown as its words; "" if it says nothing."""
        return ""

    @property
    def record(self) -> Operation:
        return self.attempt.state.operations[self.operation]

    @property
    def content_now(self) -> CallContent:
        """What would run: as it is journaled, and as a person has edited it."""
        state = self.attempt.state
        record = state.operations.get(self.operation)
        if record is None or not isinstance(record.request, e.ToolCallRequested):
            return self.content
        secret = self.content.secret
        return content_of_request(record.request, state.facts.cwd, secret=secret, edited=record.edited)

    async def read_rules(self, age_seconds: float) -> None:
        """Read the rules that are kept elsewhere, if there are any, and have the paths of the call settled there. A
        replay does not do that. `age_seconds`: how old they may be if its body compares them."""
        attempt, host = self.attempt, self.attempt.host
        if host.environment.shares_rules:
            with attempt.settling.holding():
                host.rules.shared = await host.environment.read_rules(
                    f"{attempt.session} {attempt.run} {self.operation}", age_seconds=age_seconds if self.has_body else 0
                )
                await self.settle_elsewhere()

    async def settle_elsewhere(self) -> None:
        """Have the paths of the call settled where its body will run."""
        host = self.attempt.host
        if self.content.paths and not host.environment.is_former:
            named = host.rules.paths(host.journal.look(), self.attempt.state.facts, self.content_now)
            self.settled = await host.environment.settle_elsewhere(named)

    async def request(self) -> None:
        """Journal the call, with an approval if a person must decide. Otherwise it is executing at once."""
        approval = self.attempt.host.environment.new_approval_id(self.attempt.state.facts.root)
        content = self.content
        refusal = "" if self.attempt.host.environment.is_former else self.refusal
        own_policy: Policy = "allow" if refusal else self.own_policy(self.arguments)

        def plan(view: View) -> Iterable[Entry]:
            session, state = self.attempt.session, view.session(self.attempt.session)
            at = self.now()  # the one instant at which rules are judged, and that is journaled
            ruled = None if refusal else self.ask_rules(view, state, content, at)
            if ruled is not None and ruled[0] == own_policy == "allow" and any(map(is_allowance, ruled[1])):
                ruled = None  # it runs without an allowance, too
            policy = own_policy if ruled is None else ruled[0]
            allowed_by = tuple(filter(is_allowance, ruled[1])) if ruled is not None and policy == "allow" else ()
            request = e.ToolCallRequested(
                at=at,
                operation=self.operation,
                tool=content.tool,
                arguments=content.raw,
                digest=content.digest,
                idempotent=self.is_idempotent,
                secret=content.secret,
                editable=self.is_editable,
                command=content.command,
                claims=content.claims,
                paths=content.paths,
                edits=content.edits,
                rule=None if ruled is None else ruled[1][0].id or ruled[1][0].origin,
                allowances=tuple(map(key_of, allowed_by)),
            )
            yield session, request if policy != "ask" else self._asking(request, approval, ruled, view, state)
            if policy == "ask" and self.claimed:
                about = {"operation": self.operation, "approval": approval, "digest": content.digest}
                yield session, e.EvidenceTaken(at=at, **about, kind="claim", text=self.claimed)
            yield from uses_of(allowed_by, session, self.operation, at)
            if refusal:
                yield session, finished_call(self.operation, at, "error", refusal, UNFIT)
            elif policy == "allow":
                for event in self.begin_events(at):
                    yield session, event

        with self.attempt.host.acting:  # this commit may begin `executing`: then a graceful stop waits for the call
            await self.attempt.append_to_many(plan)

    def _asking(
        self,
        request: e.ToolCallRequested,
        approval: str,
        ruled: Ruled | None,
        view: View,
        state: SessionState,
    ) -> e.ToolCallRequested:
        """Return the request with what a person needs who is asked about it."""
        if state.cancel is not None or self.attempt.stop_reason is not None:
            raise RunStopping("the run was told to stop, so it asks for no approvals any more")
        has_news = not self.attempt.host.environment.is_former
        patterns = self._offered if has_news else grantable
        return replace(
            request,
            why=self._why(ruled, view, state, request.at) if has_news else "",
            note=self._note(state) if has_news else "",
            approval=approval,
            patterns=patterns(self.content) if ruled is None or not has_news else (),
            expires_at=expiry(request.at, self.attempt.spec.approval_expires_in),
            because=self.said.because if has_news else "",
            urgency=self.said.urgency if has_news else None,
            uses=NEXT_CALLS if has_news and not self.attempt.host.environment.shares_rules else 0,
            minutes=SOME_MINUTES if has_news else 0,
            **self.asked_with(),
        )

    def _offered(self, content: CallContent) -> tuple[str | None, ...]:
        if not content.edits:
            return offered(content)
        environment = self.attempt.host.environment
        settle = environment.settle if self.settled is None else partial(_given, self.settled)
        return offered(content, settled=settle(named_edits(content)), ours=environment.files_of_ours())

    def _why(self, ruled: Ruled | None, view: View, state: SessionState, now: datetime) -> str:
        rules, own = self.attempt.host.rules, self.attempt.spec.rules
        found = rules.why(ruled, view, state.facts, self.content, own, now)
        return printable_text(found)

    def _note(self, state: SessionState) -> str:
        """Return who has denied the same call lately."""
        order, operations, who = state.order, state.operations, list[str]()
        same = self.content.tool, self.content.digest
        for place in range(max(0, len(order) - LATELY), len(order)):
            record = operations[order[place]]
            if record.approval is None or record.approval.status != "denied":  # almost all: each call looks at so many
                continue
            request = record.request
            if isinstance(request, e.ToolCallRequested) and (request.tool, request.digest) == same:
                who.append(record.approval.by or "")
        times = f", {len(who)} times" if len(who) > 1 else ""
        return f"{', '.join(dict.fromkeys(who))} denied the same call just before{times}" if who else ""

    def ask_rules(
        self, view: View, state: SessionState, content: CallContent, now: datetime, kept: Collection[str] = ()
    ) -> Ruled | None:
        """Return the policy that the rules give the call, and the rules it is from; None if its own policy decides. Its
        paths are settled each time, so before the effect they are what they are then. `kept`: as in `of_call`."""
        host = self.attempt.host
        environment = host.environment
        return host.rules.of_call(
            view,
            state.facts,
            content,
            now,
            kept=kept,
            settle=environment.settle if self.settled is None else partial(_given, self.settled),
            ours=environment.files_of_ours,
            is_former=environment.is_former,
        )

    def check_rules(self, view: View, state: SessionState) -> None:
        """Raise Denied if the rules of this instant do not let the call begin (A8, A9)."""
        record = state.operations[self.operation]
        assert isinstance(record.request, e.ToolCallRequested)
        content = self.content_now
        ruled = self.ask_rules(view, state, content, self.now(), record.request.allowances)
        why = why_not_begun(
            None if ruled is None else first_of(ruled),
            self.own_policy(record.arguments) if ruled is None else ruled[0],
            content.tool,
            is_decided=record.is_decided,
            was_ruled=record.request.rule is not None,
        )
        if why is not None:
            raise Denied(why)

    async def proceed(self, *, is_new: bool) -> None:
        """Bring a call that needs no decision any more from its present state to its result."""
        record = self.record
        if record.state == "denied":
            assert record.approval is not None
            is_former = self.attempt.host.environment.is_former
            await self._commit(denial(self.operation, record.approval, self.now(), is_former=is_former))
        elif record.state in _UNDECIDED:
            await self.finish(*_UNDECIDED[record.state], {"reason": record.state, "effect": "none"})
        elif record.is_open:
            await self._execute(record, is_executing=is_new and record.state == "executing")

    async def _execute(self, record: Operation, *, is_executing: bool) -> None:
        assert isinstance(record.request, e.ToolCallRequested)
        if record.edited is None and record.request.digest != self.content.digest:
            self._block("the call would get other arguments than the approval showed")
        try:
            arguments = self.check(record.arguments, is_edited=record.edited is not None)
        except InvalidInput as error:
            if record.edited is None:
                self._block(str(error))
            await self.finish("error", str(error), {"reason": "invalid_arguments", "effect": "none"})
            return
        await self.attempt.pass_barrier()  # no effect before the agent has asked for everything in its journal
        if not is_executing:
            await self.read_rules(inf)
        try:
            await self.perform(arguments, is_executing=is_executing)
        except Denied as denied:
            await self.finish("denied", str(denied), {"reason": "rule", "effect": "none"})

    def _block(self, cause: str) -> NoReturn:
        """Block the run: today's code would not do what a person was shown. The approval remains unused (R1)."""
        self.attempt.stop_blocked(block_here(self.attempt, "call", self.operation, cause))
        raise Suspended

    async def abandon(self, content: str = "", details: Mapping[str, Any] = NOT_BEGUN) -> None:
        said = {"content": printable_text(content), "details": encode_details(details)}
        await self.attempt.abandon(self.operation, "call", self.follow_abandonment, **said)

    def follow_abandonment(self, view: View) -> Iterable[Entry]:
        """Return the entries that are journaled with the call's abandonment."""
        return ()

    async def finish(
        self,
        kind: ResultKind,
        content: str,
        details: Mapping[str, Any],
        value: msgspec.Raw = JSON_NULL,
        traceback: str = "",
    ) -> None:
        record = self.record
        is_edited = record.is_decided and not self.attempt.host.environment.is_former
        if is_edited and (ran := edited_arguments(record)) is not None:
            details = {**details, "arguments": ran}
        await self._commit(finished_call(self.operation, self.now(), kind, content, details, value, traceback))

    async def _commit(self, event: e.ToolCallFinished) -> None:
        paid = self.take_spent()

        def plan(view: View, state: SessionState) -> Iterable[e.AnyEvent]:
            return [*paid, event] if state.operations[self.operation].is_open else paid

        await self.attempt.append(plan, bound=False)

    def take_spent(self) -> list[e.UsageSpent]:
        """Take what its effect has spent on models, for the append of its result."""
        return []

    def now(self) -> datetime:
        return self.attempt.host.clock.now()


async def run(make: Callable[[], Call]) -> ToolResult[Any]:
    """Make a call in the task that awaits it, and return its result. While an agent waits for a person, this is the
    only frame of this package on its stack."""
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
                reserved = await attempt.host.budgets.reserve(attempt, call.wants, in_operation=True)
                try:
                    await call.read_rules(ASKED_WITHIN_SECONDS)
                    await call.request()
                finally:
                    if reserved is not None:
                        attempt.host.budgets.release(attempt, reserved)
            if call.record.state == "asked" and (asked := call.record.pending_approval) is not None:
                attempt.host.asking[asked] = call.check_edit
                taking = call.begin_evidence()
                try:
                    await wait_for_person(attempt, operation)
                    while wants_evidence(attempt, operation):
                        await call.take_wanted()
                        await wait_for_person(attempt, operation)
                finally:
                    if taking is not None:
                        taking.cancel()
                    attempt.host.asking.pop(asked, None)
            await call.proceed(is_new=record is None)
        except anyio.get_cancelled_exc_class():
            if await is_own_doing(attempt):
                await call.abandon()
            raise
        answered = await attempt.take(operation)
    finally:
        await attempt.end_operation(operation)
    assert isinstance(answered.result, e.ToolCallFinished)
    result = answered.result
    return attempt.read(operation, lambda: result_of(result, call.value_type, f"the result of tool {call.name}"))


def edited_arguments(record: Operation) -> Any:
    """Return the arguments that a person has put in place of the agent's, with secrets masked; None if they are as they
    were asked."""
    if record.edited is None or not isinstance(record.request, e.ToolCallRequested):
        return None
    ran, asked = msgspec.json.decode(record.edited), msgspec.json.decode(record.request.arguments)
    is_same = msgspec.json.encode(ran, order="sorted") == msgspec.json.encode(asked, order="sorted")
    return None if is_same else mask_arguments(ran, record.request.secret)


def _given(settled: Mapping[str, str], _: Iterable[str]) -> Mapping[str, str]:
    return settled


def _kept(words: str) -> str:
    """Return the caller's words as they are journaled, with what is left out of them."""
    shown = printable_text(words)
    more = len(shown) - MOST_WORDS_CHARACTERS
    return shown if more <= 0 else f"{shown[:MOST_WORDS_CHARACTERS]}… ({more} characters more)"


class Denied(Exception):
    """The rules do not let a call begin. It is raised before the effect, and becomes the call's result."""
