"""Commands on Temporal: what is done next to a store is done on a cluster with a URL."""

import re
import signal
from pathlib import Path

import pytest
from clusters import AGENTS

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "when-one-machine-is-not-enough.md"


def test_the_two_commands_of_the_guide_run_an_agent(cluster):
    """As they are written there; then people decide, and each effect happens once."""
    shown = [line.split("--store")[0].split() for line in GUIDE.read_text().splitlines() if line.startswith("$ ")]
    assert shown[0][1:] == ["supervisor", "worker", "agents.py"]
    assert shown[1][1:4] == ["supervisor", "start", "janitor"]
    cluster.worker()
    cluster.run("start", "janitor", '["/srv/a"]', "--session", "j", code=3)
    (asked,) = cluster.pending()
    cluster.run("approve", asked["id"], "--by", "ana")
    assert cluster.outcome("j") == {"kind": "succeeded", "value": ["removed /srv/a"], "cause": None}
    assert cluster.effects() == ["thought 1", "removed /srv/a"]
    told = cluster.run("show", "j")
    assert "approved by ana (command line)" in told
    assert "removed /srv/a" in cluster.run("audit")


def test_a_worker_is_killed_and_a_decision_is_made_while_none_lives(cluster):
    """What waits is read without a worker; of two decisions the first stands; each effect happens once."""
    cluster.worker()
    cluster.run("start", "janitor", '["/srv/a", "/srv/b"]', "--session", "j", code=3)
    first, second = cluster.pending(2)
    cluster.kill()
    assert [each["id"] for each in cluster.pending(2)] == [first["id"], second["id"]]
    decided = cluster.read("approve", first["id"], "--by", "ana")
    assert (decided["kind"], decided["running"]) == ("recorded", False)
    assert cluster.read("deny", first["id"], "--by", "bob", code=4)["kind"] == "conflict"
    cluster.worker()
    cluster.run("deny", second["id"], "--by", "ana", "--reason", "keep it")
    assert cluster.outcome("j")["value"][0] == "removed /srv/a"
    assert "keep it" in cluster.outcome("j")["value"][1]
    assert cluster.effects() == ["thought 2", "removed /srv/a"]
    assert cluster.read("approve", first["id"], "--by", "eve")["kind"] == "already"


def test_a_cancel_reaches_every_process_of_a_tree(cluster):
    """Three levels, and two calls with a process at each: all are gone, and the sessions end deepest first."""
    cluster.worker()
    cluster.run("start", "deep", "3", "--session", "d", "--detach")
    cluster.until(lambda: len(cluster.effects()) == 6)
    cluster.run("cancel", "d", "--reason", "enough")
    effects = cluster.effects()
    assert {each.removeprefix("begun ") for each in effects[:6]} == {each.removeprefix("gone ") for each in effects[6:]}
    assert cluster.outcome("d")["kind"] == "cancelled"
    ended = re.findall(r"(deep(?: > deep)*)  cancelled", cluster.run("audit"))
    assert ended == sorted(ended, key=len, reverse=True)


@pytest.mark.soak
def test_a_stopped_worker_leaves_what_waits_to_another(cluster):
    """SIGTERM: it ends by itself, and nothing is withdrawn."""
    first = cluster.worker()
    cluster.run("start", "janitor", '["/srv/a"]', "--session", "j", code=3)
    (asked,) = cluster.pending()
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=30) == 128 + signal.SIGTERM
    cluster.worker()
    cluster.run("approve", asked["id"])
    assert cluster.outcome("j")["kind"] == "succeeded"


REFUSED = {
    ("run", f"{AGENTS}:janitor", "[]"): 2,
    ("prune", "--older-than", "1d"): 2,
    ("retry", "j"): 5,
    ("fork", "j", "--before", "2"): 5,
    ("start", "nothing"): 2,
    ("start", "janitor", "5"): 2,
    ("show", "nowhere"): 5,
}
"""By command: its exit code."""


def test_a_command_that_is_not_there_is_refused_in_one_line(cluster):
    """By its name, before anything is done."""
    cluster.worker()
    for command, code in REFUSED.items():
        said = cluster.run(*command, code=code)
        assert said.startswith("supervisor: ")
        assert said.count("\n") == 1
    assert cluster.read("sessions") == []
