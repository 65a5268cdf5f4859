"""One server and the requests to it: which token they carry, what is sent again, what the server must be.

    ask      request -> document        a broken connection is tried again, if a second time does no harm
    open     request -> byte stream     once; streams.py goes on after a break

Rules
- Every new connection begins with GET /api: the server must have our version of the API, and the store that it had
  before. So no request reaches another server or another store, also when a daemon is started again in between.
- A request that was not sent is sent again, whatever it asks for. One that was sent is sent again only if it `repeats`
  harmlessly. Otherwise ServerUnavailable says that the server may have done it.
- A server that says that it is busy (503, 429) has done nothing.
- The token is asked for anew at each request. After a 401 it is asked for once more, since it may just have changed.
- The token stands in one header, and nowhere else: no URL, error, log or repr has it.
- An answer is read up to a bound. A server that sends more is not read any further.
- Leaving ends what is under way, in whatever task.
"""

import random
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import anyio
import httpx
import msgspec

from supervisor.client.addresses import Address
from supervisor.client.answers import Answer, AnswerTooLarge, error_of, read_document
from supervisor.core.errors import (
    InvalidInput,
    NotFound,
    ServerMismatch,
    ServerUnavailable,
    SupervisorError,
)
from supervisor.system.http_requests import Body, read_up_to

API: Final = 1
"""The version of the HTTP API that this client speaks."""
CONNECT_TIMEOUT_SECONDS: Final = 10.0
ANSWER_TIMEOUT_SECONDS: Final = 40.0
"""Seconds that an answer may take, and that a stream may be silent: more than two beats of it."""
CLOSE_TIMEOUT_SECONDS: Final = 1.0
LARGEST_ANSWER_BYTES: Final = 32 * 2**20
"""Bytes; twice the largest result of a call, which an answer may contain."""
LARGEST_GREETING_BYTES: Final = 64 * 1024
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """What GET /api answers. Unknown fields are ignored."""

    api: int
    version: str
    store: str
    person: str
    roles: tuple[str, ...]
    now: datetime
    cursor: str


