"""Push notifications to phones, by a server of ntfy (ntfy.sh, or your own).

Rules
- A notification has no buttons that decide: everyone who reads the topic could press them. A link leads to the page of
  the approval, where people sign in.
- It names agent and tool. What would run is shown with `detail = "full"` only.
- The approval's id is the id of the notification (`sequence_id`). So a notification that is sent again replaces the
  former one, where the server can do that (2.16), and a decision makes it a quiet one that says so.
"""

import re
from collections.abc import Iterator, Sequence
from copy import copy
from datetime import datetime, timedelta
from typing import Any, Final

import httpx
import msgspec

from supervisor.channels.notices.sending import Detail, Notice, Refused, why_not_address
from supervisor.channels.sdk import (
    Approval,
    ChannelSettings,
    ChannelSetup,
    DrawnFact,
    Fact,
    FactLog,
    InvalidInput,
    Problem,
    asked_facts,
    draw,
    fact_lines,
    fit,
    fit_facts,
    headline,
    page_of,
    shown_whole,
    still_waits,
)
from supervisor.core.approvals.channel_kinds import KINDS

log = FactLog(__name__)

TOPIC: Final = re.compile(r"[-_A-Za-z0-9]{1,64}")
TITLE: Final = 200
TEXT_UNITS: Final = 1200  # UTF-16 units: at most 3,600 bytes; ntfy makes a file of more than 4,096
QUIET: Final = 1  # the priority that makes no sound
AGAIN: Final = "Still waits."
STILL_WAITING: Final = "supervisor-still-waiting"
"""The id of the notification that tells of several approvals: the next one replaces it."""
CLOCKS_DIFFER: Final = timedelta(seconds=60)

(TOKEN,) = KINDS["ntfy"].secrets


class Ntfy(Notice):
    """Tell people by ntfy that an approval waits. `detail`: "full" also shows what is asked."""

    def __init__(
        self,
        *,
        name: str = "ntfy",
        topic: str,
        server: str = "https://ntfy.sh",
        token: str | None = None,
        detail: Detail = "link",
        link: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(name, server.rstrip("/"), link, detail, transport)
        self._topic = topic
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def __repr__(self) -> str:
        return f"<{self.name}, ntfy>"  # never a token; the topic may be one, too

    def at(self, place: str) -> "Ntfy":
        if not TOPIC.fullmatch(place):
            raise InvalidInput(f"write a topic of ntfy (letters, digits, - and _), not {place!r}")
        there = copy(self)
        there._topic = place  # noqa: SLF001 # of this class
        return there

    async def post(self, approval: Approval, card: str | None) -> str:
        if card is None:
            await self._publish(approval, self._text(approval))
        return f"{self._topic}:{approval.id}"

    async def remind(self, approval: Approval, card: str) -> None:
        assert approval.reminded_at is not None
        if not await self._find(approval, approval.reminded_at, AGAIN):
            await self._publish(approval, f"{AGAIN}\n{self._text(approval)}")

    async def remind_all(self, due: Sequence[tuple[Approval, str]]) -> None:
        approvals = [approval for approval, _ in due]
        where = self._link or "supervisor approvals"
        lines = still_waits(*approvals) if self._detail == "full" else ""
        text = f"{fit(lines, TEXT_UNITS)}\n{where}" if lines else where
        title = f"{len(approvals)} approvals still wait"
        more = {"click": self._link} if self._link is not None else {}
        message = {"topic": self._topic, "title": title, "message": text, "sequence_id": STILL_WAITING, **more}
        await self._send("POST", "/", self._headers, msgspec.json.encode(message))

    async def find_card(self, approval: Approval, since: datetime, until: datetime) -> str | None:
        return f"{self._topic}:{approval.id}" if await self._find(approval, since) else None

    async def retire(self, approval: Approval, card: str) -> None:
        await self._publish(approval, approval.status, priority=QUIET)

    def _text(self, approval: Approval) -> str:
        where = page_of(approval, self._link) or f"supervisor approvals {approval.id}"
        lines = fact_lines(self._drawn(approval)) if self._detail == "full" else ""
        return f"{lines}\n{where}" if lines else where

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return shown_whole(approval, self._drawn(approval)) if self._detail == "full" else ()

    def _drawn(self, approval: Approval) -> tuple[DrawnFact, ...]:
        return fit_facts(draw(asked_facts(approval)), TEXT_UNITS)[0]

    async def _publish(self, approval: Approval, text: str, **more: Any) -> None:
        message = {
            "topic": self._topic,
            "title": fit(headline(approval), TITLE, remark=False),
            "message": text,
            "sequence_id": approval.id,
            **more,
        }
        if (page := page_of(approval, self._link)) is not None:
            message["click"] = page
        await self._send("POST", "/", self._headers, msgspec.json.encode(message))

    async def _find(self, approval: Approval, since: datetime, saying: str = "") -> bool:
        """Return whether the topic has a notification of an approval. A token that may only write cannot look."""
        begun = int((since - CLOCKS_DIFFER).timestamp())
        try:
            found = await self._send("GET", f"/{self._topic}/json?poll=1&since={begun}", self._headers)
        except Refused as error:  # then it is sent again, which is better than not at all
            log.warning("card.not_looked_for", channel=self.name, approval=approval.id, error=str(error))
            return False
        lines = found.content.decode(errors="replace").splitlines()
        if any(approval.id in line and saying in line for line in lines):
            return True
        if not found.is_whole:
            log.warning("card.not_looked_for", channel=self.name, approval=approval.id, error="the topic is too long")
        return False


class NtfySettings(ChannelSettings, frozen=True, kw_only=True):
    """The topic, the server, and how much a notification shows. People who know the topic can read it."""

    secrets = (TOKEN,)

    topic: str
    server: str = "https://ntfy.sh"
    detail: Detail = "link"
    token_file: str | None = None

    def problems(self, setup: ChannelSetup) -> Iterator[Problem]:
        if not TOPIC.fullmatch(self.topic):
            yield "topic", "write up to 64 letters, digits, - and _; choose one that others cannot guess"
        if (why := why_not_address(self.server, has_secret=self.has_secret(TOKEN, setup))) is not None:
            yield "server", why

    def make(self, setup: ChannelSetup) -> Ntfy:
        return Ntfy(
            name=setup.name,
            topic=self.topic,
            server=self.server,
            token=self.take_secret(TOKEN, setup) or None,
            detail=self.detail,
            link=setup.link,
        )
