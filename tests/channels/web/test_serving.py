"""The daemon from outside: start, go away, come back, decide, whatever becomes of its process."""

import json
import signal

from daemons import AGENTS, pending_of, until


def test_a_person_who_comes_back_finds_a_request_and_approves_it(daemon, tmp_path):
    """Start, disconnect, reconnect, see the request, send `approve`, the tool runs; a killed daemon changes nothing."""
    file = tmp_path / "notes"
    daemon.start()
    with daemon.client() as client:
        asked = {"agent": "noting", "input": {"bread": str(file), "milk": str(file)}, "session": "shopping"}
        assert client.post("/api/sessions", json=asked).status_code == 201
        (first,) = until(lambda: pending_of(client, "shopping"))
    assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
    daemon.start()
    with daemon.client() as client:
        assert client.post("/api/sessions", json=asked).status_code == 200
        assert pending_of(client, "shopping") == [first]
        answer = client.post("/api/sessions/shopping/messages", json={"text": "approve"})
        assert (answer.status_code, answer.json()["kind"]) == (200, "decided")
        until(lambda: [each for each in pending_of(client, "shopping") if each["id"] != first["id"]])
        assert file.read_text() == "bread\n"
        answer = client.post("/api/sessions/shopping/approve")
        assert (answer.status_code, answer.json()["kind"]) == (200, "accepted")
        view = until(lambda: (v := client.get("/api/sessions/shopping").json())["outcome"] and v)
    assert (view["status"], view["outcome"]["value"]) == ("completed", "noted bread, noted milk")
    assert file.read_text() == "bread\nmilk\n"


def test_a_daemon_that_is_told_to_stop_leaves_everything_pending(daemon):
    """R8: SIGTERM ends it in good order, event streams too; what is asked is asked again by the next one."""
    daemon.start()
    with daemon.client() as client:
        client.post("/api/sessions", json={"agent": "noting", "input": {"x": "/dev/null"}, "session": "waiting"})
        (asked,) = until(lambda: pending_of(client, "waiting"))
        with client.stream("GET", "/api/events") as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("event:")) == "event: approval"
            daemon.process.send_signal(signal.SIGTERM)
            assert list(lines)[-1] == ""
    assert daemon.process.wait(60) == 143
    daemon.start()
    with daemon.client() as client:
        assert pending_of(client, "waiting") == [asked]


def test_a_run_of_a_dead_process_goes_on_in_the_daemon(daemon, tmp_path):
    """R2: it is there while another runs it; that one dies; the daemon claims it, and a shell's decision counts."""
    file = tmp_path / "notes"
    daemon.start()
    asked = json.dumps({"eggs": str(file)})
    other = daemon.command("run", f"{AGENTS}:noting", asked, "--session", "other", "--wait")
    with daemon.client() as client:
        (request,) = until(lambda: client.get("/api/sessions/other").is_success and pending_of(client, "other"))
        again = {"agent": "noting", "input": json.loads(asked), "session": "other"}
        assert client.post("/api/sessions", json=again).status_code == 200
        assert client.post("/api/sessions", json={**again, "input": {}}).status_code == 409
        other.kill()
        other.wait()
        assert daemon.command("approve", request["id"]).wait(60) == 0
        view = until(lambda: (v := client.get("/api/sessions/other").json())["outcome"] and v)
    assert (view["outcome"]["value"], file.read_text()) == ("noted eggs", "eggs\n")
