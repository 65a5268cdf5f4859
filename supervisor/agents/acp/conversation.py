"""A conversation with one process of an agent: the client's side of ACP, from initialize to the end.

The table in life.py says what may come and what follows. This module sends and reads the messages. It decides nothing:
permission requests go to `on_permission`.

Rules
- Messages are taken one by one, in the order in which they come, without an await. So an update is taken before the
  answer that follows it.
- A prompt is in the hands of a task of `carry`: if its sender is cancelled, the answer still ends the turn.
- Client file system and terminal are not offered. Requests other than for permission, and questions to a person, are
  answered with an error.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import metadata
from typing import Any, Final

import anyio
import msgspec

from supervisor.agents.acp.elicitations import CAPABILITY, METHOD, read_question
from supervisor.agents.acp.json_lines import Talking
from supervisor.agents.acp.json_rpc import Disconnected, Peer, RemoteError
from supervisor.agents.acp.life import NEWEST, Life, UnknownVersion, Way, check_version, next_way, ways
from supervisor.agents.acp.permissions import Permission, read
from supervisor.agents.acp.schema import Schema
from supervisor.agents.acp.updates import Report, Updates
from supervisor.core.errors import InvalidInput, Suspended
from supervisor.system.logs import FactLog

log = FactLog(__name__)

PACKAGE: Final = "subagent-supervisor"
LOGIN: Final = -32000
_NO_METHOD, _BAD_PARAMS, _BAD_REQUEST = -32601, -32602, -32600


class AgentFailed(Exception):
    """The agent's program failed: what it said, and what to do."""


class AgentLost(AgentFailed):
    """The agent's process has ended, or its turn has with an error. Another process of it may go on."""


class Incoming(msgspec.Struct, eq=False):
    """A permission request that waits for its answer. `id`: that of its message."""

    id: Any
    permission: Permission
    is_answered: bool = False


