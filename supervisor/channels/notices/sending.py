"""HTTP requests to one address of an operator.

Rules
- A redirect is an error: what a notice says is for the address that the operator chose.
- A request that was not answered may have arrived (OSError); a refused connection has not (ConnectionRefusedError).
  The caller tries again with back-off, under the same id.
- No error contains the address, its query or a header: they may hold secrets.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import anyio
import httpx

from supervisor.channels.sdk import SupervisorError

TIMEOUT: Final = 10.0  # seconds of one request
ADVICE: Final = {
    401: "; is the secret right?",
    403: "; may the token do this?",
    404: "; is the address right?",
    410: "; it wants no more of them",
}


class Refused(SupervisorError):
    """The other side answered with an error."""

    def __init__(self, name: str, status: int) -> None:
        redirect = "; write the address to which it redirects" * (300 <= status < 400)
        super().__init__(f"{name} refused the notice: {status}{ADVICE.get(status, redirect)}")
        self.status = status


class Sender:
    """Sends requests. `name`: the channel, for errors."""

    def __init__(self, name: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._name = name
        self._client = httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False, transport=transport)

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> httpx.Response:
        """Return the answer to a request. Raises Refused, ConnectionRefusedError, OSError."""
        request = self._client.build_request(method, url, headers=dict(headers), content=body or None)
        request.stream = _Body(body)
        try:
            response = await self._client.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise ConnectionRefusedError(f"{self._name} cannot be reached: {type(error).__name__}") from None
        except httpx.RequestError as error:
            raise OSError(f"the answer of {self._name} broke off: {type(error).__name__}") from None
        if response.status_code >= 500:
            raise OSError(f"{self._name} cannot answer now: {response.status_code}")
        if not response.is_success:
            raise Refused(self._name, response.status_code)
        return response

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._client.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of a request. It is no asynchronous generator: trio warns of one that a cancellation leaves open."""

    def __init__(self, body: bytes) -> None:
        self._parts = iter([body])

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for part in self._parts:
            return part
        raise StopAsyncIteration


def why_not_address(url: str, *, has_secret: bool) -> str | None:
    """Return why notices may not go to an address; None if they may. A secret is sent over TLS, or inside a machine."""
    form = "write https://HOST in plain letters, without a user and a fragment"  # never the address: it may be a secret
    try:
        parts = urlsplit(url)
        is_port = parts.port != 0
    except ValueError:
        return form
    is_plain = url.isascii() and url.isprintable() and " " not in url and "@" not in parts.netloc and is_port
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or not is_plain:
        return form
    is_here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme == "http" and has_secret and not is_here:
        return "write https://: others could read the secret on its way"
    return None
