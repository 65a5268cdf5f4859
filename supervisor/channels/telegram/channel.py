"""Telegram as a channel: a platform, with the verbs of chat/verbs.py by the Bot API, for the driver of chat platforms.

Rules
- Telegram does not show a bot what stands in a chat, and has no forms.
- The person who presses is told the result alone, in an alert. An answer to a written message is a reply to it, so in a
  group all of its members see it.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Final

import anyio
import httpx
from msgspec.structs import replace

from supervisor.channels.chat.acts import Act, Answer, Command, Noise, Place, Replied, Said
from supervisor.channels.chat.cards import Asking
from supervisor.channels.chat.driver import ChatChannel
from supervisor.channels.chat.platform import IncomingMessage
from supervisor.channels.chat.verbs import Drawn, Driver, Face, Limits, Mentioned, Platform, Serving
from supervisor.channels.telegram import messages, updates
from supervisor.channels.telegram.bot_api import BotApi, TelegramRefused
from supervisor.channels.telegram.messages import (
    ALERT,
    BODY_UNITS,
    TEXT,
    Message,
    card_message,
    notice_message,
    reminder_message,
    retired_message,
    shown_facts,
    told_message,
)
from supervisor.channels.telegram.polling import SELDOM_SECONDS, Polling
from supervisor.channels.telegram.talk import TelegramChat, in_topic
from supervisor.channels.telegram.updates import Words, place_of
from supervisor.channels.wording.cards import still_waits, where_of
from supervisor.channels.wording.lengths import fit
from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.people import Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, SupervisorError
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

COMMANDS: Final = ("start", "id", "help", "new", "pending", "approve", "deny", "answer", "ack", "snooze", "stop")
_PLACE: Final = re.compile(r"(?:@(?=[0-9])|(?=-))?(-?[0-9]{1,18})")


class TelegramPlatform(Platform):
    """`name`: the channel's name, which ids of sessions have."""

    limits = Limits(
        title="Telegram",
        list_units=TEXT - 200,
        searches=False,
        shown_units=BODY_UNITS,
        identity="[0-9]+",
    )

    questions = messages

    def __init__(self, api: BotApi, bot: int, name: str) -> None:
        self.api = api
        self.polling = Polling(api)
        self._bot = bot
        self._name = name
        self._username = ""

    # -- cards -------------------------------------------------------------------------------------------------------

    def draw(
        self,
        face: Face,
        approval: Approval,
        *,
        link: str | None,
        mentioned: Mentioned = (),
        card: str = "",
        others: Sequence[Approval] = (),
    ) -> Drawn:
        match face:
            case "notice":
                return Drawn(notice_message(approval, link, mentioned))
            case "retired":
                return Drawn(retired_message(approval, datetime.now().astimezone(), link))
            case "reminder":
                says = still_waits(approval, *others, where="" if card else where_of((approval, *others), link))
                if others:
                    return Drawn(reminder_message(says, _parts(card)[1] if card else None, mentioned))
                return Drawn(reminder_message(says, _parts(card)[1] if card else None, mentioned, approval.id))
            case _:
                return Drawn(card_message(approval, link, mentioned, is_open=face == "card"))

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return shown_facts(approval)

    async def write(self, place: Place, content: Message, once: str = "", below: str = "") -> str:
        chat, topic = int(place.conversation), int(place.thread or 0)
        if below:
            content = content | {"reply_parameters": {"message_id": int(below), "allow_sending_without_reply": True}}
        posted = await self.api.call("sendMessage", chat_id=chat, **in_topic(topic), **content)
        return f"{chat}:{posted['message_id']}"

    async def edit(self, card: str, content: Message) -> None:
        chat, message = _parts(card)
        await self.api.call("editMessageText", chat_id=chat, message_id=message, **content)

    def place(self, text: str) -> Place:
        if (found := _PLACE.fullmatch(text)) is None:
            raise InvalidInput(f"write a chat's id, such as -1001234567890, or @ and a person's id, not {text!r}")
        return Place(str(int(found[1])))

    def place_of(self, session: str) -> Place | None:
        begun = self.chat.place_of(session)
        return None if begun is None else place_of(begun.chat, begun.thread)

    def is_direct(self, place: Place) -> bool:
        return int(place.conversation) > 0

    # -- what people do ----------------------------------------------------------------------------------------------

    def read(self, payload: Any) -> Act | None:
        act = updates.read(payload, self._bot, self._username)
        if not isinstance(act, Words):
            return act
        return self._read_words(act) if act.is_to_us else None

    def _read_words(self, words: Words) -> Act | None:
        user = str(words.user)
        if (why := _why_no_word(words)) is not None:
            return Noise(text=why, origin=words)
        if words.command == "new" or (words.command == "stop" and not words.text):
            return Said(user=user, origin=words)
        if words.command:
            is_ours = words.command in COMMANDS or words.is_private  # else of another bot in the group
            return Command(user=user, text=f"{words.command} {words.text}", origin=words) if is_ours else None
        if words.about is not None:
            code, approval = words.about
            return Replied(
                code=code,
                approval=approval,
                user=user,
                text=words.text,
                card=f"{words.chat}:{words.message}",
                place=place_of(words.chat, words.thread),
                origin=words,
            )
        return Said(user=user, origin=words)

    async def whisper(self, act: Act, answer: Answer) -> None:
        origin = act.origin
        if not isinstance(origin, Words):  # an alert ends the sign that a press is under way, also without a text
            text = fit(answer.text, ALERT)
            await self.api.call("answerCallbackQuery", callback_query_id=origin, text=text, show_alert=True)
        elif answer.text:
            message = told_message(answer.text, origin.message)
            await self.api.call("sendMessage", chat_id=origin.chat, **in_topic(origin.thread), **message)

    async def incoming(self, said: Said) -> IncomingMessage | str:
        words: Words = said.origin
        is_new = words.command == "new" or not (words.is_private or words.is_reply or words.command)
        if words.command == "stop":
            words = replace(words, text="stop")
        elif not words.text:
            return "Write what the agent is to do, as in: /new look at the tests"
        return await self.chat.incoming_of(words, is_new=is_new, is_again=said.is_again)

    async def begun(self, session: str) -> None:
        await self.chat.note_begun(session)

    async def run(self, command: Command, serving: Serving) -> Answer | None:
        words: Words = command.origin
        if words.command not in ("start", "id", "help"):
            return None
        person = serving.answering.find_person(command.user)
        who = person if isinstance(person, str) else f"You are {person.name} here. Write /pending to see what waits."
        return Answer(f"{who}\nThis chat's id is {words.chat}.")

    # -- its connection ----------------------------------------------------------------------------------------------

    async def check(self, home: Place, *, is_serving: bool, talks: bool) -> str:
        me = await self.api.call("getMe")
        if (url := (await self.api.call("getWebhookInfo")).get("url")) not in (None, ""):
            raise SupervisorError(
                f"@{me['username']} sends what people do to the webhook {visible(url)}; remove it, or use another bot"
            )
        if self.polling.failure is not None:
            raise SupervisorError(self.polling.failure)
        chat = await self.api.call("getChat", chat_id=int(home.conversation))
        title = chat.get("title") or chat.get("first_name") or home.conversation
        return f"@{me['username']} in {visible(str(title))}"

    def connected(self) -> AbstractAsyncContextManager[Any]:
        return self.api

    async def listen(self, driver: Driver) -> None:
        await self._know_itself()  # before, a message in a group might not look like one for the bot
        await self.polling.run(driver.take_in_turn)

    async def _know_itself(self) -> None:
        """Learn the bot's name, by which people in groups address it."""
        wait = self.polling.again_in
        while not self._username:
            try:
                self._username = str((await self.api.call("getMe"))["username"])
            except (TelegramRefused, OSError) as error:
                log.warning("telegram.not_reached", error=str(error), again_in=wait)
                await anyio.sleep(wait)
                wait = min(SELDOM_SECONDS, 2 * wait)

    def make_chat(self, serving: Callable[[], Supervisor]) -> TelegramChat:
        self.chat = TelegramChat(self.api, self._name, serving)
        return self.chat


