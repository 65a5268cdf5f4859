"""Servers that cannot keep a store are refused with the reason, and nothing is written to them."""

import secrets
import shutil
import socket
import struct
import subprocess
import threading
import time
from contextlib import closing, contextmanager

import pytest
from postgres_server import ask, folder_in_memory, free_port, running, user
from store_stories import append, created, rows

from supervisor import StoreDied, StoreUnreadable
from supervisor.store.postgres.store import PostgresStore

PASSWORD = "sesame-of-ada"


def refusal(url, create=True):
    """Return why a store is not opened there. The URL has a password, which no error has."""
    store = PostgresStore(url.replace("supervisor@", f"supervisor:{PASSWORD}@"), create=create)
    with pytest.raises(StoreUnreadable) as refused:
        store.open()
    error = refused.value
    while error is not None:
        assert PASSWORD not in f"{error}{error!r}{vars(error)}"
        error = error.__cause__ or error.__context__
    assert "cannot" in str(refused.value)
    return str(refused.value)


@pytest.fixture(scope="module")
def standby(server):
    with running(source=server) as standby:
        yield standby


def test_a_standby_is_refused_until_it_is_the_primary(standby, server):
    """It lags, and reads return what any process has committed. A list of hosts finds the primary among them."""
    assert "a standby, which lags" in refusal(standby.url)
    first, second = (url.partition("@")[2].partition("/")[0] for url in (standby.url, server))
    store = PostgresStore(f"postgresql://supervisor@{first},{second}/postgres?schema=t{secrets.token_hex(6)}")
    store.open()
    store.close()


def test_a_server_that_does_not_sync_is_refused():
    """It may lose commits that were acknowledged. What was opened before is not opened again after it is turned off."""
    with running() as server:
        store = PostgresStore(server.url)
        store.open()
        store.close()
        ask(server.url, "ALTER SYSTEM SET fsync = off")
        ask(server.url, "SELECT pg_reload_conf(), pg_sleep(0.2)")
        assert "fsync is off" in refusal(server.url)


def test_a_database_of_another_encoding_is_refused(server):
    """It would lose letters."""
    name = f"latin{secrets.token_hex(4)}"
    ask(server, f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    assert "its encoding is LATIN1" in refusal(f"{server.rpartition('/')[0]}/{name}")


@contextmanager
def pooler(url, folder, mode, ignored):
    """Run PgBouncer in front of a server."""
    if (program := shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")) is None:
        pytest.skip("this machine has no PgBouncer: apt-get install pgbouncer")
    address, port = url.partition("@")[2].partition("/")[0], free_port()
    host, _, its_port = address.partition(":")
    (folder / "users").write_text('"supervisor" ""\n')
    (folder / "pool.ini").write_text(
        f"[databases]\npostgres = host={host} port={its_port} user=supervisor\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = any\nauth_file = {folder}/users\nunix_socket_dir =\npool_mode = {mode}\n"
        f"ignore_startup_parameters = {ignored}\n"
    )
    become = () if user() is None else ("runuser", "-u", user(), "--")
    with subprocess.Popen(
        [*become, program, folder / "pool.ini"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert any("process up" in line for line in process.stderr)
        try:
            yield f"postgresql://supervisor@127.0.0.1:{port}/postgres"
        finally:
            process.terminate()
            process.stderr.close()


@pytest.mark.parametrize("ignored", ["extra_float_digits", "options"])
@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_pgbouncer_is_refused_in_every_mode(mode, ignored, postgres, enter):
    """A lock or a setting of a session would be another client's, whether it refuses our settings or drops them."""
    folder = enter(folder_in_memory())
    assert "a pooler is in between (PgBouncer)" in refusal(enter(pooler(postgres, folder, mode, ignored)))


def message(kind, body):
    return kind + struct.pack(">I", len(body) + 4) + body


def fatal(code, text):
    fields = (("S", "FATAL"), ("V", "FATAL"), ("C", code), ("M", text))
    return message(b"E", b"".join(f"{name}{value}\0".encode() for name, value in fields) + b"\0")


def ready(version):
    """What a server says to a client that has come in."""
    known = (("server_version", version), ("server_encoding", "UTF8"), ("client_encoding", "UTF8"),
             ("in_hot_standby", "off"), ("default_transaction_read_only", "off"))  # fmt: skip
    states = b"".join(message(b"S", f"{name}\0{value}\0".encode()) for name, value in known)
    return message(b"R", struct.pack(">I", 0)) + states + message(b"K", struct.pack(">II", 1, 1)) + message(b"Z", b"I")


@contextmanager
def answering(answer):
    """A server that gives one answer to whoever connects."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    while connection.recv(8) == struct.pack(">II", 8, 80877103):  # it asks for TLS
                        connection.sendall(b"N")
                    connection.recv(10_000)
                    connection.sendall(answer)
                    connection.recv(10_000)

        threading.Thread(target=serve, daemon=True).start()
        yield f"postgresql://supervisor@127.0.0.1:{listener.getsockname()[1]}/postgres"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(ready("12.22"), "its version is 12, and 13 or later is needed", id="12"),
        pytest.param(
            fatal("42704", 'unrecognized configuration parameter "tcp_user_timeout"'), "version 13 or later", id="9.6"
        ),
    ],
)
def test_an_older_server_is_refused(answer, why, enter):
    """One that is so old that it does not know our settings says so before anything else."""
    assert why in refusal(enter(answering(answer)))


@pytest.mark.parametrize("is_behind", [False, True], ids=["it has all commits", "it lacks the last one"])
def test_a_standby_that_takes_over_is_written_to_only_if_it_has_all_that_was_seen(is_behind, enter):
    """The primary is killed, and the standby becomes the primary: the store goes on there, or says what is lost."""
    primary = enter(running())
    standby = enter(running(source=primary.url))
    both = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    store = PostgresStore(f"postgresql://supervisor@{both}/postgres")
    store.open()
    append(store, ("a", created("a")))
    await_position(standby.url, 1)
    if is_behind:
        ask(standby.url, "ALTER SYSTEM SET primary_conninfo = ''")
        ask(standby.url, "SELECT pg_reload_conf(), pg_sleep(0.2)")
    append(store, ("b", created("b")))
    await_position(standby.url, 1 if is_behind else 2)
    primary.kill()
    ask(standby.url, "SELECT pg_promote()")
    if is_behind:
        with pytest.raises(StoreDied, match="has lost commits: its last position was 2 and is 1"):
            sum(iter(store.begin, True))
    else:
        sum(iter(store.begin, True))
        store.write(rows(store, ("c", created("c"))))
        store.commit()
        assert [row.session for row in store.rows(0)] == ["a", "b", "c"]
    store.close()
    primary.start()


def await_position(url, position):
    """Wait until a standby has received the commits up to a position."""
    until = time.monotonic() + 30
    while ask(url, "SELECT last FROM supervisor.store") != [(position,)]:
        assert time.monotonic() < until
        time.sleep(0.02)
