"""Shared prefixes: the beginning of many entries is kept once.

Theory: a journal entry is a JSON object, and other entries repeat much of it: its type; in a session's first entry also
which agent it is, from which file, under which rules; in a request also what most of them say alike. Such a beginning
is a *head*. It has a row of its own, and entries refer to it by number; the rest of an entry is a JSON object again.
The id of an approval is kept once, too: in a column with an index, and not in the body of the entry that asks.

Rules
- A head is never changed and never removed: a number always means the same, in every process. There are few, since only
  code decides what is in a head. No text of a person or a model is in one, so a tree that is removed leaves none.
- Each process keeps in memory the heads that it has met, so a store has at most MOST. Then new beginnings are written
  whole.
- A reader knows the committed heads. The writer also knows those of its own transaction, until it is rolled back.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.approvals.state import ASKS
from supervisor.core.events.asking import is_copied
from supervisor.core.rows import JournalEntry
from supervisor.store.index.listing import read_path
from supervisor.store.index.projection import body_of

MOST: Final = 4096

_CODE: Final = ("event", "agent", "file", "path", "rules", "takes_text")
"""The fields in the head of a SessionCreated."""
_ALIKE: Final = {
    "patterns": Raw(b"[null]"),
    "parameters": Raw(b'{"properties":{}}'),
    "why": Raw(b'"no rule allows it"'),
    "uses": Raw(b"10"),
    "minutes": Raw(b"15"),
    "given": Raw(b"0"),
}
"""What most calls say that a person is asked about: it is in the head, where it is just this."""
_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_encode: Final = msgspec.json.Encoder().encode


class SharedPrefixes:
    """The heads of one store; `read` and `change` run its queries."""

    def __init__(self, read: Callable[..., list[Any]], change: Callable[[str, Sequence[Any]], None]) -> None:
        self._read = read
        self._change = change
        self._numbers: dict[bytes, int] = {}
        self._new: dict[bytes, int] = {}
        self._texts: dict[int, bytes] = {}
        self._paths: dict[int, tuple[str, ...]] = {}

    def cut(self, row: JournalEntry) -> tuple[int | None, str | None, bytes]:
        """Return an entry as it is written: its head's number, the approval that it asks for, and the rest."""
        event, body = row.event, body_of(row)
        kind = type(event)
        approval = e.approval_in(event) if kind in ASKS else None
        if approval is None or is_copied(approval):
            approval = None
            head, rest = _cut_first(body) if kind is e.SessionCreated else _cut(body)
        else:
            try:
                head, rest = _cut_asking(body)
            except (msgspec.MsgspecError, RecursionError):  # its arguments cannot be decoded
                return None, approval, body
        number = self._numbers.get(head) or self._number(head)
        return (None, approval, body) if number is None else (number, approval, rest)

    def join(self, number: int | None, approval: str | None, rest: bytes) -> bytes:
        """Return an entry as it was before it was cut; the id of an approval is inserted again if it is given."""
        if number is None:
            return rest
        head = self._texts.get(number) or self._text(number)
        return head + rest[1:] if approval is None else head + _named(approval) + rest[1:]

    def entry_at(self, position: int) -> bytes:
        """Return the entry at a position, without the id of an approval that it asks for."""
        for head, rest in self._read("entry_at", position):
            return self.join(head, None, rest)
        return b""

    def path(self, number: int | None, rest: bytes) -> tuple[str, ...]:
        """Return the path of the session that an entry begins; each path is decoded once."""
        if number is None:
            return read_path(rest)
        if (path := self._paths.get(number)) is None:
            path = self._paths[number] = read_path(self.join(number, None, b'{"at":null}'))
        return path

    def commit(self) -> None:
        """Keep the heads of the writer's transaction, which was committed."""
        self._new.clear()

    def rollback(self) -> None:
        """Drop the heads that the writer's transaction made, which was rolled back."""
        for head, number in self._new.items():
            del self._numbers[head], self._texts[number]
        self._new.clear()

    def _number(self, head: bytes) -> int | None:
        """Return the number of a head; make the head if there is room."""
        text = f"{head.decode()}}}"
        self._change("add_head", [(text, MOST)])
        for (number,) in self._read("head_number", text, writing=True):
            self._numbers[head] = self._new[head] = number
            self._texts[number] = head + b","
            return int(number)
        return None

    def _text(self, number: int) -> bytes:
        """Return a head as the beginning of an entry; raises StoreUnreadable for the entry if the head is missing."""
        for (text,) in self._read("head_text", number):
            self._texts[number] = text.encode()[:-1] + b","
        return self._texts.get(number, b"")


def _cut(body: bytes) -> tuple[bytes, bytes]:
    """Return an entry in two parts: the beginning of an object, with its type, and an object with the rest."""
    end = body.index(b",")  # after the type, which comes first
    return body[:end], b"{" + body[end + 1 :]


def _cut_first(body: bytes) -> tuple[bytes, bytes]:
    """Return the first entry of a session in two parts; the beginning has everything that only code decides."""
    fields = _fields(body)
    head = {name: fields.pop(name) for name in _CODE if name in fields}
    return _encode(head)[:-1], _encode(fields)


def _cut_asking(body: bytes) -> tuple[bytes, bytes]:
    """Return an entry that asks in two parts, without the approval; the beginning has what most of them say alike."""
    fields = _fields(body)
    del fields["approval"]
    head = {"event": fields.pop("event")}
    head |= {name: fields.pop(name) for name, said in _ALIKE.items() if fields.get(name) == said}
    return _encode(head)[:-1], _encode(fields)


def _named(approval: str) -> bytes:
    return b'"approval":"%b",' % approval.encode()
