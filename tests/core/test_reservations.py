"""A4, A8: who may decide, by reservations that apply to the arguments as asked and as edited."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from supervisor import Answer, Approve, ApproverRule, Deny, People, Person, ask
from supervisor.core.values import Approval

STAGING, PRODUCTION = {"target": "staging"}, {"target": "production"}
PEOPLE = People(
    [
        Person(name="olga", roles=("operator",)),
        Person(name="ana", roles=("approver",), identities={"slack": "U1", "discord": "U2"}),
        Person(name="dora", roles=("approver",), identities={"slack": "U2", "discord": "U1"}),
        Person(name="bob"),
    ],
    [ApproverRule(approvers=("dora",), rule=ask("deploy", '{"target":"production"}'))],
)


def asked(arguments, **more):
    names = ("id", "session", "root_session", "agent", "operation", "digest", "cwd")
    facts = {**dict.fromkeys(names, "x"), "tool": "deploy", "requester": "bob", "path": ("x",), "status": "pending"}
    return Approval(
        **facts | {"arguments": arguments, "created_at": datetime.now(UTC), "position": 1, "options": ()} | more
    )


@pytest.mark.parametrize(
    ("original", "edited", "may"),
    [
        (STAGING, None, {"olga", "ana", "dora", "bob"}),
        (PRODUCTION, None, {"olga", "dora"}),
        (STAGING, STAGING, {"olga", "ana", "dora", "bob"}),
        (STAGING, PRODUCTION, {"olga", "dora"}),
        (PRODUCTION, STAGING, {"olga", "dora"}),
        (STAGING, ["no", "object"], {"olga", "dora"}),
    ],
)
def test_a_reservation_applies_to_the_arguments_as_asked_and_as_edited(original, edited, may):
    """A8: a person can neither edit a call into one that they may not approve, nor out of a reserved one."""
    approval = asked(original)
    names = ("olga", "ana", "dora", "bob")
    found = {
        name for name in names if PEOPLE.why_not_decide(name, approval, Approve(by=name, arguments=edited)) is None
    }
    assert found == may


def test_an_escalation_opens_the_call_as_asked_only():
    """A person to whom it was escalated may decide the reserved call, and not an edited one that is reserved."""
    reserved, other = asked(PRODUCTION, escalated_to=("bob",)), asked(STAGING, escalated_to=("bob",))
    assert PEOPLE.why_not_decide("bob", reserved, Approve(by="bob")) is None
    assert PEOPLE.why_not_decide("bob", reserved, Deny(by="bob")) is None
    assert PEOPLE.why_not_decide("bob", reserved, Approve(by="bob", arguments=PRODUCTION)) is None
    assert PEOPLE.why_not_decide("bob", other, Approve(by="bob", arguments=PRODUCTION)) is not None
    assert PEOPLE.why_not_decide("bob", reserved, Approve(by="bob", scope="always")) is not None


def test_a_decision_without_edits_is_checked_against_the_call_as_asked():
    """A denial, and an answer, have no arguments of their own."""
    for decision in (None, Deny(by="ana"), Answer(value="yes", by="ana"), Approve(by="ana")):
        assert PEOPLE.why_not_decide("ana", asked(STAGING), decision) is None
        assert PEOPLE.why_not_decide("ana", asked(PRODUCTION), decision) is not None


def test_an_identity_counts_on_its_own_channel_only():
    """The same id may belong to another person on another platform."""
    found = {(channel, who): PEOPLE.find_by_identity(channel, who) for channel in ("slack", "discord") for who in
             ("U1", "U2", "U3")}  # fmt: skip
    assert [each and each.name for each in found.values()] == ["ana", "dora", None, "dora", "ana", None]
    assert PEOPLE.find_by_identity("web", "U1") is None


def test_the_page_about_people_reserves_calls_in_code():
    """A4: docs/how-to/people.md, as a program reads it."""
    page = (Path(__file__).parents[2] / "docs/how-to/people.md").read_text()
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], names := {})
    pay, other = asked({}, tool="pay"), asked({})
    said = [names["people"].why_not_decide(name, each) for name in ("ana", "bo") for each in (pay, other)]
    assert said == [None, None, "this is reserved for ana", None]
