"""People: how they are identified, and what they may do (A4).

    operator   may do everything with the store
    approver   may read, and decide what is not reserved for others
    neither    may read, and decide what is asked on their own behalf and not reserved for others
    scraper    a program: may read the metrics, and nothing else

Rules
- Only hashes of tokens are kept. A token is random and long, so that one round of SHA-256 is enough.
- `approvers` reserves decisions: of an agent and all below it, of calls for which a rule asks, or of both. If several
  reservations apply to an approval, a person must be named by each of them. Operators may always decide; people to whom
  the approval was escalated may decide it once.
- An edit is checked against the reservations twice: for the arguments that were asked, and for those that would run.
  Escalation opens the arguments that were asked, and no others.
- A reservation may need several people (`quorum`): so many who may decide must say yes to the same (A17). The person on
  whose behalf the call was asked is none of them. One no is enough.
- A decision for more than once makes a rule, which decides in place of all approvers: only a person whom every
  reservation names may make it.
- A person's name is never taken from what they say, but from what they show: a token, or an identity that a channel
  authenticates.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Any, Final, Literal

import msgspec

from supervisor.core.approvals.chat_words import read_word
from supervisor.core.calls.content import shown_content
from supervisor.core.calls.rules import Rule, is_about, policy_of
from supervisor.core.errors import InvalidInput
from supervisor.core.values import URGENCIES, Approval, Approve, Decision, Deny, Urgency, filled_arguments

Role = Literal["approver", "operator", "scraper"]
Mention = Literal["approvers", "requester", "nobody"] | tuple[str, ...]
"""Whom a card mentions: the people who may decide it, the one on whose behalf it was asked, or people by name."""
MENTIONED: Final = 20
"""The most people that one message mentions."""
PREFIX: Final = "sha256:"
"""The prefix of a token's hash where it is stored, so that people do not take the hash for the token."""


class TokenHash(msgspec.Struct, frozen=True):
    """The hash of a token, "sha256:..." and 64 hexadecimal digits, and when it expires; None: never."""

    hash: str
    expires_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Return whether the token is valid."""
        return self.expires_at is None or now < self.expires_at


class Quiet(msgspec.Struct, frozen=True):
    """The hours of each day in which a person hears nothing of what is not urgent, in the person's time zone."""

    begins: time
    ends: time
    zone: tzinfo

    def until(self, now: datetime) -> datetime | None:
        """Return when the hours end that are now; None if there are none now."""
        local = now.astimezone(self.zone)
        at, is_over_night = local.time(), self.begins > self.ends
        is_now = (at >= self.begins or at < self.ends) if is_over_night else self.begins <= at < self.ends
        if not is_now:
            return None
        day = local.date() + timedelta(days=is_over_night and at >= self.begins)
        return datetime.combine(day, self.ends, self.zone).astimezone(UTC)


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person who may look, decide, or do everything. `identities`: channel -> the person's identity there."""

    name: str
    roles: tuple[Role, ...] = ()
    tokens: tuple[TokenHash, ...] = ()
    identities: dict[str, str] = {}
    quiet: Quiet | None = None

    @property
    def is_operator(self) -> bool:
        """Whether the person may do everything."""
        return "operator" in self.roles

    @property
    def is_scraper(self) -> bool:
        """Whether it is a program that may read the metrics alone."""
        return "scraper" in self.roles


