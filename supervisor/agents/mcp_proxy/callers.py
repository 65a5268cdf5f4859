"""A call that is open, and the client that waits for it, if one does: made, met by an equal call, left, delivered."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from supervisor.agents.mcp_proxy.replies import Reply, marked
from supervisor.agents.open_requests import Asking, OpenRequest
from supervisor.core.ids import canonical_json

Params = Mapping[str, Any]


class Offered(msgspec.Struct, frozen=True):
    """What the server says of a tool."""

    schema: Mapping[str, Any] | None = None
    is_read_only: bool = False


class Request(msgspec.Struct, frozen=True):
    """A call as it is saved. `reply`: what a client has not been told yet; `ended_at`: since when, if the server has
    answered; `kept_for`: the seconds for which it waits for an equal call, once it does; `is_denied`: it waits as long
    as that takes."""

    number: int
    tool: str
    arguments: dict[str, Any]
    reply: Reply | None = None
    ended_at: datetime | None = None
    kept_for: float | None = None
    is_denied: bool = False

    @property
    def key(self) -> bytes:
        """What equal calls have in common."""
        return key_of(self.tool, self.arguments)


def key_of(tool: str, arguments: Params) -> bytes:
    return canonical_json([tool, arguments])


class Caller(Asking[Reply]):
    """One `tools/call` of a client."""

    request: "OpenCall | None"

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params = params

    @property
    def token(self) -> Any:
        """The token by which the client hears of progress; None if it did not ask for that."""
        meta = self.params.get("_meta")
        return meta.get("progressToken") if isinstance(meta, Mapping) else None


class OpenCall(OpenRequest[Request, Caller]):
    """A call that no client has the reply of, and the caller that waits for it, if there is one."""

    def __init__(self, asked: Request, caller: Caller | None = None, offered: Offered | None = None) -> None:
        super().__init__(asked, caller)
        self.offered = offered or Offered()
        self.params: Params = {} if caller is None else caller.params
        """Those of the last caller: they are sent with the call."""
        self.is_running = False
        self.began_for: Caller | None = None
        """The caller that waited when the server got the call."""

    @property
    def is_decided(self) -> bool:
        return self.is_approved or self.asked.reply is not None

    def meet(self, message: Caller) -> None:
        self.params = message.params
        super().meet(message)

    def begin(self) -> None:
        self.is_running, self.began_for = True, self.message

    async def deliver(self) -> bool:
        """Give the reply to the caller that waits. Return whether it has taken it."""
        caller, reply = self.message, self.asked.reply
        if caller is None or reply is None:
            return False
        is_old = caller is not self.began_for and not self.asked.is_denied
        caller.give(marked(reply) if is_old else reply)
        await caller.is_over.wait()
        if not caller.was_written:
            self.leave(caller)
        return caller.was_written
