"""Chat words: which messages are decisions, and about what (A12). Pure.

    yes, approve, no, reject                the one approval that waits, if there is exactly one
    yes ID, approve ID, no ID, reject ID    that approval; a short id does, too, if it is that of one that waits
    no for session, reject ID always        that approval, and later calls that are the same
    yes next 10, approve ID next 10         that approval, and the next 10 calls like it, in this session
    yes for 15 minutes                      that approval, and the calls like it of 15 minutes, in this session
    approve all                             all approvals that wait here and that its sender was shown before
    approve all for session                 and later calls that are the same, in this session

Rules
- A word decides only as the whole message, in upper or lower case. Everything else is chat: "do NOT run that", "yes
  please", "no, wait", and a word that a person quotes.
- This module does not know who says it, or what waits: runtime/chat.py finds that out.
"""

import re
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from supervisor.core.calls.rules import Rule
from supervisor.core.ids import APPROVAL_ID
from supervisor.core.values import Approval, DecisionResult, Scope, SendResult

_ONE: Final = re.compile(rf"(yes|approve|no|reject)(?: +({APPROVAL_ID}))?", re.IGNORECASE | re.ASCII)
_SHORT: Final = re.compile(r"(yes|approve|no|reject) +([a-z2-7]{6,15})", re.IGNORECASE | re.ASCII)
_NEVER: Final = re.compile(rf"(no|reject)(?: +({APPROVAL_ID}))? +(?:for +(session)|(always))", re.IGNORECASE | re.ASCII)
_END: Final = r"(?: +(?:the +)?next +([0-9]{1,3})| +for +([0-9]{1,3}) *(?:m|min|minutes?))"
_ENDING: Final = re.compile(rf"(yes|approve)(?: +({APPROVAL_ID}|[a-z2-7]{{6,15}}))?{_END}", re.IGNORECASE | re.ASCII)
_ALL: Final = re.compile(r"approve +all( +for +session)?", re.IGNORECASE | re.ASCII)


COVERS_LATER: Final = (
    'later calls ask again; "approve all for session" also allows the same calls in this session from then on'
)
"""How to cover later calls, for a person who has said "approve all"."""


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """The decision in a message. `said` is the word; `approval` names one approval, `all` means all that wait."""

    said: Literal["yes", "approve", "no", "reject"]
    approval: str | None = None
    all: bool = False
    for_session: bool = False
    """Of `all`: for how long it approves. Of a no, `scope` says that."""
    scope: Scope = "once"
    uses: int | None = None
    minutes: int | None = None
    """Of a yes: how many later calls like it, or those of how many minutes, it allows, too."""

    @property
    def is_yes(self) -> bool:
        return self.said in ("yes", "approve")


class ChatResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of what a person said to an agent (A12)."""

    kind: Literal["sent", "decided", "listed"]
    """sent: it was chat; decided: it was a word; listed: it was a word, and does not say which approval it means."""
    sent: SendResult | None = None
    """The result of the message, if it was chat."""
    approvals: tuple[Approval, ...] = ()
    """The approvals that were decided, as they were before; or those that wait, to be named by id."""
    results: tuple[DecisionResult, ...] = ()
    """The result of each decision, in the order of `approvals`; its kind is unknown for an id that is not here."""
    rules: tuple[Rule, ...] = ()
    """The rules that allow the same calls from now on in the session's tree."""
    not_shown: tuple[Approval, ...] = ()
    """Other approvals that wait, and that an "approve all" did not decide, since the person was not shown them before;
    to be named by id."""
    once: tuple[Approval, ...] = ()
    """Those of `approvals` that a word for longer, such as "approve all for session" or "no always", has decided once:
    nothing more is offered for them."""
    may_not_allow: bool = False
    """Some of these are only for other people to allow for longer."""
    hint: str = ""
    """What the person can say to cover later calls, too, in our words; empty if nothing longer is offered for these."""


def read_short(text: str) -> tuple[Word, str] | None:
    """Return a word and the short id that may follow it. It is one only if it is the beginning of the id of an approval
    that waits: "no problem" is chat."""
    if (ending := _ending(text.strip())) is not None and ending.approval is not None and len(ending.approval) < 16:
        return replace(ending, approval=None), ending.approval
    found = _SHORT.fullmatch(text.strip())
    return None if found is None else (Word(said=found[1].lower()), found[2].lower())  # type: ignore[arg-type]


def read_word(text: str) -> Word | None:
    """Return the decision in a message; None for chat."""
    text = text.strip()
    if (found := _ALL.fullmatch(text)) is not None:
        return Word(said="approve", all=True, for_session=found[1] is not None)
    if (ending := _ending(text)) is not None:
        return ending if ending.approval is None or len(ending.approval) > 15 else None
    scope: Scope = "once"
    if (found := _NEVER.fullmatch(text)) is not None:
        scope = "always" if found[4] else "session"
    elif (found := _ONE.fullmatch(text)) is None:
        return None
    said: Literal["yes", "approve", "no", "reject"] = found[1].lower()  # type: ignore[assignment] # one of the pattern's
    return Word(said=said, approval=found[2] and found[2].lower(), scope=scope)


def _ending(text: str) -> Word | None:
    """Return the word of a yes that allows later calls until an end; its id may be a short one."""
    found = _ENDING.fullmatch(text)
    if found is None or int(found[3] or found[4]) == 0:
        return None
    uses, minutes = (int(each) if each else None for each in (found[3], found[4]))
    said: Literal["yes", "approve"] = found[1].lower()  # type: ignore[assignment] # one of the pattern's
    return Word(said=said, approval=found[2] and found[2].lower(), scope="session", uses=uses, minutes=minutes)
