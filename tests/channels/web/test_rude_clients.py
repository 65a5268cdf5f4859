"""Rude clients at a daemon's socket hold up no other client and leave nothing."""

import signal
import socket
import time
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection

import pytest
from hypercorn.protocol.h11 import H11Protocol

from supervisor.channels.web import server
from supervisor.core.errors import SupervisorError

HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UPGRADE = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"
PIECES = b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40


def answer(daemon, words):
    """Say something on a connection of one's own; returns how the answer begins."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as connection:
        connection.sendall(words)
        return connection.recv(12)


def test_an_unread_body_holds_up_nothing(daemon, tmp_path):
    """A few bytes in many pieces from an unknown client keep neither a place nor memory."""
    (tmp_path / "supervisor.toml").write_text("[server]\nmax_streams = 1\n")
    daemon.start("--config", str(tmp_path / "supervisor.toml"))
    for _ in range(205):  # more than may be under way at once
        assert answer(daemon, PIECES % b"/logout") == b"HTTP/1.1 303"
    assert answer(daemon, PIECES % b"/api/sessions") == b"HTTP/1.1 401"
    with daemon.client() as client:
        assert client.get("/health").status_code == 200
    assert daemon.stop() == 128 + signal.SIGTERM
    assert "Traceback" not in daemon.log.read_text()


def test_no_client_switches_to_another_protocol(daemon):
    """HTTP/1.1 is what is answered: a connection of another kind could stay for ever, and ask for nothing."""
    daemon.start()
    assert answer(daemon, HTTP_2) == b"HTTP/1.1 421"
    for other in (b"h2c", b"websocket"):
        assert answer(daemon, UPGRADE % other) == b"HTTP/1.1 200"


@contextmanager
def unfinished(daemon, count, path=b"/login"):
    """Keep many connections on which a body was announced of which two bytes came."""
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nto" % path
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", daemon.port), timeout=30))
            connection.sendall(head)
        yield


def test_unfinished_bodies_hold_up_no_other_client(daemon):
    """Other clients and the probes get answers while 800 clients never finish a body."""
    daemon.start()
    with unfinished(daemon, 800), daemon.client() as client:
        assert [client.get(f"/{name}").status_code for name in ("health", "ready")] == [200, 200]
        body = {"agent": "noting", "input": {"x": "/dev/null"}, "session": "beside"}
        assert client.post("/api/sessions", json=body).status_code == 201
        assert client.post("/login", data={"token": "wrong"}).status_code == 401


@pytest.mark.slow
def test_a_connection_rests_longer_than_proxies_let_theirs_rest(daemon):
    """A platform's press on a connection that was idle for 6 s is answered; one that never asked anything is closed."""
    daemon.start()
    known = HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    known.connect()
    with known.sock, socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as silent:
        for rest in (6, 0):
            known.request("POST", "/login")
            assert known.getresponse().read()
            time.sleep(rest)
        assert silent.recv(1) == b""


def test_idle_connections_leave_files_for_other_clients(daemon):
    """A daemon raises its limit of files: clients that ask once and stay hold up no other client."""
    daemon.prefix = ["sh", "-c", 'ulimit -Sn 256 && exec "$@"', "sh"]
    daemon.start()
    with ExitStack() as stack:
        for _ in range(400):
            resting = stack.enter_context(socket.create_connection(("127.0.0.1", daemon.port), timeout=30))
            resting.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert resting.recv(12) == b"HTTP/1.1 200"
        assert answer(daemon, b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n") == b"HTTP/1.1 200"


def test_a_server_that_cannot_be_kept_to_one_protocol_is_refused(monkeypatch):
    """What keeps it there is no setting: a version that has it no more must not undo it silently."""
    monkeypatch.delattr(H11Protocol, "_check_protocol")
    with pytest.raises(SupervisorError):
        server._stay_with_http_1()
