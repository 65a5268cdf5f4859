"""Sample events, one for every symbol of the tables, and journals that a supervisor might have written."""

from datetime import UTC, datetime
from types import UnionType
from typing import Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.blocking import Block
from supervisor.core.budgets import Budget
from supervisor.core.calls.rules import Rule
from supervisor.core.errors import IllegalEvent
from supervisor.core.schedules import Schedule
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.core.usage import Usage
from supervisor.core.values import HushedBy, Option

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVENTS = get_args(e.AnyEvent)
SUFFIXES = {"ToolCallRequested": ("", ".asking"), "ApprovalDecided": (".approve", ".deny")}
SYMBOLS = [event.__name__ + suffix for event in EVENTS for suffix in SUFFIXES.get(event.__name__, ("",))]
CALLS = ("call:t:0#1", "call:t:0#2", "call:u:0#1")
QUESTION = "ask:which:0#1"
WAITS = ("sleep::0#1", "timer::0#1", "timer::0#2")
CHILDREN = {"spawn:a:0#1": "child1", "spawn:a:0#2": "child2"}

SCHEDULE = Schedule("s", "a", cron="0 3 * * *")
FIELDS = {
    "SessionCreated": {"agent": "m:a", "file": None, "path": ("a",), "root": "s", "requester": "ana", "cwd": "/"},
    "RunStarted": {"input": Raw(b"[1]")},
    "AttemptStarted": {"host": "h", "pid": 1},
    "OperationStarted": {"kind": "sleep", "due_at": AT},
    "OperationFinished": {"kind": "step", "value": Raw(b"1")},
    "OperationAbandoned": {"kind": "call"},
    "ToolCallRequested": {"tool": "t", "arguments": Raw(b"{}"), "digest": "d"},
    "QuestionAsked": {"question": "which?", "digest": "d"},
    "QuestionAnswered": {"value": Raw(b'"this"'), "by": "ben"},
    "ApprovalDecided": {"by": "ben"},
    "EvidenceTaken": {"digest": "d", "text": "a row"},
    "EvidenceWanted": {"by": "ana", "digest": "d", "value": Raw(b"{}")},
    "ApprovalVoted": {"by": "ana", "digest": "d", "quorum": 2},
    "ApprovalWithdrawn": {"reason": "cancelled"},
    "ToolCallStarted": {"host": "h", "pid": 1},
    "ToolCallFinished": {"kind": "ok", "content": "done"},
    "ChildEnded": {"child": "child1", "kind": "succeeded"},
    "JobStarted": {
        "job": "j1",
        "command": "make",
        "host": "h",
        "process": 7,
        "process_started_at": 1.0,
        "guard": 6,
        "guard_started_at": 1.0,
        "log": "/log",
    },
    "JobEnded": {"job": "j1", "how": "exited", "exit_code": 0},
    "StateSaved": {"state": Raw(b"7"), "counts": {}},
    "PatchMarked": {"name": "check first"},
    "Reported": {"kind": "text", "text": "I look at the tests"},
    "CancelRequested": {"by": "ben", "origin": "s"},
    "MessageReceived": {"message": "message1", "text": "go on", "by": "ana"},
    "MessageSent": {"text": "done"},
    "WordHeard": {"message_id": "message2", "text": "yes", "by": "ana", "approvals": ("a1",)},
    "MessageShown": {"channel": "telegram", "mark": "said:7"},
    "MessageUndelivered": {"message": "message1", "text": "go on", "by": "ana"},
    "ImportStarted": {"format": "pi v3", "source": "s", "file": "/s.jsonl", "digest": "d"},
    "MessageImported": {"role": "user", "text": "hi"},
    "ImportFinished": {"messages": 1},
    "RunPassivated": {"waiting_for": CALLS[:1]},
    "RunRestarted": {"kind": "failed", "cause": "StepFailed", "number": 1, "due_at": AT},
    "RunBlocked": {"block": Block(why="path", cause="the agent returned")},
    "CardBegun": {"channel": "web"},
    "CardPosted": {"channel": "web"},
    "CardFailed": {"channel": "web", "error": "gone"},
    "CardRetired": {"channel": "web"},
    "ReminderBegun": {"channel": "web", "due": AT, "by": "p1"},
    "ReminderSent": {"channel": "web", "due": AT},
    "ApprovalHushed": {"by": "ana", "until": AT},
    "RuleAdded": {"rule": Rule(kind="deny", tool="t", id="r1"), "by": "ana"},
    "RuleRevoked": {"rule": "r1", "by": "ana"},
    "RuleUsed": {"rule": "r1", "session": "s1"},
    "DecisionRefused": {"by": "eve", "reason": "no approver"},
    "CredentialsShown": {"by": "ana"},
    "CommandRefused": {"act": "cancel sessions", "by": "eve", "reason": "no operator"},
    "SessionForked": {"source": "s0", "before": 3, "by": "ana"},
    "ForkTaken": {"fork": "s2", "before": 3, "by": "ana"},
    "RunFinished": {"kind": "succeeded"},
    "BudgetRaised": {"by": "ana", "usd": 9.0},
    "BudgetNoticed": {"scope": "run", "text": "the budget of a: 8 of 10 requests used"},
    "BudgetAnswered": {"key": "budget:s1:run"},
    "ScheduleAdded": {"schedule": SCHEDULE, "by": "ana"},
    "ScheduleChanged": {"schedule": "s", "to": "paused", "by": "ana"},
    "ScheduleDisputed": {"schedule": SCHEDULE},
    "ScheduleHandled": {"schedule": "s", "instant": AT, "became": "begun", "session": "s1"},
    "DeliveryPruned": {"session": "s1"},
    "UsageSpent": {"usage": Usage(model="m", usd=0.5)},
}


