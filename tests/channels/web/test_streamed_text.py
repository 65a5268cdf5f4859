"""The text that an agent is writing: by the event stream of its session, and on its page."""

import json
import time

import pytest
from daemons import until

SHOWN = "The <b>tide</b> is ⟨U+001B⟩[31mlow⟨U+202E⟩ and so on."
"""What the agent `writing` writes, made harmless."""


def begin(client, session: str = "text") -> None:
    client.post("/api/sessions", json={"agent": "writing", "session": session}).raise_for_status()
    until(lambda: "31mlow" in client.get("/api/activity").text)


def say(client, text: str, session: str = "text") -> None:
    client.post(f"/api/sessions/{session}/messages", json={"text": text}).raise_for_status()


def events_of(stream):
    """Yield the fields of each event."""
    fields = {}
    for line in stream.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            yield fields
            fields = {}


def texts_of(events):
    return (json.loads(each["data"])["text"] for each in events if each["event"] == "text")


@pytest.mark.parametrize("shows", ["text", "all"])
def test_the_stream_of_a_session_shows_the_text_until_it_is_said(daemon, shows):
    """Whole and harmless each time, without an id: where a client goes on is a place in the journal."""
    daemon.start()
    with daemon.client() as client, daemon.client() as other:
        begin(client)
        for _ in range(2):  # a client that comes back gets the text as it is
            with client.stream("GET", "/api/sessions/text/events", params={"shows": shows}) as stream:
                events = events_of(stream)
                first = next(each for each in events if each["event"] == "text")
                assert "id" not in first
                assert json.loads(first["data"]) == {"text": SHOWN, "left_out": 0}
        with client.stream("GET", "/api/sessions/text/events", params={"shows": shows}) as stream:
            found = texts_of(events_of(stream))
            assert next(found) == SHOWN
            say(other, "hello")
            assert next(text for text in found if text != SHOWN) in ("", "And more")


def test_the_journal_alone_is_the_default_and_nothing_of_it_is_missing_next_to_the_text(daemon):
    """`shows=all` gives each entry once, in order."""
    daemon.start()
    with daemon.client() as client, daemon.client() as other:
        begin(client)
        say(other, "hello")
        say(other, "goodbye")
        until(lambda: client.get("/api/sessions/text").json()["outcome"])
        whole = [each["position"] for each in client.get("/api/sessions/text/journal").json()["items"]]
        for shows in ("journal", "all"):
            params = {"shows": shows, "stay": "false"}
            with client.stream("GET", "/api/sessions/text/events", params=params) as stream:
                events = list(events_of(stream))
            told = [json.loads(each["data"])["position"] for each in events if each["event"] == "journal"]
            assert told == whole
            assert events[-1]["event"] == "end"
            assert (shows == "all") == any(each["event"] == "text" for each in events)


def test_the_page_shows_the_text_and_then_the_message(daemon, person):
    """As text, with any signs in it. It leaves the page with the refresh that shows what was said."""
    daemon.start()
    with daemon.client() as client:
        begin(client)
        olga = person(daemon)
        olga.page.goto("/sessions/text")
        written = olga.see(olga.page.locator("#written"), "<b>tide</b>")
        assert written.text_content() == SHOWN
        say(client, "hello")
        olga.see(olga.page.locator(".said .bubble"), "said: hello")
        olga.see(olga.page.locator("#written"), "And more")
        assert "tide" not in olga.page.locator("#written").text_content()
        say(client, "goodbye")
        olga.page.locator("#writing").wait_for(state="hidden")


def test_the_page_without_scripts_shows_what_is_written_when_it_is_loaded(one_daemon, person):
    """As text, with any signs in it; and nothing once the agent has ended."""
    with one_daemon.client() as client:
        begin(client, "plain")
        olga = person(one_daemon, java_script_enabled=False, viewport={"width": 360, "height": 640})
        olga.page.goto("/sessions/plain")
        assert olga.page.locator("#written").text_content() == SHOWN
        assert olga.page.locator("#writing").is_visible()
        say(client, "hello", "plain")
        until(lambda: "And more" in client.get("/api/activity").text)
        say(client, "goodbye", "plain")
        until(lambda: client.get("/api/sessions/plain").json()["outcome"])
        olga.page.reload()
        assert not olga.page.locator("#writing").is_visible()


def test_an_entry_that_comes_while_the_page_is_asked_for_again_is_shown(one_daemon, person):
    """The page that is under way does not have it yet."""
    with one_daemon.client() as client:
        begin(client)
        olga = person(one_daemon)
        olga.page.goto("/sessions/text")
        olga.see(olga.page.locator("#written"), "tide")
        held = []

        def hold(route):
            answer = route.fetch()
            if not held:
                held.append(route)
                say(client, "goodbye")
                until(lambda: client.get("/api/sessions/text").json()["outcome"])
                time.sleep(0.5)  # its events reach the page meanwhile
            route.fulfill(response=answer)

        olga.page.route("**/sessions/text", hold)
        say(client, "hello")
        olga.see(olga.page.locator(".life.succeeded"))
        assert held
