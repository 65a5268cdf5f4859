"""A run on a server, and watches of what happens there. They hold a cursor and a connection, and nothing else."""

from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from supervisor.client.connection import Connection
from supervisor.client.documents import outcome_of, value_of
from supervisor.client.streams import EventSource
from supervisor.core.cursors import make_cursor
from supervisor.core.sessions.activity import Activity, StreamedText
from supervisor.core.values import Approval, Outcome, result_of
from supervisor.seam.runs import ActivityWatch, Page, Run, TextWatch, Watch

R = TypeVar("R")
T = TypeVar("T")

WAIT_SECONDS: Final = 25
"""Seconds that one request waits for an outcome, less than a server or a proxy allows."""


class Server(Protocol):
    """What a run asks of its server: the supervisor there."""

    where: str

    async def find_run(self, session: str, number: str, wait: int) -> dict[str, Any]: ...
    async def cancel(self, session: str, *, reason: str | None = None, run: int | None = None) -> None: ...
    def watch_pending(self, query: Mapping[str, Any]) -> Watch[Approval]: ...


class RemoteRun(Run[R]):
    """`type_`: of its result; Any: plain JSON values."""

    def __init__(
        self, supervisor: Server, session: str, number: int, type_: Any = Any, *, is_new: bool = False
    ) -> None:
        self.session = session
        self.number = number
        self.is_new = is_new
        self._supervisor = supervisor
        self._type = type_

    def __repr__(self) -> str:
        return f"<run {self.number} of {self.session} at {self._supervisor.where}>"

    async def find_outcome(self) -> Outcome[R] | None:
        return await self._look(0)

    async def outcome(self) -> Outcome[R]:
        while (found := await self._look(WAIT_SECONDS)) is None:
            pass
        return found

    async def result(self) -> R:
        return result_of(await self.outcome())

    async def cancel(self, reason: str | None = None) -> None:
        await self._supervisor.cancel(self.session, reason=reason, run=self.number)

    def watch_approvals(self) -> Watch[Approval]:
        return self._supervisor.watch_pending({"session": self.session, "run": self.number})

    async def _look(self, wait: int) -> Outcome[R] | None:
        found = await self._supervisor.find_run(self.session, str(self.number), wait)
        return None if found["outcome"] is None else outcome_of(found["outcome"], self._type)


class RemoteWatch(Watch[T]):
    """`after`: the cursor to go on from; None: the beginning. `begins_again`: so also if the server does not know the
    cursor of a broken stream any more; otherwise that raises CursorUnknown. `keeps`: whether an item is given out."""

    def __init__(
        self,
        connection: Connection,
        path: str,
        query: Mapping[str, Any],
        after: str | None,
        read: Callable[[Any], T],
        keeps: Callable[[T], bool] = lambda item: True,
        *,
        begins_again: bool = False,
    ) -> None:
        self._connection = connection
        self._source = EventSource(connection, path, query, after, begins_again=begins_again)
        self._read = read
        self._keeps = keeps

    @property
    def cursor(self) -> str:
        return self._source.cursor or make_cursor(self._connection.greeting.store, 0)

    async def _open(self) -> None:
        await self._source.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, traceback)
        await self._source.close()

    async def _next(self) -> T:
        while True:
            item = self._read(await self._source.next())
            if self._keeps(item):
                return item


class Pending:
    """What is pending, each once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, approval: Approval) -> bool:
        """Whether an approval is pending and was not given out. What is decided is forgotten."""
        if approval.status != "pending":
            self._seen.discard(approval.id)
            return False
        is_new = approval.id not in self._seen
        self._seen.add(approval.id)
        return is_new


class RemoteActivityWatch(ActivityWatch):
    """`pages` returns so many items of a list, by as many requests as that takes."""

    def __init__(self, pages: Callable[..., Awaitable[Page[Activity]]], session: str | None) -> None:
        self._pages = pages
        self._session = session

    async def __aenter__(self) -> Self:
        await self.look(limit=1)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The server forgets it by itself."""

    async def look(self, *, after: str | None = None, limit: int | None = 1000, wholly: bool = False) -> Page[Activity]:
        query = {"session": self._session, "wholly": wholly}
        return await self._pages("/api/activity", query, _activity, after, limit)


class RemoteTextWatch(TextWatch):
    def __init__(self, connection: Connection, path: str) -> None:
        self._source = EventSource(connection, path, {"shows": "text"}, None)

    async def __aenter__(self) -> Self:
        await self._source.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._source.close()

    async def __anext__(self) -> StreamedText:
        return value_of(StreamedText, await self._source.next())


def _activity(item: Any) -> Activity:
    return value_of(Activity, item)
