"""Conversations in Slack: a mention begins a session, and its thread belongs to that session. The channel posts the
session's messages there.

Theory: a session's id names its thread ("slack-c012ab-1712345678.000100"), so nothing about Slack needs to be stored.
Each post carries the journal position of its message, so the thread itself says which messages are posted. A process
that dies at any point therefore causes neither a second post nor a missing one (R9). A long message becomes several
posts, and each of them carries its number, too.

Rules
- Slack delivers a message again if it is not acknowledged in time, and marks it. A message that was taken is not taken
  again, neither by this process nor by a later one: the later one finds the message or its decision in the journal.
- Only operators start the agent and write to it. Chat words in a thread are decisions of each person who may decide
  (A12). A refusal is shown only to the person who is refused.
- A message that is only "stop" or "cancel" cancels the session. Only operators may do that.
- Messages in a thread without a session are ignored.
- The channel follows all open sessions and the last RESTING sessions that became idle, since another surface may wake
  them. It follows an older one again when a person writes in its thread.
- At its start, the channel posts what an earlier process did not: it reads the idle sessions, the last one first, until
  RESTING in a row have no unposted message.
"""

import heapq
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from supervisor.abc import Page, Supervisor
from supervisor.channels.answering import Answering
from supervisor.channels.cards import heard_lines, summary
from supervisor.channels.lengths import fit
from supervisor.channels.prose import harmless, pieces
from supervisor.channels.slack.blocks import SECTION, Block, inert, plain_blocks, said_blocks
from supervisor.channels.slack.payloads import Words
from supervisor.channels.slack.web import SlackRefused, SlackWeb
from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.chat_words import read_word
from supervisor.core.errors import InvalidInput, NotEntitled, NotFound, StoreError, SupervisorError, TreeOwned
from supervisor.core.people import Person
from supervisor.core.questions import read_answer
from supervisor.core.rows import JournalEntry
from supervisor.core.values import Approval, SessionView
from supervisor.core.visible import visible
from supervisor.logs import FactLog

log = FactLog(__name__)

REMEMBERED: Final = 10_000  # messages that this process has taken
RESTING: Final = 1000  # idle sessions that are followed
PAGE: Final = 500  # sessions that are read at once
MARKDOWN: Final = 12_000  # UTF-16 units of Markdown in one message
NO_MARKDOWN: Final = ("invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long")
"""Slack's error codes for a message with a block that it does not know, or that is too long when it is rendered."""
CLOCKS_DIFFER: Final = timedelta(seconds=2)  # by which our clock may be slow against Slack's
_ELSEWHERE: Final = (
    "This thread has no session. Mention me in a new message outside threads: its thread becomes the session."
)
STOP: Final = ("stop", "cancel")
"""Messages that cancel the session of their thread."""
_SESSION: Final = re.compile(r"slack-([a-z0-9]+)-(\d+\.\d+)")


_Rested = list[tuple[datetime, str]]
"""When each session became idle, and its id."""


class _Following:
    """A session that is followed. `is_old`: it was idle when this process began, and may have unposted messages."""

    def __init__(self, *, is_old: bool) -> None:
        self.is_old = is_old
        self.scope = anyio.CancelScope()
        self.is_told = anyio.Event()
        """Set once all messages are posted that the session had sent when it became idle."""
        self.had_to_tell = False


