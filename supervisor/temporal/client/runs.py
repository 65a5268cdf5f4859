"""A run on Temporal, and watches of what happens there: those of the runtime, over a mirror that follows the tree."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import NotFound
from supervisor.core.sessions.activity import Activity, StreamedText
from supervisor.core.values import Approval, Outcome, result_of
from supervisor.runtime.local import LocalSupervisor
from supervisor.seam.runs import ActivityWatch, Page, Run, TextWatch, Watch
from supervisor.seam.supervisor import Supervisor
from supervisor.temporal.client.trees import Trees

R = TypeVar("R")
T = TypeVar("T")


class TemporalRun(Run[R]):
    """Run `number` of a session. `near`: the reads of the mirror; `spec` gives the type of its result; None: plain JSON
    values."""

    def __init__(
        self,
        supervisor: Supervisor,
        trees: Trees,
        near: LocalSupervisor,
        session: str,
        number: int,
        spec: AgentSpec[..., R] | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        self.session = session
        self.number = number
        self.is_new = is_new
        self._supervisor = supervisor
        self._trees = trees
        self._reads = near
        self._spec: Any = spec

    def __repr__(self) -> str:
        return f"<run {self.number} of {self.session} in {self._trees.where}>"

    async def _near(self) -> Run[R]:
        """Return the run as the mirror has it. A run that it does not know yet is read first."""
        find = partial(self._reads.get_run, self.session, number=self.number, agent=self._spec)
        try:
            found: Run[R] = await find()
        except NotFound:
            await self._trees.read(self.session)
            found = await find()
        return found

    async def find_outcome(self) -> Outcome[R] | None:
        await self._trees.read(self.session)
        return await (await self._near()).find_outcome()

    async def outcome(self) -> Outcome[R]:
        root = await self._trees.begun(self.session)
        with self._trees.mirror.following(root):
            return await (await self._near()).outcome()

    async def result(self) -> R:
        return result_of(await self.outcome())

    async def cancel(self, reason: str | None = None) -> None:
        await self._supervisor.cancel(self.session, reason=reason, run=self.number)

    def watch_approvals(self) -> Watch[Approval]:
        async def open_near() -> Watch[Approval]:
            await self._trees.begun(self.session)
            return (await self._near()).watch_approvals()

        return FollowingWatch(self._trees, self.session, open_near)


class FollowingWatch(Watch[T]):
    """A watch of the mirror, which follows a session's tree, or every tree, as long as the watch is open."""

    def __init__(self, trees: Trees, session: str | None, make: Callable[[], Awaitable[Watch[T]]]) -> None:
        self._trees = trees
        self._session = session
        self._make = make
        self._near: Watch[T] | None = None
        self._stack = ExitStack()

    @property
    def cursor(self) -> str:
        assert self._near is not None, "a watch is opened by `async with`"
        return self._near.cursor

    async def _open(self) -> None:
        root = None if self._session is None else await self._trees.read(self._session)
        if root is None:
            await self._trees.mirror.read_all()
        near = await self._make()
        await near.__aenter__()
        self._near = near
        self._stack.enter_context(self._trees.mirror.following(root))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, traceback)
        self._stack.close()
        if self._near is not None:
            await self._near.__aexit__(kind, error, traceback)

    async def _next(self) -> T:
        assert self._near is not None, "a watch is opened by `async with`"
        return await anext(self._near)


class TemporalActivityWatch(ActivityWatch):
    """Looks at the mirror, which is read before each look."""

    def __init__(self, trees: Trees, near: LocalSupervisor, session: str | None) -> None:
        self._trees = trees
        self._reads = near
        self._session = session
        self._near: ActivityWatch | None = None

    async def __aenter__(self) -> Self:
        await self._read()
        self._near = await self._reads.watch_activity(self._session).__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._near is not None:
            await self._near.__aexit__(kind, error, traceback)

    async def look(self, *, after: str | None = None, limit: int | None = 1000, wholly: bool = False) -> Page[Activity]:
        assert self._near is not None, "a watch is opened by `async with`"
        await self._read()
        return await self._near.look(after=after, limit=limit, wholly=wholly)

    async def _read(self) -> None:
        if self._session is None:
            await self._trees.mirror.read_all()
        else:
            await self._trees.read(self._session)


class TemporalTextWatch(TextWatch):
    """The text of the mirror's session, which stays empty: what an agent writes is in the memory of its worker."""

    def __init__(self, trees: Trees, near: LocalSupervisor, session: str) -> None:
        self._trees = trees
        self._session = session
        self._near = near.watch_text(session)

    async def __aenter__(self) -> Self:
        await self._trees.read(self._session)
        await self._near.__aenter__()
        return self

    async def __anext__(self) -> StreamedText:
        return await anext(self._near)
