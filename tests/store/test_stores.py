"""The guarantees of every store (seam.store.Store), over both stores."""

import pytest
from msgspec import Raw
from msgspec.structs import replace
from store_stories import (
    append,
    asked,
    at,
    cancelled,
    created,
    decided,
    everything,
    finished,
    passivated,
    rows,
    ruled,
    started,
)

from supervisor.core import events as e
from supervisor.core.blocking import Block
from supervisor.core.cursors import make_cursor, read_cursor
from supervisor.core.errors import IllegalEvent, StoreUnreadable
from supervisor.core.ids import RULES
from supervisor.core.rows import RunnableSession
from supervisor.core.sessions.state import replay_journal


def test_appended_entries_come_back_in_order(store):
    """Journals are read per session, rows across sessions, both after a position."""
    last = append(store, ("a", created()), ("b", created("b")), ("a", started()))
    assert [(row.position, row.session) for row in store.rows(0)] == [(1, "a"), (2, "b"), (3, "a")]
    assert [row.position for row in store.journal("a")] == [1, 3]
    assert [row.position for row in store.journal("a", after=1)] == [3]
    assert store.journal("a")[0].event == created()
    assert [row.position for row in store.rows(1, 2)] == [2]
    assert store.rows(last) == store.rows(2, 2) == []
    assert store.last_position() == last == 3
    assert store.journal("nobody") == []


@pytest.mark.parametrize("names", [["RunStarted"], ["SessionCreated", "RunFinished"], ["MessageSent"], []])
def test_entries_of_some_events_are_found_without_the_others(store, names):
    """In one journal and in all of them, also of the event whose beginning has more than its type."""
    append(store, ("a", created()), ("a", started()), ("b", created("b")), ("a", finished()), ("b", started()))
    meant = [row for row in store.rows(0) if type(row.event).__name__ in names]
    assert store.rows(0, only=names) == meant
    assert store.journal("a", only=names) == [row for row in meant if row.session == "a"]
    assert store.journal("a", 1, 1, names) == [row for row in meant if row.session == "a" and row.position > 1][:1]


def test_a_store_has_an_id_that_its_cursors_begin_with(store):
    """10 lower-case letters and digits."""
    assert read_cursor(make_cursor(store.id, 1), store.id, last=1) == 1


def test_no_entry_is_seen_before_it_is_committed(store):
    """Readers, the writer among them, see the committed state."""
    assert store.begin()
    store.write(rows(store, ("a", created()), ("a", asked())))
    assert (store.rows(0), store.find_sessions(), store.find_approvals(), store.last_position()) == ([], [], [], 0)
    store.commit()
    assert len(store.rows(0)) == 2
    assert store.get_session("a").id == "a"
    assert store.get_approval("p").status == "pending"


def test_a_rollback_leaves_no_trace(store):
    """Of entries, of the index or of a claim; and it may be called twice."""
    append(store, ("a", created()), ("a", started()), ("a", asked()))
    before = everything(store)
    assert store.begin()
    store.claim("a")
    store.write(rows(store, ("a", decided()), ("b", created("b")), ("b", asked("q"))))
    store.rollback()
    store.rollback()
    assert everything(store) == before
    assert not store.owns("a")
    assert store.get_owner("a") is None
    append(store, ("b", created("b")))


def test_the_writes_of_one_transaction_build_on_each_other(store):
    """A second write sees the index as the first one leaves it."""
    assert store.begin()
    first = rows(store, ("a", created()), ("a", started()), ("a", asked()), ("a", asked("q", "o#2")))
    store.write(first)
    more = [decided(), e.OperationAbandoned(at=at(4), operation="o#2", kind="call", approval="q")]
    store.write([type(first[0])(5 + n, "a", event) for n, event in enumerate(more)])
    store.commit()
    assert [found.status for found in store.find_approvals(pending=False)] == ["approved", "withdrawn"]


def test_a_position_that_is_taken_is_refused(store):
    """A process that has not read the new entries must not overwrite them."""
    append(store, ("a", created()))
    before = everything(store)
    assert store.begin()
    with pytest.raises(IllegalEvent):
        store.write([type(store.rows(0)[0])(1, "b", created("b"))])
    store.rollback()
    assert everything(store) == before


@pytest.mark.parametrize("entry", [("b", started()), ("a", created())], ids=["no beginning", "two beginnings"])
def test_a_session_has_one_beginning(store, entry):
    """An entry without one, and a second one, are refused."""
    append(store, ("a", created()))
    assert store.begin()
    with pytest.raises(IllegalEvent):
        store.write(rows(store, entry))
    store.rollback()
    assert len(store.rows(0)) == 1


