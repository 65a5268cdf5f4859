"""The MCP server that Claude Code asks with `--permission-prompt-tool`: one tool, one request, one answer.

    {"tool_name": "Bash", "input": {"command": "make"}, "tool_use_id": "toolu_1"}
        -> {"behavior": "allow", "updatedInput": {"command": "make"}}
        -> {"behavior": "deny", "message": "denied by ana: not today"}

Claude Code takes exactly one block of text, which is JSON. Anything else is an error to it, and nothing runs.

Rules
- The transport is ours (agents/own_streams.py): the package's own reads stdin in a thread, which no cancellation ends.
- An answer counts as given when its line has been written. Until then the call is executing (permissions.py).
- A line that is no JSON-RPC message is reported to the protocol, which goes on. A line above MOST ends the connection.
"""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, TypeVar

import anyio
import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from supervisor.agents.claude.permissions import Allowed, Client, Denied, Permissions
from supervisor.agents.own_streams import OwnStreams, own_streams
from supervisor.system.logs import FactLog

log = FactLog(__name__)

TOOL: Final = "permission"
MOST_BYTES: Final = 64 * 1024 * 1024  # bytes of one line
_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "tool_name": {"type": "string"},
        "input": {"type": "object"},
        "tool_use_id": {"type": "string"},
    },
    "required": ["tool_name", "input"],
}
S = TypeVar("S", bound="_Stream")


async def serve(permissions: Permissions, version: str, reads: int = 0, writes: int = 1) -> None:
    """Answer requests until the client closes our standard input or reads no more. `reads`, `writes`: descriptors."""
    answering: dict[Any, Client] = {}

    def written(request: Any) -> None:
        if (client := answering.pop(request, None)) is not None:
            client.written()

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        about = "Ask a person whether a call may be made. For --permission-prompt-tool, not for a model."
        return types.ListToolsResult(tools=[types.Tool(name=TOOL, description=about, input_schema=dict(_SCHEMA))])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        client = Client()
        answer = await _answer(permissions, params, client)
        answering[context.request_id] = client
        text = types.TextContent(type="text", text=msgspec.json.encode(answer).decode())
        return types.CallToolResult(content=[text])

    server: Server[Any] = Server("supervisor", version=version, on_list_tools=list_tools, on_call_tool=call_tool)
    async with anyio.create_task_group() as tasks:
        with own_streams(OwnStreams, reads, writes) as streams:
            end = tasks.cancel_scope.cancel  # requests under way are given up: their approvals stay
            lines, answers = _Lines(streams, end), _Answers(streams, written, end)
            await server.run(lines, answers, server.create_initialization_options())
            tasks.cancel_scope.cancel()


async def _answer(permissions: Permissions, params: types.CallToolRequestParams, client: Client) -> dict[str, Any]:
    """Return the answer to one request. Every failure denies."""
    try:
        answer = await permissions.ask(*_read(params), client)
    except ValueError as error:
        answer = Denied(str(error))
    except Exception as error:  # noqa: BLE001 # whatever fails denies, and says why
        log.error("permission.failed", error=repr(error))
        answer = Denied(f"the supervisor failed: {error!r}")
    if isinstance(answer, Allowed):
        return {"behavior": "allow", "updatedInput": answer.arguments}
    denied = {"behavior": "deny", "message": answer.reason or "denied"}
    return {**denied, "interrupt": True} if answer.ends_turn else denied


def _read(params: types.CallToolRequestParams) -> tuple[str, dict[str, Any]]:
    """Return the tool and the input of a request. Raises ValueError."""
    if params.name != TOOL:
        raise ValueError(f"this server has no tool {params.name!r}: it has {TOOL!r}")
    given = params.arguments or {}
    tool, arguments = given.get("tool_name"), given.get("input")
    if not isinstance(tool, str):
        raise ValueError(f"tool_name is the name of a tool, not {tool!r}")
    if not isinstance(arguments, dict):
        raise ValueError(f"input is an object, not {type(arguments).__name__}")
    return tool, arguments


def _read_message(line: bytes) -> types.JSONRPCMessage:
    """Return the message of a line; raises ValueError. JavaScript writes half a surrogate pair as an escape, which a
    strict reader refuses: the request would have no answer. Python's reader takes it, and the request is denied."""
    adapter = types.jsonrpc_message_adapter
    try:
        return adapter.validate_json(line, by_name=False)
    except ValueError:
        return adapter.validate_python(json.loads(line), by_name=False)


class _Stream:
    """What the protocol needs of both streams."""

    async def aclose(self) -> None:
        """The descriptors belong to the process."""

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class _Lines(_Stream):
    """The messages of the client, a line each."""

    def __init__(self, streams: OwnStreams, ended: Any) -> None:
        self._streams = streams
        self._ended = ended
        self._held = bytearray()

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message, or why a line is none. Raises EndOfStream."""
        while (line := await self._line()) is not None:
            if line.strip():
                try:
                    return SessionMessage(_read_message(line))
                except (ValueError, RecursionError) as error:
                    return error
        self._ended()
        raise anyio.EndOfStream

    async def _line(self) -> bytes | None:
        searched = 0
        while (end := self._held.find(b"\n", searched)) < 0:
            searched = len(self._held)
            try:
                chunk = await self._streams.receive()
            except anyio.EndOfStream:
                return None
            if searched > MOST_BYTES:
                return None
            self._held += chunk
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line


class _Answers(_Stream):
    """The messages to the client. `written` gets the id of each answer that the descriptor has taken."""

    def __init__(self, streams: OwnStreams, written: Any, ended: Any) -> None:
        self._streams = streams
        self._written = written
        self._ended = ended

    async def send(self, item: SessionMessage, /) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            await self._streams.send(line)
        except anyio.BrokenResourceError:
            self._ended()
            return
        if not hasattr(item.message, "method"):
            self._written(getattr(item.message, "id", None))
