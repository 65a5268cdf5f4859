"""What an approval is after each event about it: one value, and one fold.

    pending -> approved, denied, answered, expired or withdrawn

A session, the index of a store, cards and all who read a journal fold the events about an approval with `apply`, and
ask the value. Each of them gives it only the events that it needs: a session knows no cards.

Rules
- The table says how an approval ends. The first end counts (A3): what the table does not have changes nothing.
- The value keeps the events themselves. An index has no payload: it gives each event's position, and the value keeps
  that, and names in place of cards.
- An approval has at most one card for each target (`target_of`). `cards` says of each target whether a card is there,
  may be there (BEGUN), or could not be posted (FAILED). An event takes the place of those that it makes untrue.
- What else may become of an approval has its place here: an event that may end it is a row of the table, and one that
  adds to it is a field.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeGuard

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.events import symbol, types_in
from supervisor.core.events.asking import NOTICE, ReminderEvent, target_of
from supervisor.core.values import ApprovalStatus, Vote

DecisionKind = Literal["approve", "deny", "answer"]
APPROVAL: Final[dict[tuple[str, str], ApprovalStatus]] = {
    ("", "ToolCallRequested.asking"): "pending",
    ("", "QuestionAsked"): "pending",
    ("pending", "QuestionAnswered"): "answered",
    ("pending", "ApprovalExpired"): "expired",
    ("pending", "ApprovalDecided.approve"): "approved",
    ("pending", "ApprovalDecided.deny"): "denied",
    ("pending", "ApprovalWithdrawn"): "withdrawn",
    ("pending", "OperationAbandoned"): "withdrawn",
}
ASKS: Final = types_in(APPROVAL, "")
"""Events that begin an approval, if a person is asked."""
ENDS_APPROVAL: Final = types_in({key: to for key, to in APPROVAL.items() if to != "pending"})
"""Events that end the approval that they name."""
DECISIONS: Final[dict[ApprovalStatus, DecisionKind]] = {"approved": "approve", "denied": "deny", "answered": "answer"}
"""The decision that leads to each status; the other statuses are reached without one."""

_REMINDS: Final = e.having("reminds")

BEGUN: Final = "?"
"""The prefix of a target on which a card was about to be posted, if the result is not known."""
FAILED: Final = "-"
"""The prefix of a target on which no card could be posted; no index has it."""
VOTE: Final = "+"
"""The prefix of a vote in an index."""
EVIDENCE: Final = "="
"""The prefix of evidence in an index: its position and its digest follow."""
CARD: Final[dict[str, tuple[str | None, tuple[str, ...]]]] = {
    "CardBegun": (BEGUN, (BEGUN, FAILED)),
    "CardPosted": ("", ("", BEGUN, FAILED)),
    "CardFailed": (FAILED, (BEGUN, FAILED)),
    "CardRetired": (None, ("", BEGUN, FAILED)),
}
"""By event of a card: what is so from now on, and what is not any more."""


class Left(msgspec.Struct, frozen=True, gc=False):
    """One target's card by earlier events: it exists, may exist, or could not be posted."""

    card: str | None = None
    begun_at: datetime | None = None
    failure: str = ""
    shows: str = ""
    sent: e.ReminderSent | None = None
    """The last reminder that was sent there."""
    telling: e.ReminderBegun | None = None
    """The last one that a process was about to send there."""

    @property
    def told(self) -> datetime | None:
        """When the last reminder was due that was sent there."""
        return None if self.sent is None else self.sent.due

    @property
    def is_of_card(self) -> bool:
        """Whether it says more than that people were told there."""
        return self.card is not None or self.begun_at is not None or bool(self.failure)


