"""Conversations in Slack: a mention begins a session, its thread is the session's, and what the session says is told
there.

Theory: a session's id names its thread, so nothing about Slack needs to be stored: "slack-c012ab-1712345678.000100".
What has been told is known from the thread itself: each message of ours carries the place in the journal that it tells.
So a process that died between telling and noting it tells nothing twice, and leaves out nothing (R9).

Rules
- Slack delivers a message again if it is not acknowledged in time, and says so; one that was heard is not heard again,
  neither by this process nor by a later one, which finds in the journal what it said or decided.
- Only operators start the agent, and speak to it; chat words in a thread are decisions, of whoever may make them (A12).
  Whoever may not is told, alone.
- A thread that no session was begun in is none of our business.
- Open sessions are followed, and of those at rest the RESTING that came to it last, since somebody elsewhere may wake
  them. An older one is followed again when somebody speaks in its thread.
- What died untold is looked for from the session that came to rest last backwards, until RESTING in a row were told.
"""

import heapq
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import anyio
from anyio.abc import TaskGroup

from supervisor.abc import Page, Supervisor
from supervisor.channels.answering import Answering
from supervisor.channels.cards import heard_lines, summary
from supervisor.channels.lengths import fit
from supervisor.channels.slack.blocks import inert
from supervisor.channels.slack.payloads import Words
from supervisor.channels.slack.web import SlackRefused, SlackWeb
from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, NotEntitled, NotFound, StoreError, SupervisorError, TreeOwned
from supervisor.core.people import Person
from supervisor.core.rows import JournalEntry
from supervisor.core.values import SessionView
from supervisor.core.visible import visible
from supervisor.core.words import read_word
from supervisor.logs import FactLog

log = FactLog(__name__)

R = TypeVar("R")

REMEMBERED: Final = 10_000  # messages that were heard
RESTING: Final = 1000  # sessions at rest that are followed
PAGE: Final = 500  # sessions that are looked at in one go
TEXT: Final = 3000  # UTF-16 units in one block
CLOCKS_DIFFER: Final = timedelta(seconds=2)  # how far our clock may be behind Slack's
_ELSEWHERE: Final = (
    "No session began in this thread. Mention me in a message of its own: its thread will be the session."
)
_SESSION: Final = re.compile(r"slack-([a-z0-9]+)-(\d+\.\d+)")


_Rested = list[tuple[datetime, str]]
"""When sessions came to rest, and their ids."""


class _Following:
    """That a session is followed. `is_old`: it was at rest when this process began, with something untold, perhaps."""

    def __init__(self, *, is_old: bool) -> None:
        self.is_old = is_old
        self.scope = anyio.CancelScope()
        self.is_told = anyio.Event()
        """All that it had said when it came to rest is told."""
        self.had_to_tell = False


