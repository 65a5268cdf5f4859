"""The problems of a case, after each of its lives and after the last one; there should be none.

Each check yields problems, one line each. The first word of a problem is its kind. Two runs with a common kind fail
alike.
"""

import collections
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from fuzz_agents import AGENTS
from fuzz_dumps import KINDS
from fuzz_lives import ROOT
from fuzz_programs import ASKING, is_denied, may_be_cut_off, operations
from fuzz_stores import make_store

from supervisor import MemoryStore
from supervisor.core import events as e
from supervisor.core.budgets import TOOL
from supervisor.core.calls.content import digest_of_edit
from supervisor.core.ids import RULES, SCHEDULES
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.runtime.lifecycle.launch import BARREN_ATTEMPTS
from supervisor.seam.store import Store

RESULTS = {"succeeded": "ok", "failed": "error", "stalled": "error", "cancelled": "interrupted", "abandoned": "error"}
CANCELLED = (e.CancelRequested, e.RunFinished)  # of what has ended there is nothing to cancel
IDEMPOTENT = ("idem", "risky_idem")
CLOCKS_DIFFER = timedelta(minutes=1)
DURABLE = ("call", "step", "send")
"""Operations whose results are on disk before they are given."""


class Story:
    """The folder of a case between two lives."""

    def __init__(self, folder: str, case: dict[str, Any], codes: dict[int, int]) -> None:
        self.case, self.codes, self._folder = case, codes, folder
        store = make_store(folder, create=False)
        store.open()
        try:
            self.rows = store.rows(0)
            self.wrong_index = [*_wrong_index(store, self.rows)]
        finally:
            store.close()
        added = [row.event for row in self.rows if isinstance(row.event, e.RuleAdded)]
        self.rules = {str(each.rule.id): each.rule for each in added}
        made = {(str(each.rule.id), each.approval) for each in added}
        self.released: dict[str, str] = {
            row.event.approval: row.event.rule
            for row in self.rows
            if isinstance(row.event, e.ApprovalDecided)
            and row.event.rule is not None
            and (row.event.rule, row.event.approval) not in made
        }
        """The approvals that a rule has decided, which another decision has made or a person has added, and it."""
        events: dict[str, list[Any]] = collections.defaultdict(list)
        for row in self.rows:
            if row.session in (RULES, SCHEDULES):
                continue
            events[row.session].append(row.event)
        self.events = events
        self.states: dict[str, SessionState] = {name: replay_journal(name, found) for name, found in events.items()}
        self.told = [json.loads(line) for line in self.lines("told")]
        self.effects = collections.Counter(self.lines("effects"))
        self.ops = {op["id"]: op for op in operations(case["program"])}
        self.may_be_cut_off = {*may_be_cut_off(case["program"])}
        self.programs = {name: json.loads(bytes(state.first_input)) for name, state in self.states.items()}
        self.calls = {found.x: found for name in events for found in self._calls_of(name)}

    def lines(self, name: str) -> list[str]:
        try:
            with open(f"{self._folder}/{name}") as file:  # noqa: PTH123 # a folder's name is a string here
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def was_restarted(self, session: str) -> bool:
        return any(isinstance(event, e.RunRestarted) for event in self.events[session])

    def _calls_of(self, session: str) -> Iterator["Call"]:
        by_operation: dict[str, Call] = {}
        for event in self.events[session]:
            match event:
                case e.ToolCallRequested(tool=tool) if tool == TOOL:
                    pass
                case e.ToolCallRequested():
                    x = json.loads(bytes(event.arguments)).get("x")
                    by_operation[event.operation] = Call(session, x, event)
                case e.ToolCallFinished() if event.operation not in by_operation:
                    pass  # of a question about a budget
                case e.ToolCallStarted():
                    by_operation[event.operation].starts.append(event)
                case e.ToolCallFinished():
                    by_operation[event.operation].results.append(event)
                case e.OperationAbandoned(kind="call"):
                    by_operation[event.operation].abandoned = event
                case _:
                    pass
        yield from (
            call for call in by_operation.values() if call.x is not None
        )  # a sub-agent has no effect of its own

    def op(self, x: str) -> dict[str, Any]:
        """Return the operation of an effect."""
        if x.startswith("m"):
            return {"id": x, "tool": "risky" if x.endswith("risky") else "safe"}
        return self.ops[x.partition(".")[0]]


