"""Posts on a chat platform what sessions say, and shows which of them are working.

Theory: each piece carries the journal position of its message. So the platform says which pieces are posted, and a
process that dies at any point causes neither a second post nor a missing one (R9). A long message becomes several
pieces, and each of them carries its number, too.

Rules
- All open sessions of the platform are followed, and the last `most_idle` sessions that became idle, since another
  surface may wake them. An older one is followed again when a person writes in its place.
- At its start, a process posts what an earlier one did not: it reads the idle sessions, the last one first, until
  `most_idle` in a row have no unposted message.
- A piece that the platform does not take is tried again until it does; one that the platform refuses is logged.
- The sign that a session is working ends when the session waits or is idle. Only sessions that may be working are
  looked at.
- Where the platform can edit messages, people read a text while it is written (writing.py). No message waits for that.
"""

import heapq
from collections import OrderedDict
from collections.abc import AsyncGenerator, Collection
from contextlib import nullcontext
from datetime import datetime
from typing import Final

import anyio
from anyio.abc import TaskGroup

from supervisor.channels.chat.platform import Chat, IncomingMessage, Piece
from supervisor.channels.chat.prose import harmless, pieces
from supervisor.channels.chat.writing import Writing
from supervisor.core import events as e
from supervisor.core.errors import NotFound, StoreError, SupervisorError
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.activity import Activity
from supervisor.core.text.visible import visible
from supervisor.core.values import SessionView
from supervisor.seam.runs import Page
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

PAGE: Final = 500  # sessions that are read at once
CLEARING_SECONDS: Final = 3.0  # seconds that hiding a sign may take when the channel closes
_WAITS: Final = frozenset({"approval", "message", "children", "timer", "back_off", "blocked", "limit"})


_Rested = list[tuple[datetime, str]]
"""When each session became idle, and its id."""


class _Following:
    """A session that is followed. `is_old`: it was idle when this process began, and may have unposted messages.
    `told`: the marks of its posts, if they are known. `writing`: shows what is written, if the platform can."""

    def __init__(self, told: set[str] | None, writing: Writing | None, *, is_old: bool) -> None:
        self.writing = writing
        self.is_old = is_old
        self.told = told
        self.scope = anyio.CancelScope()
        self.is_told = anyio.Event()
        """Set once all messages are posted that the session had sent when it became idle."""
        self.had_to_tell = False
        self.stirred = anyio.Event()
        """Set when the journal has a new entry."""
        self.sign_until = 0.0
        """The time until which people see the sign that the session is working; 0: they do not see it."""

    def stir(self) -> None:
        self.stirred.set()
        self.stirred = anyio.Event()


