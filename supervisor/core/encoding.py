"""The one border between Python values and the JSON that is on disk: what crosses it is the annotated type here, and
JSON there.
"""

from typing import Any, Final

import msgspec

from supervisor.core.errors import InvalidInput

JSON_NULL: Final = msgspec.Raw(b"null")


def printable(text: str) -> str:
    """Return text that UTF-8 can hold: what it cannot (lone surrogates) is shown escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def to_json(value: Any, what: str, *, canonical: bool = False) -> msgspec.Raw:
    """Encode a value for the journal; raises InvalidInput naming `what` if it cannot be.

    `canonical`: equal values give equal bytes, in every process (a set has another order in each).
    """
    try:
        return msgspec.Raw(msgspec.json.encode(value, order="deterministic" if canonical else None))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be written to the journal: {error}; use values that JSON can hold") from None


def from_json(raw: msgspec.Raw | bytes, type_: Any, what: str) -> Any:
    """Decode a value from the journal as `type_`; raises InvalidInput naming `what` if it does not fit."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{what} does not fit: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{what} is nested too deeply") from None
    except TypeError as error:
        raise InvalidInput(f"{what} has a type that JSON cannot hold: {error}") from None
