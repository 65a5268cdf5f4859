"""Slack as a platform of cards: the verbs of chat/verbs.py, by the Web API.

Rules
- A press is answered in a message that only this person sees; a form that was sent shows its problems itself.
- A card may stand in the thread of its session, or outside threads. What is posted below it is in that thread, or in
  one of the card's own.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Final

from slack_sdk.signature import SignatureVerifier

from supervisor.channels.chat.acts import Act, Answer, Command, Place, Press, Said
from supervisor.channels.chat.platform import Chat, IncomingMessage
from supervisor.channels.chat.verbs import Drawn, Driver, Face, Limits, Mentioned, Platform, Seen
from supervisor.channels.slack import payloads
from supervisor.channels.slack.blocks import (
    card_blocks,
    card_text,
    form_view,
    inert,
    mentions_text,
    notice_blocks,
    reminder_blocks,
    reminder_id,
    retired_blocks,
    shown_facts,
)
from supervisor.channels.slack.health import check_app
from supervisor.channels.slack.payloads import Payload
from supervisor.channels.slack.signed import is_genuine, payload_of
from supervisor.channels.slack.talk import SlackChat, incoming_of, place_of
from supervisor.channels.slack.web import SlackRefused, SlackWeb
from supervisor.channels.wording.cards import still_waits
from supervisor.channels.wording.lengths import fit
from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.people import People
from supervisor.core.errors import InvalidInput, SupervisorError
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor

WHISPER_UNITS: Final = 20_000  # UTF-16 units in one answer
MEMBER: Final = "[UW][A-Z0-9-]+"
_PLACE: Final = re.compile(rf"[CDG][A-Z0-9]+|@{MEMBER}")


class SlackPlatform(Platform):
    """`signing_secret`: None takes no requests over HTTP. `app_token`: for Socket Mode. `app`, `team`: requests from
    another one are refused. `conversation`: where a person is answered whose act names none."""

    limits = Limits(
        title="Slack",
        list_units=3000,  # before <, > and & are written as entities
        identity=MEMBER,
        answers_within=2.0,
    )

    def __init__(
        self,
        web: SlackWeb,
        conversation: str,
        people: People,
        *,
        signing_secret: str | None = None,
        app_token: str | None = None,
        app: str | None = None,
        team: str | None = None,
    ) -> None:
        self.web = web
        self.webhook = "/requests" if signing_secret else ""
        self._conversation = conversation
        self._people = people
        self._verifier = SignatureVerifier(signing_secret) if signing_secret else None
        self._app_token = app_token
        self._app = app
        self._team = team
        self._has_socket = True

    # -- cards -------------------------------------------------------------------------------------------------------

    def draw(
        self, face: Face, approval: Approval, *, link: str | None, mentioned: Mentioned = (), card: str = ""
    ) -> Drawn:
        members, text, mark = [id_ for id_, _ in mentioned], card_text(approval), ""
        match face:
            case "notice":
                blocks = notice_blocks(approval, link, members)
            case "retired":
                blocks = retired_blocks(approval, link)
            case "reminder":
                blocks, text, mark = (
                    reminder_blocks(approval, members),
                    inert(still_waits(approval)),
                    reminder_id(approval),
                )
            case _:
                blocks = card_blocks(approval, approval.created_at, link, members)
        return Drawn({"blocks": blocks, "text": mentions_text(members) + text}, mark)

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return shown_facts(approval)

    async def write(self, place: Place, content: Payload, once: str = "") -> str:
        where = {"channel": place.conversation, **({"thread_ts": place.thread} if place.thread else {})}
        quiet = {"unfurl_links": False, "unfurl_media": False}
        posted = await self.web.write("chat.postMessage", **where, **content, **quiet)
        return f"{posted['channel']}:{posted['ts']}"

    async def edit(self, card: str, content: Payload) -> None:
        conversation, _, ts = card.partition(":")
        await self.web.write("chat.update", channel=conversation, ts=ts, **content)

    async def find(self, place: Place, since: datetime | str, until: datetime) -> AsyncGenerator[Seen, None]:
        begins = float(since) - 1 if isinstance(since, str) else since.timestamp()
        within = begins, until.timestamp()
        async with aclosing(self.web.messages(place.conversation, place.thread or None, within)) as messages:
            async for message in messages:
                marks = [str(block.get("block_id", "")) for block in message.get("blocks") or ()]
                yield Seen(message["ts"], marks)

    def order(self, message: str) -> float:
        return float(message)

    def place(self, text: str) -> Place:
        if not _PLACE.fullmatch(text):
            raise InvalidInput(f"write a conversation's id, such as C012AB3CD, or @ and a member's id, not {text!r}")
        return Place(text.removeprefix("@"))

    async def locate(self, place: Place) -> Place:
        if not re.fullmatch(MEMBER, place.conversation):
            return place
        opened = await self.web.write("conversations.open", users=place.conversation)
        return Place(str(opened["channel"]["id"]))

    def place_of(self, session: str) -> Place | None:
        place = place_of(session)
        return None if place is None else Place(*place)

    async def below(self, home: Place, card: str) -> Place:
        conversation, _, ts = card.partition(":")
        if home.thread and home.conversation == conversation and await self._is_in(home, ts):
            return home
        return Place(conversation, ts)

    async def _is_in(self, place: Place, ts: str) -> bool:
        """Whether a message is in a thread; the card of a thread that refused it is outside."""
        within = float(ts) - 1, float(ts) + 1
        try:
            async with aclosing(self.web.messages(place.conversation, place.thread, within)) as messages:
                return any([message["ts"] == ts async for message in messages])
        except SlackRefused:
            return False

    # -- what people do ----------------------------------------------------------------------------------------------

    def read(self, payload: Payload) -> Act | None:
        match payloads.read(payload, app=self._app, team=self._team):
            case payloads.Press() as act:
                return Press(
                    code=act.code,
                    approval=act.approval,
                    user=act.user,
                    card=f"{act.conversation}:{act.message}",
                    text=act.text,
                    fields=act.fields,
                    origin=act,
                )
            case payloads.Words() as act:
                return Said(user=act.user, is_to_app=act.is_to_app, is_again=act.is_again, origin=act)
            case payloads.Command() as act:
                return Command(user=act.user, text=act.text, origin=act)
            case None:
                return None

    def respond(self, act: Act, answer: Answer) -> Payload | None:
        if isinstance(act, Command):
            return {"response_type": "ephemeral", "text": fit(inert(answer.text), WHISPER_UNITS)}
        if not (isinstance(act, Press) and answer.problems):
            return None
        names = list(act.fields or ()) or ["field"]  # shown in the form, where the person can correct it
        errors = {name if name in names else names[0]: fit(text, 2000) for name, text in answer.problems.items()}
        return {"response_action": "errors", "errors": errors}

    async def whisper(self, act: Act, answer: Answer) -> None:
        origin: payloads.Press | payloads.Words | payloads.Command = act.origin
        if not answer.text:
            return
        text = fit(inert(answer.text), WHISPER_UNITS)
        where = {"channel": origin.conversation or self._conversation, "user": origin.user}
        if not isinstance(origin, payloads.Command) and origin.thread not in ("", origin.message):
            where["thread_ts"] = origin.thread
        try:
            await self.web.write("chat.postEphemeral", **where, text=text)
        except (SlackRefused, OSError):  # the app is not in that conversation, or Slack is unwell
            if isinstance(origin, payloads.Words) or not origin.reply_to:
                raise
            await self.web.respond(origin.reply_to, text)

    async def form(self, press: Press, approval: Approval, link: str | None) -> None:
        origin: payloads.Press = press.origin
        place = {"conversation": origin.conversation, "message": origin.message, "thread": origin.thread}
        view = form_view(press.code, approval, place, link)
        await self.web.write("views.open", trigger_id=origin.trigger, view=view)

    async def incoming(self, said: Said) -> IncomingMessage:
        return incoming_of(said.origin)

    # -- its connection ----------------------------------------------------------------------------------------------

    async def check(self, home: Place, *, is_serving: bool, talks: bool) -> str:
        if not is_serving and self._app_token is not None:
            await self.web.check_socket(self._app_token)
        found = await check_app(self.web, home.conversation, self._team, talks=talks)
        if not self._has_socket:
            raise SupervisorError("Socket Mode has no connection, so no press arrives; the log says why")
        return found

    def _note_socket(self, is_connected: bool) -> None:  # a callback
        self._has_socket = is_connected

    async def listen(self, driver: Driver) -> None:
        if self._app_token is None:
            await super().listen(driver)
        else:
            from supervisor.channels.slack.socket import listen

            await listen(self._app_token, self.web.client, driver.take, self._note_socket)

    def open_request(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Payload | None:
        assert self._verifier is not None
        return payload_of(headers, body) if is_genuine(self._verifier, headers, body) else None

    def greet(self, payload: Payload) -> Payload | None:
        is_asked = payload.get("type") == "url_verification"
        return {"challenge": payload.get("challenge")} if is_asked else None

    def make_chat(self, serving: Callable[[], Supervisor]) -> Chat:
        return SlackChat(self.web, self._people)
