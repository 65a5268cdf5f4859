"""The seam between conversations and a chat platform. A channel for a chat platform renders; conversations.py and
telling.py do the rest.

How a channel uses it:

    chat = TelegramChat(...)                                  # a subclass of Chat: what only this platform knows
    conversations = Conversations(chat, agent, Answering("telegram", people))
    tasks.start_soon(conversations.run, supervisor)           # in Channel.serve: tells people what sessions say
    answer = await conversations.hear(supervisor, IncomingMessage(...)) # for each message of a person
    if answer is not None:                                    # a refusal or a hint, for this person alone
        await self.whisper(person, answer)

Rules
- A session's id names its place on the platform ("slack-c012ab-1712345678.000100"), so the channel stores nothing.
- The hooks are *seen* (a person's message was taken), *working* (the session works or has stopped), *writing* (a text
  that the agent is writing), and *said* (a piece of a session's message). Only *said* must succeed; a failure of the
  others is logged, and nothing waits for them.
- A hook raises OSError if the platform may or may not have done it, ConnectionRefusedError if it has not, and another
  SupervisorError if the platform refuses it.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

import msgspec

WRITING: Final = "writing"
"""The mark of a message that shows what an agent is writing."""
BURIED: Final = 10
"""So many messages that are no cards, after a card, bury it: people do not see it without a search."""


class IncomingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A person's message to the agent or in a session's place."""

    session: str
    """The id of the session of this place, whether or not that session exists."""
    message: str
    """The id of the message: one that is delivered twice has the same."""
    identity: str
    """The person's id on the platform."""
    text: str
    said_at: datetime
    """By the platform's clock."""
    is_first: bool = False
    """Whether the session of this place begins with this message, so that it is no reply."""
    may_begin: bool = False
    """Whether it begins the session if there is none. A message that may not is ignored then."""
    is_again: bool = False
    """Whether the platform says that it has delivered the message before."""


class Earlier(msgspec.Struct, frozen=True):
    """A message that stood in a place before its session began. `by`: its author, as the platform names them."""

    by: str
    text: str


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of what a session says, short enough for one message. `text` is Markdown without mentions or links that
    hide their target (prose.py). `by`: the agent, and the number of the piece if there are several."""

    session: str
    text: str
    mark: str
    """Identifies the piece in its session: "said:POSITION", and ":NUMBER" from the second piece of a message on; of a
    text that is being written, WRITING."""
    by: str


class Chat(ABC):
    """A chat platform, for conversations. `name`: the channel's name, in logs and in the audit trail."""

    name: str
    room: int
    """UTF-16 units of one message."""
    sign_lasts: float = 60.0
    """Seconds after which `working` is called again while the session still works."""
    can_edit: bool = False
    """Whether the platform lets the channel edit and remove its messages, so that people can read a text while it is
    written: then `show_writing` and `remove_writing` are used."""
    shows_after: float = 1.0
    """Seconds for which nothing is shown of a text that is being written, so that a short answer is one message."""

    @abstractmethod
    def holds(self, session: str) -> bool:
        """Return whether a session belongs to this platform, by its id."""

    @abstractmethod
    async def say(self, piece: Piece) -> None:
        """Post a piece in its session's place (the hook *said*)."""

    @abstractmethod
    async def find_said(self, session: str) -> Collection[str]:
        """Return the marks of the pieces that earlier processes posted in a session's place, and "writing:MESSAGE" for
        each message of `show_writing` that is still there. A platform that cannot be searched needs a record of its
        own: a piece whose mark is missing is posted once more."""

    async def seen(self, incoming: IncomingMessage) -> None:  # noqa: B027 # a platform may show nothing
        """Show that a person's message was taken."""

    async def working(self, session: str, *, is_working: bool) -> None:  # noqa: B027 # a platform may show nothing
        """Show that a session works, or that it has stopped. A session that waits for people or timers does not work.

        Called again every `sign_lasts` seconds, and after each piece, while the session works.
        """

    def edits_every(self, session: str) -> float:
        """Return the seconds between two edits of a text that is being written, at least 2."""
        return 2.0

    async def show_writing(self, piece: Piece, message: str | None) -> str:
        """Show a text that is being written (the hook *writing*), without ringing. It replaces that of `message`, which
        this method returned before. None, or a message that is gone: post one. Returns the id of the message.

        A platform that is too busy is not waited for: raise ConnectionRefusedError.
        """
        raise NotImplementedError

    async def remove_writing(self, session: str, message: str) -> None:
        """Remove a message of `show_writing`; that it is gone already is no error."""
        raise NotImplementedError

    async def find_earlier(self, incoming: IncomingMessage) -> Sequence[Earlier]:
        """Return the last messages that stood in a place before `incoming` begins a session there, the oldest first."""
        return ()

    def stands_below(self, incoming: IncomingMessage, card: str) -> bool:
        """Return whether a card was posted after a message, by the order of the platform: then a word in the message
        does not mean that card (A12). `card`: the id that `Channel.post` returned."""
        return False
