"""Plans without a writer: what they see, and what they return."""

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from supervisor import Approve, Deny, MemoryStore, SessionConflict
from supervisor.core import events as e
from supervisor.core.calls.rules import Rule
from supervisor.core.errors import NotFound
from supervisor.core.ids import RULES
from supervisor.core.sessions.state import replay_journal
from supervisor.core.sessions.trees import Origin
from supervisor.runtime.journal.view import View
from supervisor.runtime.plans.decisions import check_plain, decision_entries
from supervisor.runtime.plans.end import Ending, cancel_events, end_events
from supervisor.runtime.plans.imports import begin_import
from supervisor.runtime.plans.interrupted import lost_calls
from supervisor.runtime.plans.rules import revoke, rule_added
from supervisor.runtime.plans.turns import message_entries

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NULL = msgspec.Raw(b"null")
ARGUMENTS = msgspec.Raw(b'{"target":"prod"}')


def begun(session, parent=None):
    """Return the first events of a session."""
    path, root = (("top",), session) if parent is None else (("top", "sub"), parent)
    facts = {"agent": "m:a", "file": None, "path": path, "root": root, "requester": "ana", "cwd": "/", "parent": parent}
    return [
        e.SessionCreated(at=NOW, **facts),
        e.RunStarted(at=NOW, input=NULL),
        e.AttemptStarted(at=NOW, host="h", pid=1, version=""),
    ]


def viewed(**journals):
    """Return a view of an empty store and of these sessions in memory."""
    states = {session: replay_journal(session, events) for session, events in journals.items()}
    return View(MemoryStore(), states, {}, 0)


def test_only_later_plans_of_a_batch_see_the_drafts_of_a_plan():
    """A draft belongs to its view. The live state stays as it is on disk."""
    live = {"s": replay_journal("s", begun("s"))}
    view = View(MemoryStore(), live, {}, 7)
    for session, event in cancel_events(view, "s", "ana", None, NOW):
        view.take(session, event)
    assert view.session("s").cancel is not None
    assert live["s"].cancel is None
    assert [(row.position, row.session) for row in view.rows] == [(8, "s")]


def test_a_cancel_and_an_end_reach_the_whole_tree_deepest_first():
    """W8: one plan tells all sessions of a tree to end, and one plan ends them."""
    spawned = e.OperationFinished(at=NOW, operation="spawn#1", kind="spawn", child="s/c")
    view = View(MemoryStore(), {}, {}, 0)
    for session, event in [*(("s", each) for each in begun("s")), ("s", spawned)]:
        view.take(session, event)
    for event in begun("s/c", "s"):
        view.take("s/c", event)
    told = list(cancel_events(view, "s", "ana", None, NOW))
    assert [session for session, _ in told] == ["s/c", "s"]
    for session, event in told:
        view.take(session, event)
    ended = list(end_events(view, "s", {"s": Ending(kind="cancelled")}, {}, NOW))
    assert [session for session, event in ended if isinstance(event, e.RunFinished)] == ["s/c", "s"]


def test_the_answer_of_a_lost_call_names_what_became_of_its_process():
    """T2, T9: the call may have run."""
    asked = e.ToolCallRequested(at=NOW, operation="c", tool="t", arguments=ARGUMENTS, digest="d")
    started = e.ToolCallStarted(at=NOW, operation="c", host="h", pid=1, process=5, process_started_at=1.0)
    view = viewed(s=[*begun("s"), asked, started])
    (answer,) = lost_calls(view.session("s"), {("s", "c"): "ended"}, NOW)
    assert (answer.kind, msgspec.json.decode(answer.details)["orphaned_process"]) == ("interrupted", "ended")


def test_a_rule_of_one_meaning_is_added_once_and_can_be_revoked():
    """A7: two rules with the same meaning are one rule."""
    view = viewed(**{RULES: []})
    rule = Rule(kind="deny", tool="deploy", id="r1")
    for session, event in rule_added(view, rule, "ana", NOW):
        view.take(session, event)
    assert list(rule_added(view, replace(rule, id="r2"), "ben", NOW)) == []
    entries, taken = revoke(view, rule.id, "ana", NOW)
    assert (taken.id, [event.rule for _, event in entries]) == (rule.id, [rule.id])
    with pytest.raises(NotFound):
        revoke(view, "nosuch", "ana", NOW)


ASKING = [
    *begun("s"),
    e.ToolCallRequested(at=NOW, operation="o", tool="deploy", arguments=ARGUMENTS, digest="d", approval="p"),
]


@pytest.mark.parametrize(("approval", "kinds"), [("p", [e.ApprovalDecided]), ("q", [])])
def test_a_decision_counts_once_for_what_is_pending(approval, kinds):
    """A3: its plan makes the event; after the event is applied, the same plan makes nothing."""
    view = viewed(s=ASKING)
    said = {"by": "ana", "channel": None, "now": NOW}
    for expected in (kinds, []):
        entries, decided = decision_entries(view, ("s", "o"), approval, check_plain(Approve(by="ana")), **said)
        assert [type(event) for _, event in entries] == expected
        assert (decided is not None) == bool(expected)
        for session, event in entries:
            view.take(session, event)


def test_a_decision_after_the_expiry_journals_the_expiry():
    """A10: it does not count."""
    late = [*ASKING[:-1], replace(ASKING[-1], expires_at=NOW)]
    said = {"by": "ana", "channel": None, "now": NOW}
    entries, decided = decision_entries(viewed(s=late), ("s", "o"), "p", check_plain(Deny(by="ana")), **said)
    assert ([type(event) for _, event in entries], decided) == ([e.ApprovalExpired], None)


@pytest.mark.parametrize(("waits", "kind"), [((), "kept"), ((e.MESSAGE,), "delivered")])
def test_a_message_to_an_open_session_is_delivered_if_its_run_waits_for_one(waits, kind):
    said = e.MessageReceived(at=NOW, message="m", text="hello", by="ana")
    assert message_entries(viewed(s=begun("s")).session("s"), said, waits) == ([("s", said)], kind)


def test_the_same_session_is_imported_once():
    """The second import goes on; one of another content is a conflict."""
    origin = Origin(format="pi", source="x", file="x.jsonl", digest="d", cwd="/")
    view = viewed()
    view.store.begin()
    first = begin_import(view, "s", origin, None, ("", None), "ana", NOW)
    for session, event in first:
        view.take(session, event)
    assert [type(event) for _, event in first] == [e.SessionCreated, e.ImportStarted]
    assert begin_import(view, "s", origin, None, ("", None), "ana", NOW) == []
    with pytest.raises(SessionConflict):
        begin_import(view, "s", replace(origin, digest="e"), None, ("", None), "ana", NOW)
