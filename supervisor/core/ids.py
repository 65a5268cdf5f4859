"""Ids: of sessions, approvals and operations, and digests of the arguments that a person was shown.

Rules
- A session id that we make is 22 lower-case letters and digits at any depth, never a path; one given by a
  caller matches `[a-z0-9][a-z0-9._-]{0,63}` (A2). A child's id is derived from its parent's and the operation
  that spawned it, so that a plan which runs twice makes one child.
- An approval's id is 42 lower-case letters and digits. The first 16 are its route, a digest of its root session's id:
  they say in which tree to look, and prove nothing. The other 26 are random, so that no id can be guessed from another.
  With a button's code it fits 64 bytes. Readers of ids accept APPROVAL_ID, for ids of other implementations (A2).
- An operation's id is the same in every attempt: its branch, kind, name, a digest of its arguments as passed, and
  its count among identical operations. If the agent names an operation itself, that name stands in the place of the
  arguments.
"""

import base64
import hashlib
import re
import secrets
from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from supervisor.core.encoding import to_json
from supervisor.core.errors import IllegalEvent, InvalidInput

_SESSION_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_WORD: Final = re.compile(r"[a-z0-9._]+")  # a text of `id_from` without a dash, so that joined ids tell texts apart
APPROVAL_ID: Final = "[a-z0-9]{16,80}"
"""The pattern of the id of an approval."""
RULES: Final = "*"
"""Stands for a session where the journal of the store itself is meant: its rules, and the commands that were refused.
`check_session_id` refuses it."""
SCHEDULES: Final = "@"
"""The same for the journal of schedules: a program that does not know their events still reads the rules."""
STORE_JOURNALS: Final = frozenset({RULES, SCHEDULES})
"""The journals of the store itself. They belong to no session, and begin with any entry."""
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz234567" * 8
"""A letter or digit for each value of a byte; each is as frequent as the others."""
_canonical: Final = msgspec.json.Encoder(order="deterministic")


def new_session_id() -> str:
    """Make the id of a root session: 22 lower-case letters and digits (110 random bits)."""
    return _random(22)


def child_session_id(parent: str, operation: str) -> str:
    """Derive the id of the child that `operation` of `parent` spawns: 22 lower-case letters and digits."""
    return _base32(hashlib.sha256(f"{parent}\n{operation}".encode()).digest())[:22]


def new_approval_id(root: str) -> str:
    """Make the id of an approval in the tree of a root session: its route, then 26 random characters (130 bits)."""
    return approval_route(root) + _random(26)


def approval_route(root: str) -> str:
    """Return the prefix of the ids of all approvals of a tree: 16 characters of the digest of the root session's id."""
    return _base32(hashlib.sha256(root.encode()).digest()[:10])


ROUTE_CHARACTERS: Final = 16
"""Characters of an approval's id that are the same in its whole tree."""
SHORT_CHARACTERS: Final = 8
"""Characters of a short id, at least; people may type LEAST_CHARACTERS of them."""
LEAST_CHARACTERS: Final = 6


def short_ids(approvals: Collection[str]) -> dict[str, str]:
    """Return a short id for each of these approvals: the first characters of its random part, as many as tell it from
    the others. For lists that people read; programs use the whole id."""
    parts = {each: each[ROUTE_CHARACTERS:] or each for each in approvals}
    length = SHORT_CHARACTERS
    while len({part[:length] for part in parts.values()}) < len({*parts.values()}):
        length += 1
    return {each: part[:length] for each, part in parts.items()}


def with_short_id(given: str, approvals: Iterable[str]) -> list[str]:
    """Return the approvals that a person may mean by the beginning of an id's random part, or of a whole id that goes
    beyond what a tree has in common."""
    given = given.lower()
    if len(given) < LEAST_CHARACTERS:
        return []
    is_whole = len(given) > ROUTE_CHARACTERS
    return [
        each for each in approvals if each[ROUTE_CHARACTERS:].startswith(given) or (is_whole and each.startswith(given))
    ]


def new_rule_id() -> str:
    """Make the id of a standing rule: 8 lower-case letters and digits (40 random bits), since people type it."""
    return _random(8)


def check_session_id(session: str) -> str:
    """Return a caller's session id; raises InvalidInput if we do not accept it (A2)."""
    if not _SESSION_ID.fullmatch(session):
        raise InvalidInput(
            f"{session!r} cannot be a session id: use 1 to 64 lower-case letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    return session


def id_from(*parts: str) -> str:
    """Make a session id from the texts that name a request, such as `id_from("report", month)`.

    The same texts give the same id, and other texts another one. Short texts of lower-case letters, digits, `.` and
    `_` are joined: `report-may`. All others are shortened to what may stand in an id, and two dashes and 16 letters
    and digits of their digest (80 bits) follow: `report-may-2026--` and so on. Raises InvalidInput without a text, or
    for one that UTF-8 cannot hold.
    """
    if not any(parts):
        raise InvalidInput("id_from was given no text: name the request, as in id_from('report', month)")
    plain = "-".join(parts)
    if _SESSION_ID.fullmatch(plain) and all(_WORD.fullmatch(part) for part in parts):
        return plain
    raw = to_json(parts, "a text of id_from")
    readable = re.sub(r"[^a-z0-9._]+", "-", plain.lower()).strip("-._")[:46].rstrip("-._")
    return f"{readable or 'id'}--{_base32(hashlib.sha256(raw).digest()[:10])}"


def canonical_json(value: Any) -> bytes:
    """Encode a value so that equal values give equal bytes (sorted keys, no white space)."""
    return _canonical.encode(value)


def digest_of_value(value: Any) -> str:
    """Return the SHA-256 of a value, 64 hexadecimal digits: of arguments that a person is shown, or in an operation's
    id."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def operation_key(branch: str, kind: str, name: str, arguments: Any) -> str:
    """Return an operation's id without its count: identical operations share it."""
    return f"{branch}{kind}:{name}:{digest_of_value(arguments)[:12]}"


def named_key(branch: str, kind: str, given: str, name: str) -> str:
    """Return the id, without its count, of an operation that the agent names itself. `name`: the tool of a call."""
    return f"{branch}{kind}:{given}:{digest_of_value(name)[:12]}"


def operation_id(key: str, count: int) -> str:
    """Return the id of the `count`-th operation with this key, counting from 1."""
    return f"{key}#{count}"


def split_operation_id(operation: str) -> tuple[str, int]:
    """Return the key and the count of an operation's id; raises IllegalEvent if it was not made here."""
    key, _, count = operation.rpartition("#")
    if not count.isdecimal():
        raise IllegalEvent(f"{operation!r} is not an operation's id")
    return key, int(count)


def _base32(raw: bytes) -> str:
    return base64.b32encode(raw).decode().rstrip("=").lower()


def _random(length: int) -> str:
    """Return random letters and digits, 5 bits each. Base32 takes several times as long."""
    return secrets.token_bytes(length).translate(_LETTERS).decode()
