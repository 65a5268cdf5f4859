"""The folders of background jobs, seen from outside: which session each belongs to, and how much disk it takes.

A folder names its session. A folder whose session the store does not know (any more) is left over from a tree that was
removed: the job was kept, or the remover died between the tree and its folders.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from supervisor.tools.background import SESSION


def job_folders(parent: str | None) -> Iterator[tuple[str, Path]]:
    """Iterate over (session, folder) of all jobs that have a folder."""
    for marker in Path(parent).glob(f"*/{SESSION}") if parent is not None else ():
        with suppress(OSError, UnicodeDecodeError):
            yield marker.read_text(), marker.parent


def size_of(folder: Path) -> int:
    """Return the bytes that a job's files take on disk; the holes of a log count as nothing."""
    total = 0
    for file in folder.iterdir():
        with suppress(OSError):
            found = file.lstat()
            total += min(found.st_size, found.st_blocks * 512)
    return total
