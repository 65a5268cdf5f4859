"""Where paths lead, and which files of ours no rule with a pattern covers.

Rules
- A path is settled by following its links as they are now. A part that does not exist yet stays as it is spelled.
- What is there and is no plain file of one name is marked (core/calls/edits.py): writing it does more than it says.
- Files of ours are the store, what is next to it, the configuration, and the files of tokens and secrets that it names.
  Each is known by its name and by where that leads.
"""

import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from supervisor.core.calls.edits import MARKED

_ours: Final[set[str]] = set()
_BESIDE: Final = ("-wal", "-shm", "-journal", ".secret", ".owners", ".revoked", ".jobs", ".daemon", ".shown")


def settle(paths: Iterable[str]) -> dict[str, str]:
    """Return where absolute paths lead. One that cannot be followed is left out."""
    found = {}
    for path in paths:
        try:
            found[path] = leads = os.path.realpath(path)
            if not _is_plain(leads):
                found[leads + MARKED] = leads
        except (OSError, ValueError):  # a loop of links, or no path at all
            continue
    return found


def _is_plain(path: str) -> bool:
    """Return whether a path is free, or that of a file that has no other name and no execute bit."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and not found.st_mode & 0o111


def note_ours(path: str | os.PathLike[str], *, is_store: bool = False) -> None:
    """Remember a file as one of ours; `is_store`: with all that is next to a store."""
    name = str(Path(path).absolute())
    for each in {name, *settle([name]).values()}:
        _ours.add(each)
        if is_store:
            _ours.update(each + ending for ending in _BESIDE)


def files_of_ours() -> Collection[str]:
    return _ours
