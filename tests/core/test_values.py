"""What people and agents are given: values that say how a run, a call or a decision ended."""

import pytest

from supervisor.core.errors import InvalidInput, RunAbandoned, RunCancelled, RunError, RunFailed, RunStalled
from supervisor.core.values import Answer, Approve, DecisionResult, Deny, Outcome, ToolResult, check_identity, result_of


@pytest.mark.parametrize("returned", ["done", 0, None, [], False])
def test_the_result_of_a_success_is_what_the_agent_returned(returned):
    """Also where that is nothing, or counts as false."""
    assert result_of(Outcome(kind="succeeded", value=returned)) == returned


@pytest.mark.parametrize(
    ("kind", "error"),
    [("failed", RunFailed), ("stalled", RunStalled), ("cancelled", RunCancelled), ("abandoned", RunAbandoned)],
)
def test_only_the_result_of_anything_else_raises(kind, error):
    """W1: each end has an exception of its own kind, which carries the cause and what the run left. The outcome itself
    can be read without one, and has no value."""
    outcome = Outcome(kind=kind, cause="because", partial=[1])
    assert outcome.value is None
    with pytest.raises(RunError) as caught:
        result_of(outcome)
    assert type(caught.value) is error
    assert (caught.value.kind, caught.value.cause, caught.value.partial) == (kind, "because", [1])


@pytest.mark.parametrize(
    ("kind", "is_error"), [("ok", False), ("error", True), ("denied", True), ("interrupted", True)]
)
def test_every_result_but_ok_is_an_error(kind, is_error):
    """T8: a denial and an interruption are results, too."""
    assert ToolResult(kind=kind, content="").is_error == is_error


@pytest.mark.parametrize("by", ["", " ", "\t\n"])
def test_a_decision_without_a_name_is_refused(by):
    """A4: the audit trail says who."""
    with pytest.raises(InvalidInput):
        check_identity(by)
    assert check_identity(" ana ").strip() == "ana"


@pytest.mark.parametrize("decide", [Approve, Deny])
def test_a_decision_is_a_value_that_names_its_maker_and_cannot_be_changed(decide):
    """It is no boolean: yes and no are never mistaken for each other."""
    decision = decide(by="ana")
    with pytest.raises(AttributeError):
        decision.by = "ben"
    with pytest.raises(TypeError):
        decide()
    assert Approve(by="ana") != Deny(by="ana")


@pytest.mark.parametrize(
    ("kind", "counts"),
    [
        ("accepted", True),
        ("already", True),
        ("recorded", True),
        ("conflict", False),
        ("closed", False),
        ("unknown", False),
    ],
)
def test_a_decision_is_accepted_where_it_counts(kind, counts):
    """A3: also where it says what stands already, or was only recorded."""
    assert DecisionResult(kind=kind, approval="p").is_accepted == counts


def test_an_answer_names_its_value_and_its_maker():
    """The two cannot be mistaken for each other."""
    with pytest.raises(TypeError):
        Answer("production", "ana")
    assert Answer(value="production", by="ana").by == "ana"
