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
        if not canonical:
            return msgspec.Raw(msgspec.json.encode(value))
        try:
            return msgspec.Raw(msgspec.json.encode(value, order="deterministic"))
        except TypeError:  # keys that are no text (dict[int, str]) are put in order as text
            return msgspec.Raw(msgspec.json.encode(plain(value), order="deterministic"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be written to the journal: {error}; use values that JSON can hold") from None


def plain(value: Any) -> Any:
    """Return a value as JSON has it, in one order; keys are text, whatever they are in Python."""
    return msgspec.to_builtins(value, order="deterministic", str_keys=True)


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
    except Exception as error:  # noqa: BLE001 # names that only type checkers see, and a type's own code (__post_init__)
        raise InvalidInput(f"{what} cannot be read as its type: {type(error).__name__}: {error}") from None
