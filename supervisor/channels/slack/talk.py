"""Slack's threads as places of conversations: a mention or a direct message begins a session, and its thread belongs
to that session.

Rules
- A session's id names its thread ("slack-c012ab-1712345678.000100").
- The mark of a piece is the id of its message's last block: so the thread itself says which pieces are posted.
- A session that works shows Slack's own status in its thread. Where Slack refuses that, the last message that was taken
  gets a reaction instead.
- A mention inside a thread without a session begins one there. The agent is told the last EARLIER messages above it.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final

from supervisor.channels.chat.platform import WRITING, Chat, Earlier, IncomingMessage, Piece
from supervisor.channels.chat.refusals import what_follows
from supervisor.channels.slack.blocks import SECTION, inert, plain_blocks, said_blocks
from supervisor.channels.slack.payloads import Words, plain_text
from supervisor.channels.slack.web import SlackRefused, SlackWeb
from supervisor.channels.wording.lengths import fit
from supervisor.core.approvals.people import People
from supervisor.system.logs import FactLog

log = FactLog(__name__)

MARKDOWN_UNITS: Final = 12_000  # UTF-16 units of Markdown in one message
NO_MARKDOWN: Final = ("invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long")
"""Slack's error codes for a message with a block that it does not know, or that is too long when it is rendered."""
EARLIER: Final = 50
EARLIER_TEXT_UNITS: Final = 4000  # UTF-16 units of each of them
WORKING: Final = "is working…"
REACTION: Final = "eyes"
DONE: Final = ("already_reacted", "no_reaction", "message_not_found")
"""Slack's error codes for a reaction that is as it should be."""
REACTED: Final = 1000  # sessions whose last message is remembered
Write = Callable[..., Awaitable[dict[str, Any]]]
_SESSION: Final = re.compile(r"slack-([a-z0-9]+)-(\d+\.\d+)")


def session_of(words: Words) -> str:
    return f"slack-{words.conversation.lower()}-{words.thread}"


def place_of(session: str) -> tuple[str, str] | None:
    """Return conversation and thread of a session that began in Slack, None for any other."""
    found = _SESSION.fullmatch(session)
    return None if found is None else (found[1].upper(), found[2])


def incoming_of(words: Words) -> IncomingMessage:
    return IncomingMessage(
        session=session_of(words),
        message=f"{words.conversation}:{words.message}",
        identity=words.user,
        text=words.text,
        said_at=datetime.fromtimestamp(float(words.message), UTC),
        is_first=words.message == words.thread,
        may_begin=words.is_to_app,
        is_again=words.is_again,
    )


class SlackChat(Chat):
    """Slack, for conversations. `people`: whose names stand for their ids."""

    name = "slack"
    room = MARKDOWN_UNITS
    sign_lasts = 90.0  # Slack takes a status away after two minutes
    can_edit = True

    def __init__(self, web: SlackWeb, people: People) -> None:
        self._web = web
        self._people = people
        self._has_status = True
        self._last: OrderedDict[str, str] = OrderedDict()
        """The last message that was taken, by session."""
        self._reacted: dict[str, str] = {}
        """The message with the reaction, by session."""

    def holds(self, session: str) -> bool:
        return place_of(session) is not None

    async def say(self, piece: Piece) -> None:
        """Post a piece: as Markdown, or as plain text if this Slack has no blocks of Markdown."""
        conversation, thread = _place(piece.session)
        await self._put(self._web.write, "chat.postMessage", piece, _in_thread(conversation, thread))

    async def _put(self, write: Write, method: str, piece: Piece, where: Mapping[str, Any]) -> dict[str, Any]:
        blocks = said_blocks(piece.text, piece.mark, piece.by)
        text = fit(inert(piece.text), SECTION)  # for notifications
        try:
            return await write(method, **where, text=text, blocks=blocks)
        except SlackRefused as error:
            if error.reason not in NO_MARKDOWN:
                raise
            return await write(method, **where, text=text, blocks=plain_blocks(piece.text, blocks[-1]))

    async def show_writing(self, piece: Piece, message: str | None) -> str:
        conversation, thread = _place(piece.session)
        if message is not None:
            try:
                where = {"channel": conversation, "ts": message}
                await self._put(self._web.write_passing, "chat.update", piece, where)
                return message
            except SlackRefused as error:
                what_follows(error, "rewrite")
        where = _in_thread(conversation, thread)
        return str((await self._put(self._web.write_passing, "chat.postMessage", piece, where))["ts"])

    async def remove_writing(self, session: str, message: str) -> None:
        try:
            await self._web.write_passing("chat.delete", channel=_place(session)[0], ts=message)
        except SlackRefused as error:
            what_follows(error, "rewrite")

    async def find_said(self, session: str) -> set[str]:
        found: set[str] = set()
        async for message in self._web.messages(*_place(session)):
            marks = {block.get("block_id", "") for block in message.get("blocks") or ()}
            found |= marks | ({f"{WRITING}:{message['ts']}"} if WRITING in marks else set())
        return found

    def stands_below(self, incoming: IncomingMessage, card: str) -> bool:
        """A card's id is the time at which Slack posted it."""
        return float(card.partition(":")[2]) > float(incoming.message.partition(":")[2])

    async def find_earlier(self, incoming: IncomingMessage) -> list[Earlier]:
        conversation, thread = _place(incoming.session)
        last: deque[Earlier] = deque(maxlen=EARLIER)
        within = float(thread) - 1, float(incoming.message.partition(":")[2])
        async with aclosing(self._web.messages(conversation, thread, within)) as messages:
            async for message in messages:
                if message["ts"] != incoming.message.partition(":")[2]:
                    last.append(self._earlier(message))
        return list(last)

    def _earlier(self, message: dict[str, Any]) -> Earlier:
        author = str(message.get("user") or message.get("username") or message.get("bot_id") or "an app")
        person = self._people.find_by_identity(self.name, author)
        text = plain_text(str(message.get("text") or ""))
        return Earlier(author if person is None else person.name, fit(text, EARLIER_TEXT_UNITS))

    async def seen(self, incoming: IncomingMessage) -> None:
        self._last[incoming.session] = incoming.message.partition(":")[2]
        self._last.move_to_end(incoming.session)
        while len(self._last) > REACTED:
            self._last.popitem(last=False)

    async def working(self, session: str, *, is_working: bool) -> None:
        conversation, thread = _place(session)
        if self._has_status:
            status = {"status": WORKING if is_working else ""}
            try:
                await self._web.write(
                    "assistant.threads.setStatus", channel_id=conversation, thread_ts=thread, **status
                )
                return
            except SlackRefused as error:
                log.warning("slack.no_status", error=str(error), instead="a reaction")
                self._has_status = False
        if is_working and session not in self._reacted:
            message = self._reacted[session] = self._last.get(session, thread)
            await self._react("reactions.add", conversation, message)
        elif not is_working and session in self._reacted:
            await self._react("reactions.remove", conversation, self._reacted.pop(session))

    async def _react(self, method: str, conversation: str, message: str) -> None:
        try:
            await self._web.write(method, channel=conversation, timestamp=message, name=REACTION)
        except SlackRefused as error:
            if error.reason not in DONE:
                raise


def _place(session: str) -> tuple[str, str]:
    place = place_of(session)
    assert place is not None
    return place


def _in_thread(conversation: str, thread: str) -> dict[str, Any]:
    return {"channel": conversation, "thread_ts": thread, "unfurl_links": False, "unfurl_media": False}
