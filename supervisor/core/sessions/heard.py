"""What a session has heard, by the ids of messages: the same id again is the same message (R7, A12).

Rules
- A sender who got no answer sends the message again under its id. It arrives once; a chat word decides what it decided
  the first time, and nothing else. Another text, or another person, under a known id is an error.
- Only so many of the latest ids are known: a repeated message comes soon.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput, SessionConflict

MOST_HEARD: Final = 1000
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class Heard(NamedTuple):
    """A message, or a chat word with the approvals that it decides."""

    digest: bytes
    by: str
    approvals: tuple[str, ...] | None = None
    """None: it is no chat word."""
    has_begun_turn: bool = False

    def check_same(self, message: str, text: str, by: str, *, is_word: bool) -> None:
        """Raise SessionConflict unless it is this text of this person."""
        if (self.digest, self.by, self.approvals is not None) != (_digest(text), by, is_word):
            raise SessionConflict(f"message {message} was another one here; send this one under an id of its own")


def heard(text: str, by: str, approvals: tuple[str, ...] | None = None) -> Heard:
    return Heard(_digest(text), by, approvals)


def with_heard(known: Mapping[str, Heard], message: str, what: Heard) -> Mapping[str, Heard]:
    """Return what is known with one more message, without the oldest if there are too many."""
    made = {**known, message: what}
    if len(made) > MOST_HEARD:
        del made[next(iter(made))]
    return made


def check_message(message: str) -> str:
    """Return the id of a message as it was given. Raises InvalidInput."""
    if not _ID.fullmatch(message):
        raise InvalidInput(
            f"{message!r:.80} is no id of a message: up to 64 letters, digits and . _ : - without spaces"
        )
    return message


def _digest(text: str) -> bytes:
    return hashlib.sha256(printable_text(text).encode()).digest()
