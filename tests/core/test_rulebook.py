"""The journal of rules, and the state that its fold gives."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.calls.content import shown_content
from supervisor.core.calls.programs import LOST
from supervisor.core.calls.rules import Rule, allow, checked_rule, policy_of
from supervisor.core.errors import IllegalEvent, StoreUnreadable
from supervisor.core.ids import RULES
from supervisor.core.sessions.state import Rulebook, replay_journal

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAMES = st.sampled_from(["r1", "r2", "r3"])
RULE = st.builds(
    Rule,
    kind=st.sampled_from(["allow", "deny"]),
    tool=st.sampled_from(["shell", "deploy"]),
    session=st.sampled_from([None, "one", "two"]),
    id=NAMES,
)
ADDED = st.builds(e.RuleAdded, at=st.just(AT), rule=RULE, by=st.just("ana"), approval=st.sampled_from([None, "p"]))
REVOKED = st.builds(e.RuleRevoked, at=st.just(AT), rule=NAMES, by=st.just("ben"))


def lawful(events):
    """Return the events that the rulebook accepts, and the rules that stand after them."""
    standing, taken = {}, []
    for event in events:
        name = event.rule.id if isinstance(event, e.RuleAdded) else event.rule
        if isinstance(event, e.RuleAdded) and name in standing:  # a decision confirms it
            if event.approval is not None and event.rule.meaning == standing[name].meaning:
                taken.append(event)
        elif (name in standing) is isinstance(event, e.RuleRevoked):
            taken.append(event)
            standing.pop(name) if name in standing else standing.update({name: event.rule})
    return taken, standing


@given(st.lists(ADDED | REVOKED, max_size=12))
def test_a_rule_stands_until_it_is_revoked_and_is_found_by_tool_and_tree(events):
    """Also after it was read from disk; a rule of another tree or tool is not found, and each names its author."""
    taken, standing = lawful(events)
    book = replay_journal(RULES, [e.decode_event(e.encode_event(event)) for event in taken])
    assert list(book.standing) == list(standing)
    assert all(rule.by == "ana" and rule.added_at == AT for rule in book.standing.values())
    for tool in ("shell", "deploy"):
        for root in ("one", "two", "three"):
            wanted = {n for n, rule in standing.items() if rule.tool == tool and rule.session in (None, root)}
            assert {rule.id for rule in book.find(tool, root)} == wanted
    for rule in standing.values():
        assert book.find_same(rule).meaning == rule.meaning
    assert all(found for found in book.on.values())


@pytest.mark.parametrize("prefix", LOST)
def test_a_prefix_that_lost_its_review_is_not_the_same_rule_as_a_marked_one(prefix):
    """So the marked one, which the error of the other advises, is added beside it and allows."""
    lost = Rule(kind="allow", tool="shell", pattern=f"{prefix} *", id="r1")
    marked = checked_rule(allow("shell", f"{prefix} *", unreviewed=True))
    book = replay_journal(RULES, [e.RuleAdded(at=AT, rule=lost, by="ana")])
    assert book.find_same(marked) is None
    book.apply(e.RuleAdded(at=AT, rule=replace(marked, id="r2"), by="ana"))
    assert book.find_same(marked).id == "r2"
    assert book.find_same(lost).id == "r1"
    call = shown_content("shell", {"command": f"{prefix} a"}, folder="/srv", command="command")
    assert policy_of(book.find("shell", "one"), call, root_session="one")[1].id == "r2"


@given(st.lists(ADDED | REVOKED, max_size=8), ADDED | REVOKED)
def test_a_refused_event_changes_nothing_and_a_draft_is_separate(events, last):
    """A commit may still refuse a draft."""
    taken, _ = lawful(events)
    book, draft = replay_journal(RULES, taken), replay_journal(RULES, taken).draft()
    if lawful([*taken, last])[0] == taken:
        with pytest.raises(IllegalEvent):
            draft.apply(last)
        assert draft == book
    else:
        live = book.draft()
        live.apply(last)
        assert book == draft != live


def test_rules_and_sessions_do_not_accept_each_others_events():
    """The journal of rules belongs to no session, and a session's journal has no rules."""
    rule = e.RuleAdded(at=AT, rule=Rule(kind="deny", tool="t", id="r1"), by="ana")
    with pytest.raises(StoreUnreadable):
        replay_journal("s", [rule])
    with pytest.raises(IllegalEvent):
        Rulebook(id=RULES).apply(e.MessageReceived(at=AT, message="m", text="t", by="ana"))
    with pytest.raises(IllegalEvent):
        Rulebook(id=RULES).apply(e.RuleAdded(at=AT, rule=Rule(kind="deny", tool="t"), by="ana"))
