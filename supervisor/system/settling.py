"""Where paths lead, and which files of ours no rule with a pattern covers.

Rules
- A path is settled by following its links as they are now. A part that does not exist yet stays as it is spelled.
- Files of ours are the store, what is next to it, the configuration, and the files of tokens and secrets that it names.
  Each is known by its name and by where that leads.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

_ours: Final[set[str]] = set()
_BESIDE: Final = ("-wal", "-shm", "-journal", ".secret", ".owners", ".revoked", ".jobs", ".daemon", ".shown")


def settle(paths: Iterable[str]) -> dict[str, str]:
    """Return where absolute paths lead. One that cannot be followed is left out."""
    found = {}
    for path in paths:
        try:
            found[path] = os.path.realpath(path)
        except (OSError, ValueError):  # a loop of links, or no path at all
            continue
    return found


def note_ours(path: str | os.PathLike[str], *, is_store: bool = False) -> None:
    """Remember a file as one of ours; `is_store`: with all that is next to a store."""
    name = str(Path(path).absolute())
    for each in {name, *settle([name]).values()}:
        _ours.add(each)
        if is_store:
            _ours.update(each + ending for ending in _BESIDE)


def files_of_ours() -> Collection[str]:
    return _ours
