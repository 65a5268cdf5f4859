"""An approval as an e-mail.

Theory: all messages of a session refer to one message that is never sent, and have one subject. So a mail program shows
them as one thread. Every id is made of the ids of the session and the approval, so it is the same after a restart, and
a message that is sent twice can be known for the same one.

Rules
- A header holds no control character, wherever its text comes from.
- The link stands above everything that an agent wrote. It only opens the page of the approval, after a login: programs
  that scan mail open each link, so no link decides.
- Every line of an agent's text is indented, so that it cannot imitate a line of ours.
- Pure.
"""

from collections.abc import Sequence
from datetime import datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from msgspec.structs import replace

from supervisor.channels.wording.cards import (
    decided,
    draw,
    fact_lines,
    headline,
    make_card,
    page_of,
    shown_whole,
    still_waits,
    summary,
    with_choices,
)
from supervisor.channels.wording.lengths import DrawnFact, fit, fit_facts
from supervisor.core.approvals.facts import Fact
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval

BODY_UNITS: Final = 20_000
"""UTF-16 units of all facts in one message."""
SUBJECT: Final = 120
_POLICY: Final = SMTP.clone(max_line_length=200)
"""So that no id is folded: some programs do not join its halves."""
INDENT: Final = "    "


def mail_address(written: str) -> Address:
    """Return an address. Raises InvalidInput for a text that is none, or that holds more than one."""
    try:
        found = Address(addr_spec=written)
    except (ValueError, IndexError, MessageError) as error:
        raise InvalidInput(f"{written!r} is no e-mail address: {error}") from None
    if not (written.isascii() and written.isprintable() and found.domain and found.username) or " " in written:
        raise InvalidInput(f"{written!r} is no e-mail address: write one such as ana@example.org")
    return found


def asked_letter(approval: Approval, link: str | None, list_id: str, sender: Address, now: datetime) -> EmailMessage:
    """Return the message of a pending approval; its recipients are added later. `link`: of the web inbox."""
    return _letter(approval, f"asked.{approval.id}", _asked(approval, link), list_id, sender, now)


def reminder_letter(
    approval: Approval,
    link: str | None,
    list_id: str,
    sender: Address,
    now: datetime,
    others: Sequence[Approval] = (),
) -> EmailMessage:
    """Return the message that tells people again of an approval that waits, and of others."""
    at = approval.reminded_at or now
    where = f"Decide them here, after you have signed in: {link}" if link else "See them by: supervisor approvals"
    text = f"{still_waits(approval, *others)}\n\n{where}" if others else _again(approval, link)
    return _letter(approval, f"reminded.{approval.id}.{at.timestamp():.0f}", text, list_id, sender, now)


def _again(approval: Approval, link: str | None) -> str:
    return f"This still waits for a person.\n\n{_asked(approval, link)}"


def decided_letter(approval: Approval, link: str | None, list_id: str, sender: Address, now: datetime) -> EmailMessage:
    """Return the message that says that an approval has ended: there is nothing to do."""
    text = [f"There is nothing to do: {decided(approval, now)}", "", f"{INDENT}{summary(approval, 200)}"]
    if (page := page_of(approval, link)) is not None:
        text += ["", page]
    return _letter(approval, f"decided.{approval.id}", "\n".join(text), list_id, sender, now)


def _letter(approval: Approval, id_: str, text: str, list_id: str, sender: Address, now: datetime) -> EmailMessage:
    thread = f"<session.{approval.root_session}@{sender.domain}>"
    letter = EmailMessage(policy=_POLICY)
    letter["From"] = sender
    letter["Subject"] = fit(visible(f"{approval.path[0]} asks, session {approval.root_session}"), SUBJECT, remark=False)
    letter["Date"] = format_datetime(now)
    letter["Message-ID"] = f"<{id_}@{sender.domain}>"
    letter["In-Reply-To"] = thread
    letter["References"] = thread
    letter["List-Id"] = f"<{list_id}>"
    letter["Auto-Submitted"] = "auto-generated"
    letter["X-Auto-Response-Suppress"] = "All"
    letter.set_content(text + "\n", cte="quoted-printable")
    return letter


def _asked(approval: Approval, link: str | None) -> str:
    page = page_of(approval, link)
    where = (
        f"Decide it here, after you have signed in: {page}"
        if page
        else f"Decide it by: supervisor approve {approval.id}"
    )
    facts, unseen = _fit(approval)
    lines = [headline(approval), where, "", *(f"{INDENT}{line}" for line in fact_lines(facts).split("\n"))]
    if unseen:
        lines += ["", f"{unseen} characters are not shown here."]
    return "\n".join(lines)


def shown_facts(approval: Approval) -> list[Fact]:
    """Return the facts that a letter shows whole."""
    return shown_whole(approval, _fit(approval)[0])


def _fit(approval: Approval) -> tuple[tuple[DrawnFact, ...], int]:
    """Return the facts as a letter shows them, and the number of characters of the request that are missing."""
    card = make_card(approval, approval.created_at)
    shown = [
        fact if fact.instant is None else replace(fact, text=f"{fact.instant.astimezone():%Y-%m-%d %H:%M:%S %Z}")
        for fact in with_choices(card.facts, approval, 0)
    ]
    return fit_facts(draw(shown), BODY_UNITS)


def send_to(letter: EmailMessage, recipients: Sequence[Address]) -> EmailMessage:
    """Return a message with its recipients."""
    letter["To"] = recipients
    return letter
