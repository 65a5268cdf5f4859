"""Telegram as a channel: cards whose buttons work for as long as the approval does.

Theory: a button returns only the approval's id and its own code. So the age of the card and the process that posted it
do not matter: the press finds the approval in the store, and the decision wakes the run that waits for it. Telegram has
no forms, so a press that needs a text asks for it in a message, and the person replies to that message.

    press, reply, command -> who is it? -> may they? -> decide -> tell the person -> update the card

Rules
- Telegram does not show a bot what stands in a chat. So a card is posted without buttons, and gets them when the store
  has recorded it (`opens_cards`): a process that dies in between leaves a text, and no card that looks live.
- The id of a card says which reminder was sent. So after a restart no reminder is sent a second time.
- The person who presses is told the result alone, in an alert. An answer to a written message is a reply to it, so in a
  group all of its members see it. A refused press leaves the card as it is.
- An answer that Telegram does not take is logged. The decision stands.
- Of an answer or of edited arguments with fields, one field after the other is asked (filling.py).

The module is longer than 400 lines because it is one object: what is posted, and what people do with it.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from datetime import datetime
from typing import Any, Final

import anyio
import httpx
from anyio.abc import TaskGroup
from msgspec.structs import replace

from supervisor.channels.chat.answering import Answering, Pressed
from supervisor.channels.chat.conversations import Conversations
from supervisor.channels.chat.presses import EXPLAIN, FORMS, code_of_reply
from supervisor.channels.telegram import polling, updates
from supervisor.channels.telegram.bot_api import BotApi, TelegramRefused
from supervisor.channels.telegram.filling import Filling, Fillings
from supervisor.channels.telegram.messages import (
    ALERT,
    BODY_UNITS,
    JSON,
    LEAVE,
    SEND,
    TEXT,
    Mentioned,
    card_message,
    field_message,
    filled_message,
    left_message,
    notice_message,
    prompt_message,
    read_fill,
    reminder_message,
    retired_message,
    shown_facts,
    told_message,
)
from supervisor.channels.telegram.talk import TelegramChat, in_topic
from supervisor.channels.telegram.updates import Press, Unknown, Words
from supervisor.channels.wording.cards import decided
from supervisor.channels.wording.form_words import has_form
from supervisor.channels.wording.lengths import fit, length
from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.people import Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, StoreError, SupervisorError
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Approval
from supervisor.seam.channel import CardGone, Channel
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

GONE: Final = ("message to edit not found", "message can't be edited", "chat not found")
"""Telegram's words for a card that is gone or can no longer be changed."""
COMMANDS: Final = ("start", "id", "help", "new", "pending", "approve", "deny", "answer", "stop")
_PLACE: Final = re.compile(r"(?:@(?=[0-9])|(?=-))?(-?[0-9]{1,18})")
TELLING: Final = 64
"""Answers to people that are under way at the same time."""
NOTHING: Final = "."
"""A reply that gives no reason: a message of Telegram's is never empty."""


