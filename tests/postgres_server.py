"""A PostgreSQL server of this machine: one for a run of pytest, and a schema of it for each test.

Its disk is a tmpfs where the machine has one: a sync costs nothing then, and the store refuses a server without fsync.
As root the server runs as another user, since it refuses root. It takes half a second of a core to make.
"""

import fcntl
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from supervisor.store.postgres.server import Address

_ROOM_BYTES = 2**30
MEMORY = Path("/dev/shm")


def find_binaries():
    """Return the folder of the server's programs."""
    found = [Path(each).resolve().parent for each in [shutil.which("initdb")] if each]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (binaries := next((each for each in found if (each / "initdb").exists()), None)) is None:
        pytest.skip("this machine has no PostgreSQL server: apt-get install postgresql")
    return binaries


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def user():
    """Return the name of the user that the server runs as; None for ours."""
    if os.geteuid() != 0:
        return None
    return next(name for name in ("postgres", "nobody") if name in {each.pw_name for each in pwd.getpwall()})


def fast_folder():
    """Return a folder in memory, if this machine has enough of it."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > _ROOM_BYTES and os.access(MEMORY, os.W_OK)
    return MEMORY if has_room else Path(tempfile.gettempdir())


def run(folder, name, *options):
    become = () if user() is None else ("runuser", "-u", user(), "--")
    command = [*become, find_binaries() / name, *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}  # a server keeps a pipe of standard output open
    done = subprocess.run(command, **quiet, cwd=folder, timeout=60, text=True)
    assert done.returncode == 0, done.stderr


class Server:
    """A server in a new folder."""

    def __init__(self, folder, encoding="UTF8", source=None):
        self.folder, self.port = folder, free_port()
        self.data = folder / "data"
        self.url = f"postgresql://supervisor@127.0.0.1:{self.port}/postgres"
        if source is None:
            initdb = ("-U", "supervisor", "-A", "trust", "-E", encoding, "--locale=C", "--no-sync", "--wal-segsize=1")
            run(self.folder, "initdb", "-D", self.data, *initdb)
        else:
            run(self.folder, "pg_basebackup", "-D", self.data, "-d", source, "-R", "--checkpoint=fast", "--no-sync")

    def start(self, *settings):
        mine = (f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}")
        cheap = ("shared_buffers=32MB", "max_connections=300", "max_wal_size=256MB", "autovacuum_naptime=10min")
        options = " ".join(f"-c {each}" for each in (*mine, *cheap, *settings))
        run(self.folder, "pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "-t", "50", "-o", options, "start")

    def stop(self, mode="immediate"):
        run(self.folder, "pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def kill(self):
        """End the server and all its processes by SIGKILL, as the end of its machine would."""
        (main,) = (int(line) for line in (self.data / "postmaster.pid").read_text().splitlines()[:1])
        os.kill(main, signal.SIGSTOP)
        below = subprocess.run(["pgrep", "-P", str(main)], capture_output=True, text=True).stdout.split()
        for pid in (main, *map(int, below)):
            os.kill(pid, signal.SIGKILL)
        while any(Path(f"/proc/{pid}/cmdline").exists() for pid in below):
            time.sleep(0.01)


def new_folder():
    """Make a folder for programs that run as `user`."""
    folder = Path(tempfile.mkdtemp(prefix="supervisor-pg-", dir=fast_folder()))
    if user() is not None:
        shutil.chown(folder, user())
    return folder


@contextmanager
def folder_in_memory():
    folder = new_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def running(*settings, **options):
    """Run a server of this test."""
    with folder_in_memory() as folder:
        server = Server(folder, **options)
        server.start(*settings)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def shared(base):
    """Run the server of this run of pytest, and give its URL: the first worker that needs it starts it, the last one
    stops it. A worker that died has left. `base`: a folder of the run."""
    known = base / "postgres.url"
    with (base / "postgres.door").open("w") as door, (base / "postgres.users").open("w") as users:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        if not known.exists():
            server = Server(new_folder())
            server.start()
            known.write_text(f"{server.folder} {server.url}")
        fcntl.flock(door, fcntl.LOCK_UN)
        folder, url = known.read_text().split()
        yield url
        fcntl.flock(door, fcntl.LOCK_EX)
        with suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no other worker uses it
            known.unlink()
            run(folder, "pg_ctl", "-D", f"{folder}/data", "-w", "-m", "immediate", "stop")
            shutil.rmtree(folder)


def ask(url, statement, *values):
    """Run a statement in a store's schema, without the store; return its rows."""
    with connect(url) as connection:
        cursor = connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def connect(url):
    address = Address(url)
    return psycopg.connect(
        address.conninfo, autocommit=True, cursor_factory=psycopg.RawCursor, options=f"-c search_path={address.schema}"
    )


def run_client(name, *options, given=None):
    """Run a program of PostgreSQL's clients; return what it says."""
    command = [find_binaries() / name, *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=given).stdout


FIXTURE = "fixture_of_a_format"
"""The schema that a fixture names; no other text of it contains this."""


def load(url, fixture):
    """Make a store of the text of a fixture."""
    ask(url, fixture.replace(FIXTURE, Address(url).schema))


def text_of(url):
    """Return the text of a store: what pg_dump says, without what depends on its version."""
    address = Address(url)
    dumped = run_client("pg_dump", "--inserts", "--no-owner", "--schema", address.schema, address.conninfo)
    kept = [line for line in dumped.splitlines() if not line.startswith(("--", "\\", "SET ", "SELECT pg_catalog.set_"))]
    return re.sub(r"\n{2,}", "\n", "\n".join(kept)).replace(address.schema, FIXTURE).strip() + "\n"
