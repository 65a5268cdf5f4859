"""Slack's Web API, from either backend.

The SDK's asynchronous client needs aiohttp and fails on trio; its synchronous one runs in worker threads, a few at a
time.

Rules
- A person at the screen waits for a form and for an answer. These requests have their own threads, so that they never
  wait for cards that hang.
- The text that an agent is writing gives way to everything else. Its requests have their own threads, are not made
  while their method is limited, and do not limit it for others.
- Slack limits the rate of each method. When a call is limited (429), its method pauses for as long as Slack says. Then
  its calls are made one after the other, at most one in `pace` seconds, until no call was limited for LIMITED seconds.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from http.client import HTTPException
from typing import Any, Final, TypeVar
from urllib.error import URLError

import anyio
import anyio.to_thread
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.web import SlackResponse
from slack_sdk.webhook import WebhookClient

from supervisor.channels.chat.refusals import Meaning, Refused

T = TypeVar("T")

REQUEST_TIMEOUT_SECONDS: Final = 10  # seconds that one request may take
AT_ONCE: Final = 4
"""The most requests at the same time: Slack allows about one message a second in each conversation, and short bursts.
Requests for which a person waits have as many of their own."""
LIMITED_SECONDS: Final = 30.0
AWAITED: Final = ("views.open", "chat.postEphemeral")
"""Methods for which a person at the screen waits."""


class SlackRefused(Refused):
    """Slack answered a request with an error; `reason` is its code for it, such as "channel_not_found"."""

    def __init__(self, method: str, reason: str) -> None:
        super().__init__(f"Slack refused {method}: {reason}{_ADVICE.get(reason, '')}")
        self.reason = reason
        self.meaning = MEANINGS.get(reason, "unknown")


_ADVICE: Final = {
    "channel_not_found": "; is the conversation's id right, and is the app in it? (/invite it there)",
    "not_in_channel": "; invite the app to the conversation (/invite)",
    "invalid_auth": "; is the token right (the bot's begins with xoxb-, that of Socket Mode with xapp-)?",
    "token_revoked": "; install the app again, and configure its new token",
    "account_inactive": "; install the app again, and configure its new token",
    "missing_scope": "; give the app the scopes of docs/how-to/slack-manifest.yaml, and install it again",
}
MEANINGS: Final[Mapping[str, Meaning]] = {
    **dict.fromkeys(("message_not_found", "thread_not_found", "channel_not_found"), "gone"),
    "is_archived": "closed",
    **dict.fromkeys(("cant_update_message", "edit_window_closed", "cant_delete_message"), "fixed"),
    "not_in_channel": "out",
    "message_limit_exceeded": "busy",
    **dict.fromkeys(("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"), "denied"),
    **dict.fromkeys(("missing_scope", "no_permission", "restricted_action", "ekm_access_denied"), "denied"),
}
"""What Slack's error codes mean (chat/refusals.py)."""
_BROKEN: Final = (HTTPException, ValueError)
"""Raised for answers that end too soon, or that their declared encoding cannot decode."""
_CODE: Final = re.compile(r"[a-z0-9_]+")
"""The form of Slack's own error codes."""
_PASSING: Final = ("internal_error", "fatal_error", "service_unavailable", "request_timeout")
"""Error codes by which Slack reports a failure of its own, not of the request."""


class _Pace:
    """How fast a method may be called."""

    def __init__(self) -> None:
        self.resumes_at = 0.0
        """The time of the next allowed call."""
        self.limited_until = 0.0
        """Its calls are made one after the other until this time."""
        self.door = anyio.Lock()