def event_of(symbol, operation=CALLS[0], **changes):
    """Return an event with this symbol; an operation's approval is named after the operation."""
    name, _, suffix = symbol.partition(".")
    type_ = getattr(e, name)
    fields = {"at": AT, **FIELDS.get(name, {})}
    if "operation" in type_.__struct_fields__:
        fields["operation"] = operation
    if "approval" in type_.__struct_fields__ and (name != "ToolCallRequested" or suffix):
        fields["approval"] = f"approval of {operation}"
    if name == "ApprovalDecided":
        fields["decision"] = suffix
    return type_(**{**fields, **changes})


def story(*events):
    """Return the events of a session that was begun, and then had these; a symbol stands for its sample."""
    whole = ("SessionCreated", "RunStarted", *events)
    return [event_of(event) if isinstance(event, str) else event for event in whole]


def _fields(symbol):
    return getattr(e, symbol.partition(".")[0]).__struct_fields__


def _possible():
    """Every event that may happen in a small session: a few calls, timers, steps, children and messages."""
    on_calls = [s for s in SYMBOLS if s.startswith(("ToolCall", "Approval")) and "operation" in _fields(s)]
    on_calls.append("OperationAbandoned")
    yield from (event_of(symbol, call) for call in CALLS for symbol in on_calls)
    about = [s for s in SYMBOLS if s.startswith(("Question", "Approval"))]
    yield from (event_of(symbol, QUESTION) for symbol in about if "operation" in _fields(symbol))
    yield from (event_of(symbol, QUESTION, kind="ask") for symbol in ("OperationFinished", "OperationAbandoned"))
    for wait in WAITS:
        kind = wait.partition(":")[0]
        yield event_of("OperationStarted", wait, kind=kind)
        yield from (event_of(symbol, wait, kind=kind) for symbol in ("OperationFinished", "OperationAbandoned"))
    yield from (event_of("OperationFinished", f"step:f:0#{n}") for n in (1, 2))
    for spawn, child in CHILDREN.items():
        yield event_of("OperationFinished", spawn, kind="spawn", child=child)
        yield event_of("ChildEnded", child=child)
    for n, message in enumerate(("message1", "message2"), start=1):
        yield event_of("MessageReceived", message=message)
        yield event_of("OperationFinished", f"receive::0#{n}", kind="receive", message=message)
        yield event_of("RunStarted", message=message)
    yield event_of("MessageSent")
    yield event_of("Reported")
    yield event_of("JobStarted")
    yield event_of("StateSaved", counts={"ask:which:0": 1})
    for counts in ({}, {"step:f:0": 1}, {"call:t:0": 1, "step:f:0": 2}, {"call:t:0": 2, "timer::0": 1, "spawn:a:0": 2}):
        yield event_of("StateSaved", counts=counts)
    for aside in ({"forgotten": ("step:f:0#1",)}, {"kept": (CALLS[0], "step:f:0#1")}, {"kept": ("spawn:a:0#1",)}):
        yield event_of("RunRestarted", **aside)
    yield event_of("RunRestarted", reopened=WAITS[:2])
    yield from (event_of("OperationRecalled", name) for name in (CALLS[0], "step:f:0#1", "spawn:a:0#1"))
    for waiting_for in (CALLS[:1], CALLS[1:], (QUESTION,), ("child1",), ("child2", CALLS[0]), (e.MESSAGE,)):
        yield event_of("RunPassivated", waiting_for=waiting_for)
    yield from (event_of(symbol) for symbol in SYMBOLS if "operation" not in _fields(symbol))


