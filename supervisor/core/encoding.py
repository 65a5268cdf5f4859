"""The one border between Python values and the JSON that is on disk: what crosses it is the annotated type here, and
JSON there.

What is written is read again on other stacks, and decoders count a value's levels with the frames that they stand on:
one that could just be written would be unreadable for whoever lists or resumes. So it may have MOST_LEVELS of them.
"""

from typing import Any, Final

import msgspec

from supervisor.core.errors import InvalidInput

JSON_NULL: Final = msgspec.Raw(b"null")
MOST_LEVELS: Final = 200
"""How deep what is written may be nested: a fifth of what Python's stack allows."""
_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKET: Final = bytes(set(range(256)) - set(b'[]{}"'))


def printable(text: str) -> str:
    """Return text that UTF-8 can hold: what it cannot (lone surrogates) is shown escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def to_json(value: Any, what: str, *, canonical: bool = False) -> msgspec.Raw:
    """Encode a value for the journal; raises InvalidInput naming `what` if it cannot be.

    `canonical`: equal values give equal bytes, in every process (a set has another order in each).
    """
    try:
        raw = _encode_canonical(value) if canonical else msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be written to the journal: {error}; use values that JSON can hold") from None
    if raw.count(b"[") + raw.count(b"{") > MOST_LEVELS and _is_too_deep(raw):
        raise InvalidInput(f"{what} cannot be written to the journal: it is nested more than {MOST_LEVELS} levels deep")
    return msgspec.Raw(raw)


def _encode_canonical(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except TypeError:  # keys that are no text (dict[int, str]) are put in order as text
        return msgspec.json.encode(plain(value), order="deterministic")


def _is_too_deep(raw: bytes) -> bool:
    """Whether JSON has more than MOST_LEVELS; by few steps over all of it, since it may be large."""
    marks = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_BRACKETS, _NO_BRACKET).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])  # what stands between two quotes is text
    for _ in range(MOST_LEVELS):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def plain(value: Any) -> Any:
    """Return a value as JSON has it, in one order; keys are text, whatever they are in Python."""
    return msgspec.to_builtins(value, order="deterministic", str_keys=True)


def from_json(raw: msgspec.Raw | bytes | str, type_: Any, what: str) -> Any:
    """Decode JSON as `type_`; raises InvalidInput naming `what` for whatever does not fit."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{what}: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{what}: nested too deeply") from None
    except TypeError as error:
        raise InvalidInput(f"{what}: its type is none that JSON can hold: {error}") from None
    except Exception as error:  # noqa: BLE001 # names that only type checkers see, and a type's own code (__post_init__)
        raise InvalidInput(f"{what}: not to be read as its type: {type(error).__name__}: {error}") from None
