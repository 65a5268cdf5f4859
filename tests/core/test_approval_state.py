from datetime import UTC, datetime

import pytest
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.approvals.state import CARD, PENDING, ApprovalState, Left, asked_by, fold, read_names
from supervisor.core.encoding import JSON_NULL

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ABOUT = {"operation": "o", "approval": "p"}
DENIED = e.ApprovalDecided(at=NOW, **ABOUT, decision="deny", by="ben", reason="no")
EDITED = e.ApprovalDecided(at=NOW, **ABOUT, decision="approve", by="ana", arguments=Raw(b"{}"))
ANSWERED = e.QuestionAnswered(at=NOW, **ABOUT, value=Raw(b"1"), by="ana")


def card(kind, channel="slack", at=NOW, **fields):
    return kind(at=at, approval="p", channel=channel, **fields)


BEGUN, POSTED = card(e.CardBegun), card(e.CardPosted, card="c1", is_whole=False, shows="f")
FAILED, RETIRED = card(e.CardFailed, error="down"), card(e.CardRetired)


def test_a_call_that_asks_no_person_has_no_approval():
    asked = e.ToolCallRequested(at=NOW, operation="o", tool="t", arguments=JSON_NULL, digest="d")
    assert asked_by(asked) is None
    assert asked_by(e.QuestionAsked(at=NOW, **ABOUT, question="?", digest="d")) is PENDING


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (DENIED, ("denied", "deny", "ben", "no", None, None)),
        (EDITED, ("approved", "approve", "ana", None, b"{}", None)),
        (ANSWERED, ("answered", "answer", "ana", None, None, b"1")),
        (e.ApprovalExpired(at=NOW, **ABOUT), ("expired", None, None, None, None, None)),
        (e.ApprovalWithdrawn(at=NOW, **ABOUT, reason="over"), ("withdrawn", None, None, "over", None, None)),
        (e.OperationAbandoned(at=NOW, **ABOUT, kind="call"), ("withdrawn", None, None, None, None, None)),
    ],
)
def test_an_end_says_what_was_decided_by_whom_and_why(event, told):
    said = PENDING.apply(event)
    raw = [value and bytes(value) for value in (said.edited, said.answer)]
    assert (said.status, said.decision, said.by, said.reason, *raw) == told


@pytest.mark.parametrize("later", [DENIED, EDITED, ANSWERED])
def test_the_first_end_counts(later):
    """A3: what comes after it changes nothing."""
    denied = PENDING.apply(DENIED)
    assert denied.apply(later) is denied


@pytest.mark.parametrize(
    ("events", "shown", "left"),
    [
        ([BEGUN], ("?slack",), Left(begun_at=NOW)),
        ([BEGUN, POSTED], ("slack",), Left("c1", shows="f")),
        ([BEGUN, FAILED], (), Left(failure="down")),
        ([POSTED, FAILED], ("slack",), Left("c1", shows="f", failure="down")),
        ([POSTED, BEGUN], ("slack", "?slack"), Left(begun_at=NOW)),
        ([FAILED, BEGUN], ("?slack",), Left(begun_at=NOW)),
        ([POSTED, RETIRED], (), None),
        ([BEGUN, RETIRED], (), None),
    ],
)
def test_an_index_and_the_process_that_posts_cards_are_told_the_same(events, shown, left):
    """One fold says where a card is: an index keeps names, a reader of the journal the events."""
    indexed, read = PENDING, PENDING
    for position, event in enumerate(events):
        indexed, read = indexed.apply(event, position), read.apply(event)
    assert (indexed.cards, read.left.get("slack")) == (shown, left)


def test_an_index_keeps_positions():
    state = PENDING.apply(e.ApprovalReminded(at=NOW, approval="p"), 7).apply(DENIED, 8)
    assert state == ApprovalState("denied", ended=8, reminded=7)


def test_a_notice_and_a_card_of_another_place_show_nothing_in_the_conversation():
    """A12: a bare word decides what was shown there."""
    notice, direct = card(e.CardPosted, is_notice=True), card(e.CardPosted, place="@U1")
    state = PENDING.apply(notice).apply(direct)
    assert (state.is_shown("slack", whole=False), state.is_shown(None, whole=True)) == (False, True)
    assert state.apply(POSTED).is_shown("slack", whole=False)
    assert not state.apply(POSTED).is_shown("slack", whole=True)
    assert read_names(("?a", "!b", "slack:@U1", "slack", "web")).channels == ("slack", "web")


def test_a_fold_takes_only_what_is_about_its_approval_and_stops_when_it_knows_enough():
    other = e.ApprovalDecided(at=NOW, operation="x", approval="q", decision="approve", by="ana")
    assert fold([other, DENIED], "p").status == "denied"
    assert fold([POSTED, DENIED], "p", until=lambda state: state.posted()).status == "pending"


def test_each_event_of_a_card_has_a_row():
    assert {*CARD} == {kind.__name__ for kind in e.having("card")}
