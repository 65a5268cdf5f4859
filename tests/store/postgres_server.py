"""A PostgreSQL server of the machine, in a folder of its own, for the tests of a session of pytest."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path


def find_binaries():
    """Return the folder of the server's programs; None if the machine has none."""
    found = [Path(each).parent for each in [shutil.which("initdb")] if each]
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