class ApprovalState(msgspec.Struct, frozen=True, gc=False):
    """One approval. `ended`: the event that ended it; `reminded`: the event that says all of its steps; `cards`: the
    events that say where it is shown; `votes`: the last one of each person, while it is pending; `told`: the last
    reminder that was sent to each target, and the last one that was about to be; `evidence`: the last one of each
    digest; `wanted`: the edit of which a person is to see evidence, until it is there. In an index they are positions
    and names, it has neither `told` nor `wanted`, and `evidence` only while it is pending."""

    status: ApprovalStatus = "pending"
    ended: Any = None
    reminded: Any = None
    cards: tuple[Any, ...] = ()
    votes: tuple[Any, ...] = ()
    told: tuple[Any, ...] = ()
    evidence: tuple[Any, ...] = ()
    wanted: e.EvidenceWanted | None = None

    def apply(self, event: e.AnyEvent, position: int | None = None) -> "ApprovalState":
        """Return the approval after an event about it; itself if that changes nothing. `position`: kept in place of the
        event."""
        kind, kept = type(event), event if position is None else position
        if kind in ENDS_APPROVAL:
            status = APPROVAL.get((self.status, symbol(event)))
            if status is None:
                return self
            evidence = self.evidence if position is None else ()
            return ApprovalState(status, kept, self.reminded, self.cards, (), self.told, evidence)
        if e.is_of_card(event):
            prefix, gone = CARD[symbol(event)]
            target = target_of(event)
            left = {f"{each}{target}" for each in gone}
            cards = tuple(each for each in self.cards if _name(each) not in left)
            if prefix is not None and (position is None or prefix != FAILED):
                cards = (*cards, event if position is None else f"{prefix}{target}")
            return self if cards == self.cards else replace(self, cards=cards)
        if isinstance(event, ReminderEvent):
            if position is not None:
                return self
            target = target_of(event)
            told = (each for each in self.told if target_of(each) != target or type(each) is not kind)
            return replace(self, told=(*told, event))
        if kind in _REMINDS:
            return replace(self, reminded=kept)
        if isinstance(event, e.ApprovalVoted) and self.status == "pending":
            others = tuple(each for each in self.votes if _vote(each).by != event.by)
            return replace(self, votes=(*others, event if position is None else _name_of_vote(event)))
        if isinstance(event, e.EvidenceTaken | e.EvidenceWanted) and self.status == "pending":
            return self._with_evidence(event, position)
        return self

    def _with_evidence(self, event: e.EvidenceTaken | e.EvidenceWanted, position: int | None) -> "ApprovalState":
        if isinstance(event, e.EvidenceWanted):
            return self if position is not None else replace(self, wanted=event)
        named = event if position is None else f"{EVIDENCE}{position}:{event.digest}"
        rest = tuple(each for each in self.evidence if _digest_of(each) != event.digest)
        wanted = None if self.wanted is None or self.wanted.digest == event.digest else self.wanted
        return replace(self, evidence=(*rest, named), wanted=wanted)

    @property
    def decision(self) -> DecisionKind | None:
        """What a person decided; None if no person has."""
        return DECISIONS.get(self.status)

    @property
    def by(self) -> str | None:
        """The person who decided."""
        return getattr(self.ended, "by", None)

    @property
    def reason(self) -> str | None:
        return getattr(self.ended, "reason", None)

    @property
    def edited(self) -> Raw | None:
        """The arguments that the approver gave; None if the approver did not change them (A8)."""
        return getattr(self.ended, "edited", None)

    @property
    def answer(self) -> Raw | None:
        """The answer to a question; None if there is none."""
        return self.ended.value if self.status == "answered" else None

    @property
    def left(self) -> dict[str, Left]:
        """The state of each card, by target."""
        found: dict[str, Left] = {}
        for said in self.cards:
            target = target_of(said)
            match said:
                case e.CardBegun():
                    found[target] = Left(begun_at=said.at)
                case e.CardPosted():
                    found[target] = Left(said.card, shows=said.shows)
                case e.CardFailed():
                    found[target] = replace(found.get(target, Left()), failure=said.error)
        for said in self.told:
            what = {"sent": said} if isinstance(said, e.ReminderSent) else {"telling": said}
            found[target_of(said)] = replace(found.get(target_of(said), Left()), **what)
        return found

    def posted(self, channel: str | None = None) -> list[e.CardPosted]:
        """Return the cards on which people can decide; of one channel, or of all."""
        cards = (each for each in self.cards if isinstance(each, e.CardPosted) and not each.is_notice)
        return [each for each in cards if channel in (None, each.channel)]

    def is_shown(self, channel: str | None, *, whole: bool) -> bool:
        """Return whether it is shown in the conversation of a channel, or anywhere; `whole`: all of it."""
        found = self.posted(channel)
        return any((channel is None or not each.place) and (each.is_whole or not whole) for each in found)


PENDING: Final = ApprovalState()
"""An approval that was just asked."""


def asked_by(event: e.AnyEvent) -> ApprovalState | None:
    """Return the approval that an event asks for, None for none."""
    return PENDING if type(event) in ASKS and e.approval_in(event) is not None else None


def ends_approval(event: e.AnyEvent) -> TypeGuard[e.Ending]:
    return type(event) in ENDS_APPROVAL


def telling_now(left: Left, due: datetime | None, me: str, now: datetime, lasts: timedelta) -> ReminderEvent | None:
    """Return why a process is not to send the reminder that was due at an instant: it was sent, or another process has
    begun to, at most `lasts` ago. None: it is to send it. `me`: that process."""
    if left.sent is not None and left.sent.due == due:
        return left.sent
    other = left.telling
    is_under_way = other is not None and other.due == due and other.by != me and abs(now - other.at) < lasts
    return other if is_under_way else None


def fold(
    events: Iterable[e.AnyEvent],
    approval: str,
    state: ApprovalState = PENDING,
    until: Callable[[ApprovalState], object] = lambda state: False,
) -> ApprovalState:
    """Return an approval after those of these events that are about it; or as soon as `until` says so."""
    for event in events:
        if e.approval_in(event) == approval and (now := state.apply(event)) is not state:
            state = now
            if until(state):
                break
    return state


class Named(NamedTuple):
    """What the names in an index say: the channels on which people can decide, the votes, and where evidence is."""

    channels: tuple[str, ...]
    votes: tuple[Vote, ...]
    evidence: list[int]


def read_names(names: Iterable[str]) -> Named:
    channels, votes, evidence = dict[str, None](), list[Vote](), list[int]()
    for name in names:
        if name.startswith(VOTE):
            votes.append(_vote(name))
        elif name.startswith(EVIDENCE):
            evidence.append(int(name[1:].partition(":")[0]))
        elif not name.startswith((BEGUN, NOTICE)):
            channels[name.partition(":")[0]] = None
    return Named(tuple(channels), tuple(votes), evidence)


def _name_of_vote(event: e.ApprovalVoted) -> str:
    return f"{VOTE}{event.quorum}:{event.digest}:{event.by}"


def _vote(kept: Any) -> Vote:
    if isinstance(kept, e.ApprovalVoted):
        return Vote(by=kept.by, digest=kept.digest, quorum=kept.quorum)
    quorum, digest, by = kept.removeprefix(VOTE).split(":", 2)
    return Vote(by=by, digest=digest, quorum=int(quorum))


def _digest_of(kept: Any) -> str:
    digest: str = kept.digest if isinstance(kept, e.EvidenceTaken) else kept.partition(":")[2]
    return digest


def _name(card: Any) -> str:
    """Return the name of a card in an index."""
    return card if isinstance(card, str) else f"{CARD[symbol(card)][0]}{target_of(card)}"
