"""Reading a store whose disk is full: from a copy in memory.

Theory: SQLite makes the log's index before it reads, which takes room that a full disk does not have. A person must be
able to see what waits all the same, for instance to know what the disk was needed for. While no process has the store
open its two files do not change, so a copy of both is the store.

Rules
- Only commands that make no store read like this, and only after the store was refused for want of room.
- Nothing is written to the copy, and it goes with the process's last use of it. It is readable by its user only.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from supervisor.store.sqlite import locks

_MEMORY: Final = "/dev/shm"  # noqa: S108 # a folder with a random name, for its user only, is made in it


def copy(path: Path) -> Path | None:
    """Return the path of a copy, in a folder of its own; None if there is no room anywhere, or a process has the store
    open. Call it when this process has no connection to the file (locks.py)."""
    for place in (_MEMORY, None):  # None: the folder for temporary files
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix="supervisor-", dir=place))
            if _fill(path, folder):
                return folder / path.name
            shutil.rmtree(folder, ignore_errors=True)
    return None


def remove(copied: Path) -> None:
    shutil.rmtree(copied.parent, ignore_errors=True)


def _fill(path: Path, folder: Path) -> bool:
    """Copy a store and its log into a folder; return whether the copy is the store."""
    before = _state(path)
    try:
        for name in (path, Path(f"{path}-wal")):
            with suppress(FileNotFoundError):
                (folder / name.name).touch(0o600)
                shutil.copyfile(name, folder / name.name)
        return locks.holder(path)[0] is None and _state(path) == before
    except OSError:
        return False


def _state(path: Path) -> list[tuple[int, int, int]]:
    found = [name.stat() for name in (path, Path(f"{path}-wal")) if name.exists()]
    return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in found]
