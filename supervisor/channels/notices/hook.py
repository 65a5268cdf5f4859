"""HTTP requests to a program of yours, signed as Standard Webhooks says (standardwebhooks.com).

    {"type": "approval.pending", "timestamp": ..., "data": {"id": ..., "agent": ..., "tool": ..., "link": ...}}

Rules
- The types are approval.pending, approval.reminded and approval.decided. A receiver ignores all other types.
- `webhook-id` names the fact, so a request that is sent again, even by a later process, has the same id: a receiver
  takes each id once. `webhook-timestamp` is the time of the try.
- Arguments are sent with `detail = "full"` only. Secret ones are masked.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import msgspec

from supervisor.channels.notices.sending import Detail, Notice, why_not_address
from supervisor.channels.sdk import (
    Approval,
    ChannelSettings,
    ChannelSetup,
    Fact,
    Problem,
    all_facts,
    page_of,
)
from supervisor.core.approvals.channel_kinds import KINDS

_FULL: Final = (
    *("arguments", "command", "claims", "cwd", "secret", "masked", "inputs", "why", "note", "because", "urgency"),
    *("question", "choices", "schema"),
)
"""The fields of an approval that `detail = "full"` adds. `claims` are the names of the arguments that are the agent's
words, and no part of what runs."""
(SECRET,) = KINDS["hook"].secrets


class Hook(Notice):
    """Tell a program that an approval waits, and what was decided. `secret`: "whsec_" and base64; it signs each
    request. `detail`: "full" also sends what is asked."""

    def __init__(
        self,
        *,
        name: str = "hook",
        url: str,
        secret: str,
        detail: Detail = "link",
        link: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(name, url, link, detail, transport)
        self._key = base64.b64decode(secret.removeprefix("whsec_"))

    def __repr__(self) -> str:
        return f"<{self.name}, hook>"  # never the secret; the address may hold one, too

    async def post(self, approval: Approval, card: str | None) -> str:
        if card is None:
            await self._tell(approval, "pending", approval.created_at)
        return approval.id

    async def remind(self, approval: Approval, card: str) -> None:
        assert approval.reminded_at is not None
        await self._tell(approval, "reminded", approval.reminded_at)

    async def retire(self, approval: Approval, card: str) -> None:
        await self._tell(approval, "decided", approval.decided_at or datetime.now(UTC))

    async def _tell(self, approval: Approval, what: str, at: datetime) -> None:
        number = f".{int(at.timestamp())}" if what == "reminded" else ""
        body = msgspec.json.encode({"type": f"approval.{what}", "timestamp": at, "data": self._data(approval)})
        id_, now = f"{approval.id}.{what}{number}", str(int(datetime.now(UTC).timestamp()))
        digest = hmac.digest(self._key, b".".join([id_.encode(), now.encode(), body]), hashlib.sha256)
        headers = {
            "webhook-id": id_,
            "webhook-timestamp": now,
            "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        }
        await self._send("POST", "", headers, body)

    def _data(self, approval: Approval) -> dict[str, Any]:
        data = {
            "id": approval.id,
            "status": approval.status,
            "kind": approval.kind,
            "agent": approval.agent,
            "path": approval.path,
            "tool": approval.tool,
            "session": approval.session,
            "requester": approval.requester,
            "created_at": approval.created_at,
            "link": page_of(approval, self._link),
            "by": approval.by,
            "decided_at": approval.decided_at,
        }
        if self._detail == "full":
            data |= {name: getattr(approval, name) for name in _FULL}
        return data

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return all_facts(approval, approval.created_at) if self._detail == "full" else ()


class HookSettings(ChannelSettings, frozen=True, kw_only=True):
    """The address that gets the requests, and how much they say."""

    secrets = (SECRET,)

    url: str
    detail: Detail = "link"
    secret_file: str | None = None

    def problems(self, setup: ChannelSetup) -> Iterator[Problem]:
        if (why := why_not_address(self.url, has_secret=True)) is not None:
            yield "url", why

    def make(self, setup: ChannelSetup) -> Hook:
        secret = self.take_secret(SECRET, setup)
        return Hook(name=setup.name, url=self.url, secret=secret, detail=self.detail, link=setup.link)