class ApproverRule(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions that only some people may make: on what an agent and all below it ask, or on calls for which a rule
    asks."""

    approvers: tuple[str, ...]
    agent: str | None = None
    rule: Rule | None = None
    quorum: int = 1
    """How many people must say yes to the same."""

    def meets(self, approval: Approval, arguments: Any) -> bool:
        """Return whether this reservation applies to an approval, if the call had these arguments."""
        return _is_meant(self.agent, self.rule, approval, arguments)


class UrgencyRule(msgspec.Struct, frozen=True, kw_only=True):
    """How soon people hear again of what an agent and all below it ask, or of calls for which a rule asks: `low` not in
    their quiet hours, `high` at once. If several rules mean an approval, the highest counts."""

    urgency: Urgency
    agent: str | None = None
    rule: Rule | None = None

    def meets(self, approval: Approval) -> bool:
        """Return whether an approval is meant."""
        return _is_meant(self.agent, self.rule, approval, approval.arguments)


def _is_meant(agent: str | None, rule: Rule | None, approval: Approval, arguments: Any) -> bool:
    """Return whether an approval is of an agent and a rule, if the call had these arguments."""
    if agent not in (None, *approval.path):
        return False
    if rule is None:
        return True
    if not is_about(rule, approval.tool, approval.claims):
        return False
    if not isinstance(arguments, Mapping):
        return True  # in doubt (A5)
    content = shown_content(
        approval.tool,
        arguments,
        folder=approval.cwd,
        command=approval.command,
        claims=approval.claims,
        secret=(*approval.secret, *approval.masked),  # in doubt, a pattern matches masked arguments (A5)
    )
    return policy_of([rule], content, root_session=None) is not None


class People:
    """All known people, which decisions are reserved for whom, and how urgent they are. `urgency`: of what no rule of
    `urgencies` means."""

    def __init__(
        self,
        persons: Iterable[Person],
        reservations: Iterable[ApproverRule] = (),
        urgencies: Iterable[UrgencyRule] = (),
        urgency: Urgency = "normal",
    ) -> None:
        self._by_name = {person.name: person for person in persons}
        self.reservations = tuple(reservations)
        self.urgencies = tuple(urgencies)
        self.urgency = urgency
        for each in self.reservations:
            if each.quorum < 1 or (each.quorum > 1 and len({*each.approvers} & self._by_name.keys()) < each.quorum):
                raise InvalidInput(
                    f"quorum = {each.quorum} needs the names of at least so many people in approvers, and they name "
                    f"{', '.join(each.approvers) or 'none'}: name more, or lower it"
                )

    def __iter__(self) -> Iterator[Person]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> Person | None:
        """Return a person by name; None if there is none."""
        return self._by_name.get(name)

    def find_by_token(self, token: str, now: datetime) -> tuple[Person, TokenHash] | None:
        """Return the person with a token that is valid now, and the hash of that token."""
        shown = hash_token(token)
        found = None
        for person in self._by_name.values():
            for known in person.tokens:  # all of them, so that the time reveals nothing
                if hmac.compare_digest(known.hash, shown) and known.is_valid(now):
                    found = person, known
        return found

    def find_by_identity(self, channel: str, identity: str) -> Person | None:
        """Return the person with an identity that a channel authenticated."""
        return next((each for each in self._by_name.values() if each.identities.get(channel) == identity), None)

    def has_identities(self, channel: str) -> bool:
        """Return whether a person has an identity on a channel."""
        return any(channel in person.identities for person in self._by_name.values())

    def find_mentioned(self, approval: Approval, mention: Mention, channel: str) -> list[str]:
        """Return the identities on a channel of the people whom a card mentions there, MENTIONED at most. People to
        whom the approval was escalated come first."""
        match mention:
            case "approvers":
                names = [name for name in self._by_name if self.why_not_decide(name, approval) is None]
            case "requester":
                names = [approval.requester]
            case tuple():
                names = list(mention)
            case _:
                return []
        known = (self.find(name) for name in dict.fromkeys([*approval.escalated_to, *names]))
        found = [person.identities[channel] for person in known if person and channel in person.identities]
        return found[:MENTIONED]

    def urgency_of(self, approval: Approval) -> Urgency:
        """Return how soon people hear of an approval again. The agent may lower that, and cannot raise it."""
        ruled = (each.urgency for each in self.urgencies if each.meets(approval))
        found = max(ruled, key=URGENCIES.index, default=self.urgency)
        return found if approval.urgency is None else min(found, approval.urgency, key=URGENCIES.index)

    def held_until(self, name: str, approval: Approval, now: datetime) -> datetime | None:
        """Return until when a person hears nothing of an approval again; None if the person does now.

        Quiet hours hold what is of low urgency. If all who may decide it are quiet, they do not hold the first step."""
        snoozed = [each.until for each in approval.snoozed if each.by == name and each.until > now]
        quiet = self._quiet_until(name, now)
        if quiet is not None and self.urgency_of(approval) == "low":
            deciders = (each for each in self._by_name if self.why_not_decide(each, approval) is None)
            if approval.step > 1 or any(self._quiet_until(each, now) is None for each in deciders):
                snoozed.append(quiet)
        return max(snoozed, default=None)

    def _quiet_until(self, name: str, now: datetime) -> datetime | None:
        person = self.find(name)
        return None if person is None or person.quiet is None else person.quiet.until(now)

    def find_told(self, approval: Approval, mention: Mention, channel: str, now: datetime) -> list[str]:
        """Return the identities on a channel of the people whom a reminder mentions now."""
        found = self.find_mentioned(approval, mention, channel)
        known = ((each, self.find_by_identity(channel, each)) for each in found)
        return [each for each, person in known if person is None or self.held_until(person.name, approval, now) is None]

    def find_deciders(self, approval: Approval, channel: str) -> list[str]:
        """Return the identities on a channel of all people who may decide an approval."""
        known = (each for each in self._by_name.values() if channel in each.identities)
        return [each.identities[channel] for each in known if self.why_not_decide(each.name, approval) is None]

    def find_identities(self, channel: str) -> list[str]:
        """Return the identities of all people on a channel."""
        return [each.identities[channel] for each in self._by_name.values() if channel in each.identities]

    def why_not_decide(self, name: str, approval: Approval, decision: Decision | None = None) -> str | None:
        """Return why a person may not decide an approval, None if the person may.

        `decision`: the intended decision; None: an approval or denial of this call only, without edits. Reservations
        apply by the arguments that were asked, and by those that would run (A8).
        """
        person = self.find(name)
        if person is None:
            return f"{name} is not among the people of this supervisor"
        if name == approval.requester and decision is not None and (number := self.find_quorum(approval, decision)) > 1:
            return f"this needs {number} people, and {name}, on whose behalf it was asked, is none of them"
        if person.is_operator:
            return None
        is_wide = isinstance(decision, Approve | Deny) and decision.scope != "once"
        is_escalated = name in approval.escalated_to and not is_wide
        edited = decision.arguments if isinstance(decision, Approve) else None
        if isinstance(edited, Mapping):
            edited = filled_arguments(approval, edited)
        if (why := self._why_reserved(name, approval, edited, is_wide=is_wide, is_opened=is_escalated)) is not None:
            return why
        if is_wide and "approver" not in person.roles:
            return f"{name} is not an approver, and may decide once only"
        if is_escalated or "approver" in person.roles or approval.requester == name:
            return None
        return f"{name} is not an approver, and the approval was asked on behalf of {approval.requester}"

    def _why_reserved(
        self, name: str, approval: Approval, edited: Any, *, is_wide: bool, is_opened: bool
    ) -> str | None:
        """Return which reservation forbids the decision. `is_opened`: the call as asked is open to the person."""
        for reservation in self.reservations:
            if name in reservation.approvers:
                continue
            whose = ", ".join(reservation.approvers)
            if reservation.meets(approval, approval.arguments):
                if not is_opened:
                    return f"this is reserved for {whose}"
            elif edited is not None and reservation.meets(approval, edited):
                return f"your edited arguments are reserved for {whose}"
            elif is_wide:
                return f"a rule would decide in place of {whose}, too: approve it once"
        return None

    def find_quorum(self, approval: Approval, decision: Decision) -> int:
        """Return how many people must make a decision: the largest number of the reservations that apply to the call as
        it was asked, or as it would run. A rule would decide in place of all that reserve an agent, too."""
        if isinstance(decision, Deny) or all(each.quorum == 1 for each in self.reservations):
            return 1
        edited = decision.arguments if isinstance(decision, Approve) else None
        is_wide = isinstance(decision, Approve) and decision.scope != "once"
        ran = [approval.arguments]
        if isinstance(edited, Mapping):
            ran.append(filled_arguments(approval, edited))
        return max(
            (
                each.quorum
                for each in self.reservations
                if (is_wide and each.rule is None) or any(each.meets(approval, arguments) for arguments in ran)
            ),
            default=1,
        )

    def why_not_command(self, name: str, act: str) -> str | None:
        """Return why a person may not do what only operators may, such as "cancel sessions"; None if they may."""
        person = self.find(name)
        return None if person is not None and person.is_operator else f"{name} is not an operator, and may not {act}"

    def why_not_say(self, name: str, text: str, pending: Iterable[Approval]) -> str | None:
        """Return why a person may not say this to a session where `pending` waits, None if the person may: operators
        may say everything, others a chat word, if an approval waits that they may decide."""
        person = self.find(name)
        if person is not None and person.is_operator:
            return None
        if read_word(text) is not None and any(self.why_not_decide(name, each) is None for each in pending):
            return None
        return f"{name} is not an operator, and may only send chat words for approvals that they may decide"


def new_token() -> str:
    """Make a token: 43 characters, 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    return PREFIX + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
