"""What Telegram sends, as values.

Rules
- Each value is checked: an update of another form than Telegram's is nothing, and is logged.
- A person is a numeric id. Names are neither read nor believed: a person can change theirs, and another can take it.
- A message that is written in the name of a group does not say who wrote it, and decides nothing. One of another bot is
  not answered: two bots could answer each other for ever.
- A forwarded message says what another person wrote. A message through another bot (`via_bot`: an inline result, which
  a person sends by one tap), or that Telegram sent by itself (a scheduled or automatic one), says what a program wrote.
  None of them is the word of the person in whose name it stands, so it neither decides nor asks for anything.
- Only a message of this bot says what a reply to it is about, and only by its marks (messages.py).
"""

import re
from datetime import datetime
from typing import Any, Final

import msgspec

from supervisor.channels.chat.acts import Noise, Place, Press
from supervisor.channels.telegram.messages import marked_end, read_byline, read_data, read_reference

ALLOWED: Final = ("message", "callback_query")
"""The kinds of updates that Telegram is asked for."""
_COMMAND: Final = re.compile(r"/(\w{1,32})(?:@(\w+))?(?:\s+(.*))?", re.DOTALL)


class User(msgspec.Struct, frozen=True):
    id: int
    is_bot: bool = False


class _Chat(msgspec.Struct, frozen=True):
    id: int
    type: str


class _Entity(msgspec.Struct, frozen=True):
    type: str
    offset: int
    length: int


class _Message(msgspec.Struct, frozen=True):
    message_id: int
    date: int
    chat: _Chat
    from_: User | None = msgspec.field(name="from", default=None)
    text: str | None = None
    entities: tuple[_Entity, ...] = ()
    message_thread_id: int = 0
    is_topic_message: bool = False
    reply_to_message: "_Message | None" = None
    via_bot: User | None = None
    sender_chat: _Chat | None = None
    sender_business_bot: User | None = None
    is_from_offline: bool = False
    forward_origin: Any = None
    forward_date: int | None = None  # before version 7.0 of the Bot API, which people may run themselves
    is_automatic_forward: bool = False

    @property
    def is_forwarded(self) -> bool:
        return self.forward_origin is not None or self.forward_date is not None or self.is_automatic_forward

    @property
    def is_by_program(self) -> bool:
        return self.via_bot is not None or self.sender_business_bot is not None or self.is_from_offline


class _Query(msgspec.Struct, frozen=True):
    id: str
    from_: User = msgspec.field(name="from")
    message: _Message | None = None
    data: str | None = None


class _Update(msgspec.Struct, frozen=True):
    update_id: int
    message: _Message | None = None
    callback_query: _Query | None = None


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """A person wrote a message. `about`: the code and the approval of the message of ours that it replies to."""

    text: str
    user: int
    chat: int
    message: int
    said_at: datetime
    thread: int = 0
    command: str = ""
    """The name of the command that it begins with; `text` is the rest then."""
    is_private: bool = False
    is_to_us: bool = False
    """Whether it is for the bot: in a group, it names the bot or replies to one of its messages."""
    is_reply: bool = False
    """Whether it replies to one of the bot's messages."""
    is_anonymous: bool = False
    """Whether it is written in the name of a group or a channel, so that `user` is no person."""
    is_forwarded: bool = False
    """Whether another person wrote it, and `user` only passed it on."""
    is_via_bot: bool = False
    """Whether a program wrote it, and `user` only sent it, or not even that."""
    about: tuple[str, str] | None = None
    began: int | None = None
    """The message that began the session to which the message that it replies to belongs, if that says so."""


class _Number(msgspec.Struct, frozen=True):
    update_id: int


def batch(result: Any) -> list[Any]:
    """Return the updates of an answer, each with a number. Raises msgspec.ValidationError."""
    msgspec.convert(result, list[_Number])
    found: list[Any] = result
    return found


def number_of(update: Any) -> int:
    return msgspec.convert(update, _Number).update_id


def read(update: Any, bot: int, username: str) -> Press | Words | Noise | None:
    """Return an update as a value; None for one that is not for us. `bot`, `username`: of this bot. The `origin` of a
    press is the id by which the person is answered, alone.

    Raises msgspec.ValidationError for an update that Telegram would not send.
    """
    found = msgspec.convert(update, _Update)
    if found.callback_query is not None:
        return _press(found.callback_query)
    if found.message is not None:
        return _words(found.message, bot, username)
    return None


def _press(query: _Query) -> Press | Noise:
    ids = read_data(query.data or "")
    if ids is None or query.message is None:
        return Noise(text="This supervisor does not know that button.", origin=query.id)
    code, approval = ids
    at = query.message
    return Press(
        code=code,
        approval=approval,
        user=str(query.from_.id),
        card=f"{at.chat.id}:{at.message_id}",
        place=place_of(at.chat.id, _thread(at)),
        origin=query.id,
    )


def _words(message: _Message, bot: int, username: str) -> Words | None:
    is_anonymous = message.sender_chat is not None
    if message.text is None or message.from_ is None or (message.from_.is_bot and not is_anonymous):
        return None
    text, command, named = message.text, "", False
    if (found := _COMMAND.fullmatch(text)) is not None:
        if found[2] is not None and found[2].lower() != username.lower():
            return None  # a command for another bot
        command, text = found[1].lower(), found[3] or ""
        named = True
    elif username and re.search(rf"(?<!\w)@{re.escape(username)}\b", text, re.IGNORECASE):
        text = re.sub(rf"(?<!\w)@{re.escape(username)}\b[ ,:]*", "", text, flags=re.IGNORECASE)
        named = True
    replied = message.reply_to_message
    is_ours = replied is not None and replied.from_ is not None and replied.from_.id == bot and replied.via_bot is None
    end = _end(replied) if replied is not None and is_ours else ""
    is_private = message.chat.type == "private"
    return Words(
        text=text.strip(),
        user=message.from_.id,
        chat=message.chat.id,
        message=message.message_id,
        said_at=datetime.fromtimestamp(message.date).astimezone(),
        thread=_thread(message),
        command=command,
        is_private=is_private,
        is_to_us=is_private or named or is_ours,
        is_reply=is_ours,
        is_anonymous=is_anonymous,
        is_forwarded=message.is_forwarded,
        is_via_bot=message.is_by_program,
        about=read_reference(end),
        began=read_byline(end),
    )


def _end(message: _Message) -> str:
    if message.text is None or not message.entities:
        return ""
    last = message.entities[-1]
    return marked_end(message.text, last.type, last.offset, last.length)


def place_of(chat: int, topic: int) -> Place:
    return Place(str(chat), str(topic) if topic else "")


def _thread(message: _Message) -> int:
    """Return the topic of a message: Telegram gives the number of a thread also to plain replies in a group."""
    return message.message_thread_id if message.is_topic_message else 0
