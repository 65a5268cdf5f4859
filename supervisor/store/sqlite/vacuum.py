"""Space that nothing uses is given back to the disk, when that is worth holding writers up.

Theory: pages that are free are written over by what comes next, so that a file which is used again needs nothing.
VACUUM writes all that is left anew, into the log, in one transaction: readers go on, positions stay (they are keys of
our own), and writers of every process wait for as long as it takes. The file itself gets shorter when the log is
written back.

Rules
- Not for less than a quarter of the file.
- Not for more than LARGE that would have to be written anew while another process runs trees.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from supervisor.store.sqlite import schema
from supervisor.store.sqlite.faults import explain

WORTH: Final = 0.25
LARGE: Final = 64 * 2**20
"""Bytes; about a second of writing."""
PATIENCE: Final = 10.0
"""Seconds to wait for whoever is writing."""


def compact(path: Path, *, is_shared: bool) -> None:
    """Give back what is free in a store's file. Raises StoreError; then everything is as it was."""
    try:
        with closing(schema.connect(path, "rw", timeout=PATIENCE)) as connection:
            pages, free, size = (_ask(connection, name) for name in ("page_count", "freelist_count", "page_size"))
            if free >= WORTH * pages and not (is_shared and (pages - free) * size > LARGE):
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise explain(error, path) from error


def _ask(connection: sqlite3.Connection, pragma: str) -> int:
    (found,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(found)
