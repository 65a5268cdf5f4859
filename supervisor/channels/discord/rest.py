"""Discord's REST interface, with the bot's token.

Rules
- Discord says with each answer how many more requests of its kind it takes, and when it takes the next ones. A request
  that it would refuse waits until then: Discord shuts out an address that is refused too often.
- A request that is limited all the same (429) is repeated after the time that Discord says, and all others of its kind
  wait as long; so do all requests, if the limit is for all.
- A refused request raises.
"""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final

import anyio
import httpx
import msgspec

from supervisor.channels.chat.refusals import Meaning, Refused
from supervisor.system.http_requests import HttpClient, HttpReply, reaching

REQUEST_TIMEOUT_SECONDS: Final = 10.0  # seconds that one request may take
EPOCH: Final = 1_420_070_400_000  # UNIX time in milliseconds from which ids count
PAGE: Final = 100  # messages in one answer
KINDS: Final = 500  # of requests that are remembered; then those are forgotten that are not limited
_MESSAGE: Final = re.compile(r"(?<=/messages/)[0-9]+")
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


class _Kind:
    """The requests of one kind, which are made one after the other."""

    def __init__(self) -> None:
        self.turn = anyio.Lock()
        self._left = 1
        self._resets_at = 0.0

    @property
    def pause(self) -> float:
        """Seconds until Discord takes the next one."""
        return max(0.0, self._resets_at - anyio.current_time()) if self._left <= 0 else 0.0

    @property
    def is_idle(self) -> bool:
        return self._resets_at < anyio.current_time() and not self.turn.locked()

    def note(self, reply: HttpReply) -> None:
        """Note what an answer says of the next requests."""
        left, seconds = 1, 0.0
        if reply.status == 429:
            left, seconds = 0, _seconds_to_wait(reply)
        else:
            with suppress(KeyError, ValueError):
                seconds = float(reply.headers["x-ratelimit-reset-after"])
                left = int(reply.headers["x-ratelimit-remaining"])
        self._left, self._resets_at = left, anyio.current_time() + seconds


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
        self._kinds: dict[str, _Kind] = {}
        self._all = _Kind()

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
        kind = self._find_kind(method, path)
        while True:
            if not waits and (pause := max(kind.pause, self._all.pause)) > 0:
                raise ConnectionRefusedError(f"Discord takes no {method} for {pause:g} s")
            async with kind.turn:
                await anyio.sleep(max(kind.pause, self._all.pause))
                with reaching("Discord"):
                    reply = await self._client.request(method, path, sent, params=params)
                if reply.status == 429 and not waits:  # it limits no other request
                    raise ConnectionRefusedError(f"Discord takes no {method} for {_seconds_to_wait(reply):g} s")
                (self._all if "x-ratelimit-global" in reply.headers else kind).note(reply)
            if reply.status != 429:
                break
        if reply.status >= 500:
            raise OSError(f"Discord cannot answer now: {reply.status}")
        if not reply.is_success:
            raise _refusal(f"{method} {path.split('/')[1]}", reply)  # a path may hold an interaction's token
        try:
            return msgspec.json.decode(reply.content) if reply.content else None
        except (msgspec.MsgspecError, RecursionError):  # it is cut, or a proxy's
            raise OSError(f"Discord cannot answer now: {reply.status}, and not in its form") from None

    def _find_kind(self, method: str, path: str) -> _Kind:
        """Return the kind of a request: all messages of a channel are of one."""
        if len(self._kinds) > KINDS:
            self._kinds = {name: kind for name, kind in self._kinds.items() if not kind.is_idle}
        return self._kinds.setdefault(f"{method} {_MESSAGE.sub('', path)}", _Kind())


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
