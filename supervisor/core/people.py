"""People: who somebody is by what they show, and what they may do (A4).

    operator   may do everything with the store
    approver   may read, and decide what is not reserved for others
    neither    may read, and decide what is asked on their own behalf and not reserved for others

Rules
- Only hashes of tokens are kept. A token is random and long, so that one round of SHA-256 is enough.
- `approvers` reserves decisions: of an agent and all below it, of what a rule asks for, of both. Where several
  reservations meet an approval, a person must be named by every one of them; operators always may, and
  whom it was escalated to, once.
- An edit is held against the reservations twice: by what was asked, and by what would run. Escalation opens what was
  asked, and no more.
- Wider than once is a rule, and decides for everybody: only who is named by every reservation there is grants one.
- Nobody's name is taken from what they say, only from what they show: a token, or an identity that a channel vouches
  for.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from supervisor.core.rules import Rule, policy_of
from supervisor.core.values import Approval, Approve, Decision
from supervisor.core.words import read_word

Role = Literal["approver", "operator"]
PREFIX: Final = "sha256:"
"""How a token's hash begins where it is written down, so that nobody takes it for the token."""


class TokenHash(msgspec.Struct, frozen=True):
    """The hash of a token, "sha256:..." and 64 hexadecimal digits, and until when it counts; None: for ever."""

    hash: str
    expires_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Whether it still counts."""
        return self.expires_at is None or now < self.expires_at


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who may look, decide, or do everything. `identities`: channel -> who they are there."""

    name: str
    roles: tuple[Role, ...] = ()
    tokens: tuple[TokenHash, ...] = ()
    identities: dict[str, str] = {}

    @property
    def is_operator(self) -> bool:
        """Whether they may do everything."""
        return "operator" in self.roles


class ApproverRule(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions that only some people may make: on what an agent and all below it ask, or on what a rule asks for."""

    approvers: tuple[str, ...]
    agent: str | None = None
    rule: Rule | None = None

    def meets(self, approval: Approval, arguments: Any) -> bool:
        """Whether it says who may decide this approval, if the call had these arguments."""
        if self.agent not in (None, *approval.path):
            return False
        if self.rule is None:
            return True
        if self.rule.tool != approval.tool:
            return False
        if not isinstance(arguments, Mapping):
            return True  # in doubt (A5)
        secret = approval.secret  # a pattern of what is masked is met, in doubt (A5)
        said = policy_of([self.rule], approval.tool, arguments, cwd=approval.cwd, root_session=None, secret=secret)
        return said is not None


class People:
    """Everybody who is known, and what is reserved for whom."""

    def __init__(self, persons: Iterable[Person], reservations: Iterable[ApproverRule] = ()) -> None:
        self._by_name = {person.name: person for person in persons}
        self.reservations = tuple(reservations)

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> Person | None:
        """Return a person by name, None if there is none."""
        return self._by_name.get(name)

    def find_by_token(self, token: str, now: datetime) -> tuple[Person, TokenHash] | None:
        """Return who shows a token that counts now, and which of their hashes it has."""
        shown = hash_token(token)
        found = None
        for person in self._by_name.values():
            for known in person.tokens:  # all of them: how long it takes tells nothing
                if hmac.compare_digest(known.hash, shown) and known.is_valid(now):
                    found = person, known
        return found

    def find_by_identity(self, channel: str, identity: str) -> Person | None:
        """Return whom a channel vouches for."""
        return next((each for each in self._by_name.values() if each.identities.get(channel) == identity), None)

    def why_not_decide(self, name: str, approval: Approval, decision: Decision | None = None) -> str | None:
        """Return why somebody may not decide an approval so far, None if they may.

        `decision`: how they would; None: without changing anything, or deciding more than this. Reservations are met by
        the arguments that were asked, and by those that would run (A8).
        """
        person = self.find(name)
        if person is None:
            return f"{name} is not among the people of this supervisor"
        if person.is_operator:
            return None
        is_wide = isinstance(decision, Approve) and decision.scope != "once"
        is_escalated = name in approval.escalated_to and not is_wide
        edited = decision.arguments if isinstance(decision, Approve) else None
        if (why := self._why_reserved(name, approval, edited, is_wide=is_wide, is_opened=is_escalated)) is not None:
            return why
        if is_wide and "approver" not in person.roles:
            return f"{name} is no approver, and may approve once only"
        if is_escalated or "approver" in person.roles or approval.requester == name:
            return None
        return f"{name} is no approver, and it was asked on behalf of {approval.requester}"

    def _why_reserved(
        self, name: str, approval: Approval, edited: Any, *, is_wide: bool, is_opened: bool
    ) -> str | None:
        """Return which reservation keeps somebody from a decision. `is_opened`: what was asked is open to them."""
        for reservation in self.reservations:
            if name in reservation.approvers:
                continue
            whose = ", ".join(reservation.approvers)
            if reservation.meets(approval, approval.arguments):
                if not is_opened:
                    return f"this is reserved for {whose}"
            elif edited is not None and reservation.meets(approval, edited):
                return f"what you made of it is reserved for {whose}"
            elif is_wide:
                return f"a rule would decide for {whose}, too: approve it once"
        return None

    def why_not_start(self, name: str) -> str | None:
        """Return why somebody may not start an agent, None if they may."""
        person = self.find(name)
        return None if person is not None and person.is_operator else f"{name} is no operator, and starts no agent"

    def why_not_say(self, name: str, text: str, pending: Iterable[Approval]) -> str | None:
        """Return why somebody may not say this to a session where `pending` waits, None if they may: operators may say
        everything, others a chat word, where something waits that they may decide."""
        person = self.find(name)
        if person is not None and person.is_operator:
            return None
        if read_word(text) is not None and any(self.why_not_decide(name, each) is None for each in pending):
            return None
        return f"{name} is no operator: only words that decide are heard, where something waits that they may decide"

    def why_not_rule(self, name: str) -> str | None:
        """Return why somebody may not add or revoke rules, None if they may."""
        person = self.find(name)
        return None if person is not None and person.is_operator else f"{name} is no operator, and makes no rules"


def new_token() -> str:
    """Make a token: 43 characters, 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    return PREFIX + hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
