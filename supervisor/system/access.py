"""Files of ours that people write: which other users can read or change one, and its text.

Theory: a user who can write the store, the files next to it or a secret can decide everything, and a user who can read
a secret can use it. So a file that belongs to another user, or that others can write, is not used.

Rules
- A file is ours if it belongs to this process's user, or to root, who can do everything in any case.
- A configuration, a token and a secret are small, regular files. A pipe or a device could keep its reader for ever.
- Root may open the store of any user, and gives files that it makes next to it to the store's owner (store/owners.py).
  Root serves its own stores only (daemon.py): a daemon imports and runs what its store names.
"""

import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

OTHERS_WRITE: Final = 0o022
OTHERS_USE: Final = 0o077

MOST_BYTES: Final = 16 * 1024 * 1024  # bytes of a file that people write


def read_text(path: Path) -> str:
    """Return the text of a file that people write. Raises OSError, also if it is no regular file, and ValueError if it
    is too large, or is not text in UTF-8, or if its path is none."""
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is not a regular file")
        found = file.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES // 1024**2} MiB")
    return found.decode("utf-8")


def _open_at_once(path: str, flags: int) -> int:
    """Open a pipe, too, to which no program writes."""
    return os.open(path, flags | os.O_NONBLOCK)


def why_not_ours(path: Path, forbidden: int, owners: Collection[int] = ()) -> str | None:
    """Return who else can use a file in a way that is `forbidden` (bits of its mode), and what to do; None if no other
    user can. `owners`: users to whom it may belong, too. Raises OSError."""
    found = path.stat()
    if found.st_uid not in {os.geteuid(), 0, *owners}:
        return f"{path} belongs to {_name(found.st_uid)}, who can change it at any time: be that user, or use a copy"
    if found.st_mode & forbidden:
        can = "write" if found.st_mode & forbidden & OTHERS_WRITE else "read"
        cure = "go-w" if forbidden == OTHERS_WRITE else "go="
        return f"others can {can} {path} (mode {found.st_mode & 0o777:04o}): chmod {cure} {path}"
    return None


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
