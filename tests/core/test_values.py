"""Values for people and agents: they say how a run, a call or a decision ended."""

import pytest

from supervisor.core.errors import InvalidInput, RunAbandoned, RunCancelled, RunError, RunFailed, RunStalled
from supervisor.core.values import Answer, Approve, DecisionResult, Deny, Outcome, ToolResult, check_identity, result_of


@pytest.mark.parametrize("returned", ["done", 0, None, [], False])
def test_the_result_of_a_success_is_the_agents_return_value(returned):
    """Also if that is None, or counts as false."""
    assert result_of(Outcome(kind="succeeded", value=returned)) == returned


@pytest.mark.parametrize(
    ("kind", "error"),
    [("failed", RunFailed), ("stalled", RunStalled), ("cancelled", RunCancelled), ("abandoned", RunAbandoned)],
)
def test_the_result_of_any_other_outcome_raises(kind, error):
    """W1: each outcome has an exception of its own kind, which carries the cause and the partial output. The outcome
    itself can be read without an exception, and has no value."""
    outcome = Outcome(kind=kind, cause="because", partial=[1])
    assert outcome.value is None
    with pytest.raises(RunError) as caught:
        result_of(outcome)
    assert type(caught.value) is error
    assert (caught.value.kind, caught.value.cause, caught.value.partial) == (kind, "because", [1])


@pytest.mark.parametrize(
    ("kind", "is_error"), [("ok", False), ("error", True), ("denied", True), ("interrupted", True)]
)
def test_every_result_other_than_ok_is_an_error(kind, is_error):
    """T8: a denial and an interruption are results, too."""
    assert ToolResult(kind=kind, content="").is_error == is_error


@pytest.mark.parametrize("by", ["", " ", "\t\n"])
def test_a_decision_without_a_name_is_refused(by):
    """A4: the audit trail names the person."""
    with pytest.raises(InvalidInput):
        check_identity(by)
    assert check_identity(" ana ").strip() == "ana"


@pytest.mark.parametrize("decide", [Approve, Deny])
def test_a_decision_is_a_value_that_names_a_person_and_cannot_be_changed(decide):
    """It is not a boolean: yes and no cannot be confused."""
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
def test_a_decision_is_accepted_if_it_counts(kind, counts):
    """A3: also if it repeats the standing decision, or was only recorded."""
    assert DecisionResult(kind=kind, approval="p").is_accepted == counts


def test_an_answer_names_its_value_and_its_author():
    """The two cannot be confused."""
    with pytest.raises(TypeError):
        Answer("production", "ana")
    assert Answer(value="production", by="ana").by == "ana"
