"""HTTP requests to one address of an operator: what the channels that only notify share.

Rules
- A redirect is an error: what a notice says is for the address that the operator chose.
- A request that was not answered may have arrived (OSError); a refused connection has not (ConnectionRefusedError).
  The caller tries again with back-off, under the same id.
- No error contains more of the address than its host, or a header: they may hold secrets. `HttpClient` keeps the path
  out of logs.
- At most LARGEST bytes of an answer are read. A notice is taken when its status says so, however long its answer is.
"""

from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

import anyio
import httpx

from supervisor.channels.sdk import Channel, Supervisor, SupervisorError
from supervisor.system.http_requests import HttpClient, HttpReply, reaching

Detail = Literal["link", "full"]

TIMEOUT_SECONDS: Final = 10.0  # seconds of one request
LARGEST_BYTES: Final = 1024 * 1024
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


class Notice(Channel):
    """A channel that only notifies, by requests to one address. `server`: what all of them begin with."""

    only_notifies = True
    keeps_cards = True

    def __init__(
        self, name: str, server: str, link: str | None, detail: Detail, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self.name = name
        self._link = link
        self._detail = detail
        headers = {"accept-encoding": "identity"}  # so that the bound of an answer is one of what it takes in memory
        self._client = HttpClient(
            server, headers=headers, timeout=TIMEOUT_SECONDS, largest=LARGEST_BYTES, transport=transport
        )

    async def serve(self, supervisor: Supervisor) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await self._client.aclose()

    async def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> HttpReply:
        """Return the answer to a request. Raises Refused, ConnectionRefusedError, OSError."""
        with reaching(self.name):
            reply = await self._client.request(method, path, body, headers=headers)
        if reply.status >= 500:
            raise OSError(f"{self.name} cannot answer now: {reply.status}")
        if not reply.is_success:
            raise Refused(self.name, reply.status)
        return reply


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
