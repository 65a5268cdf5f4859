"""HTTP requests over httpx: what goes to other services, and what is read of their answers.

Rules
- An answer is read up to a bound. What is longer is cut, and says so (`HttpReply.is_whole`).
- httpx logs the address of each request, and keeps it in its errors. Addresses of services may hold secrets: a token, a
  hook's key, a topic. So httpx gets the host alone, and a transport of our own puts the path there (`HttpClient`).
- A request's body is no asynchronous generator, as httpx's is: trio warns of one that a cancellation leaves unfinished.
  A body can be sent again from its beginning.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx

LARGEST_BYTES: Final = 16 * 1024 * 1024  # bytes of an answer
CLOSING_SECONDS: Final = 1.0  # seconds that the end of an answer that was not read may take
_PATH: Final = "supervisor.path"
"""The extension of a request with the path that httpx does not get."""


class Body(httpx.AsyncByteStream):
    """The body of a request."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Parts(self._content)


class _Parts(AsyncIterator[bytes]):
    def __init__(self, content: bytes) -> None:
        self._left = [content]

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class HttpReply(NamedTuple):
    """An answer. `content`: at most as many bytes as the client reads."""

    status: int
    headers: httpx.Headers
    content: bytes
    is_whole: bool = True

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpClient:
    """Sends requests to one service, and follows no redirect. `base_url`: where it is, for the environment's proxies;
    `largest`: bytes that are read of an answer."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        largest: int = LARGEST_BYTES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = base_url
        self._largest = largest
        is_plain = base_url.startswith("http:")  # needs no certificates, and loading them takes 30 ms
        self._client = httpx.AsyncClient(
            headers=dict(headers or {}),
            timeout=timeout,
            follow_redirects=False,
            transport=_WithPath(transport or httpx.AsyncHTTPTransport(verify=not is_plain, proxy=_proxy(base_url))),
        )

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str | int] | None = None,
        timeout: httpx.Timeout | None = None,
    ) -> HttpReply:
        """Return the answer to a request. `path`: what follows the base URL; `body`: JSON. Raises
        httpx.RequestError."""
        url = httpx.URL(f"{self.base_url}{path}")
        more: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        request = self._client.build_request(
            method,
            url.copy_with(raw_path=b"/"),
            headers=({"content-type": "application/json"} if body else {}) | dict(headers or {}),
            content=body or None,
            extensions={_PATH: (url.copy_merge_params(params) if params else url).raw_path},
            **more,
        )
        response = await self._client.send(request, stream=True)
        try:
            content, is_whole = await read_up_to(response, self._largest)
            return HttpReply(response.status_code, response.headers, content, is_whole)
        finally:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await response.aclose()

    async def aclose(self) -> None:
        """Close its connections, also in a cancelled task."""
        with anyio.CancelScope(shield=True):
            await self._client.aclose()


@contextmanager
def reaching(name: str) -> Iterator[None]:
    """Raise what httpx raises in the words of the seams: ConnectionRefusedError for a request that was not made, and
    OSError for one whose answer was lost. Of an address, their texts have the host at most."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        raise ConnectionRefusedError(f"{name} cannot be reached: {error!r}") from None
    except httpx.RequestError as error:
        raise OSError(f"the answer of {name} broke off: {type(error).__name__}") from None


async def read_up_to(response: httpx.Response, largest: int) -> tuple[bytes, bool]:
    """Return the first `largest` bytes of an answer, and whether that is all of it."""
    content, is_whole = bytearray(), True
    try:
        async for part in response.aiter_bytes():
            content += part[: largest + 1 - len(content)]
            if is_whole and len(content) > largest:
                is_whole = False
                await _break_off(response)
    except (httpx.RequestError, ValueError):  # httpcore on trio asks a closed socket whether it has more
        if is_whole:
            raise
    return bytes(content[:largest]), is_whole


async def _break_off(response: httpx.Response) -> None:
    """Close the connection below an answer: its end is then read at once. A loop that is left would leave generators of
    httpx unfinished."""
    if (stream := response.extensions.get("network_stream")) is not None:
        await stream.aclose()


class _WithPath(httpx.AsyncBaseTransport):
    """Puts the path into each request that it sends on."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        extensions = dict(request.extensions)
        url = request.url.copy_with(raw_path=extensions.pop(_PATH))
        body = Body(request.content)
        sent = httpx.Request(request.method, url, headers=request.headers, stream=body, extensions=extensions)
        return await self._inner.handle_async_request(sent)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _proxy(base_url: str) -> str | None:
    """Return the proxy of the environment. httpx looks for it only without a transport of one's own."""
    parts = urlsplit(base_url)
    if parts.hostname is None or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme) or getproxies().get("all")
