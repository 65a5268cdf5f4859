"""What a daemon says in its log and metrics of runs, calls and approvals; no text of an agent or a person is there."""

import json
import logging
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from daemons import pending_of, until

from supervisor import MemoryStore, Usage
from supervisor.channels.web.metrics import FAMILIES, _spent, _written
from supervisor.core import events as e
from supervisor.core.rows import JournalEntry
from supervisor.system.chronicle import Chronicle

AT = datetime(2026, 1, 1, tzinfo=UTC)
SAYING = """
import sys
from supervisor.system.logs import FactLog, write_log
write_log(sys.argv[1])
FactLog("supervisor.x").info("it.was", by=sys.argv[2])
"""
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
    log = text.partition("Serving")[2]  # a word, since the letters of one may stand in an id
    assert not [said for said in ("secret plan", "not that", "one", "noted") if re.search(rf"\b{said}\b", log)]


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
    shown = re.findall(r"^# TYPE (\S+) (\S+)$", "\n".join(lines), re.MULTILINE)
    assert shown == [(each.name, each.kind) for each in FAMILIES]
    labels = {
        name: {*each.labels} for each in FAMILIES for name in (each.name, f"{each.name}_sum", f"{each.name}_count")
    }
    for value in values:
        name, _, given = value.partition("{")
        assert {*re.findall(r'(\w+)="', given)} <= labels[name]
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


def test_a_tree_that_is_claimed_is_in_the_log(daemon):
    """By the daemon that goes on with the sessions of a killed one."""
    config = daemon.folder / "supervisor.toml"
    config.write_text('log = "json"\n')
    daemon.start("--config", str(config))
    with daemon.client() as client:
        begun(client)
        until(lambda: pending_of(client, "s"))
    daemon.stop(9)
    daemon.start("--config", str(config))
    until(lambda: '"tree.claimed"' in daemon.log.read_text())
    daemon.stop(9)
    facts = [json.loads(line) for line in daemon.log.read_text().splitlines() if line.startswith("{")]
    (claimed,) = [fact for fact in facts if fact["event"] == "tree.claimed"]
    assert (claimed["session"], claimed["agent"], claimed["level"]) == ("s", "noting", "info")


def test_a_card_and_a_refusal_are_told_with_who_and_where(caplog):
    """A refusal without its reason."""
    asked = {"at": AT, "approval": "a1", "channel": "slack"}
    told = [
        e.CardPosted(**asked, card="C1"),
        e.DecisionRefused(**asked, by="mallory", reason="a secret"),
        e.CommandRefused(at=AT, by="mallory", act="cancel sessions", session="s", reason="a secret"),
    ]
    with caplog.at_level(logging.INFO, "supervisor"):
        Chronicle(MemoryStore()).hear(JournalEntry(n, "s", event) for n, event in enumerate(told))
    assert [record.getMessage().split()[0] for record in caplog.records] == [
        "card.posted",
        "decision.refused",
        "command.refused",
    ]
    assert caplog.text.count("channel='slack'") == 2
    assert caplog.text.count("by='mallory'") == 2
    assert "secret" not in caplog.text


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_fact_is_one_line_whatever_a_value_is(form):
    """A platform or an agent may have written it: it moves no cursor, and begins no line."""
    said = subprocess.run(
        [sys.executable, "-c", SAYING, form, "a\n\x1b[2Jb"], capture_output=True, text=True, check=True
    ).stderr
    assert said.count("\n") == 1
    assert said.strip().isprintable()


@pytest.mark.parametrize("log", ['"xml"', "3"])
def test_another_form_of_log_is_refused(daemon, log):
    config = daemon.folder / "supervisor.toml"
    config.write_text(f"log = {log}\n")
    with pytest.raises(AssertionError, match="log"):
        daemon.start("--config", str(config))


def test_the_metrics_count_what_was_spent_and_what_is_not_known():
    chronicle = Chronicle(MemoryStore())
    told = [
        e.UsageSpent(at=AT, usage=Usage("m", 1, 90, 40, 10, 0.5)),
        e.UsageSpent(at=AT, usage=Usage("m", 2, None, None, None)),
    ]
    chronicle.hear(JournalEntry(n, "s", event) for n, event in enumerate(told))
    text = "\n".join(_written(_spent(chronicle)))
    shown = re.findall(r"^supervisor_model_(\S+) (\S+)$", text, re.MULTILINE)
    assert shown == [
        ("requests_total", "3"),
        ('tokens_total{kind="input"}', "90"),
        ('tokens_total{kind="cached_input"}', "40"),
        ('tokens_total{kind="output"}', "10"),
        ("usd_total", "0.5"),
        ("unpriced_total", "2"),
    ]
