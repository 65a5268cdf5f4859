"""Discord's REST interface, with the bot's token.

A request that is limited (429) is repeated after the time that Discord says. A refused request raises.
"""

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Final

import anyio
import httpx

from supervisor.core.errors import SupervisorError

REQUEST_TIMEOUT: Final = 10.0  # seconds that one request may take
EPOCH: Final = 1_420_070_400_000  # UNIX time in milliseconds from which ids count
PAGE: Final = 100  # messages in one answer
AGENT: Final = "DiscordBot (subagent-supervisor, 0.1)"  # Discord asks for this form
GONE: Final = (10003, 10008)  # the channel, the message


class DiscordRefused(SupervisorError):
    """Discord answered a request with an error; `code` is Discord's code, `status` the HTTP status."""

    def __init__(self, what: str, status: int, code: int, text: str) -> None:
        super().__init__(f"Discord refused {what}: {status} {text}{_ADVICE.get(code, _ADVICE.get(status, ''))}")
        self.status = status
        self.code = code


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
        self._client = httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bot {token}", "User-Agent": AGENT},
            timeout=REQUEST_TIMEOUT,
            transport=transport,
        )

    async def __aenter__(self) -> "DiscordRest":
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
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
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, str | int] | None = None
    ) -> Any:
        """Make a request. Raises DiscordRefused; ConnectionRefusedError if Discord cannot be reached; OSError if the
        request failed in between: then Discord may or may not have carried it out."""
        while True:
            try:
                response = await self._client.request(method, path, json=body, params=params)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                raise ConnectionRefusedError(f"Discord cannot be reached: {error!r}") from error
            except httpx.RequestError as error:
                raise OSError(f"Discord's answer broke off: {error!r}") from error
            if response.status_code != 429:
                break
            await anyio.sleep(_seconds_to_wait(response))
        if response.status_code >= 500:
            raise OSError(f"Discord cannot answer now: {response.status_code}")
        if response.is_success:
            return response.json() if response.content else None
        raise _refusal(f"{method} {path.split('/')[1]}", response)  # a path may hold an interaction's token


def _seconds_to_wait(response: httpx.Response) -> float:
    try:
        return max(0.0, float(response.headers.get("retry-after") or response.json()["retry_after"]))
    except (ValueError, KeyError, TypeError):
        return 1.0


def _refusal(what: str, response: httpx.Response) -> DiscordRefused:
    try:
        body = response.json()
        code, text = int(body.get("code", 0)), str(body.get("message", ""))
    except (ValueError, AttributeError, TypeError):
        code, text = 0, ""
    return DiscordRefused(what, response.status_code, code, text)
