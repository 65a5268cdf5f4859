"""Discord as a channel: cards whose buttons work for as long as the approval does.

Theory: a button returns only the approval's id and its own code. So the age of the card and the process that posted it
do not matter: the press finds the approval in the store. Cards are edited with the bot's token and the message's id,
since the token of an interaction expires after 15 minutes.

    interaction -> signature -> who is it? -> may they? -> decide -> tell the person -> update the card

Rules
- Discord wants an answer within 3 s. After `answers_within` seconds the channel defers the answer and sends it later.
- Only the person who acts is told the result. A refused press leaves the card as it is.
- A process may die after it posted a card and before it recorded the card. So the channel searches for such a card
  around the time of the post: before it posts a second card, and when the approval has ended.

The module is longer than 400 lines because it is one object: what is posted, and what people do with it.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from copy import copy
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import anyio
import httpx
import msgspec
from anyio.abc import TaskGroup
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from supervisor.channels.chat.answering import Answering, Reply
from supervisor.channels.chat.conversations import Conversations
from supervisor.channels.chat.modal_fields import read_modal, refused
from supervisor.channels.chat.platform import BURIED
from supervisor.channels.chat.presses import FORMS
from supervisor.channels.discord import interactions
from supervisor.channels.discord.commands import Commands, told
from supervisor.channels.discord.components import (
    card_message,
    form_modal,
    notice_message,
    reminder_message,
    retired_message,
    shown_facts,
)
from supervisor.channels.discord.interactions import Command, Payload, Press
from supervisor.channels.discord.rest import GONE, DiscordRefused, DiscordRest
from supervisor.channels.discord.talk import DiscordChat, thread_of
from supervisor.channels.wording.cards import decided
from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.people import Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, StoreError, SupervisorError, TreeOwned
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Approval
from supervisor.seam.channel import CardGone, Channel, Webhook, WebhookReply
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

CLOCKS_DIFFER: Final = timedelta(seconds=60)  # between our clock and Discord's, at most
_PLACE: Final = re.compile(r"@?[0-9]+")
UNKNOWN_WEBHOOK: Final = 10015  # Discord has not processed the deferred answer yet


class Discord(Channel):
    """Ask people in Discord.

    `token`: the bot's token. `application`: the application's id. `public_key`: the application's public key,
    hexadecimal; it verifies Discord's requests. `conversation`: the id of the channel for cards. `people`: the
    configured people (identity "discord": the user's id) and their rights. `link`: the address of the web inbox, for
    requests that are too long for a card. `mention`: whom a card mentions, so that Discord notifies them. `agent`:
    /start begins it in a thread, and people talk to it there; None: cards only. `name`: another one if there are two of
    them; people's identities are configured under it.
    """

    name = "discord"
    card_timeout = 120.0  # Discord may tell us to wait
    answers_within: float = 1.5
    """Seconds within which Discord gets an answer, even if work remains."""
    keeps_cards = True
    remind_on_start = True

    def __init__(
        self,
        *,
        token: str,
        application: str,
        public_key: str,
        conversation: str,
        people: People,
        agent: AgentSpec[..., Any] | None = None,
        link: str | None = None,
        mention: Mention = "approvers",
        base_url: str = "https://discord.com/api/v10",
        name: str = "discord",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.name = name
        try:
            self._key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        except ValueError:
            raise InvalidInput(
                "discord: public_key is 64 hexadecimal digits, from the application's General Information page"
            ) from None
        self._public_key = public_key.lower()
        self._rest = DiscordRest(token, base_url, transport)
        self._application = application
        self._conversation = conversation
        self.people = self._people = people
        self._answering = Answering(self.name, people)
        chat = DiscordChat(self._rest)
        self.conversations = None if agent is None else Conversations(chat, agent, self._answering)
        self._commands = Commands(chat, self.conversations, self._answering, people, conversation)
        self._link = link
        self._fixed = ""
        self._gone: dict[str, str] = {}
        """The card of each approval that was found to be gone."""
        self._mention = mention
        self._supervisor: Supervisor | None = None
        self._tasks: TaskGroup | None = None

    def __repr__(self) -> str:
        return f"<discord, channel {self._conversation}>"  # never a token

    async def check(self) -> str:
        app = await self._rest.call("GET", "/applications/@me")
        if app.get("id") != self._application:
            raise SupervisorError(f"the bot token is of application {app.get('id')}, not of {self._application}")
        if app.get("verify_key", self._public_key) != self._public_key:
            raise SupervisorError("public_key is of another application; copy it from General Information")
        if app.get("interactions_endpoint_url", "") is None:
            raise SupervisorError(
                "no press arrives: enter https://HOST/channels/discord/interactions as Interactions Endpoint URL "
                "(General Information)"
            )
        place = await self._rest.call("GET", f"/channels/{self._conversation}")
        bot = (app.get("bot") or {}).get("username") or app.get("name")
        return f"@{visible(str(bot))} in #{visible(str(place.get('name')))}"

    # -- cards -------------------------------------------------------------------------------------------------------

    def at(self, place: str) -> "Discord":
        if not _PLACE.fullmatch(place):
            raise InvalidInput(f"write the id of a conversation, or @ and a person's id, in digits, not {place!r}")
        there = copy(self)
        there._conversation = there._fixed = place  # noqa: SLF001 # of this class
        there.conversations = None
        return there

    async def post(self, approval: Approval, card: str | None) -> str:
        return await self._show(approval, card, self._message(approval, is_notice=False))

    async def notify(self, approval: Approval, card: str | None) -> str:
        return await self._show(approval, card, self._message(approval, is_notice=True))

    def face(self, approval: Approval, *, is_notice: bool = False) -> str:
        return json_text(self._message(approval, is_notice=is_notice))

    def _message(self, approval: Approval, *, is_notice: bool) -> Payload:
        mentioned = self._mentioned(approval)
        if is_notice:
            return notice_message(approval, self._link, mentioned)
        return card_message(approval, approval.created_at, self._link, mentioned)

    async def _show(self, approval: Approval, card: str | None, message: Payload) -> str:
        began = _now()
        if card is not None:
            await self._renew(approval, card, message)
            return card
        # For some minutes, a repeated request with the same nonce posts no second message. A nonce has at most 25
        # characters: the last ones of an id are random.
        # The message of a nonce that was used before may be gone, or elsewhere, so a deleted card and a place count.
        gone = self._gone.get(approval.id, "")
        other = f"{approval.id} {gone} {self._fixed}"
        nonce = sha256(other.encode()).hexdigest()[:25] if gone or self._fixed else approval.id[-25:]
        once = {"nonce": nonce, "enforce_nonce": True}
        place = await self._opened(self._place_of(approval))
        try:
            try:
                posted = await self._rest.call("POST", f"/channels/{place}/messages", {**message, **once})
            except DiscordRefused as error:
                if place == self._conversation or self._fixed:
                    raise
                log.warning("thread.refused", channel=self.name, session=approval.root_session, error=str(error))
                place = self._conversation
                posted = await self._rest.call("POST", f"/channels/{place}/messages", {**message, **once})
        except ConnectionRefusedError:
            raise
        except OSError:  # Discord may have posted the card before its answer was lost
            found = await self.find_card(approval, began, _now())
            if found is None:
                raise
            return found
        return f"{place}:{posted['id']}"

    async def _opened(self, place: str) -> str:
        """Return the id of a conversation; of the one with a person, if it is "@" and a person's id."""
        if not place.startswith("@"):
            return place
        opened = await self._rest.call("POST", "/users/@me/channels", {"recipient_id": place[1:]})
        return str(opened["id"])

    def _place_of(self, approval: Approval) -> str:
        """Return the thread of the approval's session, or the configured conversation."""
        thread = thread_of(approval.root_session) if self.conversations is not None else None
        return thread or self._conversation

    async def remind(self, approval: Approval, card: str) -> None:
        assert approval.reminded_at is not None
        conversation, _, id_ = card.partition(":")
        since = approval.reminded_at - CLOCKS_DIFFER
        reminder = reminder_message(approval, id_, self._mentioned(approval))
        async with aclosing(self._rest.messages(conversation, _now() + CLOCKS_DIFFER)) as messages:
            async for message in messages:
                if datetime.fromisoformat(message["timestamp"]) < since:
                    break
                is_reply = (message.get("message_reference") or {}).get("message_id") == id_
                if is_reply and self._is_ours(message) and message["content"] == reminder["content"]:
                    return
        await self._rest.call("POST", f"/channels/{conversation}/messages", reminder)

    def _mentioned(self, approval: Approval) -> list[str]:
        """Return the ids of the people whom a card mentions."""
        found = self._people.find_mentioned(approval, self._mention, self.name)
        return [each for each in found if each.isascii() and each.isdigit()]

    def _is_ours(self, message: Payload) -> bool:
        author = message["author"]
        return author["id"] == self._application or bool(author.get("bot"))

    async def retire(self, approval: Approval, card: str) -> None:
        if approval.status != "pending":  # else it is about to be posted anew
            self._gone.pop(approval.id, None)
        try:
            await self._update(card, retired_message(approval, self._link))
        except DiscordRefused as error:
            if error.code not in GONE:
                raise

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return shown_facts(approval)

    async def _renew(self, approval: Approval, card: str, message: Payload) -> None:
        """Show an approval on its old card. Raises CardGone if it is gone, or if the bot may not see it any more."""
        try:
            await self._update(card, message)
        except DiscordRefused as error:
            if error.code not in GONE and error.status != 403:
                raise
            self._gone[approval.id] = card
            raise CardGone(str(error)) from None

    async def _update(self, card: str, message: Payload) -> None:
        """Replace the content of a card."""
        conversation, _, id_ = card.partition(":")
        await self._rest.call("PATCH", f"/channels/{conversation}/messages/{id_}", message)

    async def find_card(self, approval: Approval, since: datetime, until: datetime) -> str | None:
        for place in dict.fromkeys([self._place_of(approval), self._conversation]):
            if (found := await self._find_in(place, approval, since, until)) is not None:
                return found
        return None

    async def is_in_sight(self, approval: Approval, card: str) -> bool:
        try:
            is_seen = await self._is_seen(card)
        except DiscordRefused as error:
            if error.code not in GONE:  # what cannot be read is left alone
                log.warning("card.not_looked_at", channel=self.name, approval=approval.id, error=str(error))
                return True
            is_seen = False
        if not is_seen:
            self._gone[approval.id] = card
        return is_seen

    async def _is_seen(self, card: str) -> bool:
        """Return whether a card is there, and few messages follow it."""
        conversation, _, id_ = card.partition(":")
        later = 0
        async with aclosing(self._rest.messages(conversation, _now() + CLOCKS_DIFFER)) as messages:
            async for message in messages:  # the newest first
                if int(message["id"]) <= int(id_):
                    return bool(message["id"] == id_)
                is_card = self._is_ours(message) and any(embed.get("footer") for embed in message.get("embeds") or ())
                later += not is_card
                if later >= BURIED:
                    return False
        return False

    async def _find_in(self, place: str, approval: Approval, since: datetime, until: datetime) -> str | None:
        try:
            place = await self._opened(place)
            async with aclosing(self._rest.messages(place, until + CLOCKS_DIFFER)) as messages:
                async for message in messages:
                    if datetime.fromisoformat(message["timestamp"]) < since - CLOCKS_DIFFER:
                        return None
                    if self._is_ours(message) and any(
                        (embed.get("footer") or {}).get("text") == approval.id for embed in message["embeds"]
                    ):
                        return f"{place}:{message['id']}"
        except DiscordRefused as error:  # then a second card may be posted, which is better than none
            log.warning("card.not_looked_for", channel=self.name, approval=approval.id, error=str(error))
        return None

    # -- what people do ----------------------------------------------------------------------------------------------

    async def serve(self, supervisor: Supervisor) -> None:
        async with self._rest, anyio.create_task_group() as self._tasks:
            self._supervisor = supervisor
            if self.conversations is not None:
                self._tasks.start_soon(self.conversations.run, supervisor)
            try:
                await anyio.sleep_forever()
            finally:
                self._supervisor = self._tasks = None

    def webhooks(self) -> Sequence[Webhook]:
        return [Webhook("/interactions", self._receive)]

    async def _receive(self, headers: Mapping[str, str], body: bytes) -> WebhookReply:
        if not interactions.is_genuine(self._key, headers, body, _now()):
            log.warning("request.refused", channel=self.name, reason="not signed by Discord, or too old")
            return WebhookReply(401, b'{"error": "the signature is not Discord\'s, or it is too old"}')
        try:
            payload = msgspec.json.decode(body, type=Payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            return WebhookReply(400, msgspec.json.encode({"error": f"this is no interaction: {error}"}))
        if payload.get("type") == interactions.PING:
            return WebhookReply(body=msgspec.json.encode(interactions.PONG))
        try:
            return WebhookReply(body=msgspec.json.encode(await self.take(payload)))
        except InvalidInput as error:
            log.warning("request.refused", channel=self.name, reason=str(error))
            return WebhookReply(400, msgspec.json.encode({"error": str(error)}))
        except anyio.ClosedResourceError:
            return WebhookReply(503, b'{"error": "the supervisor is starting or stopping; try again"}')

    async def take(self, payload: Payload) -> Payload:
        """Take an interaction and return its answer within `answers_within` seconds, even if work remains.

        Raises ClosedResourceError if the channel is not serving, so that it does nothing with the interaction (R2), and
        InvalidInput for an interaction that Discord would not send to this application.
        """
        if self._tasks is None:
            raise anyio.ClosedResourceError
        act = interactions.read(payload, self._application)
        if act is None:
            return interactions.told("This supervisor does not know that command or button.")
        reply = Reply()
        self._tasks.start_soon(self._take_one, act, reply)
        in_time = await reply.wait(self.answers_within)
        return reply.payload if in_time and reply.payload is not None else interactions.DEFERRED_REPLY

    async def _take_one(self, act: Press | Command, reply: Reply) -> None:
        assert self._supervisor is not None
        try:
            if isinstance(act, Command):
                answer = await self._commands.run(self._supervisor, act, _now())
            elif act.code in FORMS and act.text is None and act.fields is None:
                answer = await self._open_form(act)
                if answer["type"] == interactions.MODAL and reply.is_late:
                    answer = told("The form did not open in time; press the button again.")
            else:
                answer = told(await self._pressed(act))
        except anyio.get_cancelled_exc_class():
            reply.drop()
            raise
        except (StoreError, TreeOwned) as error:
            log.error("act.refused", channel=self.name, reason=str(error))
            answer = told(f"Nothing was decided: {visible(str(error), kind='words')}")
        except Exception as error:  # noqa: BLE001 # an interaction that fails must not end the others
            log.error("act.failed", channel=self.name, error=repr(error))
            answer = told("That failed here. A decision that was made stands. See: supervisor approvals.")
        if not reply.is_late:
            reply.give(answer)
        else:
            try:
                await self._tell_later(act.token, answer["data"]["content"])
            except (DiscordRefused, OSError) as error:  # the decision stands; only the answer failed
                log.warning("answer.not_told", channel=self.name, error=repr(error))

    async def _tell_later(self, token: str, text: str) -> None:
        """Replace the deferred answer, where Discord shows that the bot is thinking."""
        path = f"/webhooks/{self._application}/{token}/messages/@original"
        for pause in (0.2, 1.0, 3.0):
            try:
                await self._rest.call("PATCH", path, {"content": text, "allowed_mentions": {"parse": []}})
                return
            except DiscordRefused as error:
                if error.code != UNKNOWN_WEBHOOK:
                    raise
            await anyio.sleep(pause)

    async def _open_form(self, press: Press) -> Payload:
        """Return the form that a press opens, or the answer that says why no form opens."""
        assert self._supervisor is not None
        assert self._tasks is not None
        found = await self._answering.find_pressed(self._supervisor, press.approval, press.user)
        if isinstance(found, str):
            return told(found)
        if (hidden := await self._answering.why_hidden(self._supervisor, found)) is not None:
            return told(hidden)
        if found.approval.status != "pending":
            self._tasks.start_soon(self._answering.retire_pressed, self._supervisor, self, press.approval, press.card)
            return told(f"This is over: {decided(found.approval, _now())}.")
        try:
            return interactions.modal(form_modal(press.code, found.approval, self._link))
        except InvalidInput as error:
            return told(visible(str(error), kind="words", lines=True))

    async def _pressed(self, act: Press) -> str:
        assert self._supervisor is not None
        assert self._tasks is not None
        found = await self._answering.find_pressed(self._supervisor, act.approval, act.user)
        if isinstance(found, str):
            return found
        asked = (self._supervisor, self, found.approval, act.code, self._link)
        if (unseen := await self._answering.why_unseen(*asked, act.card)) is not None:
            return unseen
        text = act.text
        if act.fields is not None:
            filled = read_modal(act.code, found.approval, act.fields)
            if not isinstance(filled, str):
                return refused(act.code, found.approval, act.fields, filled)
            text = filled
        await self._answering.until_recorded(self._supervisor, found.approval)
        result = await self._answering.decide(self._supervisor, found, act.code, text, _now())
        if not result.is_decision and text:
            return f"{result.text}\nYou wrote:\n{text}"  # Discord shows a form once; so the text is not lost
        if result.is_stale and act.card:
            self._tasks.start_soon(self._answering.retire_pressed, self._supervisor, self, act.approval, act.card)
        return result.text


def _now() -> datetime:
    return datetime.now().astimezone()
