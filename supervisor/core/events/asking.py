"""Events of asking people: what they were asked, where it was shown, what they decided, and which standing rules they
added and revoked (A7).

The rules of core/events apply. Events of standing rules are the journal of the store itself (`RULES` in core/ids.py);
the rules that hold are its fold, the Rulebook (core/sessions/state.py).
"""

from datetime import datetime
from operator import attrgetter
from typing import Final, Literal

from msgspec import Raw

from supervisor.core.calls.rules import Rule
from supervisor.core.encoding import JSON_NULL
from supervisor.core.events.facts import Event, event_traits
from supervisor.core.values import EvidenceKind, HushedBy, Scope, Urgency

COPIED: Final = "copied:"
"""The prefix of the id of an approval of another session, in a copy of that session's journal
(core/sessions/forking.py): no approval has such an id, so no decision can be made on it, and no list shows it."""


def is_copied(approval: str | None) -> bool:
    """Whether an event is about an approval of another session."""
    return approval is not None and approval.startswith(COPIED)


@event_traits("audited", "own", "of its row")
class QuestionAsked(Event, frozen=True, kw_only=True):
    """An agent asks a person in its own right; the question has the life of an approval.

    The answer is one of `choices`, or a value that fits `schema` (JSON schema), or free text where neither is given.
    """

    operation: str
    approval: str
    question: str
    digest: str
    choices: tuple[str, ...] | None = None
    schema: Raw = JSON_NULL
    expires_at: datetime | None = None
    urgency: Urgency | None = None
    """As in ToolCallRequested."""
    given: int | None = None
    """As in OperationStarted."""


@event_traits("audited", answers=attrgetter("operation"))
class QuestionAnswered(Event, frozen=True, kw_only=True):
    """A person's answer; the first wins. The agent is given it when it asks for it again, or waits."""

    operation: str
    approval: str
    value: Raw
    by: str
    channel: str | None = None
    """Where it was given; None: by a program."""
    votes: tuple[str, ...] = ()
    """As in ApprovalDecided."""


@event_traits("audited", "votes", "not copied", "no progress")
class ApprovalVoted(Event, frozen=True, kw_only=True):
    """A person says yes to what needs `quorum` people, and others are missing still. The approval waits on.

    `digest`: of what would run, with how long that is allowed. A later vote of the same person takes its place.
    `value`: the edited arguments, or the answer to a question; null for a call as it was asked."""

    operation: str
    approval: str
    by: str
    digest: str
    quorum: int
    value: Raw = JSON_NULL
    secret: tuple[str, ...] = ()
    """As in ApprovalDecided."""
    scope: Scope = "once"
    pattern: str | None = None
    uses: int | None = None
    until: datetime | None = None
    minutes: float | None = None
    """As in Approve."""
    channel: str | None = None


@event_traits("audited", "evidence", "not copied", "no progress")
class EvidenceTaken(Event, frozen=True, kw_only=True):
    """The preview of a call was taken, while the call waits for a person (A18). Of the kind claim: a coding agent has
    said what the call would do, with its request, and nothing is read again.

    `digest`: of the arguments of which it was taken. `state`: a digest of what it has read, which is taken again before
    the call runs; "" if it has failed, as `failure` says."""

    operation: str
    approval: str
    digest: str
    kind: EvidenceKind = "text"
    text: str = ""
    state: str = ""
    failure: str = ""


@event_traits("audited", "evidence", "not copied", "no progress", answers=attrgetter("operation"))
class EvidenceWanted(Event, frozen=True, kw_only=True):
    """A person would approve a call with other arguments, and is to see evidence of these first (A18). The process that
    runs the call takes it: `digest` is that of the arguments in `value`, with secrets masked."""

    operation: str
    approval: str
    by: str
    digest: str
    value: Raw
    secret: tuple[str, ...] = ()
    """As in ApprovalDecided."""
    channel: str | None = None