def test_the_journal_of_rules_needs_no_beginning_and_is_not_a_session(store):
    """A7: it begins with any entry, in one transaction with a decision, and goes on after it."""
    append(store, ("a", created()), ("a", started()), ("a", asked()))
    before = store.find_sessions()
    append(store, ("a", decided()), (RULES, ruled("r1")), (RULES, ruled("r2")))
    append(store, (RULES, e.RuleRevoked(at=at(3), rule="r1", by="ben")), ("a", finished()))
    assert [row.position for row in store.journal(RULES)] == [5, 6, 7]
    assert [row.session for row in store.rows(3)] == ["a", RULES, RULES, RULES, "a"]
    assert list(replay_journal(RULES, [row.event for row in store.journal(RULES)]).standing) == ["r2"]
    assert [row.id for row in store.find_sessions()] == [row.id for row in before] == ["a"]
    assert store.get_session(RULES) is None


def test_a_rule_that_is_rolled_back_leaves_no_trace(store):
    """A1: with its decision; the journal of rules begins with the next one."""
    append(store, ("a", created()), ("a", started()), ("a", asked()))
    before = everything(store)
    assert store.begin()
    store.write(rows(store, ("a", decided()), (RULES, ruled("r1"))))
    store.rollback()
    assert (everything(store), store.journal(RULES)) == (before, [])
    append(store, (RULES, ruled("r2")))
    assert len(store.journal(RULES)) == 1


WITHDRAWN = e.ApprovalWithdrawn(at=at(2), operation="o#1", approval="p", reason="cancelled")
ABANDONED = e.OperationAbandoned(at=at(2), operation="o#1", kind="call", approval="p")


@pytest.mark.parametrize(
    ("event", "status", "decision", "reason"),
    [
        (decided(), "approved", "approve", None),
        (decided(decision="deny", reason="not here"), "denied", "deny", "not here"),
        (WITHDRAWN, "withdrawn", None, "cancelled"),
        (ABANDONED, "withdrawn", None, None),
    ],
    ids=["approved", "denied", "withdrawn", "abandoned"],
)
def test_an_approval_is_pending_until_one_event_ends_it(store, event, status, decision, reason):
    """Later events do not change it."""
    append(store, ("a", created()), ("a", started()), ("a", asked()))
    assert [found.id for found in store.find_approvals()] == ["p"]
    append(store, ("a", event))
    append(store, ("a", decided(decision="deny", by="late")))
    found = store.get_approval("p")
    assert (found.status, found.decision, found.reason, found.decided_at) == (status, decision, reason, at(2))
    assert found.by == ("ben" if decision else None)
    assert found.arguments == {"command": "ls"}
    assert store.find_approvals() == []
    assert store.find_approvals(pending=False) == [found]


def test_an_approval_has_all_that_a_person_needs(store):
    """It is made from the session's beginning and the call."""
    call = asked(patterns=(None, "ls *"), expires_at=at(60))
    exact = '{"command":"ls"}'
    options = [("once", None), ("session", exact), ("always", exact), ("session", "ls *"), ("always", "ls *")]
    append(store, ("r", created("r")), ("a", created("r", "r", path=("top", "agent"), cwd="/x")), ("a", call))
    found = store.get_approval("p")
    assert (found.session, found.root_session, found.path) == ("a", "r", ("top", "agent"))
    assert (found.tool, found.arguments, found.digest, found.operation) == ("shell", {"command": "ls"}, "d" * 64, "o#1")
    assert (found.agent, found.cwd, found.requester) == ("agent", "/x", "ann")
    assert [(option.scope, option.pattern) for option in found.options] == options
    assert (found.created_at, found.expires_at, found.position, found.shown) == (at(1), at(60), 3, ())


def test_an_edited_approval_shows_the_edited_arguments(store):
    """They are the arguments that run (A8)."""
    append(store, ("a", created()), ("a", asked()), ("a", decided(arguments=Raw(b'{"command":"pwd"}'))))
    assert store.get_approval("p").arguments == {"command": "pwd"}


def test_approvals_are_found_by_tree_session_and_position_oldest_first(store):
    """The filters of a list of approvals, and their order."""
    append(store, ("r", created("r")), ("c", created("r", "r")), ("x", created("x")))
    append(store, ("c", asked("z", "o#1")), ("r", asked("y", "o#2")), ("x", asked("w")), ("c", asked("a", "o#2")))
    append(store, ("c", decided("z")))

    def ids(**filters):
        return [found.id for found in store.find_approvals(**filters)]

    assert ids() == ["y", "w", "a"]
    assert ids(pending=False) == ["z", "y", "w", "a"]
    assert ids(root="r") == ["y", "a"]
    assert ids(root="r", pending=False) == ["z", "y", "a"]
    assert ids(session="c") == ["a"]
    assert ids(session="c", root="x") == []
    assert ids(after=store.get_approval("y").position) == ["w", "a"]
    assert ids(session="nobody") == ids(root="nobody") == []


