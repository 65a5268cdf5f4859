"""What a fork copies of a tree's journals, and where it cuts them (core/sessions/forking.py)."""

import msgspec
import pytest
from journals import AT, event_of

from supervisor.core import events as e
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import child_session_id
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.forking import Cut, copy_tree, later_calls
from supervisor.core.sessions.state import replay_journal

SPAWN = "spawn:a:0#1"
CHILD = child_session_id("s", f"1 {SPAWN}")
OUTCOME = f"outcome:{CHILD}:0#1"
LATER = AT.replace(hour=13)


def rows(*entries):
    """Return a tree's entries; a symbol alone is an entry of the root."""
    pairs = [("s", entry) if isinstance(entry, str | e.Event) else entry for entry in entries]
    events = [(session, event_of(event) if isinstance(event, str) else event) for session, event in pairs]
    return [JournalEntry(number, session, event) for number, (session, event) in enumerate(events, start=1)]


def begun():
    """Return the first entries of a root with one sub-agent."""
    created = event_of("SessionCreated", parent="s", parent_operation=SPAWN)
    spawned = event_of("OperationFinished", SPAWN, kind="spawn", child=CHILD)
    return ("SessionCreated", "RunStarted", spawned, (CHILD, created), (CHILD, event_of("RunStarted")))


def copied(tree, entry: int, session: str = "s"):
    """Fork a tree; return its new journals, each of which can be replayed."""
    _, entries, _ = copy_tree(Cut(tree, session, entry), "f")
    journals = {}
    for name, event in entries:
        journals.setdefault(name, []).append(event)
    for name, events in journals.items():
        replay_journal(name, events)
    return journals


def test_no_id_of_an_old_session_is_left_anywhere():
    """Operations, counts of a save, operations set aside by restarts and retries, cancels: all have the new ids."""
    tree = rows(
        *begun(),
        event_of("StateSaved", counts={f"outcome:{CHILD}:0": 0, "call:t:0": 0}),
        (CHILD, event_of("CancelRequested", origin=CHILD)),
        (CHILD, event_of("RunFinished", kind="failed")),
        event_of("ChildEnded", child=CHILD, kind="failed"),
        event_of("OperationFinished", OUTCOME, kind="outcome", child=CHILD),
        event_of("RunRestarted", forgotten=(OUTCOME,)),
        event_of("OperationFinished", OUTCOME, kind="outcome", child=CHILD),
        event_of("RunFinished", kind="failed", led_by=(OUTCOME,)),
        event_of("RunStarted", again=e.Again(by="ana", forgotten=(OUTCOME,), children=(CHILD,))),
        (CHILD, event_of("RunStarted", again=e.Again(by="ana"))),
        event_of("ToolCallRequested"),
    )
    journals = copied(tree, len([row for row in tree if row.session == "s"]))
    assert [*journals] == ["f", child_session_id("f", f"1 {SPAWN}")]
    assert not [event for each in journals.values() for event in each if CHILD.encode() in e.encode_event(event)]


@pytest.mark.parametrize("name", ["AttemptStarted", "RunPassivated", "RunBlocked", "CardPosted", "JobStarted"])
def test_facts_of_the_source_only_are_not_copied(name):
    """Its processes, cards, blocks and jobs are not in the copy."""
    tree = rows("SessionCreated", "RunStarted", name, "MessageReceived")
    assert name not in [type(event).__name__ for event in copied(tree, 4)["f"]]


def test_only_the_open_entries_of_a_restarted_operation_are_left_out():
    """The agent asks again only for the open operation; the restart that forgot its earlier entries is copied."""
    tree = rows(
        "SessionCreated",
        "RunStarted",
        "ToolCallRequested",
        event_of("RunRestarted", forgotten=("call:t:0#1",)),
        "ToolCallRequested",
        "MessageReceived",
    )
    found = [type(event).__name__ for event in copied(tree, 6)["f"]]
    assert found == ["SessionCreated", "RunStarted", "ToolCallRequested", "RunRestarted"]


def test_the_length_at_which_a_run_was_stopped_is_that_of_the_copy():
    """A retry of the copy finds where the run began to unwind."""
    tree = rows(
        "SessionCreated",
        "RunStarted",
        "AttemptStarted",
        event_of("OperationFinished", "step:f:0#1"),
        "MessageReceived",
        event_of("RunFinished", kind="stalled", stopped_at=4),
        "ForkTaken",
    )
    assert copied(tree, 7)["f"][-1].stopped_at == 3


WITHDRAWN = ("ToolCallRequested.asking", "ApprovalWithdrawn", event_of("RunFinished", kind="cancelled"))
CANCEL = event_of("OperationFinished", f"cancel:{CHILD}:0#1", kind="cancel", child=CHILD)
SENT = event_of("MessageSent", operation="send::0#1")


@pytest.mark.parametrize(
    ("more", "entry", "left"),
    [
        (WITHDRAWN, 6, 6),
        (WITHDRAWN, 5, 6),
        ((SENT, event_of("OperationFinished", "send::0#1", kind="send")), 5, 5),
        ((CANCEL, (CHILD, event_of("CancelRequested", origin=CHILD))), (CHILD, 3), 5),
        (("MessageReceived", event_of("OperationFinished", "step:f:0#1")), 5, 6),
        (((CHILD, event_of("RunFinished", at=LATER)), event_of("ChildEnded", child=CHILD)), 4, 5),
        ((), (CHILD, 2), 2),
        ((), (CHILD, 1), 2),
    ],
)
def test_the_cut_splits_no_append(more, entry, left):
    """Entries that are meaningless alone are left out: a withdrawal without the end, a cancel without the cancelled
    one, an end that the parent does not know, a sub-agent without its beginning."""
    session, number = entry if isinstance(entry, tuple) else ("s", entry)
    assert Cut(rows(*begun(), *more), session, number).place == left


def test_a_tree_that_is_being_cancelled_cannot_be_forked():
    """Its copy would end at once."""
    tree = rows("SessionCreated", "RunStarted", "CancelRequested", "MessageReceived")
    with pytest.raises(InvalidInput):
        Cut(tree, "s", 4)
    assert Cut(tree, "s", 3).place == 2


@pytest.mark.parametrize(("effect", "count"), [("none", 0), ("maybe", 1)])
def test_a_call_without_effect_is_not_reported(effect, count):
    """Only a call that may have had an effect may repeat it."""
    ended = event_of("ToolCallFinished", kind="interrupted", details=msgspec.Raw(b'{"effect":"%s"}' % effect.encode()))
    tree = rows("SessionCreated", "RunStarted", "ToolCallRequested", "ToolCallStarted", ended)
    cut = Cut(tree, "s", 4)
    assert len(later_calls(cut, copy_tree(cut, "f")[2])) == count
