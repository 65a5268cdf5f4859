"""Event streams: nothing is missed, nothing comes twice, and no client holds up another."""

import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import anyio
import pytest
from daemons import pending_of, until
from sites import EVERYBODY, world
from starlette.requests import Request

from supervisor.channels.web.auth import Guard, Identity
from supervisor.channels.web.bounds import Streams
from supervisor.channels.web.endpoints import Call
from supervisor.channels.web.events import BEAT_SECONDS, SLOW_SECONDS, EventStream, watch_inbox, watch_session
from supervisor.channels.web.problems import Problem
from supervisor.channels.web.revocations import LOOK_SECONDS, Revocation, Revocations
from supervisor.channels.web.schemas import InboxQuery, StreamQuery
from supervisor.channels.web.state import MAX_STREAMS, OTHERS, Site
from supervisor.core.approvals.people import Person


def a_call(site, still_counts=lambda: True):
    """A request of a person that a stream answers."""
    return SimpleNamespace(site=site, person=Person(name="ana", roles=("operator",)), still_counts=still_counts)


def listen(client, path: str, *, last: str | None = None, count: int = 1, params=None) -> list[tuple[str, str]]:
    """Return the next events as (id, name), then leave."""
    found, event = [], {}
    headers = {"last-event-id": last} if last is not None else {}
    with client.stream("GET", path, headers=headers, params=params) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            key, _, value = line.partition(": ")
            event[key] = value
            if not line and "id" in event:
                found.append((event["id"], event["event"]))
                event = {}
            if len(found) == count:
                return found
    return found


def test_a_client_that_reconnects_misses_nothing_and_gets_nothing_twice(daemon, tmp_path):
    """A session's journal in pieces, over a kill of the daemon, is the journal."""
    file = str(tmp_path / "notes")
    daemon.start()
    with daemon.client() as client:
        body = {"agent": "noting", "input": {"a": file, "b": file}, "session": "heard"}
        client.post("/api/sessions", json=body).raise_for_status()
        until(lambda: pending_of(client, "heard"))
        heard = listen(client, "/api/sessions/heard/events", count=2)
    daemon.stop(9)
    daemon.start()
    with daemon.client() as client:
        for _ in range(2):
            (asked,) = until(lambda: pending_of(client, "heard"))
            client.post(f"/api/approvals/{asked['id']}/decision", json={"decision": "deny"}).raise_for_status()
            until(lambda done=asked["id"]: done not in str(pending_of(client, "heard")))
        until(lambda: client.get("/api/sessions/heard").json()["outcome"])
        whole = [each["position"] for each in client.get("/api/sessions/heard/journal").json()["items"]]
        while len(heard) < len(whole):
            heard += listen(
                client, "/api/sessions/heard/events", last=heard[-1][0], count=min(3, len(whole) - len(heard))
            )
    assert [int(cursor.partition(".")[2]) for cursor, _ in heard] == whole


def test_the_inbox_tells_what_waits_then_what_changes(daemon):
    """A snapshot for who is new; only what has changed since for who was there."""
    daemon.start()
    with daemon.client() as client, daemon.client() as other:
        client.post("/api/sessions", json={"agent": "asking_many", "input": 3, "session": "many"}).raise_for_status()
        asked = until(lambda: len(found := pending_of(client, "many")) == 3 and found)
        seen = listen(client, "/api/events", count=3)
        heard, last = [], seen[-1][0]
        listener = threading.Thread(target=lambda: heard.extend(listen(other, "/api/events", last=last, count=2)))
        listener.start()
        for each in asked[:2]:
            client.post(f"/api/approvals/{each['id']}/decision", json={"decision": "deny"}).raise_for_status()
        listener.join(30)
        assert len({*seen, *heard}) == 5
        assert listen(client, "/api/events", count=2, params={"after": last}) == heard


@pytest.mark.parametrize("path", ["/api/events", "/api/sessions/many/events"])
def test_a_client_with_an_unknown_cursor_is_told_and_begins_anew(daemon, path):
    """A browser does not come back after an error. `reset` has no id: it is no place to go on from."""
    daemon.start()
    with daemon.client() as client:
        client.post("/api/sessions", json={"agent": "asking_many", "input": 1, "session": "many"}).raise_for_status()
        until(lambda: pending_of(client, "many"))
        store = client.get("/api").json()["store"]
        for cursor in (f"{store}.999999", "another000.1", "x"):
            with client.stream("GET", path, headers={"last-event-id": cursor}) as stream:
                lines = stream.iter_lines()
                told = [next(lines) for _ in range(7)]
            assert told[2:5] == ["event: reset", "data: {}", ""]
            assert told[6].startswith(f"id: {store}.")


