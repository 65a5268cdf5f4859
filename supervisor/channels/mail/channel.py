"""E-mail as a channel: it tells people that an approval waits, and where they decide it.

Rules
- E-mail only notifies: no message and no link in it decides. An approval also goes to the next channel.
- A message goes to the configured addresses; without any, to the people who may decide, by their identities.
- A reminder of several approvals is one message for each person, with those that the person may decide.
- When an approval has ended, the others who were told get one more message in the same thread, which says that there is
  nothing to do. The person who decided gets none.
"""

from collections.abc import Callable, Sequence
from copy import copy
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from functools import partial
from typing import Final

import anyio

from supervisor.channels.mail.letters import (
    asked_letter,
    decided_letter,
    mail_address,
    reminder_letter,
    send_to,
    shown_facts,
)
from supervisor.channels.mail.smtp import SmtpServer
from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.people import Mention, People
from supervisor.core.errors import InvalidInput
from supervisor.core.values import Approval
from supervisor.seam.channel import Channel
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

SELDOM_SECONDS: Final = 600.0
"""Seconds between two checks that sign in: mail servers limit how often a user does."""

Letter = Callable[[Approval, str | None, str, Address, datetime], EmailMessage]


class Email(Channel):
    """Tell people by e-mail.

    `server`: sends the messages. `sender`: their From. `people`: the configured people (identity "email": an address).
    `to`: the addresses to which all messages go; none: those of the people who may decide. `link`: the address of the
    web inbox. `tells_ends`: whether people are told that an approval has ended. `name`: another one if there are two of
    them; people's identities are configured under it.
    """

    name = "email"
    card_timeout = 120.0
    keeps_cards = True
    only_notifies = True

    def __init__(
        self,
        *,
        server: SmtpServer,
        sender: str,
        people: People,
        to: Sequence[str] = (),
        link: str | None = None,
        tells_ends: bool = True,
        name: str = "email",
    ) -> None:
        self.name = name
        self._server = server
        self._sender = mail_address(sender)
        self._people = people
        self._to = [mail_address(each) for each in to]
        self._link = link
        self._tells_ends = tells_ends
        self._checked_at = float("-inf")
        """When the server was last seen to work."""
        self._list_id = f"{name}.supervisor.{self._sender.domain}"

    def __repr__(self) -> str:
        return f"<email by {self._server!r}>"  # never a password

    def at(self, place: str) -> "Email":
        there = copy(self)
        there._to = [mail_address(place.removeprefix("@"))]  # noqa: SLF001 # it is another one of this class
        return there

    async def check(self) -> str:
        now = anyio.current_time()
        if now > self._checked_at + SELDOM_SECONDS:
            await self._server.check()
            self._checked_at = now
        return f"{self._sender.addr_spec} by {self._server.host}"

    async def serve(self, supervisor: Supervisor) -> None:
        await anyio.sleep_forever()

    async def post(self, approval: Approval, card: str | None) -> str:
        if card is None:
            await self._send(asked_letter, approval, self._needed(approval))
        return card or approval.id

    async def remind(self, approval: Approval, card: str) -> None:
        if recipients := self._told(approval):
            await self._send(reminder_letter, approval, recipients)

    async def remind_all(self, due: Sequence[tuple[Approval, str]]) -> None:
        found = dict[str, tuple[Address, list[Approval]]]()
        for approval, _ in due:
            for each in self._told(approval):
                found.setdefault(each.addr_spec.lower(), (each, []))[1].append(approval)
        for recipient, (approval, *others) in found.values():
            await self._send(partial(reminder_letter, others=others), approval, [recipient])

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return shown_facts(approval)

    async def retire(self, approval: Approval, card: str) -> None:
        decider = self._people.find(approval.by) if approval.by is not None else None
        own = decider.identities.get(self.name, "") if decider is not None else ""
        others = [each for each in self._recipients(approval) if each.addr_spec.lower() != own.lower()]
        if others and self._tells_ends:
            await self._send(decided_letter, approval, others)

    async def _send(self, letter: Letter, approval: Approval, recipients: list[Address]) -> None:
        made = letter(approval, self._link, self._list_id, self._sender, datetime.now().astimezone())
        sender, to = self._sender.addr_spec, [each.addr_spec for each in recipients]
        await self._server.send(send_to(made, recipients), sender, to)
        self._checked_at = anyio.current_time()

    def _told(self, approval: Approval) -> list[Address]:
        """Return whom a reminder goes to: not those who want to hear nothing of it now."""
        now, found = datetime.now().astimezone(), self._needed(approval)
        known = ((each, self._people.find_by_identity(self.name, each.addr_spec)) for each in found)
        return [each for each, who in known if who is None or not self._people.held_until(who.name, approval, now)]

    def _needed(self, approval: Approval) -> list[Address]:
        """Return whom a message goes to. Raises InvalidInput if that is no one."""
        if not (found := self._recipients(approval)):
            raise InvalidInput(
                f'no person who may decide has an address; write identities = {{ {self.name} = "..." }}, or `to`'
            )
        return found

    def _recipients(self, approval: Approval) -> list[Address]:
        """Return whom a message goes to, each address once."""
        mention: Mention = () if self._to else "approvers"
        found = {each.addr_spec.lower(): each for each in self._to}
        for written in self._people.find_mentioned(approval, mention, self.name):
            try:
                found.setdefault(written.lower(), mail_address(written))
            except InvalidInput as error:
                log.warning("recipient.left_out", channel=self.name, reason=str(error))
        return list(found.values())