class Call:
    """One call, as the journal holds it."""

    def __init__(self, session: str, x: str, request: Any) -> None:
        self.session, self.x, self.request = session, x, request
        self.starts: list[Any] = []
        self.results: list[Any] = []
        self.abandoned: Any = None

    @property
    def kind(self) -> str | None:
        return self.results[0].kind if self.results else None

    @property
    def reason(self) -> str | None:
        return json.loads(bytes(self.results[0].details)).get("reason") if self.results else None


def _wrong_index(store: Store, rows: list[Any]) -> Iterator[str]:
    """Check the index against one of a store into which the journals are written anew."""
    other = MemoryStore()
    other.open()
    other.begin()
    other.write(rows)
    other.commit()
    reads = {
        "sessions": lambda each: each.find_sessions(),
        "open": lambda each: each.find_sessions(is_open=True),
        "awake": lambda each: each.find_sessions(is_awake=True),
        "pending": lambda each: each.find_approvals(),
        "approvals": lambda each: each.find_approvals(pending=False),
        "due": lambda each: each.next_due(),
        "counts": lambda each: each.counts(),
    }
    for name, read in reads.items():
        if (is_so := read(store)) != (should_be := read(other)):
            yield f"index: {name} {is_so}, by its journals {should_be}"


def after_life(story: Story, life: dict[str, Any], codes: dict[int, int]) -> Iterator[str]:
    """Yield what is wrong while no process has the store open."""
    own, *others = codes.values()
    allowed = (0, -9) if life["end"] in ("kill", "commit") else (0,)
    for code in [*([own] if own not in allowed else []), *filter(None, others)]:
        yield f"{KINDS.get(code, 'fell')}: exit code {code}, see the log"
    yield from (f"live: {line}" for line in story.lines("differences"))
    yield from wrong_on_disk(story)


def wrong_on_disk(story: Story) -> Iterator[str]:
    """Yield what is wrong whatever has died meanwhile."""
    for name, found in story.events.items():
        for block in (event.block for event in found if isinstance(event, e.RunBlocked)):
            if not block.is_presumed:  # the code has not changed, so it follows its journal
                yield f"diverged: {name} blocked: {block.cause}; its journal holds {block.held}"
    for said in story.lines("died"):
        if "silent for too long" not in said:
            yield f"died: {said}"
    yield from story.wrong_index
    yield from _wrong_effects(story)
    yield from _wrong_uses(story)
    yield from _times_that_were_over(story)
    yield from _unseen_effects(story)
    yield from _wrong_spending(story)
    yield from _wrong_instants(story)
    for words in story.told:
        yield from _forgotten(story, *words)


def _wrong_effects(story: Story) -> Iterator[str]:
    paths = collections.defaultdict(set)
    for x, times in story.effects.items():
        name = x.partition(".")[0]
        paths[name].add(x)
        if times > 1 and story.op(x)["tool"] not in IDEMPOTENT:
            yield f"twice: the effect of {x} happened {times} times"
        if x not in story.calls or not story.calls[x].starts:
            yield f"unasked: the effect of {x} happened, and the journal knows nothing of it"
    yield from (f"path: both of {found} happened" for found in paths.values() if len(found) > 1)
    for x, call in story.calls.items():
        if len(call.results) + (call.abandoned is not None) > 1:
            yield f"results: {x} has {len(call.results)}, abandoned {call.abandoned}"


def _unseen_effects(story: Story) -> Iterator[str]:
    """Check that no call ran on another state than its evidence had when it was decided, and no edit without one."""
    saw = dict(line.split(" ", 1) for line in story.lines("saw"))
    for x, call in story.calls.items():
        events = story.events[call.session]
        about = [
            each for each in events if call.request.approval and call.request.approval == getattr(each, "approval", "")
        ]
        taken: dict[str, str] = {}
        for event in about:
            if isinstance(event, e.EvidenceTaken):
                taken[event.digest] = event.text
            elif isinstance(event, e.ApprovalDecided):
                asked = call.request
                edited = None if event.edited is None else json.loads(bytes(event.edited))
                digest = asked.digest if edited is None else digest_of_edit(edited, (), asked.digest)
                if edited is not None and asked.preview is not None and digest not in taken:
                    yield f"unseen: {x} was decided with {edited}, of which there was no evidence"
                if x in saw and taken.get(digest, saw[x]) != saw[x]:
                    yield f"changed: {x} ran on a state that is {saw[x]!r}, and its evidence said {taken[digest]!r}"


