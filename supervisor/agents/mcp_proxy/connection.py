"""The messages between an MCP client and its server: all pass as they are, but for those that people decide.

    client                          proxy                                     server
    tools/call               ->     a call of ours (calls.py)           ->    tools/call, with an id of ours
    notifications/cancelled  ->     of such a call: the client leaves   ->    for that id, unless it was a timeout
    initialize               ->     offers forms of elicitation         ->
    everything else          ->                                         ->
                             <-                                         <-    everything else
    progress of its call     <-     by the client's token               <-    by a token of ours
                                    a question for a person             <-    elicitation/create, a form

Rules
- A method that this module does not know passes, in both directions, with its ids and tokens. Ids of ours are made of
  random letters, so that no client has the same.
- `tools/call` never passes by itself: one without an id, which would get no answer, is dropped and logged.
- A client that gives up by a timeout of its own leaves the call running. Any other cancel of a running call is told the
  server, too. It has ANSWERS_CANCEL_WITHIN_SECONDS, as the protocol asks no answer of it.
- While a person is asked, a client with a progress token hears so every TELLS_EVERY_SECONDS. Some clients count
  their timeouts from the last progress.
- What the server says of its tools is taken from the lists that pass. It is never trusted but for a schema, with which
  edits are checked, and for read-only tools if the operator says so.
- The protocol of July 2026 (`server/discover`) is not spoken: clients fall back to `initialize`.
"""

import math
import re
from collections.abc import Mapping
from secrets import token_hex
from typing import Any, Final, Protocol

import anyio
from anyio.abc import TaskGroup

from supervisor.agents.mcp_proxy.callers import Caller, Offered, OpenCall
from supervisor.agents.mcp_proxy.calls import Calls
from supervisor.agents.mcp_proxy.replies import Reply
from supervisor.core.errors import InvalidInput, ToolFailed
from supervisor.system.logs import FactLog

log = FactLog(__name__)

Message = Mapping[str, Any]

CALL: Final = "tools/call"
LIST: Final = "tools/list"
CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
ELICIT: Final = "elicitation/create"
DISCOVER: Final = "server/discover"
INVALID_PARAMS, METHOD_NOT_FOUND = -32602, -32601

TELLS_EVERY_SECONDS: Final = 10.0
ANSWERS_CANCEL_WITHIN_SECONDS: Final = 2.0
LAST_WORDS_SECONDS: Final = 1.0  # seconds for telling the client what a server that has ended has left unanswered
_TIMED_OUT: Final = re.compile(r"time[d ]*[- ]?out", re.IGNORECASE)
"""How clients say that they have waited too long, in the reason of a cancel: "timed out", "request timeout"."""
_LOST: Final = "the connection to the MCP server ended before it answered; the call may have run"


class Wire(Protocol):
    """Messages to a peer and from it."""

    async def send(self, message: Message) -> None:
        """Write a message. Raises anyio.BrokenResourceError if the peer takes no more."""

    async def receive(self) -> Message:
        """Return the next message. Raises anyio.EndOfStream after the last one."""


class _Flight:
    """A call at the server."""

    def __init__(self, call: OpenCall) -> None:
        self.call = call
        self.answer: Message | None = None
        self.is_over = anyio.Event()
        self.is_cancelled = anyio.Event()

    def end(self, answer: Message | None) -> None:
        self.answer = answer
        self.is_over.set()


