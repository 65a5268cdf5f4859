"""Commands on Temporal: what is done next to a store is done on a cluster with a URL."""

import re
import shlex
import signal
from pathlib import Path

import anyio
import httpx
import pytest
from clusters import AGENTS, Cluster
from serving_processes import TOKEN, serve
from temporal_server import namespace, shared

from supervisor.core.approvals.people import hash_token

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "when-one-machine-is-not-enough.md"


@pytest.fixture
def guided(tmp_path):
    """A cluster on the namespace of the guide, in a folder with what the guide's commands name, and their words."""
    anyio.run(namespace)  # the server answers
    here = Cluster(f"temporal://{shared()}/default", tmp_path)
    page = GUIDE.read_text()
    (tmp_path / "agents.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    (tmp_path / "supervisor.toml").write_text(f'[server]\nport = 0\n[people.ana]\ntokens = ["{hash_token(TOKEN)}"]\n')
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "old.tmp").touch()
    del here.environment["SUPERVISOR_STORE"]
    here.environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    lines = [line.split("$ supervisor ", 1)[1] for line in page.splitlines() if line.startswith("$ supervisor ")]
    found = [shlex.split(line.replace("127.0.0.1:7233", shared())) for line in lines]
    yield here, {words[0]: words for words in found}
    here.kill()


def test_the_commands_of_the_guide_run_an_agent_to_its_end(guided):
    """As they are written there, with another address: a person approves, the effect happens, a server shows it."""
    cluster, lines = guided
    agents, *options = lines["worker"][1:]
    cluster.worker(*options, agents=agents)
    cluster.run(*lines["start"], code=3)
    approval = cluster.run(*lines["approvals"]).split()[0]
    cluster.run(*(approval if word == "ID" else word for word in lines["approve"]))
    cluster.until(lambda: not (cluster.folder / "scratch" / "old.tmp").exists())
    _, address = serve(cluster, cluster.folder / "serve.log", *lines["serve"][1:])

    def shown() -> list[dict]:
        answer = httpx.get(f"{address}/api/sessions", headers={"authorization": f"Bearer {TOKEN}"}, timeout=60)
        return answer.json()["items"]

    cluster.until(lambda: shown() and shown()[0]["outcome"] is not None)
    (done,) = shown()
    assert done["outcome"]["value"] == ["scratch/old.tmp\n"]
    cluster.environment["SUPERVISOR_STORE"] = cluster.url
    assert "approved by" in cluster.run("show", done["id"])
    assert "find scratch" in cluster.run("audit")


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


def test_the_calls_of_a_session_are_listed_and_decided_together(cluster):
    """A16: `approve --session` decides what it has shown and nothing else; each decision has one batch in the audit."""
    cluster.worker()
    cluster.run("start", "janitor", '["/srv/a", "/srv/b"]', "--session", "j", code=3)
    cluster.pending(2)
    name = cluster.read("approve", "--session", "j")["shown"]
    cluster.run("approve", "--session", "j", "--shown", "0" * len(name), code=2)
    assert len(cluster.pending(2)) == 2
    made = cluster.read("approve", "--session", "j", "--shown", name, "--by", "ana")
    assert [each["kind"] for each in made["results"]] == ["accepted"] * 2
    assert {each["batch"] for each in made["results"]} == {made["batch"]}
    assert cluster.outcome("j")["value"] == ["removed /srv/a", "removed /srv/b"]
    again = cluster.read("approve", "--session", "j", "--shown", name, "--by", "ana")
    assert [each["kind"] for each in again["results"]] == ["already"] * 2


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
