"""Chats of Telegram as places of conversations.

Theory: a place is a chat, or a topic of a group that has topics. A session's id names its place and the message that
began it ("telegram-77-0-1234"). In a chat with the bot alone, a message goes to the last session of the place, or
begins the first one; /new begins another. In a group a message that names the bot begins a session, and replies go on
with it.

Rules
- A message of a session says at its end which one it belongs to, where people could mistake it: in groups, and in a
  chat with the bot where a later session has begun. A reply to such a message goes to that session.
- Telegram does not show a bot what stands in a chat. So each piece that was posted is noted in the session's journal. A
  process that dies between the two posts that piece once more.
- A text that is being written is posted as an ellipsis, noted, and then filled in. So no text stays in a chat that a
  later process does not know of; an ellipsis may. Telegram takes 20 messages a minute in a group, so the text of a
  group is edited less often.
"""

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Final, NamedTuple

from supervisor.channels.chat.platform import WRITING, Chat, IncomingMessage, Piece
from supervisor.channels.chat.refusals import what_follows
from supervisor.channels.telegram.bot_api import BotApi, TelegramRefused
from supervisor.channels.telegram.messages import TEXT, byline, said_message
from supervisor.channels.telegram.updates import Words
from supervisor.core import events as e
from supervisor.seam.supervisor import Supervisor

ROOM: Final = TEXT - 200
"""UTF-16 units of what an agent says in one message; the rest is for the line that names the session."""
IN_GROUPS_SECONDS: Final = 6.0  # seconds between two edits
STARTED: Final = "…"
REMOVED: Final = f"un{WRITING}"
"""The mark of the note that a text is gone."""
PAGE: Final = 500  # sessions that are read at once


class Place(NamedTuple):
    """A chat and its topic (0: none), and the message that began a session there."""

    chat: int
    thread: int
    began: int


