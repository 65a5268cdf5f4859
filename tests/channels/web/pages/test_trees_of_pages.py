"""Sessions on pages: as trees, and the newest first, however many there are."""

from typing import Any

import anyio
from hypothesis import given, strategies as st
from page_facts import NOW, an_approval

from supervisor.channels.web.pages.routes import newest
from supervisor.channels.web.pages.tree import MOST_BELOW, find, nodes, walk
from supervisor.core.values import SessionView
from supervisor.seam.runs import Page


def a_session(name: str, parent: str | None = None, **changes: Any) -> SessionView:
    facts = {"root": parent or name, "agent": "m:f", "path": ("boss",), "status": "active", "outcome": None}
    facts |= {"pending_approvals": (), "created_at": NOW, "ended_at": None}
    return SessionView(id=name, parent=parent, **{**facts, **changes})


def test_a_tree_shows_all_sub_agents_and_leaves_out_only_ones_that_do_not_wait():
    """Of very many sub-agents some are shown, those that wait for a person among them; the rest is counted."""
    waiting = a_session("late", "top", pending_approvals=(an_approval(),), status="waiting_approval", running=True)
    views = [a_session("top"), *(a_session(f"c{n}", "top") for n in range(MOST_BELOW + 20)), waiting]
    (top,) = nodes([*views, a_session("deep", "c1", root="top")], NOW)
    assert find([top], "late").words == "waits for 1 decision"
    assert (len(top.below), top.left_out, top.size) == (MOST_BELOW, 21, MOST_BELOW + 23)
    assert [node.id for node in walk([top])][:4] == ["top", "c0", "c1", "deep"]


def test_a_session_that_no_process_runs_is_told_from_one_that_runs():
    """Also while it waits: a decision alone takes it no further."""
    asked = {"pending_approvals": (an_approval(),), "status": "waiting_approval"}
    shown = [
        nodes([a_session("s", running=runs, **facts)], NOW)[0].words for facts in ({}, asked) for runs in (True, False)
    ]
    assert [words.endswith("no process runs it") for words in shown] == [False, True, False, True]


def test_the_outcome_of_a_session_is_shown_once():
    """A cause that begins with its kind is not told twice."""
    for kind, cause, words in [("stalled", "stalled: idle", "stalled: idle"), ("failed", "no", "failed: no")]:
        view = a_session("s", status="error", outcome={"kind": kind, "cause": cause, "value": None})
        assert nodes([view], NOW)[0].words == words


@given(st.lists(st.tuples(st.integers(1, 3000), st.booleans(), st.booleans())), st.integers(1, 9))
def test_pages_of_sessions_follow_each_other_without_gaps(steps, most):
    """Page after page, every root of the status is shown once, the newest first."""
    views, position = [], 0
    for step, is_child, is_active in steps:
        position += step
        status = "active" if is_active else "completed"
        views.append(a_session(str(position), "p" if is_child else None, position=position, status=status))

    class Short:
        """A list of sessions whose pages are shorter than was asked for."""

        async def find_sessions(self, *, status, newest_first, after, limit):
            assert newest_first
            older = [view for view in reversed(views) if after is None or view.position < int(after)]
            some = older[:most]
            found = tuple(view for view in some if view.status == status)
            return Page(found, str(some[-1].position) if len(older) > most else None, "now")

    shown, older = anyio.run(newest, Short(), "active", None)
    while older is not None:
        page, older = anyio.run(newest, Short(), "active", older)
        shown += page
    expected = [view for view in views if view.parent is None and view.status == "active"]
    assert shown == expected[::-1]