class SlackWeb:
    """Calls methods of the Web API by name, with the app's bot token."""

    pace: float = 1.0
    """Seconds from one call to the next of a method that was limited."""

    def __init__(self, token: str, base_url: str = "https://slack.com/api/") -> None:
        self.client = WebClient(token=token, base_url=base_url, timeout=REQUEST_TIMEOUT_SECONDS, retry_handlers=[])
        self._turns = {kind: anyio.Semaphore(AT_ONCE) for kind in ("awaited", "usual", "passing")}
        """awaited: for requests for which a person waits; passing: that give way; usual: all others."""
        self._threads: anyio.CapacityLimiter | None = None
        self._paces: dict[str, _Pace] = {}

    async def write(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method that takes JSON. Raises SlackRefused; ConnectionRefusedError if Slack cannot be reached;
        OSError if it failed in between: then Slack may or may not have carried out the request."""
        return _data(await self._call(method, json=arguments))

    async def write_passing(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method that takes JSON, for something that gives way. Raises as `write` does, and
        ConnectionRefusedError also if the method is limited."""
        return _data(await self._call(method, gives_way=True, json=arguments))

    async def read(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method that only reads; these methods take no JSON. Raises as `write` does."""
        return _data(await self._call(method, params=arguments))

    async def ask_scopes(self) -> tuple[dict[str, Any], frozenset[str]]:
        """Return who the app is, and its scopes; no scopes if the answer does not name them. Raises as `write` does."""
        answer = await self._call("auth.test")
        told = {name.lower(): str(value) for name, value in answer.headers.items()}.get("x-oauth-scopes", "")
        return _data(answer), frozenset(each.strip() for each in told.split(",") if each.strip())

    async def check_socket(self, app_token: str) -> None:
        """Ask whether the app may open a connection for Socket Mode. Raises as `write` does."""
        client = WebClient(
            token=app_token, base_url=self.client.base_url, timeout=REQUEST_TIMEOUT_SECONDS, retry_handlers=[]
        )
        await self._call("apps.connections.open", client)

    async def respond(self, url: str, text: str) -> None:
        """Show a text to one person, by the address that came with their request. Raises as `write` does."""
        answer = WebhookClient(url, timeout=REQUEST_TIMEOUT_SECONDS)
        send = partial(answer.send, text=text, response_type="ephemeral", replace_original=False)
        try:
            async with self._turns["awaited"]:
                response = await self._in_thread(send)
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

    async def _in_thread(self, request: Callable[[], T]) -> T:
        """Make a request in a thread and wait for its end, which REQUEST_TIMEOUT_SECONDS bounds: it cannot be taken
        back."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(len(self._turns) * AT_ONCE)
        return await anyio.to_thread.run_sync(request, limiter=self._threads)

    async def _call(
        self, method: str, client: WebClient | None = None, *, gives_way: bool = False, **how: Any
    ) -> SlackResponse:
        pace = self._paces.setdefault(method, _Pace())
        if gives_way:
            return await self._call_passing(method, pace, how)
        while True:
            if anyio.current_time() < pace.limited_until:
                async with pace.door:
                    await anyio.sleep_until(pace.resumes_at)
                    answer = await self._request(method, pace, client or self.client, how)
                    pace.resumes_at = max(pace.resumes_at, anyio.current_time() + self.pace)
            else:
                answer = await self._request(method, pace, client or self.client, how)
            if answer is not None:
                return answer

    async def _call_passing(self, method: str, others: _Pace, how: dict[str, Any]) -> SlackResponse:
        pace = self._paces.setdefault(f"{method}, passing", _Pace())
        if anyio.current_time() >= max(pace.resumes_at, others.limited_until):
            answer = await self._request(method, pace, self.client, how, "passing")
            if answer is not None:
                return answer
        raise ConnectionRefusedError(f"Slack limits {method}")

    async def _request(
        self, method: str, pace: _Pace, client: WebClient, how: dict[str, Any], kind: str | None = None
    ) -> SlackResponse | None:
        """Make a request; return None if the method is limited and has to pause."""
        call = partial(client.api_call, method, **how)
        try:
            async with self._turns[kind or ("awaited" if method in AWAITED else "usual")]:
                if anyio.current_time() < pace.resumes_at:  # the method was limited while this call waited
                    return None
                return await self._in_thread(call)
        except SlackApiError as error:
            wait = _seconds_to_wait(error)
            if wait is not None:
                pace.resumes_at = max(pace.resumes_at, anyio.current_time() + wait)
                pace.limited_until = pace.resumes_at + LIMITED_SECONDS
                return None
            reason = str(error.response.get("error", error))
            is_slack = _CODE.fullmatch(reason) is not None  # otherwise a proxy answered, not Slack
            if error.response.status_code >= 500 or reason in _PASSING or not is_slack:
                raise OSError(f"Slack cannot answer now: {error.response.status_code} {reason[:100]}") from None
            raise SlackRefused(method, reason) from None
        except URLError as error:  # while connecting or sending the request
            raise ConnectionRefusedError(f"Slack cannot be reached: {error.reason!r}") from error
        except _BROKEN as error:
            raise OSError(f"Slack's answer broke off: {error!r}") from error


def _data(response: SlackResponse) -> dict[str, Any]:
    answer = response.data
    assert isinstance(answer, dict)
    return answer


def _seconds_to_wait(error: SlackApiError) -> float | None:
    """Return the seconds to wait before the same request, None if waiting does not help."""
    response = error.response
    if response.status_code != 429 and response.get("error") != "ratelimited":
        return None
    told = {name.lower(): value for name, value in response.headers.items()}.get("retry-after", "1")
    return float(told) if str(told).isdigit() else 1.0
