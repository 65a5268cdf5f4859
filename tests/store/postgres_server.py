"""A PostgreSQL server of the machine, in a folder of its own, for the tests of a session of pytest."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psycopg

from supervisor.store.postgres.server import Address


def find_binaries():
    """Return the folder of the server's programs; None if the machine has none."""
    found = [Path(each).resolve().parent for each in [shutil.which("initdb")] if each]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in found if (each / "initdb").exists()), None)


@contextmanager
def running(binaries):
    """Run a server, and give the URL of its database. As root it runs as the user `postgres`, since it refuses root."""
    folder = tempfile.mkdtemp(prefix="supervisor-pg-")
    become = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        become = ["runuser", "-u", "postgres", "--"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(name, *options):
        subprocess.run([*become, binaries / name, *options], check=True, capture_output=True, cwd=folder)

    data = f"{folder}/data"
    control = ("-D", data, "-l", f"{folder}/log", "-w")
    run("initdb", "-D", data, "-U", "supervisor", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
    run(
        "pg_ctl",
        *control,
        "-o",
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}",
        "start",
    )
    try:
        yield f"postgresql://supervisor@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", *control, "-m", "immediate", "stop")
        shutil.rmtree(folder)


def connect(url):
    """Connect to a store's schema, without the store."""
    address = Address(url)
    return psycopg.connect(address.conninfo, autocommit=True, options=f"-c search_path={address.schema}")


FIXTURE = "fixture_of_a_format"
"""The schema that a fixture names; no other text of it contains this."""


def load(url, fixture):
    """Make a store of the text of a fixture."""
    with connect(url) as connection:
        connection.execute(fixture.replace(FIXTURE, Address(url).schema))


def text_of(url):
    """Return the text of a store: what pg_dump says, without what depends on its version."""
    address = Address(url)
    command = [find_binaries() / "pg_dump", "--inserts", "--no-owner", "--schema", address.schema, address.conninfo]
    dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kept = [line for line in dumped.splitlines() if not line.startswith(("--", "\\", "SET ", "SELECT pg_catalog.set_"))]
    return re.sub(r"\n{2,}", "\n", "\n".join(kept)).replace(address.schema, FIXTURE).strip() + "\n"