class TelegramChat(Chat):
    """Telegram, for conversations. `serving`: returns the supervisor that the channel serves."""

    room = ROOM
    sign_lasts = 4.0  # Telegram takes the sign away after five seconds
    can_edit = True

    def __init__(self, api: BotApi, name: str, serving: Callable[[], Supervisor]) -> None:
        self.name = name
        self._api = api
        self._serving = serving
        self._form = re.compile(rf"{re.escape(name)}-(-?\d+)-(\d+)-(\d+)")
        self._last: dict[tuple[int, int], int] | None = None
        """The message that began the last session of each chat and topic; None until the sessions are read."""

    def session_of(self, chat: int, thread: int, began: int) -> str:
        return f"{self.name}-{chat}-{thread}-{began}"

    def place_of(self, session: str) -> Place | None:
        """Return the place of a session that began on this channel, None for any other."""
        found = self._form.fullmatch(session)
        return None if found is None else Place(int(found[1]), int(found[2]), int(found[3]))

    async def incoming_of(self, words: Words, *, is_new: bool, is_again: bool) -> IncomingMessage:
        """Return a message as the session of its place hears it. `is_new`: it is to begin another one."""
        last = await self._find_last()
        began = words.began if words.began is not None else last.get((words.chat, words.thread))
        if is_new or began is None:
            began = words.message
        return IncomingMessage(
            session=self.session_of(words.chat, words.thread, began),
            message=f"{words.chat}:{words.message}",
            identity=str(words.user),
            text=words.text,
            said_at=words.said_at,
            is_first=began == words.message,
            may_begin=began == words.message and words.command != "stop",
            is_again=is_again,
        )

    async def note_begun(self, session: str) -> None:
        """Remember the last session of a place."""
        if (place := self.place_of(session)) is not None:
            _later(await self._find_last(), place)

    def holds(self, session: str) -> bool:
        return self.place_of(session) is not None

    async def say(self, piece: Piece) -> None:
        place, message = await self._message(piece)
        await self._api.call("sendMessage", chat_id=place.chat, **in_topic(place.thread), **message)
        await self._serving().note_shown(piece.session, piece.mark, channel=self.name)

    async def _message(self, piece: Piece) -> tuple[Place, dict[str, Any]]:
        """Return where a piece is shown, and as what."""
        place = self._place(piece.session)
        is_last = (await self._find_last()).get((place.chat, place.thread), place.began) == place.began
        if place.chat > 0 and is_last:
            return place, said_message(piece.text, "writing…" if piece.mark == WRITING else "")
        answers = {"message_id": place.began, "allow_sending_without_reply": True}
        return place, said_message(piece.text, byline(piece.by, place.began)) | {"reply_parameters": answers}

    def _place(self, session: str) -> Place:
        place = self.place_of(session)
        assert place is not None
        return place

    def edits_every(self, session: str) -> float:
        return 2.0 if self._place(session).chat > 0 else IN_GROUPS_SECONDS

    async def show_writing(self, piece: Piece, message: str | None) -> str:
        place, shown = await self._message(piece)
        answers = shown.pop("reply_parameters", None)
        if message is not None and await self._edit(place, message, shown):
            return message
        started = said_message(STARTED) | ({"reply_parameters": answers} if answers else {})
        where = {"chat_id": place.chat, **in_topic(place.thread)}
        posted = await self._api.call_passing("sendMessage", disable_notification=True, **where, **started)
        message = str(posted["message_id"])
        await self._serving().note_shown(piece.session, f"{WRITING}:{message}", channel=self.name)
        with suppress(OSError):  # the next edit fills it in
            await self._edit(place, message, shown)
        return message

    async def remove_writing(self, session: str, message: str) -> None:
        place = self._place(session)
        try:
            await self._api.call_passing("deleteMessage", chat_id=place.chat, message_id=int(message))
        except TelegramRefused as error:
            what_follows(error, "rewrite")
            if error.meaning == "fixed":  # it is there, and can still be edited
                await self._edit(place, message, said_message(STARTED))
        await self._serving().note_shown(session, f"{REMOVED}:{message}", channel=self.name)

    async def _edit(self, place: Place, message: str, shown: dict[str, Any]) -> bool:
        """Replace the content of a text that is being written; False if it is gone."""
        where = {"chat_id": place.chat, "message_id": int(message)}
        try:
            await self._api.call_passing("editMessageText", **where, **shown)
        except TelegramRefused as error:
            what_follows(error, "rewrite")
            return False
        return True

    async def find_said(self, session: str) -> Collection[str]:
        rows = await self._serving().find_entries(session, limit=None)
        shown = (row.event for row in rows if isinstance(row.event, e.MessageShown))
        marks = {event.mark for event in shown if event.channel == self.name}
        gone = {mark.removeprefix("un") for mark in marks if mark.startswith(REMOVED)}
        return marks - gone

    async def working(self, session: str, *, is_working: bool) -> None:
        place = self._place(session)
        if is_working:
            await self._api.call("sendChatAction", chat_id=place.chat, action="typing", **in_topic(place.thread))

    def stands_below(self, incoming: IncomingMessage, card: str) -> bool:
        """Telegram numbers the messages of a chat."""
        (chat, message), (there, posted, *_) = incoming.message.split(":"), card.split(":")
        return chat == there and int(posted) > int(message)

    async def _find_last(self) -> dict[tuple[int, int], int]:
        if self._last is None:
            last: dict[tuple[int, int], int] = {}
            after = None
            while True:
                page = await self._serving().find_sessions(after=after, limit=PAGE)
                for view in page:
                    if (place := self.place_of(view.id)) is not None:
                        _later(last, place)
                if (after := page.next) is None:
                    break
            self._last = last
        return self._last


def _later(last: dict[tuple[int, int], int], place: Place) -> None:
    where = place.chat, place.thread
    last[where] = max(place.began, last.get(where, 0))


def in_topic(thread: int) -> dict[str, int]:
    """Return the argument that names a topic."""
    return {"message_thread_id": thread} if thread else {}
