"""Slack as a channel: a platform, with the verbs of chat/verbs.py by the Web API, for the driver of chat platforms.

Rules
- A press is answered in a message that only this person sees; a form that was sent shows its problems itself.
- A card may stand in the thread of its session, or outside threads. What is posted below it is in that thread, or in
  one of the card's own.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final

from slack_sdk.signature import SignatureVerifier

from supervisor.channels.chat.acts import Act, Answer, Command, Place, Press, Said
from supervisor.channels.chat.cards import Asking
from supervisor.channels.chat.driver import ChatChannel
from supervisor.channels.chat.platform import Chat, IncomingMessage
from supervisor.channels.chat.verbs import Drawn, Driver, Face, Limits, Mentioned, Platform, Seen
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
from supervisor.channels.slack.payloads import (
    Payload,
    SlackCommand,
    SlackPress,
    Words,
    is_genuine,
    payload_of,
    read,
)
from supervisor.channels.slack.talk import SlackChat, incoming_of, place_of
from supervisor.channels.slack.web import SlackRefused, SlackWeb
from supervisor.channels.wording.cards import still_waits, where_of
from supervisor.channels.wording.lengths import fit
from supervisor.core.approvals.facts import Fact
from supervisor.core.approvals.people import Mention, People
from supervisor.core.declarations.agent_spec import AgentSpec
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
        self,
        face: Face,
        approval: Approval,
        *,
        link: str | None,
        mentioned: Mentioned = (),
        card: str = "",
        others: Sequence[Approval] = (),
    ) -> Drawn:
        members, text, mark = [id_ for id_, _ in mentioned], card_text(approval), ""
        match face:
            case "notice":
                blocks = notice_blocks(approval, link, members)
            case "retired":
                blocks = retired_blocks(approval, link)
            case "reminder":
                says = still_waits(approval, *others, where="" if card else where_of((approval, *others), link))
                mark = reminder_id(approval, others)
                blocks, text = reminder_blocks(says, mark, members), inert(says)
            case _:
                blocks = card_blocks(approval, approval.created_at, link, members)
        return Drawn({"blocks": blocks, "text": mentions_text(members) + text}, mark)

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return shown_facts(approval)

    async def write(self, place: Place, content: Payload, once: str = "", below: str = "") -> str:
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
        return read(payload, app=self._app, team=self._team)

    def respond(self, act: Act, answer: Answer) -> Payload | None:
        if isinstance(act, Command):
            return {"response_type": "ephemeral", "text": fit(inert(answer.text), WHISPER_UNITS)}
        if not (isinstance(act, Press) and answer.problems):
            return None
        names = list(act.fields or ()) or ["field"]  # shown in the form, where the person can correct it
        errors = {name if name in names else names[0]: fit(text, 2000) for name, text in answer.problems.items()}
        return {"response_action": "errors", "errors": errors}

    async def whisper(self, act: Act, answer: Answer) -> None:
        assert isinstance(act, SlackPress | Words | SlackCommand)
        if not answer.text:
            return
        text = fit(inert(answer.text), WHISPER_UNITS)
        where = {"channel": act.conversation or self._conversation, "user": act.user}
        if not isinstance(act, SlackCommand) and act.thread not in ("", act.message):
            where["thread_ts"] = act.thread
        try:
            await self.web.write("chat.postEphemeral", **where, text=text)
        except (SlackRefused, OSError):  # the app is not in that conversation, or Slack is unwell
            if isinstance(act, Words) or not act.reply_to:
                raise
            await self.web.respond(act.reply_to, text)

    async def form(self, press: Press, approval: Approval, link: str | None) -> None:
        assert isinstance(press, SlackPress)
        place = {"conversation": press.conversation, "message": press.message, "thread": press.thread}
        view = form_view(press.code, approval, place, link)
        await self.web.write("views.open", trigger_id=press.trigger, view=view)

    async def incoming(self, said: Said) -> IncomingMessage:
        assert isinstance(said, Words)
        return incoming_of(said)

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


class Slack(ChatChannel):
    """Ask people in Slack.

    `token`: the bot's token (xoxb-). `conversation`: the id of the channel for the cards of sessions without a thread.
    `people`: the configured people (identity "slack": the member id) and their rights. `signing_secret`: verifies
    requests over HTTP; without it the channel takes none. `app_token`: (xapp-) for Socket Mode, which needs no public
    address. `agent`: a mention starts it, and people talk to it in the thread; None: cards only. `link`: the address
    of the web inbox, for requests that are too long for a card. `app` (A...), `team` (T...): the ids of the app and
    the workspace; requests from other ones are refused. `mention`: whom a card mentions, so that Slack notifies them.
    `name`: another one if there are two of them; people's identities are configured under it.
    """

    name = "slack"

    def __init__(
        self,
        *,
        token: str,
        conversation: str,
        people: People,
        signing_secret: str | None = None,
        app_token: str | None = None,
        agent: AgentSpec[..., Any] | None = None,
        link: str | None = None,
        app: str | None = None,
        team: str | None = None,
        mention: Mention = "approvers",
        base_url: str = "https://slack.com/api/",
        name: str = "slack",
    ) -> None:
        ours = {"signing_secret": signing_secret, "app_token": app_token, "app": app, "team": team}
        platform = SlackPlatform(SlackWeb(token, base_url), conversation, people, **ours)
        asking = Asking(name=name, people=people, agent=agent, link=link, mention=mention)
        super().__init__(platform, Place(conversation), asking)