@event_traits("audited", answers=attrgetter("operation"))
class ApprovalDecided(Event, frozen=True, kw_only=True):
    """A person's decision; the first wins. `arguments` replaces all of the call's arguments (A8).

    `scope`, `pattern` and `rule` (its id) say which standing rule it made, or found already in place. A pattern of
    several lines has made one for each: then `rules` are the ids of all of them.
    """

    operation: str
    approval: str
    decision: Literal["approve", "deny"]
    by: str
    scope: Scope = "once"
    pattern: str | None = None
    rule: str | None = None
    reason: str | None = None
    arguments: Raw = JSON_NULL
    secret: tuple[str, ...] = ()
    """Names of the arguments that only the effect may see (core/approvals/masking.py)."""
    channel: str | None = None
    """Where it was made; None: by a program."""
    through: str | None = None
    """The approval whose decision made the rule, if the rule has decided this one, too."""
    batch: str | None = None
    """The batch of decisions of which this one is part: one act of one person."""
    votes: tuple[str, ...] = ()
    """The people whose votes it completes, where one person is not enough."""
    rules: tuple[str, ...] = ()
    uses: int | None = None
    until: datetime | None = None
    """The end of those rules, if they are allowances."""

    @property
    def edited(self) -> Raw | None:
        """The arguments that the approver gave; None if the approver did not change them.

        The field's type cannot say this: a union with Raw can be written, but not be read again.
        """
        return None if bytes(self.arguments) == b"null" else self.arguments


@event_traits("audited", "last append", "unwinding")
class ApprovalWithdrawn(Event, frozen=True, kw_only=True):
    """No decision is needed any more. A late decision is answered with that, and runs nothing (W8)."""

    operation: str
    approval: str
    reason: str


@event_traits("audited", "not copied", "no progress")
class DecisionRefused(Event, frozen=True, kw_only=True):
    """A person who may not decide tried to (A4). Nothing changed: the approval is still pending."""

    approval: str
    by: str
    reason: str
    channel: str | None = None


@event_traits("audited", "not copied", "no progress")
class CredentialsShown(Event, frozen=True, kw_only=True):
    """An operator asked to see the credentials in the arguments of a call, which all others see masked."""

    approval: str
    by: str
    channel: str | None = None


@event_traits("audited", "not copied", "no progress")
class CommandRefused(Event, frozen=True, kw_only=True):
    """A person who may not give a command tried to (A4), in the journal of the store itself. Nothing changed.

    `act`: what they may not do, such as "cancel sessions". `session`: the session that they named, if any."""

    act: str
    by: str
    reason: str
    session: str | None = None


@event_traits("audited", answers=attrgetter("operation"))
class ApprovalExpired(Event, frozen=True, kw_only=True):
    """No decision was made in time. From `expires_at` on none can be made, even where this event is journaled later."""

    operation: str
    approval: str


@event_traits("audited", "reminds", "not copied")
class ApprovalReminded(Event, frozen=True, kw_only=True):
    """No decision was made for a while: people are told of the approval again. `escalated_to` names people who may
    decide from now on, in addition to those who could before."""

    approval: str
    escalated_to: tuple[str, ...] = ()
    step: int = 0
    """The number of the step of the escalation, from 1; 0: a former version wrote it."""
    told_in: tuple[str, ...] = ()
    """Targets where people are told of it, next to the conversations that have its card."""
    acknowledged: HushedBy | None = None
    snoozed: tuple[HushedBy, ...] = ()
    """As the last ApprovalHushed says: the last one of both events says all that holds."""


@event_traits("audited", "reminds", "not copied", "no progress")
class ApprovalHushed(Event, frozen=True, kw_only=True):
    """A person acknowledged an approval ("I am on it"), so that its steps pause; or wants to hear nothing of it for a
    while. Neither is a decision, and neither gives a right. The event says all that holds of steps from then on."""

    approval: str
    by: str
    until: datetime
    channel: str | None = None
    acknowledged: HushedBy | None = None
    """Who is on it; the newest one counts."""
    snoozed: tuple[HushedBy, ...] = ()
    """People who hear nothing of it."""
    reminded_at: datetime | None = None
    escalated_to: tuple[str, ...] = ()
    step: int = 0
    told_in: tuple[str, ...] = ()
    """As the last ApprovalReminded says."""


