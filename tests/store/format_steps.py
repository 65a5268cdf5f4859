"""An artificial step to a format that is never released, and processes of the program that would write it.

The step changes the schema and rewrites what is in the store: each session's requester, in the first entry of its
journal. The program that runs the tests plays the older one; whatever calls `be_newer` plays the newer one.
"""

from contextlib import closing, contextmanager

from watching import until_death

from supervisor.store.sqlite import schema
from supervisor.store.sqlite.store import SqliteStore
from supervisor.testing import replaced

STEP = """
ALTER TABLE session ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm';
CREATE TABLE extra (x INTEGER PRIMARY KEY);
UPDATE event SET body = CAST(json_set(CAST(body AS TEXT), '$.requester', 'Ann of the next format') AS BLOB)
 WHERE id IS NOT NULL;
"""
OLD, NEW = schema.newest(), schema.newest() + 1
REQUESTER = {OLD: "ann", NEW: "Ann of the next format"}


def be_newer():
    """Run as a program of the next format, until the process ends."""
    until_death(replaced(schema, "STEPS", (*schema.STEPS, STEP)))


@contextmanager
def newer(more=""):
    """Run as a program of the next format for a while; `more` belongs to its step."""
    with replaced(schema, "STEPS", (*schema.STEPS, f"{STEP}{more};\n")):
        yield


def version_of(path):
    with closing(schema.connect(path, "ro")) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


@contextmanager
def opened(path):
    store = SqliteStore(path)
    store.open()
    try:
        yield store
    finally:
        store.close()


def backups(path):
    """Return the files named after a closed store, without its log and the folder of its owners."""
    usual = {path.name, *(f"{path.name}{suffix}" for suffix in ("-wal", "-shm", ".owners"))}
    return sorted(found.name for found in path.parent.iterdir() if found.name not in usual)
