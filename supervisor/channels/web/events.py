"""Event streams: server-sent events of a session's journal, and of the inbox.

Theory: a stream reads the store from its own cursor, once its client has taken the earlier events. So the server
buffers nothing for a client, and no client holds up another. A client that reconnects goes on from the id of the last
event that it saw: it misses nothing and gets nothing twice.

Rules
- A client that takes nothing for SLOW seconds is dropped. It reconnects by itself and goes on where it was.
- A comment every BEAT seconds tells both ends that the other one lives.
- A stream ends when its client goes, when the client's credential expires or is revoked, and when the server stops. It
  leaves no task and no connection.
- `end` says that no more events can come, since the watched run is over. A stream that stops without `end` can be
  continued: the server stopped, or the client was too slow.
- `reset` says that the store does not know the client's cursor: the stream begins anew, from a snapshot. It is no error
  status, since a browser does not reconnect after one.
- The text that an agent is writing comes as the event `text`, whole and harmless, as often as the client takes it. It
  has no id: a client that reconnects goes on with the journal, and gets the text as it is then.
- There are at most `site.streams` streams, and each person has a share: a further client gets a 503 at once.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import msgspec
from msgspec.structs import replace
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from supervisor.channels.web.endpoints import Call, Endpoints
from supervisor.channels.web.problems import Problem
from supervisor.channels.web.schemas import ApprovalDocument, Change, EventDocument, InboxQuery, StreamQuery
from supervisor.core.documents import event_document
from supervisor.core.errors import CursorUnknown, InvalidInput
from supervisor.core.events import RunFinished
from supervisor.core.text.masks import hide
from supervisor.core.text.visible import visible
from supervisor.seam.runs import Run, TextWatch, Watch

T = TypeVar("T")

BEAT_SECONDS: Final = 15.0
SLOW_SECONDS: Final = 30.0
RETRY_MILLISECONDS: Final = 1000
"""Milliseconds after which a browser reconnects."""

Next = Callable[[], Awaitable[tuple[str, str, bytes] | None]]
"""Returns the next event's name, id (empty: none) and JSON document; None at the end. Giving up waiting for it
loses nothing."""


class EventStream(Response):
    """An answer that lasts as long as its client listens."""

    media_type = "text/event-stream"

    def __init__(
        self,
        next_event: Next,
        call: Call,
        watch: Watch[Any] | None = None,
        is_over: Callable[[], Awaitable[bool]] | None = None,
        *,
        text: TextWatch | None = None,
        is_reset: bool = False,
    ) -> None:
        """`watch`, `text`: the open watches that `next_event` reads, which the stream closes. `is_over`: says whether
        the watch ended because its run did, and not because the supervisor is left; None: there is no such end.
        `is_reset`: the stream begins anew, since the store does not know the client's cursor."""
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._watches = [each for each in (watch, text) if each is not None]
        self._next = next_event
        self._site = call.site
        self._person = call.person
        self._still_counts = call.still_counts
        self._is_over = is_over
        self._is_reset = is_reset

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._site.streams.held(self._person):
                await self._stream(receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                for each in self._watches:
                    await each.__aexit__(None, None, None)

    async def _stream(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with anyio.create_task_group() as tasks:

            async def end_with(ended: Callable[[], Awaitable[object]]) -> None:
                await ended()
                tasks.cancel_scope.cancel()

            async def left() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass

            tasks.start_soon(end_with, left)
            tasks.start_soon(end_with, self._site.until_stopped)
            tasks.start_soon(end_with, self._until_revoked)
            with anyio.CancelScope() as slow:
                await self._write(send, f"retry: {RETRY_MILLISECONDS}\n\n".encode(), slow)
                if self._is_reset:
                    await self._write(send, b"event: reset\ndata: {}\n\n", slow)
                while (chunk := await self._next_chunk()) is not None and self._still_counts():
                    await self._write(send, chunk, slow)
                if chunk is None and self._is_over is not None and await self._is_over():
                    await self._write(send, b"event: end\ndata: {}\n\n", slow)
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(1, shield=True):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _until_revoked(self) -> None:
        while self._still_counts():
            await self._site.guard.revocations.until_changed()

    async def _write(self, send: Send, chunk: bytes, slow: anyio.CancelScope) -> None:
        slow.deadline = anyio.current_time() + SLOW_SECONDS
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        slow.deadline = float("inf")

    async def _next_chunk(self) -> bytes | None:
        with anyio.move_on_after(BEAT_SECONDS):
            found = await self._next()
            if found is None:
                return None
            name, cursor, document = found
            place = f"id: {cursor}\n" if cursor else ""
            return b"event: %s\n%sdata: %s\n\n" % (name.encode(), place.encode(), document)
        return b": still here\n\n"


ENDPOINTS: Final = Endpoints()


@ENDPOINTS.add("GET /api/events", {200: ApprovalDocument}, query=InboxQuery, media_type="text/event-stream")
async def watch_inbox(call: Call) -> Response:
    """Stream every pending approval, then every approval that changes."""
    query: InboxQuery = call.query
    if query.session is None and query.run is not None:
        raise Problem(422, "`run` is a run of a `session`: name both")
    is_over: Callable[[], Awaitable[bool]] | None = None
    is_reset = False
    if query.session is None or query.run is None:
        inbox = partial(call.supervisor.watch_inbox, session=query.session)
        watch, is_reset = await _open(inbox, _cursor(call))
    else:
        run = await call.supervisor.get_run(query.session, number=query.run)
        watch = await run.watch_approvals().__aenter__()
        is_over = partial(_has_ended, run)

    async def next_event() -> tuple[str, str, bytes] | None:
        approval = await anext(watch, None)
        if approval is None:
            return None
        if query.brief:
            change = {name: getattr(approval, name) for name in Change.__struct_fields__}
            return "approval", watch.cursor, msgspec.json.encode(Change(**change))
        call.show(approval)
        return "approval", watch.cursor, call.site.encoded.json_of(approval)

    return EventStream(next_event, call, watch, is_over, is_reset=is_reset)


@ENDPOINTS.add("GET /api/sessions/{id}/events", {200: EventDocument}, query=StreamQuery, media_type="text/event-stream")
async def watch_session(call: Call) -> Response:
    """Stream the journal of a session, from its beginning or from the client's position."""
    query: StreamQuery = call.query
    session, latest = call.path("id"), list[Any]()
    if query.shows == "text":
        return await _text_events(call, session)
    watch, is_reset = await _open(partial(call.supervisor.watch_session, session, stay=query.stay), _cursor(call))

    async def next_event() -> tuple[str, str, bytes] | None:
        row = await anext(watch, None)
        if row is None:
            return None
        latest[:] = [row.event]
        return "journal", watch.cursor, msgspec.json.encode(event_document(row))

    async def is_over() -> bool:
        if any(isinstance(event, RunFinished) for event in latest):
            return True
        return await _has_ended(await call.supervisor.get_run(session))

    text = await call.supervisor.watch_text(session).__aenter__() if query.shows == "all" else None
    return EventStream(
        next_event if text is None else _Either(next_event, partial(_next_text, text)),
        call,
        watch,
        None if query.stay else is_over,
        text=text,
        is_reset=is_reset,
    )


async def _text_events(call: Call, session: str) -> Response:
    text = await call.supervisor.watch_text(session).__aenter__()
    return EventStream(partial(_next_text, text), call, text=text)


async def _next_text(watch: TextWatch) -> tuple[str, str, bytes] | None:
    text = await anext(watch, None)
    if text is None:
        return None
    return "text", "", msgspec.json.encode(replace(text, text=visible(hide(text.text), kind="prose", lines=True)))


class _Either:
    """The next event of one of two streams, until one of them ends."""

    def __init__(self, *streams: Next) -> None:
        self._streams = streams
        self._found: list[tuple[str, str, bytes] | None] = []

    async def __call__(self) -> tuple[str, str, bytes] | None:
        if not self._found:
            async with anyio.create_task_group() as tasks:

                async def take(following: Next) -> None:
                    self._found.append(await following())
                    tasks.cancel_scope.cancel()

                for each in self._streams:
                    tasks.start_soon(take, each)
        return self._found.pop(0)


async def _has_ended(run: Run[Any]) -> bool:
    return await run.find_outcome() is not None


async def _open(watch: Callable[..., Watch[T]], after: str | None) -> tuple[Watch[T], bool]:
    """Open a watch after a cursor; from the beginning if the store does not know it, or if it is no cursor, and say
    whether that is so."""
    if after is not None:
        with suppress(CursorUnknown, InvalidInput):
            return await watch(after=after).__aenter__(), False
    return await watch().__aenter__(), after is not None


def _cursor(call: Call) -> str | None:
    """Return the cursor to continue from: that of the last event that the client saw, else that of its page."""
    query: StreamQuery | InboxQuery = call.query
    return call.request.headers.get("last-event-id") or query.after
