"""The name of a store: in Python, as an option, in the environment, in a configuration.

    state.db, /srv/a/state.db      a plain path
    sqlite:///srv/a/state.db       the same file: three slashes begin the absolute path, %XX stands for a byte
    memory:                        a store that ends with its process
    postgresql://u@host/db?schema=s  a schema in a database of PostgreSQL, which any number of machines share (extra
                                     `postgres`)
    temporal://host:7233/name      a namespace of a Temporal server, on which any number of machines run one store

Rules
- A text with a scheme is never read as a path: a mistake would create a new, empty store with an odd name.
- No error repeats the text. A URL of another program's store may contain a password.
"""

import re
import sys
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote_to_bytes, urlencode, urlsplit

from supervisor.core.errors import InvalidInput

MEMORY: Final = "memory:"
TEMPORAL: Final = "temporal://HOST:PORT/NAMESPACE"
KNOWN: Final = f"a store is named by a plain path, sqlite:///ABSOLUTE/PATH or {MEMORY}"
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.ASCII | re.DOTALL)
_NEARLY: Final = re.compile(r"(sqlite|memory):.*|:memory:", re.IGNORECASE | re.ASCII | re.DOTALL)
_TEMPORAL: Final = re.compile(
    r"temporal://([a-z0-9._-]+|\[[0-9a-f:.]+\]):([0-9]{1,5})/([a-z0-9][a-z0-9._-]*)", re.IGNORECASE | re.ASCII
)
_SECRETS: Final = ("password", "sslpassword")
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
        case "postgresql" | "postgres":
            raise InvalidInput(f"this works on a store in a file, and the URL names a database of PostgreSQL; {KNOWN}")
        case "temporal":
            raise InvalidInput(f"this works next to a store of one machine, and {TEMPORAL} names a cluster; {KNOWN}")
        case other:
            raise InvalidInput(f"{other}:// is not a known scheme; {KNOWN}")


class TemporalStore(NamedTuple):
    """A namespace of a Temporal server. `target`: host and port."""

    target: str
    namespace: str

    def __str__(self) -> str:
        return f"temporal://{self.target}/{self.namespace}"


def is_postgres(text: str) -> bool:
    """Return whether a text names a store on PostgreSQL."""
    return text.lower().startswith(("postgresql://", "postgres://"))


def read_postgres_url(text: str) -> str:
    """Return the URL of a store on PostgreSQL that an option or a configuration names, which others may read. Raises
    InvalidInput for one with a password."""
    if has_password(text):
        raise InvalidInput("others can read this, and it has a password: give that by PGPASSFILE, or passfile=FILE")
    return text


def has_password(text: str) -> bool:
    """Return whether the URL of a store on PostgreSQL has a secret. Raises InvalidInput."""
    _, user, query = _postgres_parts(text)
    return ":" in user or any(name in _SECRETS for name, _ in query)


def without_password(text: str) -> str:
    """Return the URL of a store on PostgreSQL as it is shown. Raises InvalidInput."""
    parts, user, pairs = _postgres_parts(text)
    query = urlencode([pair for pair in pairs if pair[0] not in _SECRETS], safe="/")
    _, at, where = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}{at}{where}", query=query, fragment="").geturl()


def _postgres_parts(text: str) -> tuple[SplitResult, str, list[tuple[str, str]]]:
    """Return a URL's parts, its user with a password, and its query."""
    try:
        parts = urlsplit(text)
        return parts, parts.netloc.rpartition("@")[0], parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise InvalidInput("a store on PostgreSQL is named postgresql://USER@HOST:PORT/DATABASE?schema=NAME") from None


def is_temporal(text: str) -> bool:
    """Return whether a text is meant to name a store on Temporal."""
    return text.lower().startswith("temporal:")


def read_temporal_url(text: str) -> TemporalStore:
    """Return the namespace that a text names. Raises InvalidInput."""
    found = _TEMPORAL.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 65536:
        raise InvalidInput(f"a store on Temporal is named {TEMPORAL}, without a user, a password or a query")
    return TemporalStore(f"{found[1]}:{int(found[2])}", found[3])


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
