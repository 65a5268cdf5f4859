"""A plugin by which tests of a store in a file run on PostgreSQL: each path is a schema of a server.

    .venv/bin/python -m pytest -p on_postgres tests/runtime tests/crash

By hand, since most of them say nothing about a store: CI runs on PostgreSQL those that ask for `new_store`. Tests that
look into the file, or start other programs with its path, fail here.
"""

import atexit
import os
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import postgres_server
from watching import until_death

import supervisor
from supervisor.store.postgres.store import PostgresStore
from supervisor.store.sqlite import store as of_files
from supervisor.testing import replaced

_stack = ExitStack()
_server, _pid = _stack.enter_context(postgres_server.running()), os.getpid()
atexit.register(lambda: os.getpid() == _pid and _stack.close())


class ByPath(PostgresStore):
    def __init__(self, path, *, create=True):
        self.path = Path(path)
        super().__init__(f"{_server.url}?schema=p{sha256(os.fsencode(path)).hexdigest()[:16]}", create=create)


for _owner in (of_files, supervisor):
    until_death(replaced(_owner, "SqliteStore", ByPath))