POSSIBLE = list({e.encode_event(event): event for event in _possible()}.values())


def is_legal(state, event):
    """Return whether the fold accepts the event, by a draft."""
    try:
        state.draft().apply(event)
    except IllegalEvent:
        return False
    return True


@st.composite
def journals(draw, max_size=18):
    """Journals that the fold accepts, of any length, begun or not."""
    state, events = SessionState(id="s"), []
    for _ in range(draw(st.integers(0, max_size))):
        event = draw(st.sampled_from([event for event in POSSIBLE if is_legal(state, event)]))
        state.apply(event)
        events.append(event)
    assert replay_journal("s", events) == state
    return events


_TEXTS = st.sampled_from(["", "a", "é \n\u2028", '"\\', "[tool execution lost — session was interrupted]"])
_JSON = st.sampled_from([b"null", b'""', b"[1, 2.50]", b'{"a" : "\\u00e9"}', '"é"'.encode()]).map(Raw)
_VALUES = {
    str: _TEXTS,
    int: st.integers(-(2**31), 2**31),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    type(None): st.none(),
    Raw: _JSON,
    Option: st.builds(Option, _TEXTS, st.none() | _TEXTS),
    Budget: st.builds(Budget, usd=st.none() | st.floats(0, 9), requests=st.none() | st.integers(0, 9)),
    Usage: st.builds(Usage, model=_TEXTS, usd=st.none() | st.floats(0, 9)),
    HushedBy: st.builds(HushedBy, _TEXTS, st.datetimes(timezones=st.just(UTC))),
    Schedule: st.builds(Schedule, _TEXTS, _TEXTS, st.none() | _TEXTS | st.just(msgspec.UNSET), cron=_TEXTS),
    Rule: st.builds(Rule, kind=st.sampled_from(["allow", "deny", "ask"]), tool=_TEXTS, pattern=st.none() | _TEXTS),
}


def values_of(type_):
    """Return a strategy for the types of events' fields."""
    origin, args = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return st.one_of([values_of(arg) for arg in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(values_of(args[0]), max_size=2).map(tuple) if ... in args else st.tuples(*map(values_of, args))
    if origin is dict:
        return st.dictionaries(values_of(args[0]), values_of(args[1]), max_size=2)
    if isinstance(type_, type) and issubclass(type_, Block | e.Again):
        return events_of(type_)
    return _VALUES[type_]


def events_of(type_):
    """Return a strategy for events of one type, with any values of their fields."""
    return st.builds(type_, **{field.name: values_of(field.type) for field in msgspec.structs.fields(type_)})