class Telegram(Channel):
    """Ask people in Telegram.

    `token`: the bot's token. `conversation`: the id of the chat for cards: a group, or a person who has written to
    the bot. `people`: the configured people (identity "telegram": the numeric id) and their rights. `link`: the address
    of the web inbox, for requests that are too long for a card. `mention`: whom a card in a group mentions, so that
    Telegram notifies them. `agent`: people talk with it in chats with the bot, and in groups where they name the bot;
    None: cards only. `name`: another one if there are two of them; people's identities are configured under it.
    """

    name = "telegram"
    card_timeout = 120.0  # Telegram may tell us to wait for a minute
    keeps_cards = True
    remind_on_start = True
    opens_cards = True

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
        self.name = name
        bot, _, _ = token.partition(":")
        if not (bot.isascii() and bot.isdigit()):
            raise InvalidInput("telegram: the bot's token begins with a number and a colon; @BotFather shows it")
        self._api = BotApi(token, base_url, transport)
        self._bot = int(bot)
        self._conversation = conversation
        self.people = self._people = people
        self._answering = Answering(self.name, people)
        self._link = link
        self._mention = mention
        self._username = ""
        self._polling = polling.Polling(self._api, self._take)
        self._chat = TelegramChat(self._api, name, self._serving)
        self._conversations = None if agent is None else Conversations(self._chat, agent, self._answering)
        self._fillings = Fillings()
        self._telling = anyio.Semaphore(TELLING, max_value=TELLING)
        self._is_fixed = False
        """Whether all cards go to the conversation, and none to the chat in which its session began."""
        self._supervisor: Supervisor | None = None
        self._tasks: TaskGroup | None = None

    def __repr__(self) -> str:
        return f"<telegram, chat {self._conversation}>"  # never a token

    def at(self, place: str) -> "Telegram":
        if (found := _PLACE.fullmatch(place)) is None:
            raise InvalidInput(f"write a chat's id, such as -1001234567890, or @ and a person's id, not {place!r}")
        there = copy(self)
        there._conversation, there._is_fixed = int(found[1]), True  # noqa: SLF001 # another one of this class
        return there

    async def check(self) -> str:
        me = await self._api.call("getMe")
        if (url := (await self._api.call("getWebhookInfo")).get("url")) not in (None, ""):
            raise SupervisorError(
                f"@{me['username']} sends what people do to the webhook {visible(url)}; remove it, or use another bot"
            )
        if self._polling.failure is not None:
            raise SupervisorError(self._polling.failure)
        chat = await self._api.call("getChat", chat_id=self._conversation)
        title = chat.get("title") or chat.get("first_name") or self._conversation
        return f"@{me['username']} in {visible(str(title))}"

    # -- cards -------------------------------------------------------------------------------------------------------

    async def post(self, approval: Approval, card: str | None) -> str:
        if card is not None:
            await self._renew(card, self._message(approval, is_notice=False))
            return await self._remind(approval, card)
        return await self._send(approval, card_message(approval, self._link, self._mentioned(approval), is_open=False))

    async def notify(self, approval: Approval, card: str | None) -> str:
        message = self._message(approval, is_notice=True)
        if card is not None:
            await self._renew(card, message)
            return await self._remind(approval, card)
        return await self._send(approval, message)

    def face(self, approval: Approval, *, is_notice: bool = False) -> str:
        return json_text(self._message(approval, is_notice=is_notice))

    def _message(self, approval: Approval, *, is_notice: bool) -> dict[str, Any]:
        make = notice_message if is_notice else card_message
        return make(approval, self._link, self._mentioned(approval))

    async def _remind(self, approval: Approval, card: str) -> str:
        """Send the last reminder, unless it was sent; return the id of the card, which says so."""
        chat, message = _place(card)
        reminded = _card(chat, message, approval)
        if reminded != card:
            reminder = reminder_message(approval, message, self._mentioned(approval))
            await self._api.call("sendMessage", chat_id=chat, **reminder)
        return reminded

    async def _send(self, approval: Approval, message: dict[str, Any]) -> str:
        """Post a card in the chat of its session, or else in the conversation."""
        chat, topic = self._place_of(approval)
        try:
            posted = await self._api.call("sendMessage", chat_id=chat, **in_topic(topic), **message)
        except TelegramRefused as error:
            if chat == self._conversation:
                raise
            log.warning("chat.refused", channel=self.name, session=approval.root_session, error=str(error))
            chat = self._conversation
            posted = await self._api.call("sendMessage", chat_id=chat, **message)
        return _card(chat, posted["message_id"], approval)

    def _place_of(self, approval: Approval) -> tuple[int, int]:
        """Return the chat and the topic for a card."""
        begun = self._chat.place_of(approval.root_session)
        if begun is None or self._conversations is None or self._is_fixed:
            return self._conversation, 0
        return begun.chat, begun.thread

    async def retire(self, approval: Approval, card: str) -> None:
        try:
            await self._update(card, retired_message(approval, _now(), self._link))
        except TelegramRefused as error:
            if not _says_gone(error):
                raise

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return shown_facts(approval)

    def _mentioned(self, approval: Approval) -> Mentioned:
        """Return the people whom a card mentions; a chat with one person notifies that person anyway."""
        if self._place_of(approval)[0] > 0:
            return ()
        found = self._people.find_mentioned(approval, self._mention, self.name)
        known = [(each, self._people.find_by_identity(self.name, each)) for each in found]
        return [(id_, person.name) for id_, person in known if person is not None and id_.isascii() and id_.isdigit()]

    async def is_in_sight(self, approval: Approval, card: str) -> bool:
        """A bot cannot read what others write, so only a card that was deleted is out of sight. An edit that changes
        nothing tells."""
        try:
            await self._renew(card, self._message(approval, is_notice=False))
        except CardGone:
            return False
        return True

    async def _renew(self, card: str, message: dict[str, Any]) -> None:
        """Show an approval on its old card. Raises CardGone if it is gone, or if the bot was removed from its chat."""
        try:
            await self._update(card, message)
        except TelegramRefused as error:
            if not _says_gone(error) and error.status != 403:
                raise
            raise CardGone(str(error)) from None

    async def _update(self, card: str, message: dict[str, Any]) -> None:
        """Replace the content of a card."""
        chat, id_ = _place(card)
        await self._api.call("editMessageText", chat_id=chat, message_id=id_, **message)

    # -- what people do ----------------------------------------------------------------------------------------------

    async def serve(self, supervisor: Supervisor) -> None:
        async with self._api, anyio.create_task_group() as self._tasks:
            self._supervisor = supervisor
            try:
                if self._conversations is not None:
                    self._tasks.start_soon(self._conversations.run, supervisor)
                await self._know_itself()  # before, a message in a group might not look like one for the bot
                await self._polling.run()
            finally:
                self._supervisor = self._tasks = None

    def _serving(self) -> Supervisor:
        assert self._supervisor is not None, "messages are posted only while the channel serves"
        return self._supervisor

    async def _know_itself(self) -> None:
        """Learn the bot's name, by which people in groups address it."""
        wait = self._polling.again_in
        while not self._username:
            try:
                self._username = str((await self._api.call("getMe"))["username"])
            except (TelegramRefused, OSError) as error:
                log.warning("telegram.not_reached", error=str(error), again_in=wait)
                await anyio.sleep(wait)
                wait = min(polling.SELDOM_SECONDS, 2 * wait)

    async def _take(self, update: Any, is_again: bool) -> None:
        """Do what an update says. When this returns, it is on disk."""
        act = updates.read(update, self._bot, self._username)
        if act is None or (isinstance(act, Words) and not act.is_to_us):
            return
        try:
            text = await self._do(act, is_again=is_again)
        except StoreError:
            raise
        except SupervisorError as error:
            text = f"Not all of that was done: {visible(str(error), kind='words')}"
        except Exception as error:  # noqa: BLE001 # an update that fails must not end the others
            log.error("act.failed", channel=self.name, error=repr(error))
            text = "That failed here. A decision that was made stands. See: supervisor approvals."
        if isinstance(act, Words) and text is not None:
            await self._tell(self._answer, act, text)
        elif not isinstance(act, Words):
            await self._tell(self._alert, act.query, text or "")

    async def _do(self, act: Press | Words | Unknown, *, is_again: bool) -> str | None:
        match act:
            case Press():
                return await self._pressed(act)
            case Words():
                return await self._said(act, is_again=is_again)
            case Unknown():
                return "This supervisor does not know that button."

    async def _tell(self, tell: Callable[..., Awaitable[object]], *what: Any) -> None:
        """Tell a person something, while the next update is taken. If TELLING people wait for their answers, no update
        is taken until one has it."""
        assert self._tasks is not None
        await self._telling.acquire()
        self._tasks.start_soon(self._try_to_tell, tell, *what)

    async def _try_to_tell(self, tell: Callable[..., Awaitable[object]], *what: Any) -> None:
        try:
            await tell(*what)
        except (TelegramRefused, OSError) as error:  # the decision stands; only the answer failed
            log.warning("answer.not_told", channel=self.name, error=str(error))
        finally:
            self._telling.release()

    async def _alert(self, query: str, text: str) -> None:
        await self._api.call("answerCallbackQuery", callback_query_id=query, text=fit(text, ALERT), show_alert=True)

    async def _answer(self, words: Words, text: str) -> None:
        message = told_message(text, words.message)
        await self._api.call("sendMessage", chat_id=words.chat, **in_topic(words.thread), **message)

    async def _pressed(self, press: Press) -> str:
        """Decide, or ask for the text that the press needs; return the text for the person who pressed."""
        assert self._supervisor is not None
        found = await self._answering.find_pressed(self._supervisor, press.approval, str(press.user))
        if isinstance(found, str):
            return found
        if (of_form := read_fill(press.code)) is not None:
            return await self._filled(press, found, *of_form)
        if press.code in FORMS:
            if (hidden := await self._answering.why_hidden(self._supervisor, found)) is not None:
                return hidden
            if found.approval.status != "pending":
                self._retire_pressed(press)
                return f"This is over: {decided(found.approval, _now())}."
            if (filling := self._fillings.begin(press.user, found.approval, press.code)) is not None:
                await self._tell(self._ask_field, filling, press, self._question(filling, found, press.user))
                return ""
            return await self._ask_for_text(press, found, press.code)
        asked = (self._supervisor, self, found.approval, press.code, self._link)
        if (unseen := await self._answering.why_unseen(*asked, f"{press.chat}:{press.message}")) is not None:
            return unseen
        result = await self._answering.decide(self._supervisor, found, press.code, None, _now())
        if result.is_stale:
            self._retire_pressed(press)
        return result.text

    async def _ask_for_text(self, press: Press, found: Pressed, code: str) -> str:
        """Ask for a text, or for JSON, in a reply; return the text for the person who pressed."""
        person, link = (str(press.user), found.name), self._link if has_form(found.approval) else None
        try:
            prompt = prompt_message(code, found.approval, press.message, person, link)
        except InvalidInput as error:
            return visible(str(error), kind="words", lines=True)
        await self._tell(self._ask, press, prompt)
        return "Reply to the message below."

    async def _ask(self, at: Press | Words, prompt: dict[str, Any]) -> int:
        posted = await self._api.call("sendMessage", chat_id=at.chat, **in_topic(at.thread), **prompt)
        return int(posted["message_id"])

    # -- forms -------------------------------------------------------------------------------------------------------

    def _question(self, filling: Filling, found: Pressed, user: int) -> dict[str, Any]:
        """Return the message of a form's present question."""
        person, interview = (str(user), found.name), filling.interview
        if (prompt := interview.prompt) is None:
            return filled_message(*filling.result(), filling.token, filling.code, found.approval, person)
        return field_message(prompt, (interview.number, interview.count), filling.token, found.approval, person)

    async def _ask_field(self, filling: Filling, at: Press | Words, question: dict[str, Any]) -> None:
        """Post a question, in reply to the card or to the answer before it."""
        replied = {"message_id": at.message, "allow_sending_without_reply": True}
        filling.message = await self._ask(at, question | {"reply_parameters": replied})

    async def _edit(self, chat: int, message: int, content: dict[str, Any]) -> None:
        await self._update(f"{chat}:{message}", content)

    async def _filled(self, press: Press, found: Pressed, token: str, action: str) -> str:
        """Take a press on a question of a form; return the text for the person who pressed."""
        assert self._supervisor is not None
        approval = found.approval
        filling = self._fillings.find(press.user, approval.id, token)
        if isinstance(filling, str):
            return filling
        told, left = "", ""
        if approval.status != "pending":
            told = left = f"This is over: {decided(approval, _now())}."
        elif action == LEAVE:
            left = "The form was left. Nothing was decided."
        elif action == JSON:
            told, left = await self._ask_for_text(press, found, filling.code), "The form was left for JSON."
        elif action == SEND and filling.interview.prompt is None:
            shown, problems = filling.result()
            if problems or length(shown) > BODY_UNITS:
                return "Nothing was decided: it does not fit."
            result = await self._answering.decide(self._supervisor, found, filling.code, shown, _now())
            if not result.is_decision:
                return result.text
            told = left = result.text
        elif (problem := filling.press(action)) is not None:
            return problem
        if left:
            self._fillings.end(press.user, approval.id)
        content = left_message(left) if left else self._question(filling, found, press.user)
        await self._tell(self._edit, press.chat, press.message, content)
        return told

    async def _filled_in(self, words: Words, found: Pressed, token: str) -> str | None:
        """Take a reply to a question of a form; return the text for its sender if the next question is not asked."""
        approval = found.approval
        filling = self._fillings.find(words.user, approval.id, token)
        if isinstance(filling, str):
            return filling
        if approval.status != "pending":
            self._fillings.end(words.user, approval.id)
            return f"This is over: {decided(approval, _now())}."
        label = filling.interview.prompt.label if filling.interview.prompt is not None else ""
        if (problem := filling.write(words.text)) is not None:
            return f"That does not fit: {problem}. Reply to the question again."
        if filling.message is not None:
            done = left_message(f"{label or 'your answer'}: {visible(words.text, kind='prose', lines=True)}")
            await self._tell(self._edit, words.chat, filling.message, done)
        await self._tell(self._ask_field, filling, words, self._question(filling, found, words.user))
        return None

    def _retire_pressed(self, press: Press) -> None:
        assert self._supervisor is not None
        assert self._tasks is not None
        card = f"{press.chat}:{press.message}"
        self._tasks.start_soon(self._answering.retire_pressed, self._supervisor, self, press.approval, card)

    async def _said(self, words: Words, *, is_again: bool) -> str | None:
        """Take a message; return the text to tell its sender."""
        if words.is_anonymous:
            return "Nothing was done: write it in your own name. In the name of a group, no one knows who wrote it."
        if words.is_forwarded:
            return "Nothing was done: this is forwarded, so another person may have written it. Write it yourself."
        if words.is_via_bot:
            return "Nothing was done: a bot wrote this, or it was sent by itself. Write it yourself."
        if words.command == "new" or (words.command == "stop" and not words.text):
            return await self._heard(words, is_again=is_again)
        if words.command:
            return await self._commanded(words)
        if words.about is not None:
            return await self._replied(words, *words.about)
        return await self._heard(words, is_again=is_again)

    async def _heard(self, words: Words, *, is_again: bool) -> str | None:
        """Take a message for the agent."""
        assert self._supervisor is not None
        if self._conversations is not None:
            is_new = words.command == "new" or not (words.is_private or words.is_reply or words.command)
            if words.command == "stop":
                words = replace(words, text="stop")
            elif not words.text:
                return "Write what the agent is to do, as in: /new look at the tests"
            incoming = await self._chat.incoming_of(words, is_new=is_new, is_again=is_again)
            answer = await self._conversations.hear(self._supervisor, incoming)
            if answer is None and incoming.is_first:
                await self._chat.note_begun(incoming.session)
            return answer
        person = self._answering.find_person(str(words.user))
        if isinstance(person, str):
            return person
        return "This supervisor has no agent to talk to in Telegram. You can decide its cards here."

    async def _commanded(self, words: Words) -> str | None:
        """Run a command: /pending, /approve ID, /deny ID REASON, /answer ID TEXT, /stop SESSION."""
        assert self._supervisor is not None
        if words.command not in COMMANDS and not words.is_private:
            return None  # of another bot in the group
        if words.command in ("start", "id", "help"):
            return self._hello(words)
        said = f"{words.command} {words.text}"
        return await self._answering.say(self._supervisor, said, str(words.user), _now(), TEXT - 200)

    def _hello(self, words: Words) -> str:
        person = self._answering.find_person(str(words.user))
        who = person if isinstance(person, str) else f"You are {person.name} here. Write /pending to see what waits."
        return f"{who}\nThis chat's id is {words.chat}."

    async def _replied(self, words: Words, code: str, approval: str) -> str | None:
        """Decide by a reply: to a prompt, with the text that it asks for; to a card, with a word or an answer."""
        assert self._supervisor is not None
        found = await self._answering.find_pressed(self._supervisor, approval, str(words.user))
        if isinstance(found, str):
            return found
        if (of_form := read_fill(code)) is not None:
            return await self._filled_in(words, found, of_form[0])
        text: str | None = words.text
        if not code:
            code, text = code_of_reply(words.text, found.approval)
        elif code == EXPLAIN and text == NOTHING:
            text = None
        if not code:
            return "Nothing was decided: press a button of the card, or reply yes or no."
        asked = (self._supervisor, self, found.approval, code, self._link)
        if (unseen := await self._answering.why_unseen(*asked)) is not None:
            return unseen
        return (await self._answering.decide(self._supervisor, found, code, text, _now())).text


def _says_gone(error: TelegramRefused) -> bool:
    return any(gone in error.text.lower() for gone in GONE)


def _card(chat: int, message: int, approval: Approval) -> str:
    """Return the id of a card. It contains the time of the last reminder."""
    reminded = f":{approval.reminded_at.timestamp():.0f}" if approval.reminded_at is not None else ""
    return f"{chat}:{message}{reminded}"


def _place(card: str) -> tuple[int, int]:
    """Return the chat and the message of a card."""
    chat, message, *_ = card.split(":")
    return int(chat), int(message)


def _now() -> datetime:
    return datetime.now().astimezone()