@event_traits("card", "not copied", "no progress", "of its row")
class CardBegun(Event, frozen=True, kw_only=True):
    """A channel is about to be given the approval. From here on it may show a card, even if this process dies before it
    can journal that."""

    approval: str
    channel: str
    place: str = ""
    """The place of the card, where a route names one: a conversation, or "@" and a person's identity."""
    is_notice: bool = False
    """Whether the card only says that an approval waits."""


@event_traits("audited", "card", "not copied", "no progress")
class CardPosted(Event, frozen=True, kw_only=True):
    """A channel shows the approval; `card` is what the channel needs to find its card again. `is_whole`: whether the
    card shows all of what is asked."""

    approval: str
    channel: str
    card: str = ""
    is_whole: bool = True
    place: str = ""
    is_notice: bool = False
    shows: str = ""
    """A digest of what the card shows; "" if that is not known. The event is repeated if that changes."""


@event_traits("audited", "card", "not copied", "no progress")
class CardFailed(Event, frozen=True, kw_only=True):
    """A channel could not show the approval; the next one is asked (A11)."""

    approval: str
    channel: str
    error: str
    place: str = ""
    is_notice: bool = False


@event_traits("audited", "card", "not copied", "no progress", "of its row")
class CardRetired(Event, frozen=True, kw_only=True):
    """The card says what became of the approval, and cannot be pressed any more."""

    approval: str
    channel: str
    place: str = ""
    is_notice: bool = False
    is_gone: bool = False
    """Whether it was found to be gone, while the approval was pending: a person has deleted it."""


@event_traits("not copied", "no progress")
class ReminderBegun(Event, frozen=True, kw_only=True):
    """A process is about to tell the people of one conversation that an approval still waits. No other one does so
    before that is sent, or the time for it is over: that process has died, or its message has failed."""

    approval: str
    channel: str
    place: str = ""
    is_notice: bool = False
    due: datetime
    """As in ReminderSent."""
    by: str
    """The process: a random id of its own."""


@event_traits("audited", "not copied", "no progress")
class ReminderSent(Event, frozen=True, kw_only=True):
    """A message has told the people of one conversation that an approval still waits. One message may do that for
    many approvals; each of them has this event."""

    approval: str
    channel: str
    place: str = ""
    is_notice: bool = False
    due: datetime
    """When the reminder was due: the instant of ApprovalReminded."""


CardEvent = CardBegun | CardPosted | CardFailed | CardRetired
ReminderEvent = ReminderBegun | ReminderSent
NOTICE: Final = "!"
"""The prefix of a target whose cards only say that an approval waits."""


def target_of(event: CardEvent | ReminderEvent) -> str:
    """Return the target of a card or message: its channel, and its place after a colon if it has one; a notice after
    NOTICE. An approval has at most one card for each target."""
    where = f"{event.channel}:{event.place}" if event.place else event.channel
    return f"{NOTICE}{where}" if event.is_notice else where


@event_traits("audited")
class RuleAdded(Event, frozen=True, kw_only=True):
    """A rule counts from now on; `approval` is the one whose decision made it, in the same append (A1). A decision that
    would make a rule of the same meaning as a standing one confirms that one: the event has its id."""

    rule: Rule
    by: str
    approval: str | None = None
    after: int = 0
    """The position of the last entry before that decision: what had asked by then is decided by the rule, too (A13). 0:
    a former version wrote it, or no decision made the rule."""


@event_traits("audited")
class RuleRevoked(Event, frozen=True, kw_only=True):
    """A rule, named by its id, no longer counts."""

    rule: str
    by: str
    """Who revoked it; "" if it went with its session."""
    session: str | None = None
    """The root session in whose tree it counted, if that tree was removed, and the rule with it."""


@event_traits("audited", "not copied", "no progress")
class RuleUsed(Event, frozen=True, kw_only=True):
    """A call has used an allowance once, in the append that lets it run without asking: of its request, or of the
    decision that has released it. An allowance of a session has this in the journal of that root session."""

    rule: str
    session: str
    operation: str
