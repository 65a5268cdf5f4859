"""Returning free space to the disk, if that is worth delaying writers.

Theory: free pages are used by later entries, so a file that goes on being used needs nothing. VACUUM writes all content
again, into the log, in one transaction: readers go on, positions stay (they are keys of our own), and writers of every
process wait as long as it takes. The file itself becomes shorter when the log is written back.

Rules
- Not if less than a quarter of the file is free.
- Not if more than LARGE would have to be written while another process runs trees.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from supervisor.store.sqlite import schema
from supervisor.store.sqlite.faults import explain

WORTH: Final = 0.25
LARGE_BYTES: Final = 64 * 2**20
"""Bytes; about a second of writing."""
PATIENCE_SECONDS: Final = 10.0
"""Seconds to wait for a writer."""


def compact(path: Path, *, is_shared: bool) -> None:
    """Return the free space of a store's file to the disk. Raises StoreError; then nothing has changed."""
    try:
        with closing(schema.connect(path, "rw", timeout=PATIENCE_SECONDS)) as connection:
            pages, free, size = (_ask(connection, name) for name in ("page_count", "freelist_count", "page_size"))
            if free >= WORTH * pages and not (is_shared and (pages - free) * size > LARGE_BYTES):
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise explain(error, path) from error


def _ask(connection: sqlite3.Connection, pragma: str) -> int:
    (found,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(found)
