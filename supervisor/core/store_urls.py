"""The name of a store: in Python, as an option, in the environment, in a configuration.

    state.db, /srv/a/state.db      a plain path
    sqlite:///srv/a/state.db       the same file: three slashes begin the absolute path, %XX stands for a byte
    memory:                        a store that ends with its process
    postgresql://u@host/db?schema=s  a schema in a database of PostgreSQL, which any number of machines share (extra
                                     `postgres`)
    temporal://host:7233/name      a namespace of a Temporal server, on which any number of machines run one store

Rules
- A text with a scheme, or nearly one, is never read as a path: a mistake would create a new, empty store with an odd
  name, which is shown, and may be a password.
- No error repeats the text. A URL of another program's store may contain a password.
"""

import re
import sys
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from supervisor.core.errors import InvalidInput

MEMORY: Final = "memory:"
TEMPORAL: Final = "temporal://HOST:PORT/NAMESPACE"
KNOWN: Final = f"a store is named by a plain path, sqlite:///ABSOLUTE/PATH, postgresql://USER@HOST/DB or {MEMORY}"
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.ASCII | re.DOTALL)
_NEARLY: Final = re.compile(
    r"[\s\"']*(?:(?:sqlite|memory|postgres(?:ql)?):|[a-z][a-z0-9+.-]*://).*|:memory:|.*\bpassword\s*=.*",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_TEMPORAL: Final = re.compile(
    r"temporal://([a-z0-9._-]+|\[[0-9a-f:.]+\]):([0-9]{1,5})/([a-z0-9][a-z0-9._-]*)", re.IGNORECASE | re.ASCII
)
_SECRETS: Final = ("password", "sslpassword")
_HOST: Final = r"(?:[\w.~%-]*|\[[0-9a-f:.%]+\])(?::[0-9]*)?"
_POSTGRES: Final = re.compile(
    rf"(?P<scheme>postgres(?:ql)?://)(?:(?P<user>[^\s:/?#\[\]@]*)(?::(?P<password>[^\s:/?#\[\]@]*))?@)?"
    rf"(?P<where>{_HOST}(?:,{_HOST})*(?:/[^\s:;=/?#@]*)?)(?:\?(?P<query>(?:[^\s=&?#@]+=[^\s=&?#@]*&?)*))?",
    re.IGNORECASE | re.ASCII,
)
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
    found, pairs = _postgres_parts(text)
    return found["password"] is not None or any(_is_secret(pair) for pair in pairs)


def without_password(text: str) -> str:
    """Return the URL of a store on PostgreSQL as it is shown. Raises InvalidInput."""
    found, pairs = _postgres_parts(text)
    user = "" if found["user"] is None else f"{found['user']}@"
    return _joined(f"{found['scheme']}{user}{found['where']}", [pair for pair in pairs if not _is_secret(pair)])


def split_schema(text: str) -> tuple[str, str]:
    """Return the URL of a store on PostgreSQL as libpq takes it, and the name of its schema. Raises InvalidInput."""
    found, pairs = _postgres_parts(text)
    named = [value for name, _, value in (pair.partition("=") for pair in pairs) if name == "schema"]
    others = [pair for pair in pairs if not pair.startswith("schema=")]
    return _joined(text[: found.end("where")], others), named[-1] if named else "supervisor"


def _joined(beginning: str, pairs: list[str]) -> str:
    return f"{beginning}?{'&'.join(pairs)}" if pairs else beginning


def _is_secret(pair: str) -> bool:
    return unquote(pair.partition("=")[0]).lower() in _SECRETS


def _postgres_parts(text: str) -> tuple[re.Match[str], list[str]]:
    """Return a URL's parts, and the pairs of its query as they are written. A URL that libpq may read in another way is
    refused: a password with a / would be a database, which is shown."""
    found = _POSTGRES.fullmatch(text)
    if found is None:
        raise InvalidInput(
            "a store on PostgreSQL is named postgresql://USER@HOST:PORT/DATABASE?schema=NAME; within a name or a "
            "password write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23 and % as %25"
        )
    return found, [pair for pair in (found["query"] or "").split("&") if pair]


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
