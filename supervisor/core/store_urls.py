"""The name of a store: in Python, as an option, in the environment, in a configuration.

    state.db, /srv/a/state.db      a plain path
    sqlite:///srv/a/state.db       the same file: three slashes begin the absolute path, %XX stands for a byte
    memory:                        a store that ends with its process

Rules
- A text with a scheme is never read as a path: a mistake would create a new, empty store with an odd name.
- No error repeats the text. A URL of another program's store may contain a password.
"""

import re
import sys
from typing import Final
from urllib.parse import unquote_to_bytes

from supervisor.core.errors import InvalidInput

MEMORY: Final = "memory:"
KNOWN: Final = f"a store is named by a plain path, sqlite:///ABSOLUTE/PATH or {MEMORY}"
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.ASCII | re.DOTALL)
_NEARLY: Final = re.compile(r"(sqlite|memory):.*|:memory:", re.IGNORECASE | re.ASCII | re.DOTALL)
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE | re.ASCII)


def read_store_url(text: str) -> str | None:
    """Return the path of the store that a text names; None for a store in memory. Raises InvalidInput."""
    if text == MEMORY:
        return None
    if not text or "\0" in text:
        raise InvalidInput(f"the name of the store is empty, or contains a null character; {KNOWN}")
    url = _URL.fullmatch(text)
    if url is None:
        if _NEARLY.fullmatch(text):
            raise InvalidInput(f"{KNOWN}; write ./FILE for a file whose name begins like these")
        return text
    match url[1].lower():
        case "sqlite":
            return _read_path(url[2])
        case "http" | "https":
            raise InvalidInput(f"a server is not a store: use open_remote, or --server on the command line; {KNOWN}")
        case other:
            raise InvalidInput(f"{other}:// is not a known scheme; {KNOWN}")


def read_store_file(text: str) -> str:
    """Return the path of a store that other processes can find. Raises InvalidInput."""
    path = read_store_url(text)
    if path is None:
        raise InvalidInput(f"{MEMORY} ends with its process, and no other process finds it: name a file")
    return path


def _read_path(text: str) -> str:
    path = unquote_to_bytes(text)
    is_absolute = text.startswith("/") and path.startswith(b"/") and not path.startswith(b"//")
    if not is_absolute or path.endswith(b"/"):
        raise InvalidInput("after sqlite:// write one slash and the absolute path of a file: sqlite:///srv/a/state.db")
    if re.search("[?#]", text) or _BROKEN_ESCAPE.search(text) or b"\0" in path:
        raise InvalidInput("sqlite:/// takes no query and no fragment; write ? as %3F, # as %23 and % as %25")
    return path.decode(sys.getfilesystemencoding(), "surrogateescape")
