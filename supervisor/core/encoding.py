"""The one place where Python values become the JSON on disk, and JSON becomes the annotated type.

A value that was written is read later on another stack, and decoders use stack frames for its levels. A value that was
just flat enough to write could be unreadable for a process that lists or resumes. So it may have MOST_LEVELS levels.
"""

from typing import Any, Final

import msgspec

from supervisor.core.errors import InvalidInput

JSON_NULL: Final = msgspec.Raw(b"null")
"""The one null: where it is the default of a field, it is not written. `omit_defaults` compares by identity."""
MOST_LEVELS: Final = 200
"""The deepest nesting that may be written: a fifth of what Python's stack allows."""
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET: Final = bytes(set(range(256)) - set(b'[]{}"'))


def printable(text: str) -> str:
    """Return text that UTF-8 can express: lone surrogates are shown escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def to_json(value: Any, what: str, *, canonical: bool = False) -> msgspec.Raw:
    """Encode a value for the journal; raises InvalidInput that names `what` if the value cannot be encoded.

    `canonical`: equal values give equal bytes in every process (the order of a set differs between processes).
    """
    try:
        raw = _encode_canonical(value) if canonical else msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{what} cannot be written to the journal: {error}; use values that JSON can express"
        ) from None
    if raw.count(b"[") + raw.count(b"{") > MOST_LEVELS and _is_too_deep(raw):
        raise InvalidInput(f"{what} cannot be written to the journal: it is nested more than {MOST_LEVELS} levels deep")
    return msgspec.Raw(raw)


def _encode_canonical(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except TypeError:  # keys that are not text (dict[int, str]) are sorted as text
        return msgspec.json.encode(plain(value), order="deterministic")


def _is_too_deep(raw: bytes) -> bool:
    """Return whether JSON has more than MOST_LEVELS levels; in few passes over all of it, since it may be large."""
    marks = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_BRACKETS, _NO_BRACKET).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])  # between two quotes is text
    for _ in range(MOST_LEVELS):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def plain(value: Any) -> Any:
    """Return a value as JSON has it, in one order; keys become text."""
    return msgspec.to_builtins(value, order="deterministic", str_keys=True)


def from_json(raw: msgspec.Raw | bytes | str, type_: Any, what: str) -> Any:
    """Decode JSON as `type_`; raises InvalidInput that names `what` if the JSON does not fit."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{what}: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{what}: nested too deeply") from None
    except TypeError as error:
        raise InvalidInput(f"{what}: JSON cannot express its type: {error}") from None
    except Exception as error:  # noqa: BLE001 # names that only type checkers see, and errors of a type's own code
        raise InvalidInput(f"{what}: cannot be read as its type: {type(error).__name__}: {error}") from None
