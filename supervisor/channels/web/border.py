"""The outermost layer, pure ASGI: each request passes its checks before it reaches a route.

Rules
- The Host header must name this server (DNS rebinding): a known name, or a literal address if the server is bound to
  all addresses. A name can be rebound, an address cannot.
- A request with both Content-Length and Transfer-Encoding is refused: a proxy and this server could disagree on where
  it ends. The length of a body is limited, also if the client announces a shorter one. The server waits for a body, and
  for the head of a request, only for a limited time.
- The rest of an unread body is dropped while the server answers. Its queue has few places and also carries the message
  that the client has gone, so a full queue would block the end of the answer for ever.
- The number of running requests is limited; a request beyond the limit gets 503. The probes (`always`) are answered in
  any case, so that a monitor does not take a busy daemon for a dead one.
- A request does not count as running while it waits for its body. When too many bodies are awaited, the oldest request
  is given up.
- The headers of every answer forbid browsers to guess types, to show the page in a frame, and to send a referrer.
- Every exception of the inner layers becomes a problem document (channels/web/problems.py).
"""

import ipaddress
import re
from collections.abc import Callable, Collection
from typing import Final

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from supervisor.channels.web.bounds import Arrivals, Bound, Place
from supervisor.channels.web.problems import Problem, problem_of
from supervisor.system.logs import FactLog

log = FactLog(__name__)

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
PATIENCE_SECONDS: Final = 30.0
"""Seconds within which a body must arrive."""
ARRIVALS: Final = 100
"""The most bodies that are awaited at once."""
GONE_SECONDS: Final = 1.0
"""Seconds to wait after an answer for the server's message that the client has gone; it comes at once."""
TOLD: Final = 20
"""The most refused hosts that are logged: anyone can invent more."""
_ANNOUNCING: Final = ("content-length", "transfer-encoding")
"""Headers without which a request has no body."""
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:@/\[\]]+)(:\d*)?")
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Default headers; a route may replace them, since a page has its own policy."""


class Border:
    """`answered`: told the method and the status of every answer. `requests`: how many there may be at once; `always`:
    paths for which that does not count."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        answered: Callable[[str, int], None],
        requests: Bound,
        *,
        any_address: bool,
        always: Collection[str] = (),
    ) -> None:
        self._app = app
        self._requests = requests
        self._always = frozenset(always)
        self._arrivals = Arrivals(ARRIVALS)
        self._answered = answered
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address
        self._told: set[str] = set()
        """The refused hosts that were logged."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "no websockets here"})
            return
        has_begun = False
        headers = Headers(scope=scope)
        place = Place(self._requests)
        is_empty = not any(name in headers for name in _ANNOUNCING)
        body = _Body(receive, place, self._arrivals, is_empty=is_empty)

        async def answer(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                self._answered(scope["method"], message["status"])
                answered = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _HEADERS.items():
                    answered.setdefault(name, value)
            await body.drop_during(send, message)

        try:
            self._check(headers)
            if scope["path"] not in self._always:
                place.take()
            await self._app({**scope, "app": self}, body, answer)  # with an app the router raises
        except Exception as error:  # noqa: BLE001 # the outermost layer answers every request
            problem = problem_of(error)
            if not has_begun:
                await problem.response()(scope, receive, answer)
        finally:
            place.leave()
            self._arrivals.remove(body)

    def _check(self, headers: Headers) -> None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            if host not in self._told and len(self._told) < TOLD:  # a chat platform does not show our answer
                self._told.add(host)
                log.warning("host.refused", host=host[:200], advice="add it to server.hosts if it is this server")
            raise Problem(421, f"this server is not {host!r}; add the name to `hosts` in its configuration if it is")
        if all(name in headers for name in _ANNOUNCING):  # a proxy before us may believe the other one
            raise Problem(400, "a request says how long its body is in one way", headers={"connection": "close"})
        length = headers.get("content-length", "0")
        if length.isdecimal() and (
            len(length) > 18 or int(length) > MAX_BODY_BYTES
        ):  # int() refuses thousands of digits
            raise _too_large()

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host.lower())
        if found is None:
            return False
        name = found["name"]
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return self._any_address


class _Body:
    """`receive`, until more has come than a body may have, it has taken longer than it may take, or it has to make room
    for others. While it is waited for, its request has no place among those under way."""

    def __init__(self, receive: Receive, place: Place, arrivals: Arrivals, *, is_empty: bool) -> None:
        self._receive = receive
        self._place = place
        self._arrivals = arrivals
        self._length = 0
        self._deadline = anyio.current_time() + PATIENCE_SECONDS
        self._is_whole = is_empty
        """Whether no more messages can come, except that the client has gone."""
        self._is_awaited = False
        self._is_given_up = False
        self._wait = anyio.CancelScope()
        self._gone: Message | None = None

    async def __call__(self) -> Message:
        self._is_awaited = True
        try:
            if self._is_whole:
                return self._gone or await self._take()
            return await self._take_in_time()
        finally:
            self._is_awaited = False

    def give_up(self) -> None:
        self._is_given_up = True
        self._wait.cancel()

    async def _take_in_time(self) -> Message:
        if not self._is_given_up:
            self._arrivals.add(self)
            with anyio.CancelScope(deadline=self._deadline) as self._wait, self._place.left():
                message = await self._take()
                self._length += len(message.get("body", b""))
                if self._length > MAX_BODY_BYTES:
                    raise _too_large()
                if self._is_whole:
                    self._arrivals.remove(self)
                return message
        why = "others wait: send a body at once" if self._is_given_up else f"a body may take {PATIENCE_SECONDS:g} s"
        raise Problem(408, why, headers={"connection": "close"})

    async def drop_during(self, send: Send, message: Message) -> None:
        """Send a part of the answer, and drop the unread body meanwhile; after the last part, all of it."""
        if self._is_whole or self._is_awaited:
            await send(message)
            return
        async with anyio.create_task_group() as tasks:
            dropped = anyio.Event()
            tasks.start_soon(self._drop, dropped)
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                with anyio.move_on_after(GONE_SECONDS, shield=True):
                    await dropped.wait()
            tasks.cancel_scope.cancel()

    async def _drop(self, dropped: anyio.Event) -> None:
        while self._gone is None:
            await self._take()
            await anyio.lowlevel.checkpoint()
        dropped.set()

    async def _take(self) -> Message:
        message = await self._receive()
        self._is_whole = not message.get("more_body", False)
        if message["type"] == "http.disconnect":
            self._gone = message
        return message


def _too_large() -> Problem:
    return Problem(413, f"a body may have {MAX_BODY_BYTES} bytes at most", headers={"connection": "close"})
