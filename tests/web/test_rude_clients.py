"""Clients that keep no manners, at a daemon's own socket: whoever they are, they hold up nobody and leave nothing."""

import signal
import socket

HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UPGRADE = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"
PIECES = b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 40


def answer(daemon, words):
    """Say something on a connection of one's own; returns how the answer begins."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as connection:
        connection.sendall(words)
        return connection.recv(12)


def test_a_body_that_nobody_reads_holds_up_nothing(daemon, tmp_path):
    """A few bytes in many pieces, from somebody who is not known, take neither a place nor memory for ever."""
    (tmp_path / "supervisor.toml").write_text("[server]\nmax_streams = 1\n")
    daemon.start("--config", str(tmp_path / "supervisor.toml"))
    for _ in range(205):  # more than may be under way at once
        assert answer(daemon, PIECES % b"/logout") == b"HTTP/1.1 303"
    assert answer(daemon, PIECES % b"/api/sessions") == b"HTTP/1.1 401"
    with daemon.client() as client:
        assert client.get("/health").status_code == 200
    assert daemon.stop() == 128 + signal.SIGTERM
    assert "Traceback" not in daemon.log.read_text()


def test_nobody_goes_over_to_another_protocol(daemon):
    """HTTP/1.1 is what is answered: a connection of another kind could stay for ever, and ask for nothing."""
    daemon.start()
    assert answer(daemon, HTTP_2) == b"HTTP/1.1 421"
    for other in (b"h2c", b"websocket"):
        assert answer(daemon, UPGRADE % other) == b"HTTP/1.1 200"
