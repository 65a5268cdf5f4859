"""Slack's Web API, from either backend.

The SDK's asynchronous client needs aiohttp and fails on trio; its synchronous one runs in worker threads, a few at a
time. Slack says how fast is too fast: a call that is limited (429) waits as long as it was told to, and is made again.
"""

import re
from collections.abc import AsyncGenerator
from functools import partial
from http.client import HTTPException
from typing import Any, Final
from urllib.error import URLError

import anyio
import anyio.to_thread
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.webhook import WebhookClient

from supervisor.core.errors import SupervisorError

REQUEST_TIMEOUT: Final = 10  # seconds that one request may take
AT_ONCE: Final = 4
"""Requests under way at the same time: Slack allows about one message a second and conversation, and short bursts."""


class SlackRefused(SupervisorError):
    """Slack answered a request with an error; `reason` is its code for it, such as "channel_not_found"."""

    def __init__(self, method: str, reason: str) -> None:
        super().__init__(f"Slack refused {method}: {reason}{_ADVICE.get(reason, '')}")
        self.reason = reason


_ADVICE: Final = {
    "channel_not_found": "; is the conversation's id right, and is the app in it? (/invite it there)",
    "not_in_channel": "; invite the app to the conversation (/invite)",
    "invalid_auth": "; is the bot token (xoxb-...) right?",
    "missing_scope": "; give the app the scopes of docs/slack-manifest.yaml, and install it again",
}
_BROKEN: Final = (HTTPException, ValueError)
"""Answers that end too soon, or are in no alphabet that they name."""
_CODE: Final = re.compile(r"[a-z0-9_]+")
"""What Slack's own errors look like."""
_PASSING: Final = ("internal_error", "fatal_error", "service_unavailable", "request_timeout")
"""What Slack's servers say of themselves, not of the request."""


class SlackWeb:
    """Calls methods of the Web API by name, with the app's bot token."""

    def __init__(self, token: str, base_url: str = "https://slack.com/api/") -> None:
        self.client = WebClient(token=token, base_url=base_url, timeout=REQUEST_TIMEOUT, retry_handlers=[])
        self._limiter: anyio.CapacityLimiter | None = None

    async def write(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method that takes JSON. Raises SlackRefused, ConnectionRefusedError if Slack cannot be reached, or
        OSError if it is not well: then nobody knows whether it has done what it was asked."""
        return await self._call(method, json=arguments)

    async def read(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method that only reads: these take no JSON. Raises as `write` does."""
        return await self._call(method, params=arguments)

    async def respond(self, url: str, text: str) -> None:
        """Tell one person alone, by the address that came with what they did. Raises as `write` does."""
        answer = WebhookClient(url, timeout=REQUEST_TIMEOUT)
        send = partial(answer.send, text=text, response_type="ephemeral", replace_original=False)
        try:
            response = await anyio.to_thread.run_sync(send)
        except _BROKEN as error:
            raise OSError(f"Slack's answer broke off: {error!r}") from error
        if response.status_code != 200:
            raise SlackRefused("response_url", f"{response.status_code} {response.body[:100]}")

    async def messages(
        self, conversation: str, thread: str | None, within: tuple[float, float] | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Iterate over a thread, or over a conversation's messages outside threads; `within` two UNIX times."""
        method = "conversations.replies" if thread else "conversations.history"
        where: dict[str, Any] = {"channel": conversation, "limit": 200}
        if within is not None:
            where |= {"oldest": f"{within[0]:.6f}", "latest": f"{within[1]:.6f}"}
        if thread:
            where["ts"] = thread
        while True:
            page = await self.read(method, **where)
            for message in page["messages"]:
                yield message
            where["cursor"] = (page.get("response_metadata") or {}).get("next_cursor")
            if not where["cursor"]:
                return

    async def _call(self, method: str, **how: Any) -> dict[str, Any]:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(AT_ONCE)
        while True:
            try:
                # What was sent cannot be taken back: it is waited for, and a request is bounded.
                call = partial(self.client.api_call, method, **how)
                response = await anyio.to_thread.run_sync(call, limiter=self._limiter)
            except SlackApiError as error:
                wait = _seconds_to_wait(error)
                reason = str(error.response.get("error", error))
                is_slack = _CODE.fullmatch(reason) is not None  # and not a page of something between Slack and us
                if wait is None and (error.response.status_code >= 500 or reason in _PASSING or not is_slack):
                    raise OSError(f"Slack cannot answer now: {error.response.status_code} {reason[:100]}") from None
                if wait is None:
                    raise SlackRefused(method, reason) from None
            except URLError as error:  # while it was connected to, or sent the request
                raise ConnectionRefusedError(f"Slack cannot be reached: {error.reason!r}") from error
            except _BROKEN as error:
                raise OSError(f"Slack's answer broke off: {error!r}") from error
            else:
                answer = response.data
                assert isinstance(answer, dict)
                return answer
            await anyio.sleep(wait)


def _seconds_to_wait(error: SlackApiError) -> float | None:
    """Return how long to wait before the same request, None if waiting does not help."""
    response = error.response
    if response.status_code != 429 and response.get("error") != "ratelimited":
        return None
    told = {name.lower(): value for name, value in response.headers.items()}.get("retry-after", "1")
    return float(told) if str(told).isdigit() else 1.0