class Talk:
    """Lets people talk with one agent in Slack's threads. `agent`: a mention starts it; its input is a text."""

    def __init__(self, agent: AgentSpec[..., Any]) -> None:
        if not agent.takes_text:
            raise InvalidInput(f"agent {agent.name} takes no text, so people cannot talk with it in Slack")
        self._agent = agent
        self._heard: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._followed: dict[str, _Following] = {}
        self._resting: OrderedDict[str, None] = OrderedDict()
        """The idle ones among the followed sessions, the one that has been idle longest first."""
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
        """Take a person's message: a mention begins a session, a reply in the session's thread goes to the session.

        Returns the text to show only to this person, such as a refusal. Raises StoreError, TreeOwned.
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
        # No await from here until the message is noted: Slack may deliver the same message twice at once.
        if key in self._heard or is_known == is_beginning or not (is_known or words.is_mention):
            is_lost = words.is_mention and not is_known and not is_beginning
            return _ELSEWHERE if is_lost else None  # a second delivery, the same as a mention, or not for this app
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
                answer = await self._reply(supervisor, session, words, person, answering)
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

    async def _reply(
        self, supervisor: Supervisor, session: str, words: Words, person: Person, answering: Answering
    ) -> str | None:
        if words.text.strip().lower().rstrip(".!") in STOP:
            return await answering.stop(supervisor, session, person)
        shown_before = await _shown_before(supervisor, session, words)
        heard = await supervisor.chat(session, words.text, by=person.name, shown_before=shown_before, channel="slack")
        if heard.sent is None:
            return "\n".join(heard_lines(heard, datetime.now().astimezone()))
        waits = [f"{summary(approval)} ({approval.id})" for approval in heard.sent.waiting_for]
        how = (
            "press a button of its card, or reply yes or no" if len(waits) == 1 else "press the buttons of their cards"
        )
        return f"Kept; first it waits for: {'; '.join(waits)}. To decide, {how}." if waits else None

    async def knows(self, supervisor: Supervisor, words: Words) -> bool:
        """Whether the thread of a message belongs to a session."""
        try:
            await supervisor.get_session(self.session_of(words.conversation, words.thread))
        except NotFound:
            return False
        return True

    # -- what the session says ---------------------------------------------------------------------------------------

    async def tell_all(self, supervisor: Supervisor, web: SlackWeb) -> None:
        """Post the messages of each session in its thread, until cancelled."""
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
        """Post what an earlier process did not, the last idle session first, until RESTING in a row miss nothing."""
        told, before = 0, None
        while told < RESTING and (rested := await self._find_rested(supervisor, before)):
            before = rested[-1]
            followed = [self.follow(supervisor, web, session, is_old=True) for _, session in rested]
            for following in followed:
                if following is not None and following.is_old:
                    await following.is_told.wait()
                    told = 0 if following.had_to_tell else told + 1

    async def _find_rested(self, supervisor: Supervisor, before: tuple[datetime, str] | None) -> _Rested:
        """Return the last sessions that became idle, or the last ones `before` another; the latest first."""
        rested: _Rested = []
        async for views in _pages(supervisor):
            found = [(view.ended_at, view.id) for view in views if view.ended_at and self.place_of(view.id) is not None]
            rested = heapq.nlargest(RESTING, [*rested, *(each for each in found if before is None or each < before)])
        return rested

    def follow(
        self, supervisor: Supervisor, web: SlackWeb, session: str, told: set[str] | None = None, *, is_old: bool = False
    ) -> _Following | None:
        """Post a session's messages from now on, if it began in Slack. `told`: the marks of its posts, if known."""
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
        except NotFound:  # the session was idle, and was pruned
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
                async for row in watch:  # until the session is idle and all its messages are posted
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
        """Note that a session has become idle. If too many are, stop following the one that has been idle longest."""
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
        """Post the message of an entry, unless it is posted; return the marks of the thread's posts, once read."""
        if (text := words_of(row)) is None:
            return told
        parts, wait = pieces(harmless(text), MARKDOWN), 1.0
        posted: set[int] = set()
        while True:
            try:
                if told is None:
                    async with self._looking:  # one thread at a time: Slack limits how often an app reads
                        told = await self._told_in(web, session)
                for number, part in enumerate(parts, 1):
                    mark = f"said:{row.position}" + (f":{number}" if number > 1 else "")
                    if mark not in told and number not in posted:
                        following.had_to_tell = True
                        by = f"{self._agent.name} · {number}/{len(parts)}" if len(parts) > 1 else self._agent.name
                        await self.say(web, session, part, said_blocks(part, mark, by))
                        posted.add(number)
                return told
            except SlackRefused as error:
                log.error("message.not_told", channel="slack", session=session, position=row.position, error=str(error))
                return told
            except OSError as error:
                log.warning("slack.not_reached", error=repr(error), again_in=wait)
                if not isinstance(error, ConnectionRefusedError):
                    told = None  # Slack may have posted it before its answer was lost
            await anyio.sleep(wait)
            wait = min(60.0, 2 * wait)

    async def say(self, web: SlackWeb, session: str, text: str, blocks: list[Block]) -> None:
        """Post in a session's thread: as Markdown, or as plain text if this Slack has no blocks of Markdown."""
        place = self.place_of(session)
        assert place is not None
        conversation, thread = place
        message = {
            "channel": conversation,
            "thread_ts": thread,
            "text": fit(inert(text), SECTION),  # for notifications
            "unfurl_links": False,
            "unfurl_media": False,
        }
        try:
            await web.write("chat.postMessage", **message, blocks=blocks)
        except SlackRefused as error:
            if error.reason not in NO_MARKDOWN:
                raise
            await web.write("chat.postMessage", **message, blocks=plain_blocks(text, blocks[-1]))

    async def _told_in(self, web: SlackWeb, session: str) -> set[str]:
        """Return the marks of the posts in a session's thread."""
        place = self.place_of(session)
        assert place is not None
        return {
            block.get("block_id", "") async for message in web.messages(*place) for block in message.get("blocks") or ()
        }


async def _shown_before(supervisor: Supervisor, session: str, words: Words) -> datetime:
    """Return the time, by our clock, before which the cards above a message were shown (A12). Only Slack's clock orders
    cards and messages, since our clock may differ: a card's id is the time at which Slack posted it."""
    now = datetime.now(UTC)
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
    """Whether an earlier process took a message that Slack delivers again: the journal has the message, or a decision
    of the person since then (A12)."""
    said_at, said = said_at_of(words) - CLOCKS_DIFFER, words.text
    for row in await supervisor.find_entries(session, limit=None):
        match row.event:
            case e.MessageReceived(at=at, by=said_by, text=text) if at >= said_at:
                if text == said and said_by == by:
                    return True
            case _:
                pass
    decided = await supervisor.find_approvals(pending=False, session=session, limit=None)
    since = [each for each in decided if each.by == by and each.decided_at and each.decided_at >= said_at]
    return any(read_word(said) is not None or _is_answer(each, said) for each in since)


def _is_answer(approval: Approval, text: str) -> bool:
    """Whether a text is what a question was answered with."""
    try:
        return approval.status == "answered" and read_answer(approval, text) == approval.answer
    except InvalidInput:
        return False


def said_at_of(words: Words) -> datetime:
    return datetime.fromtimestamp(float(words.message), UTC)


def words_of(row: JournalEntry) -> str | None:
    """Return the text that an entry says to people, None if it says nothing to them."""
    match row.event:
        case e.MessageSent(text=text):
            return visible(text, lines=True)
        case e.RunFinished(kind=kind, cause=cause) if kind != "succeeded":
            return visible(f"The run ended: {kind}{f': {cause}' if cause else ''}", lines=True)
        case _:
            return None
