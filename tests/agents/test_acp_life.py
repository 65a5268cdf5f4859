"""The life of an ACP session is a table: what may come in which state, and what follows."""

import pytest

from supervisor.agents.acp.life import LIVES, Life, OutOfTurn, UnknownVersion, check_version, ways

RESUMES = {"loadSession": True, "sessionCapabilities": {"resume": {}}}


def _live(*events):
    life = Life()
    return [life.take(event) for event in events], life.state


def test_a_new_session_takes_a_prompt_and_stops():
    did, state = _live("begin", "greeted.new", "opened", "prompt", "update", "permission", "stopped")
    assert did == ["initialize", "session/new", "nothing", "session/prompt", "report", "ask", "nothing"]
    assert state == "idle"


def test_a_refusal_leads_to_the_next_way():
    did, _ = _live("begin", "greeted.resume", "refused.load", "refused.new", "refused.none")
    assert did[1:] == ["session/resume", "session/load", "session/new", "fail"]


def test_a_session_that_is_opened_again_does_not_report_its_past():
    assert _live("begin", "greeted.load", "update")[0][-1] == "nothing"


def test_after_our_cancel_a_permission_is_cancelled_and_before_a_prompt_it_is_an_error():
    opened = ("begin", "greeted.new", "opened")
    assert _live(*opened, "permission")[0][-1] == "answer with an error"
    assert _live(*opened, "prompt", "cancel", "permission")[0][-2:] == ["session/cancel", "answer cancelled"]


@pytest.mark.parametrize("table", LIVES.values())
@pytest.mark.parametrize("event", ["update", "permission", "cancel"])
def test_a_message_of_the_agents_own_accord_may_come_in_every_state(table, event):
    states = {state for state, _ in table} | {state for state, _ in table.values()}
    assert {state for state in states if (state, event) not in table} == set()


def test_an_event_out_of_turn_changes_nothing():
    life = Life()
    with pytest.raises(OutOfTurn, match="prompt"):
        life.take("prompt")
    assert life.state == "started"


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_version_is_refused_by_name(version):
    with pytest.raises(UnknownVersion, match=str(version)):
        check_version(version)


def test_ways_of_opening_a_session_follow_from_what_is_offered():
    assert ways(RESUMES, has_session=True) == ("resume", "load", "new")
    assert ways({"loadSession": True}, has_session=True) == ("load", "new")
    assert ways({"sessionCapabilities": {"resume": None}}, has_session=True) == ("new",)
    assert ways(RESUMES, has_session=False) == ("new",)