def _why_no_word(words: Words) -> str | None:
    """Return why a message is not the word of the person who sent it."""
    if words.is_anonymous:
        return "Nothing was done: write it in your own name. In the name of a group, no one knows who wrote it."
    if words.is_forwarded:
        return "Nothing was done: this is forwarded, so another person may have written it. Write it yourself."
    if words.is_via_bot:
        return "Nothing was done: a bot wrote this, or it was sent by itself. Write it yourself."
    return None


def _parts(card: str) -> tuple[int, int]:
    """Return the chat and the message of a card."""
    chat, message, *_ = card.split(":")
    return int(chat), int(message)


class Telegram(ChatChannel):
    """Ask people in Telegram.

    `token`: the bot's token. `conversation`: the id of the chat for cards: a group, or a person who has written to
    the bot. `people`: the configured people (identity "telegram": the numeric id) and their rights. `link`: the address
    of the web inbox, for requests that are too long for a card. `mention`: whom a card in a group mentions, so that
    Telegram notifies them. `agent`: people talk with it in chats with the bot, and in groups where they name the bot;
    None: cards only. `name`: another one if there are two of them; people's identities are configured under it.
    """

    name = "telegram"

    def __init__(
        self,
        *,
        token: str,
        conversation: int,
        people: People,
        agent: AgentSpec[..., Any] | None = None,
        link: str | None = None,
        mention: Mention = "approvers",
        base_url: str = "https://api.telegram.org",
        name: str = "telegram",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        bot, _, _ = token.partition(":")
        if not (bot.isascii() and bot.isdigit()):
            raise InvalidInput("telegram: the bot's token begins with a number and a colon; @BotFather shows it")
        platform = TelegramPlatform(BotApi(token, base_url, transport), int(bot), name)
        asking = Asking(name=name, people=people, agent=agent, link=link, mention=mention)
        super().__init__(platform, Place(str(conversation)), asking)
