"""What a daemon says in its log and metrics of runs, calls and approvals; no text of an agent or a person is there."""

import json

import pytest
from daemons import pending_of, until

NOTES = {"a secret plan": "/dev/null", "b": "/dev/null"}


def begun(client) -> str:
    """Start a session that asks twice; return its id."""
    body = {"agent": "noting", "input": NOTES, "session": "s"}
    assert client.post("/api/sessions", json=body).status_code == 201
    return "s"


def decide(client, number: int, **decision: str) -> None:
    (asked,) = until(
        lambda: [each for each in pending_of(client, "s") if each["arguments"]["text"] == [*NOTES][number]]
    )
    client.post(f"/api/approvals/{asked['id']}/decision", json=decision).raise_for_status()


def finished(daemon) -> None:
    with daemon.client() as client:
        begun(client)
        decide(client, 0, decision="approve")
        decide(client, 1, decision="deny", reason="not\nthat \x1b[31mone")
        until(lambda: client.get("/api/sessions/s").json()["outcome"])


def test_the_log_is_a_document_a_line_and_says_who_did_what(daemon):
    """Began, asked, shown, decided, ended: with session, agent and time; no argument, no reason, no result."""
    config = daemon.folder / "supervisor.toml"
    config.write_text('log = "json"\n')
    daemon.start("--config", str(config))
    finished(daemon)
    daemon.stop()
    text = daemon.log.read_text()
    facts = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    told = [
        (fact["event"], fact["agent"], fact.get("decision") or fact.get("outcome")) for fact in facts if "agent" in fact
    ]
    assert [each for each in told if each[0] != "card.posted"] == [
        ("run.began", "noting", None),
        ("approval.asked", "noting", None),
        ("approval.decided", "noting", "approve"),
        ("approval.asked", "noting", None),
        ("approval.decided", "noting", "deny"),
        ("run.ended", "noting", "succeeded"),
    ]
    assert all(
        fact["timestamp"].endswith("Z") and fact["level"] and fact["session"] == "s"
        for fact in facts
        if "agent" in fact
    )
    assert not [said for said in ("secret plan", "not that", "one", "noted") if said in text.partition("Serving")[2]]


def test_the_metrics_count_what_ended_and_how_long_it_took(daemon):
    daemon.start()
    finished(daemon)
    with daemon.client() as client:
        lines = client.get("/metrics").text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert [
        values[f"supervisor_{name}"]
        for name in (
            'runs_total{outcome="succeeded"}',
            'calls_total{result="ok"}',
            'calls_total{result="denied"}',
            'approvals_total{decision="approve"}',
            'approvals_total{decision="deny"}',
            'runs_seconds_count{outcome="succeeded"}',
        )
    ] == ["1"] * 6
    assert float(values['supervisor_runs_seconds_sum{outcome="succeeded"}']) > 0
    assert 'supervisor_calls_seconds_count{result="denied"}' not in values  # it never began


def test_a_run_that_began_before_this_process_is_counted_and_not_measured(daemon):
    daemon.start()
    with daemon.client() as client:
        begun(client)
        decide(client, 0, decision="approve")
        until(lambda: pending_of(client, "s"))
    daemon.stop(9)
    daemon.start()
    with daemon.client() as client:
        decide(client, 1, decision="approve")
        until(lambda: client.get("/api/sessions/s").json()["outcome"])
        text = client.get("/metrics").text
    assert 'supervisor_runs_total{outcome="succeeded"} 1\n' in text
    assert "supervisor_runs_seconds_count" not in text


@pytest.mark.parametrize("log", ['"xml"', "3"])
def test_another_form_of_log_is_refused(daemon, log):
    config = daemon.folder / "supervisor.toml"
    config.write_text(f"log = {log}\n")
    with pytest.raises(AssertionError, match="log"):
        daemon.start("--config", str(config))
