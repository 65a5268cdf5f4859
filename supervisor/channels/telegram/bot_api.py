"""The methods of Telegram's Bot API, by name.

Rules
- The bot's token is part of each path, which `HttpClient` keeps out of httpx's logs and errors.
- Telegram limits the messages to each chat (429), and says how long to wait. Then calls for that chat wait, and calls
  for others go on.
- An edit that changes nothing is refused by Telegram. Here it is a success.
"""

from types import TracebackType
from typing import Any, Final

import anyio
import httpx
import msgspec

from supervisor.channels.chat.refusals import Meaning, Refused
from supervisor.system.http_requests import HttpClient, reaching

LONGEST_SECONDS: Final = 60.0
"""The longest pause that is waited for. After a longer one the caller tries again by itself."""


class TelegramRefused(Refused):
    """Telegram answered a request with an error; `status` is its code, such as 403, and `text` its description."""

    def __init__(self, method: str, status: int, text: str, moved_to: int | None = None) -> None:
        advice = _advice(status, text)
        if moved_to is not None:
            advice = f"; the group is a supergroup now: write its new id, {moved_to}"
        super().__init__(f"Telegram refused {method}: {status} {text}{advice}")
        self.status = status
        self.text = text
        self.meaning = "gone" if moved_to is not None else _meaning(status, text)


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


MEANINGS: Final[tuple[tuple[int, str, Meaning], ...]] = (
    (400, "message to edit not found", "gone"),
    (400, "message to delete not found", "gone"),
    (400, "message_id_invalid", "gone"),
    (400, "message can't be edited", "gone"),  # it is not the bot's: no card of ours can be shown on it
    (400, "chat not found", "gone"),
    (400, "message can't be deleted", "fixed"),  # it is older than 48 hours
    (400, "topic_closed", "closed"),
    (400, "not enough rights", "denied"),
    (401, "", "denied"),
    (403, "", "out"),
    (404, "", "denied"),
    (429, "", "busy"),
)
"""What Telegram's errors mean (chat/refusals.py): the status, a part of the description, the meaning."""


def _meaning(status: int, text: str) -> Meaning:
    found = (meaning for code, part, meaning in MEANINGS if code == status and part in text.lower())
    return next(found, "unknown")


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

    timeout: float = 10.0
    """Seconds that one request may take."""

    def __init__(
        self, token: str, base_url: str = "https://api.telegram.org", transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._client = HttpClient(base_url, timeout=self.timeout, transport=transport)
        self._bot = f"/bot{token}"
        self._resumes_at: dict[Any, float] = {}
        """Chat -> the time of the next allowed call."""

    async def __aenter__(self) -> "BotApi":
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def call_passing(self, method: str, **arguments: Any) -> Any:
        """Call a method for something that gives way, and return its result. Raises as `call` does;
        ConnectionRefusedError also if calls for its chat are limited. It limits no other call."""
        return await self._call(method, 0.0, arguments, gives_way=True)

    async def call(self, method: str, *, wait: float = 0.0, **arguments: Any) -> Any:
        """Call a method and return its result. `wait`: seconds for which Telegram may hold its answer.

        Raises TelegramRefused; ConnectionRefusedError if Telegram cannot be reached; OSError if it failed in between:
        then Telegram may or may not have carried out the request.
        """
        return await self._call(method, wait, arguments)

    async def _call(self, method: str, wait: float, arguments: dict[str, Any], *, gives_way: bool = False) -> Any:
        chat = arguments.get("chat_id")
        while True:
            if (pause := self._resumes_at.get(chat, 0.0) - anyio.current_time()) > 0:
                if gives_way:
                    raise ConnectionRefusedError(f"Telegram takes no {method} for {pause:.0f} s")
                await anyio.sleep(pause)
            answer = await self._request(method, arguments, wait)
            if answer.ok:
                return answer.result
            if answer.error_code != 429:
                break
            seconds = answer.parameters.retry_after or 1
            if not gives_way:
                self._limit(chat, min(LONGEST_SECONDS, seconds))
            if gives_way or seconds > LONGEST_SECONDS:
                raise ConnectionRefusedError(f"Telegram takes no {method} for {seconds} s")
        if "message is not modified" in answer.description:
            return None
        raise TelegramRefused(method, answer.error_code, answer.description, answer.parameters.migrate_to_chat_id)

    def _limit(self, chat: Any, seconds: float) -> None:
        now = anyio.current_time()
        self._resumes_at = {each: at for each, at in self._resumes_at.items() if at > now} | {chat: now + seconds}

    async def _request(self, method: str, arguments: dict[str, Any], wait: float) -> _Answer:
        timeout = httpx.Timeout(self.timeout, read=self.timeout + wait)
        body = msgspec.json.encode(arguments)
        with reaching("Telegram"):
            reply = await self._client.request("POST", f"{self._bot}/{method}", body, timeout=timeout)
        if reply.status >= 500:
            raise OSError(f"Telegram cannot answer now: {reply.status}")
        try:
            return msgspec.json.decode(reply.content, type=_Answer)
        except (msgspec.MsgspecError, RecursionError):  # it is cut, or a proxy's
            raise OSError(f"Telegram cannot answer now: {reply.status}, and not in its form") from None