def _wrong_uses(story: Story) -> Iterator[str]:
    """Check that no more calls than an allowance has uses ran without a question, and that each is counted."""
    events = [row.event for row in story.rows]
    let_run = collections.Counter(
        rule for each in events if isinstance(each, e.ToolCallRequested) for rule in each.allowances
    )
    let_run.update(story.released.values())
    counted = collections.Counter(each.rule for each in events if isinstance(each, e.RuleUsed))
    for rule in story.rules.values():
        if rule.uses is not None and not counted[rule.id] == let_run[rule.id] <= rule.uses:
            yield f"uses: {rule} let {let_run[rule.id]} calls run, and {counted[rule.id]} are counted"
    for x, call in story.calls.items():
        request = call.request
        if call.starts and request.approval is None and request.rule is None and story.op(x)["tool"] in ASKING:
            yield f"uses: {x} ran, and no person and no rule has allowed it"


def _times_that_were_over(story: Story) -> Iterator[str]:
    """Check that no allowance let a call run after its end, or by a clock that was set back to before it (A19)."""
    latest: dict[str, Any] = {}
    for row in story.rows:
        match row.event:
            case e.RuleUsed(rule=rule, session=session, at=at) if (until := story.rules[rule].until) is not None:
                known = latest.get(story.states[session].facts.root, at)
                if max(at, known - CLOCKS_DIFFER) >= until:
                    yield f"time: {rule} let a call of {session} run at {at}, after its end {until}"
            case _ if row.session in story.states and story.states[row.session].facts.root == row.session:
                latest[row.session] = max(latest.get(row.session, row.event.at), row.event.at)
            case _:
                pass


def _wrong_instants(story: Story) -> Iterator[str]:
    """Check that each instant of a schedule began once, together with its session, and none next to another that is
    open, unless the schedule says so (R11)."""
    begun: set[Any] = set()
    last = ""
    created = {row.session: row.position for row in story.rows if isinstance(row.event, e.SessionCreated)}
    ended = {row.session: row.position for row in story.rows if isinstance(row.event, e.RunFinished)}
    for row in story.rows:
        event = row.event
        if not isinstance(event, e.ScheduleHandled) or event.became not in ("begun", "started"):
            continue
        if event.became == "begun":
            if event.instant in begun:
                yield f"instant: {event.instant} began twice"
            begun.add(event.instant)
            is_alone = story.case["schedule"]["if_running"] != "beside"
            if last and is_alone and ended.get(last, row.position) >= row.position:
                yield f"instant: {event.instant} began while {last} was open"
        if created.get(event.session or "") != row.position + 1:
            yield f"instant: {event.session} was not created with {event.instant}"
        last = event.session or ""
    ticks = sum(state.facts.path == ("ticker",) for state in story.states.values())
    handled = sum(isinstance(row.event, e.ScheduleHandled) and bool(row.event.session) for row in story.rows)
    if ticks != handled:
        yield f"instant: {handled} sessions were begun by the clock, and there are {ticks}"


def _wrong_spending(story: Story) -> Iterator[str]:
    """Check what was spent against the steps that were run."""
    ran = len(story.lines("steps"))
    counted = sum(isinstance(row.event, e.UsageSpent) and row.event.usage.model == "fuzz" for row in story.rows)
    if counted > ran or (counted < ran and -9 not in story.codes.values()):
        yield f"spent: {ran} steps were run, and {counted} are counted"
    for name, state in story.states.items():
        asked = [op for op, each in state.budgeting.asides.items() if each.pending_approval is not None]
        if len(asked) > 1:
            yield f"asked: {name} asks {len(asked)} times about its budget"
    yield from _exceeded_budget(story)


class _Bound:
    """A budget of a session, its limits as they are now, and what is used of it."""

    def __init__(self, limits: dict[str, int]) -> None:
        self.base = limits
        self.begin()

    def begin(self) -> None:
        self.limits, self.used = dict(self.base), collections.Counter[str]()

    @property
    def over(self) -> list[str]:
        return [kind for kind in ("calls", "requests") if kind in self.limits and self.used[kind] > self.limits[kind]]


