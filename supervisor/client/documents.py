"""Documents of the HTTP API as values: the inverse of core/documents.py.

Rules
- A field that is not known here is ignored: a server may be newer.
- A new value of a kind, and a field of another type, raise ServerMismatch: what is not understood is not guessed at.
- An event that is not known here becomes an UnknownEvent.
"""

from typing import Any, TypeVar

import msgspec

from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput, ServerMismatch
from supervisor.core.events import read_event
from supervisor.core.rows import JournalEntry
from supervisor.core.values import Outcome

T = TypeVar("T")


def value_of(kind: type[T], document: Any) -> T:
    """Return a document as a value. Raises ServerMismatch."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise ServerMismatch(
            f"the server sends a {kind.__name__} that this program does not know ({error}): it may be newer; install "
            "the same package on both"
        ) from None


def entry_of(document: Any) -> JournalEntry:
    """Return a journal entry. Raises ServerMismatch."""
    try:
        rest = dict(document)
        position, session = rest.pop("position"), rest.pop("session")
        event = read_event(msgspec.json.encode(rest))
        return msgspec.convert({"position": position, "session": session, "event": None}, _Head).entry(event)
    except (InvalidInput, KeyError, TypeError, ValueError) as error:
        raise ServerMismatch(f"the server sends a journal entry that this program cannot read: {error}") from None


class _Head(msgspec.Struct):
    position: int
    session: str

    def entry(self, event: Any) -> JournalEntry:
        return JournalEntry(self.position, self.session, event)


def outcome_of(document: Any, type_: Any) -> Outcome[Any]:
    """Return an outcome, its value as a type; raises InvalidInput if the value does not fit that, ServerMismatch."""
    found = value_of(Outcome[Any], document)
    if found.kind != "succeeded" or type_ is Any:
        return found
    value = from_json(msgspec.json.encode(found.value), type_, "the result of a run")
    return msgspec.structs.replace(found, value=value)