class Telling:
    """Tells people on one platform what sessions say. `by`: the name under which it posts."""

    most_idle: int = 1000
    """Idle sessions that are followed."""
    sign_after: float = 0.3
    """Seconds for which a session works before the first sign of it."""
    looks_every: float = 1.0
    """Seconds between two looks at what a session does."""

    def __init__(self, chat: Chat, by: str) -> None:
        self._chat = chat
        self._by = by
        self._followed: dict[str, _Following] = {}
        self._resting: OrderedDict[str, None] = OrderedDict()
        """The idle ones among the followed sessions, the one that has been idle longest first."""
        self._looking = anyio.Lock()
        self._tasks: TaskGroup | None = None
        self._supervisor: Supervisor | None = None

    async def run(self, supervisor: Supervisor) -> None:
        """Post the messages of each session in its place, until cancelled."""
        self._supervisor = supervisor
        async with anyio.create_task_group() as self._tasks:
            try:
                async for views in _pages(supervisor):
                    for view in views:
                        if view.ended_at is None:
                            self.follow(view.id)
                await self._catch_up(supervisor)
                await anyio.sleep_forever()
            finally:
                self._tasks = self._supervisor = None
                self._followed.clear()
                self._resting.clear()

    async def _catch_up(self, supervisor: Supervisor) -> None:
        """Post what an earlier process did not, the last idle session first, until `most_idle` in a row miss none."""
        told, before = 0, None
        while told < self.most_idle and (rested := await self._find_rested(supervisor, before)):
            before = rested[-1]
            followed = [self.follow(session, is_old=True) for _, session in rested]
            for following in followed:
                if following is not None and following.is_old:
                    await following.is_told.wait()
                    told = 0 if following.had_to_tell else told + 1

    async def _find_rested(self, supervisor: Supervisor, before: tuple[datetime, str] | None) -> _Rested:
        """Return the last sessions that became idle, or the last ones `before` another; the latest first."""
        rested: _Rested = []
        async for views in _pages(supervisor):
            found = [(view.ended_at, view.id) for view in views if view.ended_at and self._chat.holds(view.id)]
            rested = heapq.nlargest(
                self.most_idle, [*rested, *(each for each in found if before is None or each < before)]
            )
        return rested

    def follow(self, session: str, *, is_new: bool = False, is_old: bool = False) -> _Following | None:
        """Post a session's messages from now on, if it belongs to this platform. `is_new`: nothing of it is posted."""
        if self._tasks is None or not self._chat.holds(session):
            return None
        if (following := self._followed.get(session)) is None:
            writing = Writing(self._chat, session, self._by, self._tasks) if self._chat.can_edit else None
            following = _Following(set() if is_new else None, writing, is_old=is_old)
            self._followed[session] = following
            self._tasks.start_soon(self._tell, session, following)
        elif session in self._resting:
            self._resting.move_to_end(session)
        return following

    def note_seen(self, incoming: IncomingMessage) -> None:
        """Show that a person's message was taken, in a task of its own."""
        if self._tasks is not None:
            self._tasks.start_soon(self._show_seen, incoming)

    async def _show_seen(self, incoming: IncomingMessage) -> None:
        try:
            await self._chat.seen(incoming)
        except (SupervisorError, OSError) as error:
            log.warning("message.not_marked", channel=self._chat.name, session=incoming.session, error=repr(error))

    # -- one session -------------------------------------------------------------------------------------------------

    async def _tell(self, session: str, following: _Following) -> None:
        assert self._supervisor is not None
        try:
            with following.scope:
                await self._tell_on(self._supervisor, session, following)
        except NotFound:  # the session was idle, and was pruned
            pass
        except StoreError as error:
            log.error("session.not_followed", channel=self._chat.name, session=session, reason=str(error))
        finally:
            following.is_told.set()
            if self._followed.get(session) is following:
                del self._followed[session]
                self._resting.pop(session, None)

    async def _tell_on(self, supervisor: Supervisor, session: str, following: _Following) -> None:
        after: str | None = None
        while True:
            sign, text = anyio.CancelScope(), anyio.CancelScope()
            if self._tasks is not None and (following.is_told.is_set() or not following.is_old):
                self._tasks.start_soon(self._sign, supervisor, session, following, sign)
                if following.writing is not None:
                    self._tasks.start_soon(self._write, supervisor, session, following.writing, following, text)
            try:
                async with supervisor.watch_session(session, after=after) as watch:
                    async for row in watch:  # until the session is idle and all its messages are posted
                        await self._tell_one(session, row, following)
                        following.stir()
                    after = watch.cursor
            finally:
                sign.cancel()
                text.cancel()
            self._rest(session, following)
            async with supervisor.watch_session(session, after=after, stay=True) as watch:
                async for row in watch:
                    after = watch.cursor
                    if isinstance(row.event, e.RunStarted):
                        break
                else:
                    return
            self._resting.pop(session, None)

    def _rest(self, session: str, following: _Following) -> None:
        """Note that a session has become idle. If too many are, stop following the one that has been idle longest."""
        self._resting[session] = None
        if following.is_old and not following.is_told.is_set():
            self._resting.move_to_end(session, last=False)
        following.is_told.set()
        if len(self._resting) > self.most_idle:
            longest, _ = self._resting.popitem(last=False)
            self._followed.pop(longest).scope.cancel()

    async def _tell_one(self, session: str, row: JournalEntry, following: _Following) -> None:
        """Post the message of an entry, unless it is posted."""
        if (text := words_of(row)) is None:
            return
        with following.writing.telling() if following.writing is not None else nullcontext():
            await self._post(session, row, text, following)

    async def _post(self, session: str, row: JournalEntry, text: str, following: _Following) -> None:
        parts, wait = pieces(harmless(text), self._chat.room), 1.0
        posted: set[int] = set()
        while True:
            try:
                told = await self._find_told(session, following)
                for number, part in enumerate(parts, 1):
                    mark = f"said:{row.position}" + (f":{number}" if number > 1 else "")
                    if mark not in told and number not in posted:
                        following.had_to_tell = True
                        by = f"{self._by} · {number}/{len(parts)}" if len(parts) > 1 else self._by
                        await self._chat.say(Piece(session=session, text=part, mark=mark, by=by))
                        posted.add(number)
                        following.sign_until = 0.0  # most platforms hide the sign with each message
                return
            except SupervisorError as error:
                name, position = self._chat.name, row.position
                log.error("message.not_told", channel=name, session=session, position=position, error=str(error))
                return
            except OSError as error:
                log.warning(f"{self._chat.name}.not_reached", error=repr(error), again_in=wait)
                if not isinstance(error, ConnectionRefusedError):
                    following.told = None  # the platform may have posted it before its answer was lost
            await anyio.sleep(wait)
            wait = min(60.0, 2 * wait)

    async def _find_told(self, session: str, following: _Following) -> Collection[str]:
        """Return the marks of a session's posts. They are read once, and after an answer was lost."""
        if following.told is None:
            async with self._looking:  # one place at a time: platforms limit how often an app reads
                if following.told is None:
                    following.told = set(await self._chat.find_said(session))
                    if following.writing is not None:
                        following.writing.remove_left(following.told)
        return following.told

    # -- what a session is writing ------------------------------------------------------------------------------------

    async def _write(
        self,
        supervisor: Supervisor,
        session: str,
        writing: Writing,
        following: _Following,
        scope: anyio.CancelScope,
    ) -> None:
        """Remove the text that an earlier process left, and show what the agent writes now, until cancelled."""
        wait = 1.0
        with scope:
            while True:
                try:
                    await self._find_told(session, following)
                    break
                except SupervisorError as error:
                    log.warning("text.not_looked_for", channel=self._chat.name, session=session, error=str(error))
                    break
                except OSError as error:
                    log.warning(f"{self._chat.name}.not_reached", error=repr(error), again_in=wait)
                await anyio.sleep(wait)
                wait = min(60.0, 2 * wait)
            await writing.run(supervisor)

    # -- the sign that a session is working ---------------------------------------------------------------------------

    async def _sign(
        self, supervisor: Supervisor, session: str, following: _Following, scope: anyio.CancelScope
    ) -> None:
        """Show that a session is working, whenever it is, until the scope is cancelled."""
        has_shown = False
        try:
            with scope:
                await anyio.sleep(self.sign_after)
                while True:
                    stirred = following.stirred  # before the look: an entry that comes later is not missed
                    async with supervisor.watch_activity(session) as watch:
                        while is_working(await watch.look(limit=None, wholly=True)):
                            if anyio.current_time() >= following.sign_until:
                                following.sign_until, has_shown = anyio.current_time() + self._chat.sign_lasts, True
                                await self._chat.working(session, is_working=True)
                            await anyio.sleep(self.looks_every)
                    if has_shown:
                        has_shown, following.sign_until = False, 0.0
                        await self._chat.working(session, is_working=False)
                    await stirred.wait()
        except (SupervisorError, OSError) as error:  # the messages of the session are posted all the same
            log.warning("sign.not_shown", channel=self._chat.name, session=session, error=repr(error))
        finally:
            if has_shown:
                following.sign_until = 0.0
                await self._take_sign_away(session)

    async def _take_sign_away(self, session: str) -> None:
        with anyio.move_on_after(CLEARING_SECONDS, shield=True):
            try:
                await self._chat.working(session, is_working=False)
            except (SupervisorError, OSError) as error:
                log.warning("sign.not_removed", channel=self._chat.name, session=session, error=repr(error))


def is_working(tree: Collection[Activity]) -> bool:
    """Return whether a tree of sessions is working: one of them runs, and does not only wait."""
    return any(
        each.outcome is None
        and not each.is_unrun
        and (not each.doing or any(doing.kind not in _WAITS for doing in each.doing))
        for each in tree
    )


async def _pages(supervisor: Supervisor) -> AsyncGenerator[Page[SessionView], None]:
    """Iterate over all sessions, many at a time."""
    page = await supervisor.find_sessions(limit=PAGE)
    yield page
    while page.next is not None:
        page = await supervisor.find_sessions(after=page.next, limit=PAGE)
        yield page


def words_of(row: JournalEntry) -> str | None:
    """Return the text that an entry says to people, None if it says nothing to them."""
    match row.event:
        case e.MessageSent(text=text):
            return visible(text, kind="prose", lines=True)
        case e.RunFinished(kind=kind, cause=cause) if kind != "succeeded":
            return visible(f"The run ended: {kind}{f': {cause}' if cause else ''}", kind="prose", lines=True)
        case _:
            return None