def _exceeded_budget(story: Story) -> Iterator[str]:  # noqa: C901 # one case per kind
    """Check each budget against what was journaled below it: that of the tree, and those of agents."""
    stopped = {name for name, found in story.events.items() if _was_stopped(found)}
    bounds: dict[tuple[str, str], _Bound] = {}
    if "budget" in story.case:
        bounds[ROOT, "tree"] = _Bound(story.case["budget"])
    for name, state in story.states.items():
        if (own := AGENTS.get(state.facts.path[-1])) is not None and own.budget is not None:
            bounds[name, "run"] = _Bound(own.budget.limits)
    above = {name: [*_above(story, name)] for name in story.states}
    for row in story.rows if bounds else ():
        if row.session not in story.states:
            continue
        own_ones = {scope: bounds.get((row.session, scope)) for scope in ("tree", "run")}
        match row.event:
            case e.CancelRequested():
                stopped.add(row.session)
            case e.RunStarted(again=None) if own_ones["run"] is not None:
                own_ones["run"].begin()
            case e.BudgetRaised(scope=scope):
                for which, bound in own_ones.items():
                    if bound is not None and scope in (None, which):
                        for kind, limit in bound.limits.items():
                            bound.limits[kind] = max(limit, getattr(row.event, kind) or 0)
            case e.ToolCallRequested(tool=tool) if tool != TOOL and row.session not in stopped:
                yield from _spend(bounds, above[row.session], "calls", 1)
            case e.UsageSpent(usage=usage) if row.session not in stopped:
                yield from _spend(bounds, above[row.session], "requests", usage.requests or 0)


def _above(story: Story, session: str | None) -> Iterator[str]:
    """Yield a session and those above it."""
    while session is not None:
        yield session
        session = story.states[session].facts.parent


def _spend(bounds: dict[tuple[str, str], _Bound], sessions: list[str], kind: str, amount: int) -> Iterator[str]:
    for bound in (bounds[key] for each in sessions for scope in ("tree", "run") if (key := (each, scope)) in bounds):
        was_over = bound.over
        bound.used[kind] += amount
        if bound.over and not was_over:
            yield f"budget: {bound.over} of {bound.limits} exceeded by {dict(bound.used)}"


def _was_stopped(events: list[Any]) -> bool:
    """Whether a run was told to stop by no entry: no budget holds up its clean-up."""
    ends = {event.kind for event in events if isinstance(event, e.RunFinished)}
    if "cancelled" in ends and any(isinstance(event, e.CancelRequested) for event in events):
        ends.remove("cancelled")
    return not ends <= {"succeeded", "failed"}


def _forgotten(story: Story, what: str, *of: str) -> Iterator[str]:  # noqa: C901 # one case per kind
    """Check that every acknowledgement that a caller got is on disk."""
    events = [row.event for row in story.rows]
    match what, *of:
        case "started", session if session not in story.states:
            yield "lost: a start that was acknowledged"
        case "outcome", kind:
            if (outcome := story.states[ROOT].outcome) is None or outcome.kind != kind:
                yield f"lost: the outcome was {kind}, and is {outcome}"
        case "decided", approval, kind:
            made = [each for each in events if getattr(each, "approval", None) == approval]
            ends = tuple(type(each).__name__ for each in made)
            if kind in ("accepted", "already", "recorded") and not {"ApprovalDecided", "QuestionAnswered"} & {*ends}:
                yield f"lost: a decision on {approval} was {kind}, and is not in the journal"
            if kind == "closed" and len(ends) < 2:
                yield f"lost: {approval} was gone, and is still {ends}"
            if kind in ("conflict", "unknown") and approval not in story.released:
                yield f"lost: a decision on {approval} was {kind}: {ends}"
        case "sent", _, message, kind:
            if not any(isinstance(each, e.MessageReceived) and each.message == message for each in events):
                yield f"lost: message {message} was {kind}, and is not in the journal"
        case "cancelled", session if not any(type(each) in CANCELLED for each in story.events[session]):
            yield f"lost: the cancel of {session}"
        case _:
            pass


def at_the_end(story: Story) -> Iterator[str]:
    """Yield what is wrong when everything is decided and has ended."""
    for name, state in story.states.items():
        if state.outcome is None:
            yield f"open: {name} {state.facts.path} has no outcome"
            continue
        yield from _wrong_outcome(story, name, state)
        for operation, record in state.operations.items():
            if (record.kind == "call" and record.is_open) or record.pending_approval is not None:
                yield f"dangling: {operation} {record.state}"
    for call in story.calls.values():
        yield from _wrong_result(story, call)
    yield from _wrong_messages(story)
    yield from _seen_otherwise(story)