def test_an_entry_that_is_nested_too_deeply_stops_no_list(store):
    """Decoders run out of stack: the session cannot be read, everything else can."""
    deep = Raw(b"[" * 20_000 + b"]" * 20_000)
    append(store, ("a", created()), ("a", asked(arguments=deep)), ("b", created("b")), ("b", asked("q")))
    assert [found.id for found in store.find_approvals()] == ["p", "q"]
    assert [(row.session, row.position) for row in store.rows(0)] == [("a", 1), ("b", 3), ("b", 4)]
    with pytest.raises(StoreUnreadable):
        store.journal("a")
    assert len(store.journal("b")) == 2


def test_cards_are_known_until_they_are_retired(store):
    """Each channel counts once."""
    append(store, ("a", created()), ("a", asked()))
    for channel in ("slack", "web", "slack"):
        append(store, ("a", e.CardPosted(at=at(), approval="p", channel=channel)))
    assert sorted(store.get_approval("p").shown) == ["slack", "web"]
    append(store, ("a", e.CardRetired(at=at(), approval="p", channel="slack")))
    assert store.get_approval("p").shown == ("web",)


def test_a_card_that_may_exist_is_found_until_its_result_is_known(store):
    """R3: it is not known that it was shown; once the approval is decided, the card is looked for."""
    append(store, ("a", created()), ("a", asked()), ("a", e.CardBegun(at=at(), approval="p", channel="slack")))
    assert store.get_approval("p").shown == ()
    append(store, ("a", decided()))
    assert [(found.id, found.shown) for found in store.find_shown()] == [("p", ())]
    append(store, ("a", e.CardFailed(at=at(), approval="p", channel="slack", error="no network")))
    assert store.find_shown() == []


CHILD_ENDED = e.ChildEnded(at=at(4), child="c", kind="succeeded")


@pytest.mark.parametrize(
    "event",
    [decided(), CHILD_ENDED, cancelled(), e.AttemptStarted(at=at(4), host="h", pid=1)],
    ids=lambda event: type(event).__name__,
)
def test_a_passivated_session_sleeps_until_an_answer_comes(store, event):
    """Asleep it has a due time, awake it has none."""
    append(store, ("a", created()), ("a", started()), ("a", asked()), ("a", passivated("o#1", "c", due_at=at(60))))
    assert store.find_sessions(is_awake=True) == []
    assert [found.id for found in store.find_sessions(is_awake=False)] == ["a"]
    assert store.next_due() == [("a", at(60))]
    append(store, ("a", event))
    found = store.get_session("a")
    assert (found.is_asleep, found.due_at, found.last_at) == (False, None, event.at)
    assert store.find_sessions(is_awake=True) == [found]
    assert store.next_due() == []


def test_timers_are_due_earliest_first(store):
    """Sleepers without a timer are not among them."""
    for session, due_at in {"a": at(60), "b": None, "c": at(30)}.items():
        append(store, (session, created(session)), (session, passivated("o#1", due_at=due_at)))
    assert store.next_due() == [("c", at(30)), ("a", at(60))]


def test_a_finished_session_is_not_open_and_has_its_outcome(store):
    """A session as in the index, before and after its end."""
    append(store, ("a", created()), ("a", started()), ("b", created("b")))
    assert store.get_session("a").outcome is None
    append(store, ("a", finished("failed", cause="broke", partial=Raw(b"[1]"))))
    found = store.get_session("a")
    assert (found.outcome.kind, found.outcome.cause, found.outcome.partial) == ("failed", "broke", [1])
    assert found.ended_at == at(9)
    assert [row.id for row in store.find_sessions(is_open=True)] == ["b"]
    assert [row.id for row in store.find_sessions(is_open=False)] == ["a"]
    assert [row.id for row in store.find_sessions(is_awake=True)] == ["b"]
    assert store.get_session("nobody") is None


def test_a_message_that_a_sleeper_does_not_wait_for_does_not_wake_it(store):
    """Only answers in `waiting_for` wake it, and cards never do (R2)."""
    append(store, ("a", created()), ("a", started()), ("a", asked()), ("a", passivated("o#1", due_at=at(60))))
    append(store, ("a", CHILD_ENDED), ("a", e.CardPosted(at=at(5), approval="p", channel="web")))
    assert store.get_session("a").is_asleep
    assert store.next_due() == [("a", at(60))]
    assert store.find_sessions(is_awake=True) == []


