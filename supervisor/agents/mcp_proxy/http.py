"""A server at an address: streamable HTTP, by the client of the `mcp` package.

Rules
- A request is sent once. Where the server can be reached no more, a request has an error, and the proxy goes on.
- The protocol's version that `initialize` has agreed on is a header of each later request.
- Headers that the operator gives may be secrets: they are in no log, no journal and no error.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import jsonrpc_message_adapter

from supervisor.system.logs import FactLog

log = FactLog(__name__)

Message = Mapping[str, Any]

VERSION: Final = "mcp-protocol-version"
CONNECT_SECONDS: Final = 30.0  # seconds for a connection, and for what is sent
_UNREACHABLE: Final = -32000


class _Patient(httpx2.AsyncHTTPTransport):
    """Answers a request with an error where its server cannot be reached, so that one failure ends no connection."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await super().handle_async_request(request)
        except httpx2.TransportError as error:
            text = f"the MCP server cannot be reached: {type(error).__name__}"
            log.warning("server.unreachable", error=type(error).__name__)
            told = {"jsonrpc": "2.0", "id": None, "error": {"code": _UNREACHABLE, "message": text}}
            return httpx2.Response(502, json=told, request=request)


class _Http:
    def __init__(self, reads: Any, writes: Any) -> None:
        self._reads = reads
        self._writes = writes
        self._greeting: Any = None
        """The id of the client's `initialize`, until it is answered."""
        self._headers: dict[str, str] = {}

    async def send(self, message: Message) -> None:
        try:
            sent = jsonrpc_message_adapter.validate_python(dict(message), by_name=False)
        except ValueError:  # the other side waits for nothing that has no meaning
            log.warning("message.dropped", reason="it is no message of JSON-RPC 2.0", method=message.get("method"))
            return
        if message.get("method") == "initialize":
            self._greeting = message.get("id")
        metadata = ClientMessageMetadata(headers=dict(self._headers)) if self._headers else None
        await self._writes.send(SessionMessage(sent, metadata=metadata))

    async def receive(self) -> Message:
        while isinstance(item := await self._reads.receive(), Exception):
            log.warning("message.dropped", reason=type(item).__name__)
        message: dict[str, Any] = item.message.model_dump(by_alias=True, exclude_unset=True, mode="json")
        if self._greeting is not None and message.get("id") == self._greeting:
            agreed = (message.get("result") or {}).get("protocolVersion")
            if isinstance(agreed, str):
                self._greeting, self._headers = None, {VERSION: agreed}
        return message


@asynccontextmanager
async def open_http(url: str, headers: Mapping[str, str]) -> AsyncIterator[_Http]:
    """Give the messages of the server at a URL. A call may take as long as its deadline lets it."""
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=_Patient()) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=None) as (reads, writes),
    ):
        yield _Http(reads, writes)
        with anyio.CancelScope(shield=True):
            await writes.aclose()