def _wrong_outcome(story: Story, name: str, state: SessionState) -> Iterator[str]:
    assert state.outcome is not None
    kind, cause, program = state.outcome.kind, state.outcome.cause, story.programs[name]
    agent = state.facts.path[-1]
    who = f"{name} {'/'.join(state.facts.path)}"
    allowed = {"stalled"} if agent == "silent" else {"succeeded"}
    if agent in ("talker", "ticker"):
        program = []
    if program and program[-1]["op"] == "raise":
        allowed = {"failed"}
    if state.cancel is not None:
        allowed |= {"cancelled"}
        if agent == "restarter":  # no restart follows a failure that the cancel came with
            allowed |= {"failed"}
    deaths = sum(code == -9 for code in story.codes.values())
    if str(cause).startswith(f"{BARREN_ATTEMPTS} attempts in a row made no progress") and deaths >= BARREN_ATTEMPTS:
        # On a slow machine the deaths may come before the first entry (R5).
        allowed |= {"abandoned"}
    if kind not in allowed:
        yield f"outcome: {who} {kind} ({cause}), allowed {allowed}"
    elif kind == "succeeded" and program:
        yield from _wrong_values(story, name, program, json.loads(bytes(state.outcome.value)))


def _wrong_result(story: Story, call: Call) -> Iterator[str]:  # noqa: C901 # one case per kind
    """Check that a result is the tool's own, and says what happened."""
    times, op = story.effects[call.x], story.op(call.x)
    wanted = {"fails": "error", "late": "error"}.get(op["tool"], "ok")
    is_allowed = bool(call.request.allowances) or call.request.approval in story.released
    if op["tool"] in ASKING and is_denied(call.x) and not is_allowed:
        wanted = "denied"
    state = story.states[call.session]
    was_cancelled = any(isinstance(event, e.CancelRequested) for event in story.events[call.session])
    was_ended = was_cancelled or (state.outcome is not None and state.outcome.kind != "succeeded")
    was_ended |= any(story.codes.get(each.pid) == -9 for each in call.starts)  # a full disk suspends a tree
    match call.kind, call.reason:
        case None, _:
            if call.abandoned is None:
                yield f"results: {call.x} has none"
        case "interrupted", "lost":
            if op["tool"] in IDEMPOTENT:
                yield f"redone: {call.x} was lost, and may run again"
            elif story.codes.get(call.starts[-1].pid) != -9:
                yield f"cut: {call.x} was lost, and its process was not killed"
        case "interrupted", reason:
            if not was_ended and op["id"] not in story.may_be_cut_off:
                yield f"cut: {call.x} was interrupted ({reason}) by what should have waited for it"
        case "denied", "changed" if not times and call.x in story.lines("changed"):
            pass
        case kind, reason if kind != wanted:
            yield f"result: {call.x} {kind} ({reason}), not {wanted}"
        case "denied", _ if times:
            yield f"result: {call.x} was denied, and ran"
        case "ok" | "error", _ if not times and op["tool"] != "late":  # its time may be over before it begins
            yield f"result: {call.x} {call.kind}, and never ran"


def _wrong_messages(story: Story) -> Iterator[str]:
    for name, events in story.events.items():
        came = [each.message for each in events if isinstance(each, e.MessageReceived)]
        taken = [message for each in events if (message := getattr(each, "message", None)) and type(each) in TAKING]
        outcome = story.states[name].outcome
        kept = set(came) - set(taken) if outcome is not None and outcome.kind == "cancelled" else set()
        if collections.Counter(came) != collections.Counter([*taken, *kept]):
            yield f"messages: of {name} came {came}, taken {taken}"
        said = collections.Counter(each.text for each in events if isinstance(each, e.MessageSent))
        yield from (f"messages: {name} said {text} {times} times" for text, times in said.items() if times > 1)


TAKING = (e.OperationFinished, e.MessageUndelivered, e.RunStarted)


