"""Discord's threads as places of conversations: /start begins a session in a thread of its own, and /say in that thread
is a message to it. Plain messages would need Discord's gateway.

Rules
- A session's id names its thread ("discord-1098765432109876543").
- The mark of a piece is the end of its embed's footer: so the thread itself says which pieces are posted. Discord sends
  no notification for mentions in an embed.
- The thread begins with the person's own words, which all others in the conversation see.
"""

import re
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from supervisor.channels.chat.platform import WRITING, Chat, IncomingMessage, Piece
from supervisor.channels.chat.refusals import what_follows
from supervisor.channels.discord.components import CONTENT, TITLE, code_block
from supervisor.channels.discord.interactions import SlashCommand, session_of
from supervisor.channels.discord.rest import EPOCH, DiscordRefused, DiscordRest
from supervisor.channels.wording.lengths import fit
from supervisor.core.text.visible import visible
from supervisor.system.logs import FactLog

log = FactLog(__name__)

DESCRIPTION_UNITS: Final = 4000  # UTF-16 units of one embed's text; Discord allows 4,096
SILENT: Final = 1 << 12  # the flag of a message that notifies no one
THREAD_NAME: Final = 100
KEPT_MINUTES: Final = 10_080  # minutes for which Discord lists a thread without messages: a week, its longest
_SESSION: Final = re.compile(r"discord-(\d+)")
_BETWEEN: Final = " · "


def thread_of(session: str) -> str | None:
    """Return the thread of a session that began in Discord, None for any other."""
    found = _SESSION.fullmatch(session)
    return None if found is None else found[1]


def incoming_of(command: SlashCommand, thread: str, *, begins: bool) -> IncomingMessage:
    """Return what a person says by a slash command. Discord orders commands and messages by their ids."""
    said_at = datetime.fromtimestamp(((int(command.id) >> 22) + EPOCH) / 1000, UTC)
    text = command.options.get("text", "")
    return IncomingMessage(
        session=session_of(thread),
        message=command.id,
        identity=command.user,
        text=text,
        said_at=said_at,
        is_first=begins,
        may_begin=begins,
    )


class DiscordChat(Chat):
    """Discord, for conversations."""

    name = "discord"
    room = DESCRIPTION_UNITS
    sign_lasts = 8.0  # Discord hides the typing indicator after ten seconds
    can_edit = True

    def __init__(self, rest: DiscordRest) -> None:
        self._rest = rest

    def holds(self, session: str) -> bool:
        return thread_of(session) is not None

    async def open_thread(self, conversation: str, user: str, by: str, text: str) -> str:
        """Post a person's words, open a thread below that message, add the person to it, and return the thread's id."""
        content = code_block(f"{visible(by)}: {visible(text, kind='prose', lines=True)}", CONTENT)
        words = {"content": content, "allowed_mentions": {"parse": []}}
        posted = await self._rest.call("POST", f"/channels/{conversation}/messages", words)
        name = fit(visible(text, kind="prose").strip(), THREAD_NAME, remark=False) or "session"
        thread = await self._rest.call(
            "POST",
            f"/channels/{conversation}/messages/{posted['id']}/threads",
            {"name": name, "auto_archive_duration": KEPT_MINUTES},
        )
        try:
            await self._rest.call("PUT", f"/channels/{thread['id']}/thread-members/{user}")
        except (DiscordRefused, OSError) as error:  # they still find it by our answer
            log.warning("person.not_added", channel=self.name, thread=thread["id"], error=str(error))
        return str(thread["id"])

    async def say(self, piece: Piece) -> None:
        await self._rest.call("POST", f"/channels/{thread_of(piece.session)}/messages", _message(piece))

    async def show_writing(self, piece: Piece, message: str | None) -> str:
        messages = f"/channels/{thread_of(piece.session)}/messages"
        if message is not None:
            try:
                await self._rest.call("PATCH", f"{messages}/{message}", _message(piece), waits=False)
                return message
            except DiscordRefused as error:
                what_follows(error, "rewrite")
        posted = await self._rest.call("POST", messages, {**_message(piece), "flags": SILENT}, waits=False)
        return str(posted["id"])

    async def remove_writing(self, session: str, message: str) -> None:
        try:
            await self._rest.call("DELETE", f"/channels/{thread_of(session)}/messages/{message}", waits=False)
        except DiscordRefused as error:
            what_follows(error, "rewrite")

    async def find_said(self, session: str) -> set[str]:
        thread, until = thread_of(session), datetime.now(UTC) + timedelta(minutes=1)
        assert thread is not None
        found: set[str] = set()
        async with aclosing(self._rest.messages(thread, until)) as messages:
            async for message in messages:
                footers = [(embed.get("footer") or {}).get("text", "") for embed in message.get("embeds") or ()]
                if message["author"].get("bot"):
                    marks = {footer.rpartition(_BETWEEN)[2] for footer in footers}
                    found |= marks | ({f"{WRITING}:{message['id']}"} if WRITING in marks else set())
        return found

    def stands_below(self, incoming: IncomingMessage, card: str) -> bool:
        return int(card.partition(":")[2]) > int(incoming.message)

    async def working(self, session: str, *, is_working: bool) -> None:
        if is_working:  # nothing hides the typing indicator earlier
            await self._rest.call("POST", f"/channels/{thread_of(session)}/typing")


def _message(piece: Piece) -> dict[str, Any]:
    footer = _BETWEEN.join([fit(visible(piece.by), TITLE, remark=False), piece.mark])
    return {
        "embeds": [{"description": piece.text or "(empty)", "footer": {"text": footer}}],
        "allowed_mentions": {"parse": []},
    }
