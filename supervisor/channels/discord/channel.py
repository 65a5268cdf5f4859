"""Discord as a channel: a platform, with the verbs of chat/verbs.py by REST, for the driver of chat platforms.

Rules
- Cards are edited with the bot's token and the message's id, since the token of an interaction expires after 15
  minutes. Only a late answer to the person who acted uses that token.
- For some minutes, a repeated request with the same nonce posts no second message.
- A thread that Discord has archived is opened again before a message in it is edited.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

import anyio
import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from supervisor.channels.chat.acts import Act, Answer, Command, Place, Press
from supervisor.channels.chat.cards import Asking
from supervisor.channels.chat.driver import ChatChannel
from supervisor.channels.chat.verbs import CARD, Drawn, Face, Limits, Mentioned, Platform, Seen, Serving
from supervisor.channels.discord import interactions
from supervisor.channels.discord.commands import run_command
from supervisor.channels.discord.components import (
    CONTENT,
    card_message,
    code_block,
    form_modal,
    notice_message,
    reminder_message,
    retired_message,
    shown_facts,
)
from supervisor.channels.discord.interactions import Payload
from supervisor.channels.discord.rest import DiscordRefused, DiscordRest
from supervisor.channels.discord.talk import DiscordChat, thread_of
from supervisor.channels.wording.cards import still_waits, where_of
from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.people import Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, SupervisorError
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor

_PLACE: Final = re.compile(r"@?[0-9]+")
NONCE_CHARACTERS: Final = 25  # characters, of which the last ones of an approval's id are random
UNKNOWN_WEBHOOK: Final = 10015  # Discord has not processed the deferred answer yet


class DiscordPlatform(Platform):
    """`application`: the application's id; `public_key`: in hexadecimal digits. Raises InvalidInput for another key."""

    limits = Limits(title="Discord", list_units=CONTENT - 100, reopens=True, identity="[0-9]+", answers_within=1.5)
    webhook = "/interactions"
    deferred = interactions.DEFERRED_REPLY
    unknown = interactions.told("This supervisor does not know that command or button.")

    def __init__(self, rest: DiscordRest, application: str, public_key: str) -> None:
        try:
            self._key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        except ValueError:
            raise InvalidInput(
                "discord: public_key is 64 hexadecimal digits, from the application's General Information page"
            ) from None
        self.rest = rest
        self._application = application
        self._public_key = public_key.lower()
        self._chat = DiscordChat(rest)

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
        users = [id_ for id_, _ in mentioned]
        match face:
            case "notice":
                return Drawn(notice_message(approval, link, users))
            case "retired":
                return Drawn(retired_message(approval, link))
            case "reminder":
                id_ = card.partition(":")[2]
                says = still_waits(approval, *others, where="" if card else where_of((approval, *others), link))
                reminder = reminder_message(says, id_, users)
                return Drawn(reminder, _reply_mark(id_, reminder["content"]))
            case _:
                return Drawn(card_message(approval, approval.created_at, link, users))

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return shown_facts(approval)

    async def write(self, place: Place, content: Payload, once: str = "", below: str = "") -> str:
        conversation = (await self.locate(place)).conversation
        if once:
            nonce = sha256(once.encode()).hexdigest()[:NONCE_CHARACTERS] if " " in once else once[-NONCE_CHARACTERS:]
            content = {**content, "nonce": nonce, "enforce_nonce": True}
        posted = await self.rest.call("POST", f"/channels/{conversation}/messages", content)
        return f"{conversation}:{posted['id']}"

    async def edit(self, card: str, content: Payload) -> None:
        conversation, _, id_ = card.partition(":")
        await self.rest.call("PATCH", f"/channels/{conversation}/messages/{id_}", content)

    async def find(self, place: Place, since: datetime | str, until: datetime) -> AsyncGenerator[Seen, None]:
        async with aclosing(self.rest.messages(place.conversation, until)) as messages:
            async for message in messages:  # the newest first
                if isinstance(since, datetime) and datetime.fromisoformat(message["timestamp"]) < since:
                    return
                yield Seen(message["id"], self._marks(message))
                if isinstance(since, str) and int(message["id"]) <= int(since):
                    return

    def _marks(self, message: Payload) -> list[str]:
        author = message["author"]
        if author["id"] != self._application and not author.get("bot"):
            return []
        footers = [embed["footer"].get("text") for embed in message.get("embeds") or () if embed.get("footer")]
        replied = (message.get("message_reference") or {}).get("message_id")
        return [
            *(f"{CARD}{text}" for text in footers),
            *([_reply_mark(replied, message["content"])] if replied else ()),
        ]

    async def reopen(self, place: Place) -> None:
        await self.rest.call("PATCH", f"/channels/{place.conversation}", {"archived": False})

    def place(self, text: str) -> Place:
        if not _PLACE.fullmatch(text):
            raise InvalidInput(f"write the id of a conversation, or @ and a person's id, in digits, not {text!r}")
        return Place(text)

    async def locate(self, place: Place) -> Place:
        if not place.conversation.startswith("@"):
            return place
        opened = await self.rest.call("POST", "/users/@me/channels", {"recipient_id": place.conversation[1:]})
        return Place(str(opened["id"]))

    def place_of(self, session: str) -> Place | None:
        thread = thread_of(session)
        return None if thread is None else Place(thread)

    # -- what people do ----------------------------------------------------------------------------------------------

    def read(self, payload: Payload) -> Act | None:
        return interactions.read(payload, self._application)

    def respond(self, act: Act, answer: Answer) -> Payload:
        response: Payload = answer.payload or interactions.told(code_block(answer.text, CONTENT))
        return response

    async def whisper(self, act: Act, answer: Answer) -> None:
        """Replace the deferred answer, where Discord shows that the bot is thinking."""
        assert isinstance(act, interactions.DiscordPress | interactions.SlashCommand)
        path = f"/webhooks/{self._application}/{act.token}/messages/@original"
        text = self.respond(act, answer)["data"]["content"]
        for pause in (0.2, 1.0, 3.0):
            try:
                await self.rest.call("PATCH", path, {"content": text, "allowed_mentions": {"parse": []}})
                return
            except DiscordRefused as error:
                if error.code != UNKNOWN_WEBHOOK:
                    raise
            await anyio.sleep(pause)

    async def form(self, press: Press, approval: Approval, link: str | None) -> Payload:
        return interactions.modal(form_modal(press.code, approval, link))

    async def run(self, command: Command, serving: Serving) -> Answer | None:
        assert isinstance(command, interactions.SlashCommand)
        return await run_command(command, self._chat, serving)

    # -- its connection ----------------------------------------------------------------------------------------------

    async def check(self, home: Place, *, is_serving: bool, talks: bool) -> str:
        app = await self.rest.call("GET", "/applications/@me")
        if app.get("id") != self._application:
            raise SupervisorError(f"the bot token is of application {app.get('id')}, not of {self._application}")
        if app.get("verify_key", self._public_key) != self._public_key:
            raise SupervisorError("public_key is of another application; copy it from General Information")
        if app.get("interactions_endpoint_url", "") is None:
            raise SupervisorError(
                "no press arrives: enter https://HOST/channels/discord/interactions as Interactions Endpoint URL "
                "(General Information)"
            )
        place = await self.rest.call("GET", f"/channels/{home.conversation}")
        bot = (app.get("bot") or {}).get("username") or app.get("name")
        return f"@{visible(str(bot))} in #{visible(str(place.get('name')))}"

    def connected(self) -> AbstractAsyncContextManager[Any]:
        return self.rest

    def open_request(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Payload | None:
        if not interactions.is_genuine(self._key, headers, body, now):
            return None
        try:
            return msgspec.json.decode(body, type=Payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidInput(f"this is no interaction: {error}") from None

    def greet(self, payload: Payload) -> Payload | None:
        return interactions.PONG if payload.get("type") == interactions.PING else None

    def make_chat(self, serving: Callable[[], Supervisor]) -> DiscordChat:
        return self._chat


def _reply_mark(card: str, content: str) -> str:
    """Return the mark of a reminder: what it replies to, and what it says."""
    return f"reply:{card}:{content}"


class Discord(ChatChannel):
    """Ask people in Discord.

    `token`: the bot's token. `application`: the application's id. `public_key`: the application's public key,
    hexadecimal; it verifies Discord's requests. `conversation`: the id of the channel for cards. `people`: the
    configured people (identity "discord": the user's id) and their rights. `link`: the address of the web inbox, for
    requests that are too long for a card. `mention`: whom a card mentions, so that Discord notifies them. `agent`:
    /start begins it in a thread, and people talk to it there; None: cards only. `name`: another one if there are two of
    them; people's identities are configured under it.
    """

    name = "discord"

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
        platform = DiscordPlatform(DiscordRest(token, base_url, transport), application, public_key)
        asking = Asking(name=name, people=people, agent=agent, link=link, mention=mention)
        super().__init__(platform, Place(conversation), asking)
