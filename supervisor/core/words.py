"""Chat words: which messages are decisions, and on what (A12). Pure.

    yes, approve, no, reject                on the one approval that waits, if there is one
    yes ID, approve ID, no ID, reject ID    on that one
    approve all                             on all that wait here and that its sender was shown before
    approve all for session                 and on what these tools are called with afterwards, in this session

Rules
- A word decides only as the whole message, whatever its letters' case. Everything else is chat: "do NOT run that", "yes
  please", "no, wait", and a word that somebody quotes.
- Who says it, and what waits, is not known here: `hear` finds out (runtime/chat.py).
"""

import re
from typing import Final, Literal

import msgspec

from supervisor.core.ids import APPROVAL_ID
from supervisor.core.rules import Rule
from supervisor.core.values import Approval, DecisionResult, SendResult

_ONE: Final = re.compile(rf"(yes|approve|no|reject)(?: +({APPROVAL_ID}))?", re.IGNORECASE | re.ASCII)
_ALL: Final = re.compile(r"approve +all( +for +session)?", re.IGNORECASE | re.ASCII)


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """What a message decides. `said` is how; with `approval` on that one, with `all` on whatever waits."""

    said: Literal["yes", "approve", "no", "reject"]
    approval: str | None = None
    all: bool = False
    for_session: bool = False

    @property
    def is_yes(self) -> bool:
        return self.said in ("yes", "approve")


class ChatResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of what a person said where an agent works (A12)."""

    kind: Literal["sent", "decided", "listed"]
    """sent: it was chat; decided: it was a word; listed: it was a word, and does not say which of these it means."""
    sent: SendResult | None = None
    """Of a message."""
    approvals: tuple[Approval, ...] = ()
    """What was decided, as it was before; or what waits, to be named by id."""
    results: tuple[DecisionResult, ...] = ()
    """What each decision came to, in the order of `approvals`; one of kind unknown for an id that nothing here has."""
    rules: tuple[Rule, ...] = ()
    """Tools that are allowed from now on in the session's tree."""
    not_shown: tuple[Approval, ...] = ()
    """What else waits, and an "approve all" did not decide, since they had not been shown it; to be named by id."""
    may_not_allow: bool = False
    """They asked for that too, and may not grant it."""


def read_word(text: str) -> Word | None:
    """Return what a message decides; None for chat."""
    text = text.strip()
    if (found := _ALL.fullmatch(text)) is not None:
        return Word(said="approve", all=True, for_session=found[1] is not None)
    if (found := _ONE.fullmatch(text)) is None:
        return None
    said: Literal["yes", "approve", "no", "reject"] = found[1].lower()  # type: ignore[assignment] # one of the pattern's
    return Word(said=said, approval=found[2] and found[2].lower())