def test_another_run_opens_a_finished_session_again(store):
    """A turn begins without operations: its calls may have the ids of earlier ones."""
    append(store, ("a", created()), ("a", started()), ("a", asked("p")), ("a", decided("p")), ("a", finished()))
    append(store, ("a", started()), ("a", asked("q")))
    assert (store.get_session("a").outcome, store.get_session("a").ended_at) == (None, None)
    assert [row.id for row in store.find_sessions(is_open=True)] == ["a"]
    append(store, ("a", e.CardRetired(at=at(), approval="p", channel="web")))
    append(store, ("a", ABANDONED))
    append(store, ("a", replace(ABANDONED, approval="q")))
    assert [found.status for found in store.find_approvals(pending=False)] == ["approved", "withdrawn"]


def test_the_end_of_the_latest_run_is_found_without_the_journal(store):
    """While it is open there is none, even if runs before it have ended."""
    assert store.latest_run("a") is None
    for number in (1, 2):
        beginning = [("a", created())] if number == 1 else []
        append(store, *beginning, ("a", started()))
        assert store.latest_run("a") == (number, None)
        append(store, ("a", asked(f"p{number}")), ("a", replace(ABANDONED, approval=f"p{number}")), ("a", finished()))
        assert store.latest_run("a") == (number, store.journal("a")[-1])


def test_parents_are_found_before_their_children(store):
    """In a tree and among all, in the order of creation."""
    append(store, ("r", created("r")), ("x", created("x")), ("c", created("r", "r")), ("b", created("r", "c")))
    assert [(row.id, row.parent) for row in store.find_sessions(root="r")] == [("r", None), ("c", "r"), ("b", "c")]
    assert [row.id for row in store.find_sessions()] == ["r", "x", "c", "b"]
    assert store.find_sessions(root="c") == []


def test_open_sessions_are_found_with_what_is_needed_to_run_them(store):
    """In the store, or in some trees: asleep, blocked or awake, as the whole row says. An ended one is left out."""
    append(store, ("r", created("r")), ("c", created("r", "r")), ("r", passivated("o#1", due_at=at(60))))
    append(store, ("x", created("x")), ("x", started()), ("x", finished()), ("y", created("y")), ("y", started()))
    append(store, ("y", e.RunBlocked(at=at(5), block=Block(why="path", cause="it asks for another call"))))
    fields = RunnableSession.__struct_fields__
    rows = [[getattr(row, name) for name in fields] for row in store.find_sessions(is_open=True)]
    assert [row[0] for row in rows] == ["r", "c", "y"]
    for found in (store.find_open(after=0, limit=9), store.find_open_in(["y", "x", "r"])):
        assert sorted([getattr(row, name) for name in fields] for row in found) == sorted(rows)
    assert [row.id for row in store.find_open(after=1, limit=1)] == ["c"]
    assert [(row.is_asleep, row.blocked) for row in store.find_open(after=2, limit=9)] == [(True, 9)]
    assert store.find_open_in(["x", "nothing"]) == []


def test_a_store_says_where_the_journals_of_a_tree_go_on(store):
    """Those of the sessions that began after one position, and up to another."""
    append(store, ("a", created()), ("b", created("b")), ("c", created(root="a", parent="a")))
    append(store, ("a", started()), ("c", started()), ("d", created(root="a", parent="a")))
    assert store.find_continued("a", 3, 0, 9) == [(1, "a", 4), (3, "c", 5)]
    assert store.find_continued("a", 4, 0, 9) == [(1, "a", None), (3, "c", 5)]
    assert store.find_continued("a", 3, 1, 9) == [(3, "c", 5)]
    assert store.find_continued("a", 6, 0, 1) == [(1, "a", None)]
    assert store.find_continued("b", 1, 0, 9) == store.find_continued("x", 9, 0, 9) == []


def test_a_tree_is_owned_from_the_commit_on(store):
    """Until the store is closed; a second claim changes nothing, and a claim that was rolled back does not count."""
    assert store.begin()
    assert store.claim("a") is None
    assert store.claim("a") is None
    assert not store.owns("a")
    store.commit()
    assert store.owns("a")
    assert store.get_owner("a").pid
    assert store.get_owner("b") is None
    assert store.begin()
    assert store.claim("c") is None
    store.rollback()
    assert store.begin()
    store.commit()
    assert not store.owns("c")
    assert store.get_owner("c") is None


def test_our_own_commits_are_not_changes(store):
    """`has_changed` is about other processes."""
    append(store, ("a", created()))
    assert not store.has_changed()
    append(store, ("a", started()))
    assert not store.has_changed()