def test_more_streams_than_are_configured_are_refused_until_one_has_gone(daemon, tmp_path):
    """503, with what to do; everything else is answered; the log says it once."""
    (tmp_path / "supervisor.toml").write_text("[server]\nmax_streams = 1\n")
    daemon.start("--config", str(tmp_path / "supervisor.toml"))
    with daemon.client() as client:
        with client.stream("GET", "/api/events") as first:
            lines = first.iter_lines()  # kept: its end would be the stream's
            next(lines)
            for _ in range(3):
                refused = client.get("/api/events")
                assert (refused.status_code, refused.json()["status"]) == (503, 503)
                assert int(refused.headers["retry-after"]) > 0
            assert client.get("/api/sessions").status_code == 200
        until(lambda: "supervisor_event_streams 0\n" in client.get("/metrics").text)
        with client.stream("GET", "/api/events") as again:
            assert again.status_code == 200
    assert daemon.log.read_text().count("streams.refused") == 1


def test_no_reader_keeps_the_others_from_listening():
    """One who is no operator holds a fifth; all of them together leave a fifth to the operators."""
    streams = Streams(10, "more")
    readers = [Person(name=name) for name in "abcdefgh"]
    with ExitStack() as held:
        for reader in readers[:4]:
            for _ in range(2):
                held.enter_context(streams.held(reader))
            with pytest.raises(Problem), streams.held(reader):
                pass
        with pytest.raises(Problem), streams.held(readers[4]):
            pass
        for _ in range(2):
            held.enter_context(streams.held(Person(name="olga", roles=("operator",))))
        assert streams.count == 10
    with streams.held(readers[0]):
        assert streams.count == 1


@pytest.mark.anyio
async def test_more_requests_than_a_server_takes_are_refused_at_the_border():
    """Whatever holds up the others, a client is answered at once."""
    async with world() as here, here.client("olga") as client:
        with ExitStack() as others:
            for _ in range(MAX_STREAMS + OTHERS):
                others.enter_context(here.site.requests.held())
            assert (await client.get("/api/sessions")).status_code == 503
        assert (await client.get("/api/sessions")).status_code == 200


@pytest.mark.anyio
class TestAStream:
    """On the virtual clock, with a client that is a function."""

    @pytest.fixture
    def anyio_backend(self, virtual_backend):
        return virtual_backend

    async def test_a_client_that_takes_nothing_is_dropped(self):
        """Slow clients hold up no other client, and are dropped."""
        taken = []

        async def send(message):
            taken.append(message)
            if len(taken) == 4:
                await anyio.sleep_forever()

        async def news():
            return "approval", "0123456789.1", b"{}"

        await self.serve(news, send)
        assert anyio.current_time() - self.began == pytest.approx(SLOW_SECONDS)
        assert self.site.streams.count == 0

    async def test_a_quiet_stream_shows_that_it_lives_and_ends_with_the_server(self):
        """Comments as heartbeats; it ends on our own event, cleanly."""
        chunks = []

        async def send(message):
            chunks.append(message)
            if len(chunks) == 5:
                self.site.stop()

        await self.serve(anyio.sleep_forever, send)
        assert [chunk.get("body", b"")[:1] for chunk in chunks[2:5]] == [b":"] * 3
        assert chunks[-1]["more_body"] is False
        assert anyio.current_time() - self.began == pytest.approx(3 * BEAT_SECONDS)

    async def test_a_client_that_goes_ends_its_stream(self):
        """The stream leaves no task and no watch."""

        async def send(message):
            pass

        async def gone():
            return {"type": "http.disconnect"}

        await self.serve(anyio.sleep_forever, send, gone)
        assert anyio.current_time() == pytest.approx(self.began)

    async def test_a_stream_ends_when_its_credential_ends(self):
        """A4: what a token or a login opened does not outlive it."""
        told = []

        async def send(message):
            told.append(message.get("body", b""))

        async with world() as here:
            await here.ask()
            over = datetime.now(UTC) - timedelta(seconds=1)
            request = Request(
                {"type": "http", "headers": [], "path_params": {"id": (await here.supervisor.find_sessions())[0].id}}
            )
            identity = Identity(EVERYBODY.find("ana"), over, "")
            for listen, query in ((watch_inbox, InboxQuery()), (watch_session, StreamQuery())):
                stream = await listen(Call(here.site, request, identity, query, None))
                await stream({"type": "http"}, anyio.sleep_forever, send)
        assert b"id: " not in b"".join(told)

    async def test_a_revocation_by_another_process_ends_a_stream_soon(self, tmp_path):
        """It does not wait for the next event, nor for the next comment."""
        known, began = Revocations(tmp_path / "revoked"), anyio.current_time()
        site = Site(Guard(None, b"", None, "x", known), is_secure=False)

        async def send(message):
            if message.get("more_body"):
                Revocations(tmp_path / "revoked").add(Revocation(token="sha256:x", at=datetime.now(UTC), by="olga"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(known.watch)
            stream = EventStream(anyio.sleep_forever, a_call(site, lambda: "sha256:x" not in known))
            await stream({"type": "http"}, anyio.sleep_forever, send)
            tasks.cancel_scope.cancel()
        assert anyio.current_time() - began <= LOOK_SECONDS

    async def serve(self, news, send, receive=anyio.sleep_forever):
        self.began = anyio.current_time()
        self.site = Site(Guard(None, b"", None, "x"), is_secure=False)
        with anyio.fail_after(1000):
            await EventStream(news, a_call(self.site))({"type": "http"}, receive, send)