def _seen_otherwise(story: Story) -> Iterator[str]:
    """Check that each attempt was given the same results as those before it, up to the last entry that depends on
    one."""
    seen = [json.loads(line) for line in story.lines("seen")]
    last_begun: dict[Any, int] = {}
    for each in seen:
        if each["op"] in DURABLE:
            key = each["session"], each["pid"]
            last_begun[key] = max(last_begun.get(key, -1), each["begun"])
    known: dict[Any, Any] = {}
    for each in seen:
        key = each["session"], each["id"]
        if story.was_restarted(each["session"]):
            continue
        if key in known and known[key] != each["value"]:
            yield f"seen: {key} gave {known[key]}, and later {each['value']}"
        is_on_disk = last_begun.get((each["session"], each["pid"]), -1) > each["ended"]
        if is_on_disk or each["op"] in DURABLE:
            known[key] = each["value"]


# -- what an agent returned --------------------------------------------------------------------------------------------


def _wrong_values(story: Story, session: str, ops: list[Any], values: Any) -> Iterator[str]:
    if not isinstance(values, list) or len(values) != len(ops):
        yield f"value: {session} returned {values} for {[op['id'] for op in ops]}"
        return
    for op, value in zip(ops, values, strict=True):
        yield from _wrong_value(story, session, op, value)


def _wrong_value(  # noqa: C901 # one case per kind
    story: Story, session: str, op: dict[str, Any], value: Any
) -> Iterator[str]:
    wrong = f"value: {op['id']} of {session} ({op['op']}) gave {value!r}"
    match op["op"]:
        case "call":
            yield from _wrong_kind(story, op["id"], value)
        case "step":
            if value != op["id"] and not (value == "failed" and op["failures"]):
                yield wrong
        case "sleep" | "ticks" | "model" | "report" | "send":
            if value is not None:
                yield wrong
        case "now" | "receive":
            if not isinstance(value, str):
                yield wrong
        case "random":
            if not 0 <= value < 1:
                yield wrong
        case "save":
            if value != "saved":
                yield wrong
        case "ask":
            wanted = ["b" if op["choices"] else f"to {op['id']}", *(["unanswered"] if "expires_in" in op else [])]
            if value not in wanted:
                yield f"{wrong}, not one of {wanted}"
        case "timer":
            ended = op["body"][: len(value["values"])] if value["expired"] else op["body"]
            yield from _wrong_values(story, session, ended, value["values"])
            yield from _wrong_then(story, op, value["expired"], value["then"])
        case "race":
            if value["first"] not in range(len(op["branches"])):
                yield wrong
            yield from _wrong_then(story, op, value["first"], value["then"])
        case "all":
            for branch, found in zip(op["branches"], value, strict=True):
                yield from _wrong_values(story, session, branch, found)
        case "guard":
            yield from _wrong_values(story, session, op["body"], value)
        case "hire":
            wanted = {RESULTS[outcome.kind] for outcome in _outcomes(story, session, op)}
            wanted |= {"interrupted"} if story.was_restarted(session) else set()
            if value not in wanted:
                yield f"{wrong}, not one of {wanted}"
        case "child":
            yield from _wrong_values(story, session, op.get("beside", []), value["beside"])
            if op["how"] != "leave":
                yield from _wrong_child(story, session, op, value)


def _wrong_kind(story: Story, x: str, kind: Any) -> Iterator[str]:
    call = story.calls.get(x)
    was_kept = call is not None and call.abandoned is not None and story.was_restarted(call.session)
    if call is None or kind != (call.kind or ("interrupted" if was_kept else None)):
        yield f"value: {x} gave {kind}, and its result is {call and call.kind}"


def _wrong_then(story: Story, op: dict[str, Any], what: Any, kind: Any) -> Iterator[str]:
    if "then" in op:
        yield from _wrong_kind(story, f"{op['then']['id']}.{what}", kind)


def _outcomes(story: Story, session: str, op: dict[str, Any]) -> list[Any]:
    """Return how the sub-agent of an operation has ended."""
    found = [name for name, program in story.programs.items() if program == op["program"]]
    states = [story.states[name] for name in found if story.states[name].facts.parent == session]
    return [state.outcome for state in states if state.outcome is not None]


def _wrong_child(story: Story, session: str, op: dict[str, Any], value: Any) -> Iterator[str]:
    told = [(each.kind, json.loads(bytes(each.value))) for each in _outcomes(story, session, op)]
    if (value["kind"], value["value"]) not in told:
        yield f"value: {op['id']} gave {value}, and its outcome is {told}"