class Connection:
    """`transport`: what sends requests, if not httpx's own."""

    shortest_pause: float = 0.2
    longest_pause: float = 5.0
    """Seconds between two tries."""

    def __init__(
        self,
        address: Address,
        token: str | Callable[[], str],
        reconnect_timeout: float,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.where = address.url
        self.reconnect_timeout = reconnect_timeout
        self.is_left = False
        self._token = token
        self._greeting: Greeting | None = None
        self._is_known = False
        """Whether the latest greeting found the right server."""
        self._ahead = timedelta(0)
        """How far the server's clock is ahead of ours, or a little less."""
        self._waits: set[anyio.CancelScope] = set()
        is_encrypted = address.url.startswith("https:")
        known = ssl.create_default_context() if is_encrypted else False  # the authorities that the system knows
        try:
            self._client = httpx.AsyncClient(
                verify=known,
                trust_env=address.uses_proxies,
                follow_redirects=False,
                timeout=httpx.Timeout(ANSWER_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS, read=None, pool=None),
                limits=httpx.Limits(max_connections=None),
                headers={"user-agent": "subagent-supervisor"},
                transport=transport,
            )
        except (ValueError, ImportError):
            raise InvalidInput(
                "the environment names a proxy that cannot be used: see $HTTPS_PROXY, $ALL_PROXY"
            ) from None

    def __repr__(self) -> str:
        return f"<connection to {self.where}>"

    @property
    def greeting(self) -> Greeting:
        assert self._greeting is not None, "a connection begins with a greeting"
        return self._greeting

    async def leave(self) -> None:
        """End what is under way, and close."""
        self.is_left = True
        for wait in list(self._waits):
            wait.cancel()
        with anyio.move_on_after(CLOSE_TIMEOUT_SECONDS, shield=True):
            await self._client.aclose()

    # -- requests ----------------------------------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        repeats: bool = False,
    ) -> Any:
        """Make a request and return the document of its answer. Raises what the server's problem stands for;
        ServerUnavailable, ServerMismatch."""
        answer = await self.answer(method, path, query=query, body=body, repeats=repeats)
        if not answer.is_good:
            raise error_of(answer, self.where)
        return answer.document

    async def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        repeats: bool = False,
    ) -> Answer:
        """Make a request and return its answer, whatever that says. `repeats`: it may be sent again although the server
        may have done it; what only reads always may."""
        repeats = repeats or method == "GET"
        maybe_done = False
        give_up_at = anyio.current_time() + self.reconnect_timeout
        for pause in self.pauses():
            try:
                response = await self._send(self._request(method, path, query, body))
                answer = await self._read(response, LARGEST_ANSWER_BYTES)
                if isinstance(error := None if answer.is_good else error_of(answer, self.where), ServerUnavailable):
                    raise error
                return answer
            except ServerUnavailable as error:
                maybe_done = maybe_done or (error.maybe_done and method != "GET")
                if (error.maybe_done and not repeats) or anyio.current_time() + pause > give_up_at:
                    raise ServerUnavailable(f"{error}{_AFTER[maybe_done]}", maybe_done=maybe_done) from None
            await self.rest(pause)
        raise AssertionError("pauses have no end")

    async def greet(self) -> Greeting:
        """Ask the server who it is, once. Raises ServerMismatch, ServerUnavailable, NotAuthenticated, StoreError."""
        self._is_known = False
        try:
            response = await self._send(self._request("GET", "/api"), is_greeting=True)
            answer = await self._read(response, LARGEST_GREETING_BYTES)
            read_at = datetime.now(UTC)
            if not answer.is_good:
                raise error_of(answer, self.where)
        except NotFound:
            raise ServerMismatch(
                f"{self.where} is no supervisor, although one may be at another path: is the address right?"
            ) from None
        except ServerUnavailable as error:  # whatever it was asked before, a greeting changes nothing
            raise ServerUnavailable(str(error), maybe_done=False) from None
        found = self._check(answer.document)
        if self._greeting is not None and self._greeting.store != found.store:
            raise ServerMismatch(
                f"{self.where} has another store now ({found.store}) than before ({self._greeting.store}): "
                "open it again to work with that one"
            )
        self._greeting, self._ahead, self._is_known = found, found.now - read_at, True
        return found

    def _check(self, document: Any) -> Greeting:
        version = document.get("api") if isinstance(document, dict) else None
        if type(version) is not int:
            raise ServerMismatch(f"{self.where} answers, but not as a supervisor does: is the address right?")
        if version != API:
            raise ServerMismatch(
                f"{self.where} has version {version} of the API (package {document.get('version')!s:.40}), and this "
                f"program has version {API}: install the same package on both"
            )
        try:
            return msgspec.convert(document, Greeting)
        except msgspec.ValidationError as error:
            raise ServerMismatch(f"{self.where} says who it is in a way that is not known here: {error}") from None

    def to_server_time(self, at: datetime) -> datetime:
        """Return an instant of this machine's clock by the server's clock; a little earlier, never later."""
        return at + self._ahead

    def now(self) -> datetime:
        """Return the server's time, or a little less."""
        return self.to_server_time(datetime.now(UTC))

    async def open(self, path: str, query: Mapping[str, Any], last_id: str | None) -> httpx.Response:
        """Begin to read a stream, and return it with its head read. The caller closes it."""
        request = self._request("GET", path, query)
        if last_id is not None:
            request.headers["last-event-id"] = last_id
        response = await self._send(request)
        if response.status_code == 200 and _media_type(response) == "text/event-stream":
            return response
        raise error_of(await self._read(response, LARGEST_GREETING_BYTES), self.where)

    def _request(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> httpx.Request:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        request = self._client.build_request(
            method, f"{self.where}{path}", params=given or None, content=content, headers=headers
        )
        request.stream = Body(content or b"")
        return request

    async def _send(self, request: httpx.Request, *, is_greeting: bool = False) -> httpx.Response:
        """Send a request with the token, and return the answer with its head read."""
        if not is_greeting and not self._is_known:  # a failed greeting may have left its connection open
            await self.greet()
        token = self._ask_for_token()
        response = await self._send_with(token, request, is_greeting=is_greeting)
        if response.status_code == 401 and callable(self._token) and (other := self._ask_for_token()) != token:
            await close(response)
            response = await self._send_with(other, request, is_greeting=is_greeting)
        return response

    async def _send_with(self, token: str, request: httpx.Request, *, is_greeting: bool) -> httpx.Response:
        was_sent = False

        async def follow(step: str, details: Any) -> None:
            nonlocal was_sent
            if step == "connection.connect_tcp.started" and not is_greeting:
                await self.greet()
            elif step.endswith("send_request_headers.started"):
                was_sent = True

        request.headers["authorization"] = f"Bearer {token}"
        request.extensions["trace"] = follow
        with self.waiting(), _translated(self.where, lambda: was_sent):
            return await self._client.send(request, stream=True)
        raise self.left()

    async def _read(self, response: httpx.Response, largest: int) -> Answer:
        """Read the rest of an answer, and close it. `largest`: bytes. Raises AnswerTooLarge."""
        try:
            with self.waiting(), _translated(self.where, lambda: True):
                content, is_whole = await read_up_to(response, largest)
                if not is_whole:
                    raise AnswerTooLarge(self.where, largest)
                return self._answer(response, content)
            raise self.left()
        finally:
            await close(response)

    def _answer(self, response: httpx.Response, body: bytes) -> Answer:
        media_type = _media_type(response)
        if not response.is_success:  # a proxy may repeat what it was sent
            shown = response.request.headers["authorization"].removeprefix("Bearer ")
            body = body.replace(shown.encode(), b"***")
        return Answer(
            response.status_code,
            read_document(body, media_type),
            media_type,
            response.headers.get("location", ""),
        )

    def _ask_for_token(self) -> str:
        token = self._token() if callable(self._token) else self._token
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise InvalidInput(
                "the token is empty, or has a character in it that no token has, such as a line's end; "
                "`supervisor token` makes one"
            )
        return token

    # -- leaving -----------------------------------------------------------------------------------------------------

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for the server, until an answer takes too long (ServerUnavailable). If the connection is left meanwhile,
        the block is left silently."""
        if self.is_left:
            raise self.left()
        with anyio.CancelScope(deadline=anyio.current_time() + ANSWER_TIMEOUT_SECONDS) as scope:
            self._waits.add(scope)
            try:
                yield
            finally:
                self._waits.discard(scope)
        if scope.cancelled_caught and not self.is_left:
            raise ServerUnavailable(f"{self.where} says nothing for {ANSWER_TIMEOUT_SECONDS:g} s", maybe_done=True)

    async def rest(self, seconds: float) -> None:
        """Wait between two tries; not when the connection is left."""
        with self.waiting():
            await anyio.sleep(seconds)

    def pauses(self) -> Iterator[float]:
        """Give the seconds between two tries: longer each time, and not the same for all clients."""
        longest = self.shortest_pause
        while True:
            yield random.uniform(self.shortest_pause, longest)  # noqa: S311 # no secret
            longest = min(self.longest_pause, longest * 2)

    def left(self) -> SupervisorError:
        return SupervisorError(f"the supervisor at {self.where} was left: open it again")


_AFTER: Final = {True: "; it may have been done all the same: look before you do it again", False: ""}


async def close(response: httpx.Response) -> None:
    """Close an answer, also one that was not read to its end."""
    with anyio.move_on_after(CLOSE_TIMEOUT_SECONDS, shield=True):
        await response.aclose()


@contextmanager
def _translated(where: str, was_sent: Callable[[], bool]) -> Iterator[None]:
    """Translate httpx's errors. None of them is shown whole, or kept as a cause: they hold the request."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        why = re.sub(r"https?://\S+", "...", str(error)) or str(_tls_error_of(error) or type(error).__name__)
        raise ServerUnavailable(f"{where} cannot be reached: {why}", maybe_done=False) from None
    except httpx.TransportError as error:
        raise ServerUnavailable(
            f"the connection to {where} broke ({type(error).__name__})", maybe_done=was_sent()
        ) from None
    except httpx.DecodingError:
        raise ServerMismatch(f"{where} answers what cannot be decoded") from None


def _tls_error_of(error: BaseException | None) -> ssl.SSLError | None:
    """Return what TLS refused. On trio httpx's error has no text of its own."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _media_type(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
