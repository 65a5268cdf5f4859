"""The methods of Telegram's Bot API, by name.

Rules
- The bot's token is part of each URL. A transport of our own puts it there, below everything that logs a URL or raises
  an error: httpx knows, logs and raises addresses without the token.
- Telegram limits the messages to each chat (429), and says how long to wait. Then calls for that chat wait, and calls
  for others go on.
- An edit that changes nothing is refused by Telegram. Here it is a success.
"""

from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx
import msgspec

from supervisor.core.errors import SupervisorError

REQUEST_TIMEOUT: Final = 10.0  # seconds that one request may take
LONGEST: Final = 60.0
"""The longest pause that is waited for. After a longer one the caller tries again by itself."""


class TelegramRefused(SupervisorError):
    """Telegram answered a request with an error; `status` is its code, such as 403, and `text` its description."""

    def __init__(self, method: str, status: int, text: str, moved_to: int | None = None) -> None:
        advice = _advice(status, text)
        if moved_to is not None:
            advice = f"; the group is a supergroup now: write its new id, {moved_to}"
        super().__init__(f"Telegram refused {method}: {status} {text}{advice}")
        self.status = status
        self.text = text


_ADVICE: Final = (
    (401, "", "is the bot's token right? @BotFather shows it, and makes a new one"),
    (404, "", "is the bot's token right? @BotFather shows it, and makes a new one"),
    (
        400,
        "chat not found",
        "is the chat's id right, and has the person written to the bot, or is the bot in the group?",
    ),
    (403, "blocked", "the person has blocked the bot"),
    (403, "initiate", "the person has to write to the bot first"),
    (403, "", "add the bot to the group again"),
    (409, "webhook", "the bot has a webhook, of another program: remove it (deleteWebhook), or use a bot of its own"),
    (409, "", "another program fetches the messages of this bot: stop it, or use a bot of its own"),
)


def _advice(status: int, text: str) -> str:
    return next((f"; {advice}" for code, part, advice in _ADVICE if code == status and part in text.lower()), "")


class _Parameters(msgspec.Struct, frozen=True):
    retry_after: int | None = None
    migrate_to_chat_id: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    ok: bool
    result: Any = None
    error_code: int = 0
    description: str = ""
    parameters: _Parameters = _Parameters()


class BotApi:
    """Calls methods of one bot. `base_url`: of Telegram, or of a Bot API server of one's own."""

    def __init__(
        self, token: str, base_url: str = "https://api.telegram.org", transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._client = httpx.AsyncClient(
            base_url=base_url,
            timeout=REQUEST_TIMEOUT,
            transport=_WithToken(token, transport or httpx.AsyncHTTPTransport(proxy=_proxy(base_url))),
        )
        self._resumes_at: dict[Any, float] = {}
        """Chat -> the time of the next allowed call."""

    async def __aenter__(self) -> "BotApi":
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._client.aclose()

    async def call(self, method: str, *, wait: float = 0.0, **arguments: Any) -> Any:
        """Call a method and return its result. `wait`: seconds for which Telegram may hold its answer.

        Raises TelegramRefused; ConnectionRefusedError if Telegram cannot be reached; OSError if it failed in between:
        then Telegram may or may not have carried out the request.
        """
        chat = arguments.get("chat_id")
        while True:
            if (pause := self._resumes_at.get(chat, 0.0) - anyio.current_time()) > 0:
                await anyio.sleep(pause)
            answer = await self._request(method, arguments, wait)
            if answer.ok:
                return answer.result
            if answer.error_code != 429:
                break
            seconds = answer.parameters.retry_after or 1
            self._limit(chat, min(LONGEST, seconds))
            if seconds > LONGEST:
                raise ConnectionRefusedError(f"Telegram takes no {method} for {seconds} s")
        if "message is not modified" in answer.description:
            return None
        raise TelegramRefused(method, answer.error_code, answer.description, answer.parameters.migrate_to_chat_id)

    def _limit(self, chat: Any, seconds: float) -> None:
        now = anyio.current_time()
        self._resumes_at = {each: at for each, at in self._resumes_at.items() if at > now} | {chat: now + seconds}

    async def _request(self, method: str, arguments: dict[str, Any], wait: float) -> _Answer:
        timeout = httpx.Timeout(REQUEST_TIMEOUT, read=REQUEST_TIMEOUT + wait)
        try:
            response = await self._client.post(method, json=arguments, timeout=timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise ConnectionRefusedError(f"Telegram cannot be reached: {error!r}") from error
        except httpx.RequestError as error:
            raise OSError(f"Telegram's answer broke off: {error!r}") from error
        if response.status_code >= 500:
            raise OSError(f"Telegram cannot answer now: {response.status_code}")
        try:
            return msgspec.json.decode(response.content, type=_Answer)
        except (msgspec.MsgspecError, RecursionError):  # a proxy answered, not Telegram
            raise OSError(f"Telegram cannot answer now: {response.status_code}, and not in its form") from None


class _WithToken(httpx.AsyncBaseTransport):
    """Puts the token into the path of each request that it sends on."""

    def __init__(self, token: str, inner: httpx.AsyncBaseTransport) -> None:
        self._prefix = f"/bot{token}".encode()
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url.copy_with(raw_path=self._prefix + request.url.raw_path)
        body = _Body(request.content)
        sent = httpx.Request(request.method, url, headers=request.headers, stream=body, extensions=request.extensions)
        return await self._inner.handle_async_request(sent)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of a request. It is no asynchronous generator, as httpx's is: trio warns of one that a cancellation
    leaves unfinished."""

    def __init__(self, content: bytes) -> None:
        self._left = [content]

    def __aiter__(self) -> "_Body":
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


def _proxy(base_url: str) -> str | None:
    """Return the proxy of the environment. httpx looks for it only without a transport of one's own."""
    parts = urlsplit(base_url)
    if parts.hostname is None or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme) or getproxies().get("all")