class Talk:
    """How people talk with one agent in Slack's threads. `agent`: what a mention starts; it takes a text."""

    def __init__(self, agent: AgentSpec[..., Any]) -> None:
        if not agent.takes_text:
            raise InvalidInput(f"agent {agent.name} takes no text, so nobody can talk with it in Slack")
        self._agent = agent
        self._heard: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._followed: dict[str, _Following] = {}
        self._resting: OrderedDict[str, None] = OrderedDict()
        """Of those that are followed, the ones at rest, the longest first."""
        self._looking = anyio.Lock()
        self._tasks: TaskGroup | None = None

    def session_of(self, conversation: str, thread: str) -> str:
        return f"slack-{conversation.lower()}-{thread}"

    def place_of(self, session: str) -> tuple[str, str] | None:
        """Return conversation and thread of a session that began in Slack, None for any other."""
        found = _SESSION.fullmatch(session)
        return None if found is None else (found[1].upper(), found[2])

    # -- what people say ---------------------------------------------------------------------------------------------

    async def hear(self, supervisor: Supervisor, web: SlackWeb, words: Words, answering: Answering) -> str | None:
        """Take what somebody said: a mention begins a session, a reply in its thread goes to it.

        Returns what to tell them alone; also that they may not do either. Raises StoreError, TreeOwned.
        """
        session = self.session_of(words.conversation, words.thread)
        is_known = await self.knows(supervisor, words)
        key = (words.conversation, words.message)
        is_beginning = words.message == words.thread
        person = answering.find_person(words.user)
        was_heard = (
            is_known
            and words.is_again
            and isinstance(person, Person)
            and await _was_heard(supervisor, session, words, person.name)
        )
        # From here on nothing is awaited until it is noted: the same message may be delivered twice at once.
        if key in self._heard or is_known == is_beginning or not (is_known or words.is_mention):
            is_lost = words.is_mention and not is_known and not is_beginning
            return _ELSEWHERE if is_lost else None  # delivered again, or as a mention, too; or not said to us
        if was_heard:
            return None
        self._heard[key] = None
        while len(self._heard) > REMEMBERED:
            self._heard.popitem(last=False)
        try:
            if isinstance(person, str):
                if is_known:
                    await answering.note_stranger(supervisor, session, words.text, words.user, person)
                return person
            if is_known:
                answer = await self._reply(supervisor, session, words, person)
                self.follow(supervisor, web, session)
                return answer
            await supervisor.start(self._agent, words.text, session=session, by=person.name)
            self.follow(supervisor, web, session, told=set())
        except (StoreError, TreeOwned):
            del self._heard[key]
            raise
        except NotEntitled as error:
            return f"{'Not heard' if is_known else 'Not started'}: {visible(str(error))}."
        except SupervisorError as error:
            return str(error)
        return None

    async def _reply(self, supervisor: Supervisor, session: str, words: Words, person: Person) -> str | None:
        shown_before = await _shown_before(supervisor, session, words)
        heard = await supervisor.chat(session, words.text, by=person.name, shown_before=shown_before, channel="slack")
        if heard.sent is None:
            return "\n".join(heard_lines(heard, datetime.now().astimezone()))
        waits = [f"{summary(approval)} ({approval.id})" for approval in heard.sent.waiting_for]
        return f"Kept; first it waits for: {'; '.join(waits)}" if waits else None

    async def knows(self, supervisor: Supervisor, words: Words) -> bool:
        """Whether something was said in the thread of a session."""
        try:
            await supervisor.get_session(self.session_of(words.conversation, words.thread))
        except NotFound:
            return False
        return True

    # -- what the session says ---------------------------------------------------------------------------------------

    async def tell_all(self, supervisor: Supervisor, web: SlackWeb) -> None:
        """Tell in its thread what each session says, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            try:
                async for views in _pages(supervisor):
                    for view in views:
                        if view.ended_at is None:
                            self.follow(supervisor, web, view.id)
                await self._catch_up(supervisor, web)
                await anyio.sleep_forever()
            finally:
                self._tasks = None
                self._followed.clear()
                self._resting.clear()

    async def _catch_up(self, supervisor: Supervisor, web: SlackWeb) -> None:
        """Tell what died untold, from what rested last backwards, until RESTING in a row were told."""
        told, before = 0, None
        while told < RESTING and (rested := await self._find_rested(supervisor, before)):
            before = rested[-1]
            followed = [self.follow(supervisor, web, session, is_old=True) for _, session in rested]
            for following in followed:
                if following is not None and following.is_old:
                    await following.is_told.wait()
                    told = 0 if following.had_to_tell else told + 1

    async def _find_rested(self, supervisor: Supervisor, before: tuple[datetime, str] | None) -> _Rested:
        """Return the sessions that came to rest last, or `before` another one, the last one first."""
        rested: _Rested = []
        async for views in _pages(supervisor):
            found = [(view.ended_at, view.id) for view in views if view.ended_at and self.place_of(view.id) is not None]
            rested = heapq.nlargest(RESTING, [*rested, *(each for each in found if before is None or each < before)])
        return rested

    def follow(
        self, supervisor: Supervisor, web: SlackWeb, session: str, told: set[str] | None = None, *, is_old: bool = False
    ) -> _Following | None:
        """From now on tell what a session says, if it began in Slack. `told`: what was told, where that is known."""
        if self._tasks is None or self.place_of(session) is None:
            return None
        if (following := self._followed.get(session)) is None:
            following = self._followed[session] = _Following(is_old=is_old)
            self._tasks.start_soon(self._tell, supervisor, web, session, following, told)
        elif session in self._resting:
            self._resting.move_to_end(session)
        return following

    async def _tell(
        self, supervisor: Supervisor, web: SlackWeb, session: str, following: _Following, told: set[str] | None
    ) -> None:
        try:
            with following.scope:
                await self._tell_on(supervisor, web, session, following, told)
        except NotFound:  # it is at rest, and was pruned
            pass
        except StoreError as error:
            log.error("session.not_followed", channel="slack", session=session, reason=str(error))
        finally:
            following.is_told.set()
            if self._followed.get(session) is following:
                del self._followed[session]
                self._resting.pop(session, None)

    async def _tell_on(
        self, supervisor: Supervisor, web: SlackWeb, session: str, following: _Following, told: set[str] | None
    ) -> None:
        after: str | None = None
        while True:
            async with supervisor.watch_session(session, after=after) as watch:
                async for row in watch:  # until it is at rest, and all is told
                    told = await self._tell_one(web, session, row, told, following)
                after = watch.cursor
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
        """A session has come to rest; whichever has rested longest is followed no more, if they are too many."""
        self._resting[session] = None
        if following.is_old and not following.is_told.is_set():
            self._resting.move_to_end(session, last=False)
        following.is_told.set()
        if len(self._resting) > RESTING:
            longest, _ = self._resting.popitem(last=False)
            self._followed.pop(longest).scope.cancel()

    async def _tell_one(
        self, web: SlackWeb, session: str, row: JournalEntry, told: set[str] | None, following: _Following
    ) -> set[str] | None:
        """Tell what an entry says, unless it was told; returns what was told before, if it had to be looked for."""
        if (text := words_of(row)) is None:
            return told
        try:
            if told is None:
                async with self._looking:  # one after the other: Slack counts how often it is read
                    told = await self._once(lambda: self._told_in(web, session))
            if (mark := f"said:{row.position}") not in told:
                following.had_to_tell = True
                await self._once(lambda: self.say(web, session, text, mark))
        except SlackRefused as error:
            log.error("message.not_told", channel="slack", session=session, position=row.position, error=str(error))
        return told

    async def _once(self, request: Callable[[], Awaitable[R]]) -> R:
        """Make a request, as often as it takes to reach Slack."""
        wait = 1.0
        while True:
            try:
                return await request()
            except OSError as error:
                log.warning("slack.not_reached", error=repr(error), again_in=wait)
            await anyio.sleep(wait)
            wait = min(60.0, 2 * wait)

    async def say(self, web: SlackWeb, session: str, text: str, mark: str) -> None:
        """Write into a session's thread; `mark` is how it is known again."""
        place = self.place_of(session)
        assert place is not None
        conversation, thread = place
        section = {"type": "section", "block_id": mark, "text": {"type": "plain_text", "text": fit(text, TEXT) or " "}}
        await web.write(
            "chat.postMessage",
            channel=conversation,
            thread_ts=thread,
            blocks=[section],
            text=fit(inert(text), TEXT),
            unfurl_links=False,
            unfurl_media=False,
        )

    async def _told_in(self, web: SlackWeb, session: str) -> set[str]:
        """Return the marks of what was said in a session's thread before."""
        place = self.place_of(session)
        assert place is not None
        return {
            block.get("block_id", "") async for message in web.messages(*place) for block in message.get("blocks") or ()
        }


