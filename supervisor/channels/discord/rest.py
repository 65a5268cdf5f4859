"""Discord's REST interface, with the bot's token.

A request that is limited (429) is repeated after the time that Discord says. A refused request raises.
"""

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Final

import anyio
import httpx
import msgspec

from supervisor.channels.chat.refusals import Meaning, Refused
from supervisor.system.http_requests import HttpClient, HttpReply

REQUEST_TIMEOUT_SECONDS: Final = 10.0  # seconds that one request may take
EPOCH: Final = 1_420_070_400_000  # UNIX time in milliseconds from which ids count
PAGE: Final = 100  # messages in one answer
AGENT: Final = "DiscordBot (subagent-supervisor, 0.1)"  # Discord asks for this form
MEANINGS: Final[Mapping[int, Meaning]] = {
    10003: "gone",  # the channel
    10008: "gone",  # the message
    50083: "closed",  # the thread is archived
    160005: "closed",  # the thread is locked
    50001: "out",
    50013: "denied",
}
"""What Discord's error codes mean (chat/refusals.py)."""
_OF_STATUS: Final[Mapping[int, Meaning]] = {401: "denied", 403: "out", 429: "busy"}


class DiscordRefused(Refused):
    """Discord answered a request with an error; `code` is Discord's code, `status` the HTTP status."""

    def __init__(self, what: str, status: int, code: int, text: str) -> None:
        super().__init__(f"Discord refused {what}: {status} {text}{_ADVICE.get(code, _ADVICE.get(status, ''))}")
        self.status = status
        self.code = code
        self.meaning = MEANINGS.get(code, _OF_STATUS.get(status, "unknown"))


_ADVICE: Final = {
    401: "; is the bot token right?",
    10003: "; is the channel's id right, and may the bot see it?",
    50001: "; let the bot see the channel",
    50013: "; let the bot send messages in the channel",
}


class DiscordRest:
    """Makes requests by method and path, and returns the decoded answers."""

    def __init__(
        self,
        token: str,
        base_url: str = "https://discord.com/api/v10",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {"authorization": f"Bot {token}", "user-agent": AGENT}
        self._client = HttpClient(base_url, headers=headers, timeout=REQUEST_TIMEOUT_SECONDS, transport=transport)

    async def __aenter__(self) -> "DiscordRest":
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def messages(self, channel: str, until: datetime) -> AsyncGenerator[dict[str, Any], None]:
        """Iterate over a channel's messages up to an instant, the newest first."""
        before = str(int(until.timestamp() * 1000 - EPOCH) << 22)  # an id contains its time
        while True:
            page = await self.call("GET", f"/channels/{channel}/messages", params={"limit": PAGE, "before": before})
            for message in page:
                yield message
            if len(page) < PAGE:
                return
            before = page[-1]["id"]

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str | int] | None = None,
        waits: bool = True,
    ) -> Any:
        """Make a request. Raises DiscordRefused; ConnectionRefusedError if Discord cannot be reached, and also if the
        request is limited and does not wait (`waits`); OSError if it failed in between: then Discord may or may
        not have carried it out."""
        sent = b"" if body is None else msgspec.json.encode(body)
        while True:
            try:
                reply = await self._client.request(method, path, sent, params=params)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                raise ConnectionRefusedError(f"Discord cannot be reached: {error!r}") from error
            except httpx.RequestError as error:
                raise OSError(f"Discord's answer broke off: {error!r}") from error
            if reply.status != 429:
                break
            if not waits:
                raise ConnectionRefusedError(f"Discord takes no {method} for {_seconds_to_wait(reply):g} s")
            await anyio.sleep(_seconds_to_wait(reply))
        if reply.status >= 500:
            raise OSError(f"Discord cannot answer now: {reply.status}")
        if not reply.is_success:
            raise _refusal(f"{method} {path.split('/')[1]}", reply)  # a path may hold an interaction's token
        try:
            return msgspec.json.decode(reply.content) if reply.content else None
        except (msgspec.MsgspecError, RecursionError):  # it is cut, or a proxy's
            raise OSError(f"Discord cannot answer now: {reply.status}, and not in its form") from None


def _seconds_to_wait(reply: HttpReply) -> float:
    told = reply.headers.get("retry-after") or _about(reply).get("retry_after")
    try:
        return max(0.0, float(told))  # type: ignore[arg-type] # caught below
    except (ValueError, TypeError):
        return 1.0


def _refusal(what: str, reply: HttpReply) -> DiscordRefused:
    about = _about(reply)
    code, text = about.get("code"), about.get("message")
    return DiscordRefused(what, reply.status, code if isinstance(code, int) else 0, str(text or ""))


def _about(reply: HttpReply) -> Mapping[str, Any]:
    """Return what an error says of itself."""
    try:
        return msgspec.json.decode(reply.content, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return {}