class Conversation:
    """`on_permission` is called with each request, `on_sign` with each sign of life."""

    def __init__(
        self,
        agent: str,
        process: Talking,
        schema: Schema,
        report: Report,
        stream: Callable[[str], None],
        on_permission: Callable[[Incoming], object],
        on_sign: Callable[[], None],
    ) -> None:
        self._on_permission = on_permission
        self._on_sign = on_sign
        self.updates = Updates(agent, report, stream)
        self.has_spoken = False
        """Whether an update has come since the prompt."""
        self.can_reopen = False
        """Whether the program, once it has greeted, offers to open a session again."""
        self._agent = agent
        self._schema = schema
        self._peer = Peer(process, on_request=self._take_request, on_notification=self._take_notification)
        self._life = Life()
        self._session = ""
        self._program: str | None = None
        """What the agent's program calls itself, once it has greeted."""
        self._asking: dict[int, Incoming] = {}
        """Permission requests without an answer, by the identity of the object."""
        self._tasks: anyio.abc.TaskGroup | None = None
        self._stopped = anyio.Event()
        """Set while no prompt is under way."""
        self._stopped.set()
        self.used: Mapping[str, Any] | None = None
        """What the agent says that its session has used, with the end of its latest turn."""
        self._stop: str | Exception = ""
        """Why the last turn stopped."""

    async def carry(self) -> None:
        """Send and receive until the agent is gone, or the caller cancels."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._report_updates)
                await self._peer.carry()
                self.updates.end_turn()
                await self._stopped.wait()
                self._tasks.cancel_scope.cancel()
        finally:
            self._stopped.set()
            self.updates.end_turn()

    async def _report_updates(self) -> None:
        with suppress(Suspended):  # the run leaves memory, and records nothing more
            await self.updates.carry()

    # -- opening -------------------------------------------------------------------------------------------------------

    async def open(self, cwd: str, session: str | None) -> tuple[str, Way]:
        """Open a session: the one with this id, or else a new one. Return its id, and how it was opened. Raises
        AgentFailed, and says what to do."""
        try:
            return await self._open(cwd, session)
        except (Disconnected, UnknownVersion, _Misfit) as error:
            kind = AgentLost if isinstance(error, Disconnected) else AgentFailed
            raise kind(f"{self._agent} could not be talked with: {error}") from None

    async def _open(self, cwd: str, session: str | None) -> tuple[str, Way]:
        greeting = await self._greet()
        capabilities = greeting.get("agentCapabilities") or {}
        self.can_reopen = ways(capabilities, has_session=True) != ways(capabilities, has_session=False)
        left: tuple[Way, ...] = ways(capabilities, has_session=session is not None)
        event, why = "greeted", ""
        while (action := self._life.take(f"{event}.{next_way(left)}")) != "fail":
            way, where = left[0], {"cwd": cwd, "mcpServers": []}
            try:
                answer = await self._peer.request(action, where if way == "new" else {**where, "sessionId": session})
            except RemoteError as error:
                log.warning("session.refused", agent=self._agent, method=action, reason=str(error))
                left, event, why = left[1:], "refused", _refusal(greeting, error)
                continue
            self._life.take("opened")
            self._session = session or "" if way != "new" else self._fitting("NewSessionResponse", answer)["sessionId"]
            return self._session, way
        raise AgentFailed(f"{self._agent} opens no session: {why}")

    async def _greet(self) -> Mapping[str, Any]:
        params = {
            "protocolVersion": NEWEST,
            "clientCapabilities": {
                "fs": {"readTextFile": False, "writeTextFile": False},
                "terminal": False,
                "elicitation": CAPABILITY,
            },
            "clientInfo": {"name": PACKAGE, "version": metadata.version(PACKAGE)},
        }
        try:
            answer = await self._peer.request(self._life.take("begin"), params)
        except RemoteError as error:
            raise AgentFailed(f"{self._agent} does not speak ACP: {error}") from None
        check_version(answer.get("protocolVersion") if isinstance(answer, Mapping) else None)
        greeting = self._fitting("InitializeResponse", answer)
        told = greeting.get("agentInfo")
        self._program = told.get("name") if isinstance(told, Mapping) and isinstance(told.get("name"), str) else None
        return greeting

    def _fitting(self, name: str, answer: Any) -> Mapping[str, Any]:
        if not isinstance(answer, Mapping) or (why := self._schema.misfit(name, answer)) is not None:
            raise _Misfit(f"its answer does not fit the protocol: {answer!r:.200}" if why is None else why)
        return answer

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def prompt(self, text: str) -> str:
        """Send a prompt, and return why its turn stopped. Raises AgentLost."""
        assert self._tasks is not None, "the conversation is not carried"
        self.has_spoken = False
        method = self._life.take("prompt")
        self._stopped = anyio.Event()
        params = {"sessionId": self._session, "prompt": [{"type": "text", "text": text}]}
        self._tasks.start_soon(self._send_prompt, method, params)
        await self._stopped.wait()
        await self.updates.report_all()
        if isinstance(self._stop, Exception):
            raise AgentLost(f"{self._agent} did not end its turn: {self._stop}") from None
        return self._stop

    async def _send_prompt(self, method: str, params: Mapping[str, Any]) -> None:
        try:
            answer = await self._peer.request(method, params, self._end_turn)
            self._stop = str(answer.get("stopReason")) if isinstance(answer, Mapping) else "unknown"
            said = answer.get("usage") if isinstance(answer, Mapping) else None
            self.used = said if isinstance(said, Mapping) else None
        except (RemoteError, Disconnected) as error:
            self._stop = error
        self._stopped.set()

    def _end_turn(self) -> None:
        self._life.take("stopped")
        self.updates.end_turn()

    async def leave(self) -> None:
        """Cancel the turn under way, if there is one, and wait until the agent has stopped. Answer all permission
        requests `cancelled`. The caller bounds the time."""
        if (method := self._life.take("cancel")) == "session/cancel":
            self._peer.notify(method, {"sessionId": self._session})
        for incoming in [*self._asking.values()]:
            self.answer(incoming, None)
        await self._stopped.wait()

    # -- permissions ---------------------------------------------------------------------------------------------------

    @property
    def is_heard(self) -> bool:
        """Whether an answer reaches a turn that waits for it."""
        return self._life.state == "prompting" and not self._peer.is_over

    @property
    def is_lost(self) -> bool:
        """Whether the process has gone in the middle of a turn."""
        return self._life.state == "prompting" and self._peer.is_over

    def answer(self, incoming: Incoming, option: str | None) -> None:
        """Answer a permission request with one of its options; None: `cancelled`."""
        if incoming.permission.form is not None:
            if self._close(incoming):
                self._peer.answer(incoming.id, {"action": "cancel"})
        elif self._close(incoming):
            chosen = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
            self._peer.answer(incoming.id, {"outcome": chosen})

    def fill_in(self, incoming: Incoming, content: Mapping[str, Any] | None) -> None:
        """Answer a question with what a person has filled in; None: they declined."""
        if self._close(incoming):
            accepted = {"action": "accept", "content": content}
            self._peer.answer(incoming.id, {"action": "decline"} if content is None else accepted)

    def refuse(self, incoming: Incoming, reason: str) -> None:
        """Answer a permission request with an error: none of its options is our answer."""
        if self._close(incoming):
            self._peer.refuse(incoming.id, _BAD_REQUEST, reason)

    def _close(self, incoming: Incoming) -> bool:
        is_open, incoming.is_answered = not incoming.is_answered, True
        self._asking.pop(id(incoming), None)
        return is_open

    def _take_request(self, number: Any, method: str, params: Any) -> None:
        self._on_sign()
        if method not in ("session/request_permission", METHOD):
            text = f"Method not found: {method}; this client offers no file system and no terminal"
            return self._peer.refuse(number, _NO_METHOD, text)
        action = self._life.take("permission")
        if action == "answer with an error":
            return self._peer.refuse(number, _BAD_REQUEST, "no prompt is under way that a permission could be for")
        try:
            permission = self._read_question(params) if method == METHOD else self._read_permission(params)
        except (InvalidInput, RecursionError) as misfit:  # what is nested so deeply cannot be shown
            return self._peer.refuse(number, _BAD_PARAMS, str(misfit))
        incoming = Incoming(number, permission)
        self._asking[id(incoming)] = incoming
        if action == "answer cancelled":
            return self.answer(incoming, None)
        self._on_permission(incoming)
        return None

    def _read_permission(self, params: Any) -> Permission:
        self._schema.check("RequestPermissionRequest", params)
        if not params["options"]:
            raise InvalidInput("a permission request offers at least one option")
        call = params["toolCall"]
        told = self.updates.note_call(call["toolCallId"], call)
        return read(self._agent, told, params["options"], self._program)

    def _read_question(self, params: Any) -> Permission:
        self._schema.check("CreateFormSessionElicitationRequest", params)
        return read_question(self._agent, params)

    def _take_notification(self, method: str, params: Any) -> None:
        self._on_sign()
        update = params.get("update") if isinstance(params, Mapping) else None
        if method != "session/update" or not isinstance(update, Mapping):
            log.warning("notification.unknown", agent=self._agent, method=method)
        elif self._life.take("update") == "report":
            self.has_spoken = True
            self.updates.take(str(update.get("sessionUpdate")), update)


class _Misfit(Exception):
    """An answer that does not have the form that the protocol gives it."""


def _refusal(greeting: Mapping[str, Any], error: RemoteError) -> str:
    """Return why no session was opened, and what to do: an agent that wants a login says how in its greeting."""
    more = "" if error.data in (None, {}, "") else f" {msgspec.json.encode(error.data).decode()[:500]}"
    if error.code != LOGIN:
        return f"{error}{more}"
    methods = [each for each in greeting.get("authMethods") or () if isinstance(each, Mapping)]
    how = "; ".join(f"{each.get('name')}: {each.get('description') or 'see its manual'}" for each in methods)
    return f"it wants a login. Log in with its own program, then start again. {how} ({error.message}{more})"
