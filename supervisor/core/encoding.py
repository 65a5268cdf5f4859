"""The one place where Python values become the JSON on disk, and JSON becomes the annotated type.

A value that was written is read later on another stack, and decoders use stack frames for its levels. A value that was
just flat enough to write could be unreadable for a process that lists or resumes. So it may have MOST_LEVELS levels.

JSON has no NaN and no infinity, and msgspec writes null for them. Of two values under one key it reads the last one.
What a person decides must be what runs, so `exact` writing and `read_exact` refuse both.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

import msgspec

from supervisor.core.errors import InvalidInput

JSON_NULL: Final = msgspec.Raw(b"null")
"""The one null: where it is the default of a field, it is not written. `omit_defaults` compares by identity."""
MOST_LEVELS: Final = 200
"""The deepest nesting that may be written: a fifth of what Python's stack allows."""
INEXACT: Final = "has a NaN or an infinity in it, which JSON cannot hold: it would become null"
_FINITE: Final = frozenset({str, int, bool, type(None)})
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET: Final = bytes(set(range(256)) - set(b'[]{}"'))


def printable_text(text: str) -> str:
    """Return text that UTF-8 can express: lone surrogates are shown escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def to_json(
    value: Any,
    what: str,
    *,
    canonical: bool = False,
    exact: bool = False,
    hook: Callable[[Any], Any] | None = None,
) -> msgspec.Raw:
    """Encode a value for the journal; raises InvalidInput that names `what` if the value cannot be encoded.

    `canonical`: equal values give equal bytes in every process (the order of a set differs between processes).
    `exact`: also raise for a NaN or an infinity, which would be written as null.
    `hook`: makes JSON values of an object of a type that msgspec does not know.
    """
    try:
        raw = _encode_canonical(value, hook) if canonical else msgspec.json.encode(value, enc_hook=hook)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{what} cannot be written to the journal: {error}; use values that JSON can express"
        ) from None
    if raw.count(b"[") + raw.count(b"{") > MOST_LEVELS and _is_too_deep(raw):
        raise InvalidInput(f"{what} cannot be written to the journal: it is nested more than {MOST_LEVELS} levels deep")
    if exact and not is_exact(value, raw, hook):
        raise InvalidInput(f"{what} {INEXACT}")
    return msgspec.Raw(raw)


def is_exact(value: Any, raw: bytes | msgspec.Raw, hook: Callable[[Any], Any] | None = None) -> bool:
    """Return whether the JSON of a value says the same as the value: it has no NaN and no infinity in it."""
    return b"null" not in bytes(raw) or _is_finite(value, hook)


def _is_finite(value: Any, hook: Callable[[Any], Any] | None) -> bool:
    kind = type(value)
    if kind in _FINITE:
        return True
    if kind is dict:
        for each in value.values():  # noqa: SIM110 # faster than a generator, and each call with a null passes here
            if type(each) not in _FINITE and not _is_finite(each, hook):
                return False
        return True
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, list | tuple | set | frozenset):
        return all(_is_finite(each, hook) for each in value)
    if isinstance(value, Mapping):
        return all(_is_finite(each, hook) for each in value.values())
    try:
        found = plain(value, hook)  # an object of a type of its own
    except (TypeError, ValueError):
        return True  # it holds JSON
    return type(found) is kind or _is_finite(found, hook)


def _encode_canonical(value: Any, hook: Callable[[Any], Any] | None) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic", enc_hook=hook)
    except TypeError:  # keys that are not text (dict[int, str]) are sorted as text
        return msgspec.json.encode(plain(value, hook), order="deterministic")


def read_exact(text: bytes | str, what: str) -> Any:
    """Return the value of JSON that a person or a model wrote. Raises InvalidInput that names `what` if it is not JSON,
    or has a key twice in one object."""
    if isinstance(text, str):
        text = printable_text(text).encode()
    value = from_json(text, Any, what)
    if (key := repeated_key(text, value)) is not None:
        raise InvalidInput(f"{what}: {key!r} stands twice in one object, so it says two things; write it once")
    return value


def repeated_key(text: bytes, value: Any) -> str | None:
    """Return a key that stands twice in one object of a JSON text, or None. `value`: what the text was read as."""
    if msgspec.json.format(text, indent=-1) == msgspec.json.encode(value):
        return None  # nothing was dropped
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)

    try:
        json.loads(text, object_pairs_hook=look)
    except RecursionError:
        raise InvalidInput("it is nested too deeply") from None
    return min(found, default=None)


def _is_too_deep(raw: bytes) -> bool:
    """Return whether JSON has more than MOST_LEVELS levels; in few passes over all of it, since it may be large."""
    marks = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_BRACKETS, _NO_BRACKET).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])  # between two quotes is text
    for _ in range(MOST_LEVELS):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def plain(value: Any, hook: Callable[[Any], Any] | None = None) -> Any:
    """Return a value as JSON has it, in one order; keys become text."""
    return msgspec.to_builtins(value, order="deterministic", str_keys=True, enc_hook=hook)


def from_json(
    raw: msgspec.Raw | bytes | str, type_: Any, what: str, hook: Callable[[Any, Any], Any] | None = None
) -> Any:
    """Decode JSON as `type_`; raises InvalidInput that names `what` if the JSON does not fit. `hook`: makes an object
    of JSON values, of a type that msgspec does not know."""
    try:
        return msgspec.json.decode(raw, type=type_, dec_hook=hook)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{what}: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{what}: nested too deeply") from None
    except TypeError as error:
        raise InvalidInput(f"{what}: JSON cannot express its type: {error}") from None
    except Exception as error:  # noqa: BLE001 # names that only type checkers see, and errors of a type's own code
        raise InvalidInput(f"{what}: cannot be read as its type: {type(error).__name__}: {error}") from None