class Connection:
    """The messages between `client` and `server`; `name` and the options: see Calls."""

    def __init__(self, client: Wire, server: Wire, name: str, *, trust_hints: bool, timeout: float) -> None:
        self.calls = Calls(name, trust_hints=trust_hints, timeout=timeout, forward=self._forward)
        self.server_ended = anyio.Event()
        self._client = client
        self._server = server
        self._outbox, self._outgoing = anyio.create_memory_object_stream[Message](math.inf)
        self._mark = token_hex(8)
        self._number = 0
        self._flights: dict[Any, _Flight] = {}
        self._callers: dict[Any, tuple[Caller, anyio.CancelScope]] = {}
        self._questions: dict[Any, anyio.CancelScope] = {}
        self._tools: dict[str, Offered] = {}
        self._lists: dict[Any, bool] = {}
        """The client's requests for the tools that are under way, and whether each asks for the first page."""
        self._tasks: TaskGroup | None = None

    async def serve(self) -> bool:
        """Answer the client until it or the server ends the connection, and return whether the client did. Calls under
        way are given up, and stay."""
        has_client_left = False
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._end_with_server, tasks.cancel_scope)
                try:
                    while True:
                        await self._from_client(await self._client.receive(), tasks)
                except anyio.EndOfStream:
                    has_client_left = True
                    tasks.cancel_scope.cancel()
                finally:
                    self._tasks = None
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            has_client_left = True
            log.info("connection.ended", reason="the client reads no more")
        await self.calls.withdraw_questions()
        return has_client_left

    async def _end_with_server(self, scope: anyio.CancelScope) -> None:
        """When the server has ended, let the calls that it left unanswered be answered, and end."""
        await self.server_ended.wait()
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            for caller, _ in [*self._callers.values()]:
                if caller.request is not None and caller.request.is_running:
                    await caller.is_over.wait()
        scope.cancel()

    async def talk_to_server(self) -> None:
        """Exchange messages with the server until it ends. Its own task writes: a call that is cancelled in the middle
        of its message would leave half a line."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write_to_server)
            try:
                while True:
                    await self._from_server(await self._server.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                tasks.cancel_scope.cancel()
            finally:
                self.server_ended.set()
                for flight in self._flights.values():
                    flight.end(None)

    async def _write_to_server(self) -> None:
        try:
            async for message in self._outgoing:
                await self._server.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            log.info("messages.dropped", reason="the server takes no more")

    # -- the client ----------------------------------------------------------------------------------------------------

    async def _from_client(self, message: Message, tasks: TaskGroup) -> None:
        method, params = message.get("method"), _params(message)
        if method == CALL:
            if _id(message) is None:
                log.warning("call.dropped", reason="it has no id, so its result could not be told")
                return
            caller, scope = self._callers[_id(message)] = Caller(params), anyio.CancelScope()
            tasks.start_soon(self._call, _id(message), caller, scope)
            return
        if method == DISCOVER and "id" in message:
            error = {"code": METHOD_NOT_FOUND, "message": "this proxy speaks the protocol that begins with initialize"}
            await self._tell({"id": message["id"], "error": error})
            return
        if method == CANCELLED and (found := self._callers.get(_key(params.get("requestId")))) is not None:
            self._give_up(*found, params.get("reason"))
            return
        if method == LIST and _id(message) is not None:
            self._lists[_id(message)] = params.get("cursor") is None
        self._send(_offering_forms(message) if method == "initialize" else message)

    async def _call(self, request: Any, caller: Caller, scope: anyio.CancelScope) -> None:
        """Answer a call, unless the client gives up: `scope`."""
        try:
            with scope:
                reply = await self._reply(caller)
                await self._tell({"id": request, **reply})
                caller.written()
        finally:
            caller.is_over.set()
            if self._callers.get(request, (None,))[0] is caller:
                del self._callers[request]

    async def _reply(self, caller: Caller) -> Reply:
        tool, arguments = caller.params.get("name"), caller.params.get("arguments")
        arguments = {} if arguments is None else arguments
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            return {"error": {"code": INVALID_PARAMS, "message": "tools/call has a name, and an object as arguments"}}
        async with anyio.create_task_group() as telling:
            telling.start_soon(self._tell_of_waiting, caller, f"waiting for a person to decide {tool}")
            reply = await self.calls.call(tool, arguments, caller, self._tools.get(tool, Offered()))
            telling.cancel_scope.cancel()
        return reply

    def _give_up(self, caller: Caller, scope: anyio.CancelScope, reason: Any) -> None:
        call = caller.request
        is_timeout = isinstance(reason, str) and _TIMED_OUT.search(reason) is not None
        scope.cancel()
        if call is None or call.message is not caller:
            return
        call.leave(caller)  # now: the client's next message may be the same call
        if is_timeout:
            return
        for request, flight in self._flights.items():
            if flight.call is call and not flight.is_cancelled.is_set():
                flight.is_cancelled.set()
                self._cancel(request, reason)
                return

    async def _tell_of_waiting(self, caller: Caller, text: str) -> None:
        """Show the client that its call is alive, until it is at the server, which shows its own progress."""
        number = 0
        while caller.token is not None:
            await anyio.sleep(TELLS_EVERY_SECONDS)
            number += 1
            if caller.request is not None and not caller.request.is_running:
                # So little that it stays below what the server says later: progress never goes back.
                said = {"progressToken": caller.token, "progress": number / 1_000_000, "message": text}
                await self._tell({"method": PROGRESS, "params": said})

    async def _tell(self, message: Message) -> None:
        await self._client.send({"jsonrpc": "2.0", **message})

    # -- the server ----------------------------------------------------------------------------------------------------

    async def _forward(self, call: OpenCall, params: dict[str, Any]) -> Message:
        """Send a call to the server, once, and return its answer. Raises ToolFailed if there is none."""
        self._number += 1
        request = f"{self._mark}-{self._number}"
        meta = params.get("_meta")
        params["_meta"] = {**(meta if isinstance(meta, Mapping) else {}), "progressToken": request}
        if self.server_ended.is_set():
            raise ToolFailed("the MCP server has ended, and got no call", reason="connection_lost", effect="none")
        flight = self._flights[request] = _Flight(call)
        try:
            self._send({"jsonrpc": "2.0", "id": request, "method": CALL, "params": params})
            await self._land(flight)
        except BaseException:  # the deadline, a cancel of the session, our end
            self._cancel(request, "the supervisor ended the call")
            raise
        finally:
            del self._flights[request]
        if flight.answer is not None:
            return flight.answer
        if flight.is_cancelled.is_set():
            text = "the client cancelled the call, and the MCP server gave no result; it may have run"
            raise ToolFailed(text, reason="cancelled", effect="maybe")
        raise ToolFailed(_LOST, reason="connection_lost", effect="maybe")

    async def _land(self, flight: _Flight) -> None:
        """Wait for the answer; after a cancel, not for long."""
        async with anyio.create_task_group() as tasks:

            async def bound() -> None:
                await flight.is_cancelled.wait()
                await anyio.sleep(ANSWERS_CANCEL_WITHIN_SECONDS)
                tasks.cancel_scope.cancel()

            tasks.start_soon(bound)
            await flight.is_over.wait()
            tasks.cancel_scope.cancel()

    async def _from_server(self, message: Message) -> None:
        method, params = message.get("method"), _params(message)
        if method is None:
            if not self._take_answer(message):
                await self._pass_on(message)
        elif method == PROGRESS and self._is_ours(token := _key(params.get("progressToken"))):
            flight = self._flights.get(token)
            caller = None if flight is None else flight.call.message
            if caller is not None and caller.token is not None:
                await self._pass_on({**message, "params": {**params, "progressToken": caller.token}})
        elif method == CANCELLED and (scope := self._questions.get(_key(params.get("requestId")))) is not None:
            scope.cancel()
        elif method == ELICIT and _id(message) is not None and params.get("mode", "form") == "form":
            if self._tasks is None:  # the client has left, and its calls end
                self._send({"jsonrpc": "2.0", "id": _id(message), "result": {"action": "cancel"}})
            else:
                self._tasks.start_soon(self._ask, _id(message), params)
        else:
            await self._pass_on(message)

    def _take_answer(self, message: Message) -> bool:
        """Take the server's answer to a call of ours. One that comes too late has no call any more. Return whether it
        is none of the client's."""
        answered = _id(message)
        if self._is_ours(answered):
            if (flight := self._flights.get(answered)) is not None:
                flight.end(message)
            return True
        if (is_first := self._lists.pop(answered, None)) is not None:
            self._note_tools(message.get("result"), is_first=is_first)
        return False

    async def _pass_on(self, message: Message) -> None:
        try:
            await self._client.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client has left, and hears no more
            log.info("message.dropped", reason="the client has left", method=message.get("method"))

    async def _ask(self, request: Any, params: Mapping[str, Any]) -> None:
        """Ask a person what the server asks. If the client leaves meanwhile, the server hears `cancel`; if the server
        gives up, nothing."""
        with anyio.CancelScope() as scope:
            self._questions[request] = scope
            message, form = params.get("message"), params.get("requestedSchema")
            told: Message = {"result": {"action": "cancel"}}
            try:
                if not isinstance(message, str) or not isinstance(form, Mapping):
                    raise InvalidInput("a form has a message and a requestedSchema")
                told = {"result": await self.calls.ask(message, form)}
            except InvalidInput as error:
                told = {"error": {"code": INVALID_PARAMS, "message": str(error)}}
            finally:
                self._questions.pop(request, None)
                if not scope.cancel_called:
                    self._send({"jsonrpc": "2.0", "id": request, **told})

    def _is_ours(self, key: Any) -> bool:
        return isinstance(key, str) and key.startswith(self._mark)

    def _note_tools(self, result: Any, *, is_first: bool) -> None:
        """Keep what the server says of its tools."""
        if not isinstance(result, Mapping) or not isinstance(tools := result.get("tools"), list):
            return
        if is_first:
            self._tools.clear()
        for tool in tools:
            if isinstance(tool, Mapping) and isinstance(name := tool.get("name"), str):
                schema, hints = tool.get("inputSchema"), tool.get("annotations")
                is_read_only = isinstance(hints, Mapping) and hints.get("readOnlyHint") is True
                self._tools[name] = Offered(schema if isinstance(schema, Mapping) else None, is_read_only)

    def _cancel(self, request: str, reason: Any) -> None:
        told = {"requestId": request, **({"reason": reason} if isinstance(reason, str) else {})}
        self._send({"jsonrpc": "2.0", "method": CANCELLED, "params": told})

    def _send(self, message: Message) -> None:
        """Send to the server, after what was sent before. One that has ended is seen by `talk_to_server`."""
        self._outbox.send_nowait(message)


def _params(message: Message) -> Mapping[str, Any]:
    found = message.get("params")
    return found if isinstance(found, Mapping) else {}


def _id(message: Message) -> Any:
    return _key(message.get("id"))


def _key(found: Any) -> Any:
    """Return an id or a token, which is a text or a number; None for anything else."""
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def _offering_forms(message: Message) -> Message:
    """Return the client's `initialize` with our forms: people answer them, whatever the client can do."""
    params = _params(message)
    capabilities = params.get("capabilities")
    capabilities = capabilities if isinstance(capabilities, Mapping) else {}
    elicitation = capabilities.get("elicitation")
    forms = {**(elicitation if isinstance(elicitation, Mapping) else {}), "form": {}}
    return {**message, "params": {**params, "capabilities": {**capabilities, "elicitation": forms}}}