async def _shown_before(supervisor: Supervisor, session: str, words: Words) -> datetime:
    """Return before when, by our clock, the cards were shown that stood above a message. By Slack's clock alone it can
    be said which did: a card's id says when it was posted, and ours may be another (A12)."""
    now = datetime.now(UTC)
    if read_word(words.text) is None:
        return now
    stood_below = [
        row.event.at
        for approval in await supervisor.find_approvals(session=session, limit=None)
        for row in await supervisor.find_entries(approval.session, limit=None)
        if isinstance(row.event, e.CardPosted) and (row.event.approval, row.event.channel) == (approval.id, "slack")
        if float(row.event.card.partition(":")[2]) > float(words.message)
    ]
    return min(stood_below, default=now) - timedelta(microseconds=1 if stood_below else 0)


async def _pages(supervisor: Supervisor) -> AsyncGenerator[Page[SessionView], None]:
    """Iterate over all sessions, many at a time."""
    page = await supervisor.find_sessions(limit=PAGE)
    yield page
    while page.next is not None:
        page = await supervisor.find_sessions(after=page.next, limit=PAGE)
        yield page


async def _was_heard(supervisor: Supervisor, session: str, words: Words, by: str) -> bool:
    """Whether a process that is gone heard what Slack delivers again: it was said, or it decided something (A12)."""
    said_at, said = said_at_of(words) - CLOCKS_DIFFER, words.text
    for row in await supervisor.find_entries(session, limit=None):
        match row.event:
            case e.MessageReceived(at=at, by=said_by, text=text) if at >= said_at:
                if text == said and said_by == by:
                    return True
            case _:
                pass
    if read_word(said) is None:
        return False
    decided = await supervisor.find_approvals(pending=False, session=session, limit=None)
    return any(each.by == by and each.decided_at and each.decided_at >= said_at for each in decided)


def said_at_of(words: Words) -> datetime:
    return datetime.fromtimestamp(float(words.message), UTC)


def words_of(row: JournalEntry) -> str | None:
    """Return what an entry of a journal says to people, None for the others."""
    match row.event:
        case e.MessageSent(text=text):
            return visible(text, lines=True)
        case e.RunFinished(kind=kind, cause=cause) if kind != "succeeded":
            return visible(f"The run ended: {kind}{f': {cause}' if cause else ''}", lines=True)
        case _:
            return None
