"""Slack as a channel: cards whose buttons work for as long as the approval does.

Theory: a button returns only the approval's id and its own code. So the age of the card and the process that posted it
do not matter: the press finds the approval in the store, and the decision wakes the run that waits for it.

    press, form, text, command -> who is it? -> may they? -> decide -> tell the person -> update the card

Rules
- Slack wants an answer within 3 s. The channel acknowledges within `answers_within` seconds and finishes in the
  background. If the process dies before a decision is on disk, Slack has got no acknowledgement, or the card still has
  its buttons.
- The person who acts is always told the result. Other people see a decision on the card, but no refusal: a refused
  press leaves the card as it is.
- A process may die after it posted a card and before it recorded the card. So the channel searches the conversation for
  such a card, around the time of the post: before it posts a second card, and when the approval has ended.

The module is longer than 400 lines because it is one object: what is posted, and what people do with it.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from copy import copy
from datetime import datetime
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import TaskGroup
from slack_sdk.signature import SignatureVerifier

from supervisor.channels.chat.answering import Answering, Reply
from supervisor.channels.chat.conversations import Conversations
from supervisor.channels.chat.modal_fields import read_modal
from supervisor.channels.chat.platform import BURIED
from supervisor.channels.chat.presses import FORMS
from supervisor.channels.slack.blocks import (
    block_id,
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
from supervisor.channels.slack.payloads import Command, Payload, Press, Words, read
from supervisor.channels.slack.signed import is_genuine, payload_of
from supervisor.channels.slack.talk import SlackChat, incoming_of, place_of
from supervisor.channels.slack.web import SlackRefused, SlackWeb
from supervisor.channels.wording.cards import decided, still_waits
from supervisor.channels.wording.lengths import fit
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

WHISPER_UNITS: Final = 20_000  # UTF-16 units in one answer
LIST: Final = 3000  # before <, > and & are written as entities
CLOCKS_DIFFER_SECONDS: Final = 60.0  # seconds between our clock and Slack's, at most
GONE: Final = ("message_not_found", "thread_not_found", "channel_not_found")
"""Slack's error codes for a card that is gone."""
OUT: Final = ("not_in_channel", "is_archived")
"""Its codes for a card that stands where the app cannot reach it any more."""
FIXED: Final = ("cant_update_message", "edit_window_closed")
"""Its codes for a card that stands, and cannot be changed any more. Its buttons work."""
_MEMBER: Final = re.compile(r"[UW][A-Z0-9-]+")
_PLACE: Final = re.compile(r"[CDG][A-Z0-9]+|@[UW][A-Z0-9-]+")


class Slack(Channel):
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
    card_timeout = 120.0  # Slack may tell us to wait for a minute
    answers_within: float = 2.0
    """Seconds within which Slack gets an answer, even if work remains."""
    keeps_cards = True
    remind_on_start = True

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
        self.name = name
        self._web = SlackWeb(token, base_url)
        self._conversation = conversation
        self.people = self._people = people
        self._answering = Answering(self.name, people)
        self._verifier = SignatureVerifier(signing_secret) if signing_secret else None
        self._app_token = app_token
        self.conversations = (
            None if agent is None else Conversations(SlackChat(self._web, people), agent, self._answering)
        )
        self._link = link
        self._app = app
        self._team = team
        self._mention = mention
        self._supervisor: Supervisor | None = None
        self._tasks: TaskGroup | None = None
        self._has_socket = True

    def __repr__(self) -> str:
        return f"<slack, conversation {self._conversation}>"  # never a token

    async def check(self) -> str:
        if self._supervisor is None and self._app_token is not None:
            await self._web.check_socket(self._app_token)
        found = await check_app(self._web, self._conversation, self._team, talks=self.conversations is not None)
        if not self._has_socket:
            raise SupervisorError("Socket Mode has no connection, so no press arrives; the log says why")
        return found

    def _note_socket(self, is_connected: bool) -> None:  # a callback
        self._has_socket = is_connected

    # -- cards -------------------------------------------------------------------------------------------------------

    def at(self, place: str) -> "Slack":
        if not _PLACE.fullmatch(place):
            raise InvalidInput(f"write a conversation's id, such as C012AB3CD, or @ and a member's id, not {place!r}")
        there = copy(self)
        there._conversation, there.conversations = place.removeprefix("@"), None  # noqa: SLF001 # of this class
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
            blocks = notice_blocks(approval, self._link, mentioned)
        else:
            blocks = card_blocks(approval, approval.created_at, self._link, mentioned)
        return {"blocks": blocks, "text": mentions_text(mentioned) + card_text(approval)}

    async def _show(self, approval: Approval, card: str | None, message: Payload) -> str:
        began = _now()
        if card is not None:
            await self._renew(approval, card, message)
            return card
        conversation, thread = self._place_of(approval)
        try:
            try:
                posted = await self._write(conversation, thread, **message)
            except SlackRefused as error:
                if thread is None:
                    raise
                log.warning("thread.refused", channel=self.name, session=approval.root_session, error=str(error))
                posted = await self._write(self._conversation, None, **message)
        except ConnectionRefusedError:
            raise
        except OSError:  # Slack may have posted the card before its answer was lost
            found = await self.find_card(approval, began, _now())
            if found is None:
                raise
            return found
        return f"{posted['channel']}:{posted['ts']}"

    async def remind(self, approval: Approval, card: str) -> None:
        assert approval.reminded_at is not None
        conversation, _, ts = card.partition(":")
        home, thread = self._place_of(approval)
        if thread is None or home != conversation or not await self._is_in(conversation, thread, ts):
            thread = ts
        within = approval.reminded_at.timestamp() - CLOCKS_DIFFER_SECONDS, _now().timestamp() + CLOCKS_DIFFER_SECONDS
        async with aclosing(self._web.messages(conversation, thread, within)) as messages:
            async for message in messages:
                if any(block.get("block_id") == reminder_id(approval) for block in message.get("blocks") or ()):
                    return
        mentioned = self._mentioned(approval)
        text = mentions_text(mentioned) + inert(still_waits(approval))
        await self._write(conversation, thread, blocks=reminder_blocks(approval, mentioned), text=text)

    async def _write(self, conversation: str, thread: str | None, **message: Any) -> Payload:
        """Post a message, in a thread if one is given."""
        where = {"channel": conversation, **({"thread_ts": thread} if thread else {})}
        quiet = {"unfurl_links": False, "unfurl_media": False}
        return await self._web.write("chat.postMessage", **where, **message, **quiet)

    async def _is_in(self, conversation: str, thread: str, ts: str) -> bool:
        """Whether a message is in a thread; the card of a thread that refused it is outside."""
        try:
            async with aclosing(self._web.messages(conversation, thread, (float(ts) - 1, float(ts) + 1))) as messages:
                return any([message["ts"] == ts async for message in messages])
        except SlackRefused:
            return False

    def _mentioned(self, approval: Approval) -> list[str]:
        """Return the member ids of the people whom a card mentions."""
        found = self._people.find_mentioned(approval, self._mention, self.name)
        return [each for each in found if _MEMBER.fullmatch(each)]

    async def retire(self, approval: Approval, card: str) -> None:
        try:
            await self._update(card, {"blocks": retired_blocks(approval, self._link), "text": card_text(approval)})
        except SlackRefused as error:
            if error.reason not in (*GONE, *FIXED):
                raise

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return shown_facts(approval)

    async def _renew(self, approval: Approval, card: str, message: Payload) -> None:
        """Show an approval on its old card. Raises CardGone."""
        try:
            await self._update(card, message)
        except SlackRefused as error:
            if error.reason in (*GONE, *OUT):
                raise CardGone(str(error)) from None
            if error.reason not in FIXED:
                raise
            log.warning("card.not_renewed", channel=self.name, approval=approval.id, error=str(error))

    async def _update(self, card: str, message: Payload) -> None:
        """Replace the content of a card."""
        conversation, _, ts = card.partition(":")
        await self._web.write("chat.update", channel=conversation, ts=ts, **message)

    async def find_card(self, approval: Approval, since: datetime, until: datetime) -> str | None:
        places = dict.fromkeys([self._place_of(approval), (self._conversation, None)])
        within = since.timestamp() - CLOCKS_DIFFER_SECONDS, until.timestamp() + CLOCKS_DIFFER_SECONDS
        for conversation, thread in places:
            try:
                conversation = await self._opened(conversation)
                async with aclosing(self._web.messages(conversation, thread, within)) as messages:
                    async for message in messages:
                        if any(block.get("block_id") == block_id(approval.id) for block in message.get("blocks") or ()):
                            return f"{conversation}:{message['ts']}"
            except SlackRefused as error:  # then a second card may be posted, which is better than none
                log.warning("card.not_looked_for", channel=self.name, approval=approval.id, error=str(error))
        return None

    async def is_in_sight(self, approval: Approval, card: str) -> bool:
        conversation, _, ts = card.partition(":")
        home, thread = self._place_of(approval)
        for where in dict.fromkeys([thread if home == conversation else None, None]):  # a thread may have refused it
            try:
                if (is_seen := await self._is_seen(conversation, where, ts)) is not None:
                    return is_seen
            except SlackRefused as error:
                if error.reason not in GONE:  # what cannot be read is left alone
                    log.warning("card.not_looked_at", channel=self.name, approval=approval.id, error=str(error))
                    return True
        return False

    async def _is_seen(self, conversation: str, thread: str | None, ts: str) -> bool | None:
        """Return whether few messages follow a card; None if it is not there."""
        is_there, later = False, 0
        within = float(ts) - 1, _now().timestamp() + CLOCKS_DIFFER_SECONDS
        async with aclosing(self._web.messages(conversation, thread, within)) as messages:
            async for message in messages:
                blocks = message.get("blocks") or ()
                is_card = any(str(block.get("block_id", "")).startswith(block_id("")) for block in blocks)
                is_there |= message["ts"] == ts
                later += message["ts"] > ts and not is_card
                if later >= BURIED:
                    return False
        return True if is_there else None

    async def _opened(self, conversation: str) -> str:
        """Return the id of a conversation; of the one with a person, if it is a member's id."""
        if not _MEMBER.fullmatch(conversation):
            return conversation
        opened = await self._web.write("conversations.open", users=conversation)
        return str(opened["channel"]["id"])

    def _place_of(self, approval: Approval) -> tuple[str, str | None]:
        place = place_of(approval.root_session) if self.conversations is not None else None
        return place or (self._conversation, None)

    # -- what people do ----------------------------------------------------------------------------------------------

    async def serve(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        async with anyio.create_task_group() as self._tasks:
            try:
                if self.conversations is not None:
                    self._tasks.start_soon(self.conversations.run, supervisor)
                if self._app_token is not None:
                    from supervisor.channels.slack.socket import listen

                    self._tasks.start_soon(listen, self._app_token, self._web.client, self.take, self._note_socket)
                await anyio.sleep_forever()
            finally:
                self._supervisor = self._tasks = None

    def webhooks(self) -> Sequence[Webhook]:
        return [Webhook("/requests", self._receive)] if self._verifier is not None else []

    async def _receive(self, headers: Mapping[str, str], body: bytes) -> WebhookReply:
        assert self._verifier is not None
        if not is_genuine(self._verifier, headers, body):
            log.warning("request.refused", channel=self.name, reason="not signed by Slack, or too old")
            return WebhookReply(401, b'{"error": "the signature is not Slack\'s, or it is too old"}')
        try:
            payload = payload_of(headers, body)
        except InvalidInput as error:
            return WebhookReply(400, msgspec.json.encode({"error": str(error)}))
        if payload.get("type") == "url_verification":
            return WebhookReply(body=msgspec.json.encode({"challenge": payload.get("challenge")}))
        try:
            answer = await self.take(payload)
        except InvalidInput as error:
            log.warning("request.refused", channel=self.name, reason=str(error))
            return WebhookReply(400, msgspec.json.encode({"error": str(error)}))
        except anyio.ClosedResourceError:
            return WebhookReply(503, b'{"error": "the supervisor is starting or stopping; try again"}')
        return WebhookReply(body=b"" if answer is None else msgspec.json.encode(answer))

    async def take(self, payload: Payload) -> Payload | None:
        """Take a request from Slack and return its answer within `answers_within` seconds, even if work remains.

        Raises ClosedResourceError if the channel is not serving, so that it does nothing with the request (R2), and
        InvalidInput for a request that Slack would not send to this app.
        """
        if self._tasks is None:
            raise anyio.ClosedResourceError
        act = read(payload, app=self._app, team=self._team)
        if act is None:
            return None
        reply = Reply()
        self._tasks.start_soon(self._take_one, act, reply)
        return reply.payload if await reply.wait(self.answers_within) else None

    async def _take_one(self, act: Press | Words | Command, reply: Reply) -> None:
        try:
            match act:
                case Press():
                    refusal = await self._pressed(act)
                    if refusal and reply.is_late:
                        await self._whisper(act, "; ".join(refusal.values()))
                    elif refusal:  # shown in the form, where the person can correct it
                        errors = {name: fit(text, 2000) for name, text in refusal.items()}
                        reply.give({"response_action": "errors", "errors": errors})
                case Words():
                    await self._said(act)
                case Command():
                    text = await self._commanded(act)
                    if reply.is_late:
                        await self._whisper(act, text)
                    else:
                        reply.give({"response_type": "ephemeral", "text": fit(inert(text), WHISPER_UNITS)})
        except anyio.get_cancelled_exc_class():
            reply.drop()
            raise
        except (StoreError, TreeOwned) as error:
            log.error("act.refused", channel=self.name, reason=str(error))
            what = "Nothing was decided" if isinstance(act, Press) else "Not all of that was done"
            await self._whisper(act, f"{what}: {visible(str(error), kind='words')}")
        except Exception as error:  # noqa: BLE001 # a request that fails must not end the others
            log.error("act.failed", channel=self.name, error=repr(error))
            await self._whisper(act, "That failed here. A decision that was made stands. See: supervisor approvals.")
        finally:
            reply.give(reply.payload)

    async def _pressed(self, press: Press) -> dict[str, str] | None:
        """Decide, or open the form that the press needs; return the errors of a form that was sent, by its blocks."""
        assert self._supervisor is not None
        found = await self._answering.find_pressed(self._supervisor, press.approval, press.user)
        if isinstance(found, str):
            await self._whisper(press, found)
            return None
        if press.code in FORMS and press.text is None and press.fields is None:
            if (hidden := await self._answering.why_hidden(self._supervisor, found)) is not None:
                await self._whisper(press, hidden)
            elif found.approval.status == "pending":
                await self._open_form(press, found.approval)
            else:
                await self._whisper(press, f"This is over: {decided(found.approval, _now())}.")
                await self._retire_pressed(press)
            return None
        asked = (self._supervisor, self, found.approval, press.code, self._link)
        card = f"{press.conversation}:{press.message}"
        if (unseen := await self._answering.why_unseen(*asked, card)) is not None:
            await self._whisper(press, unseen)
            return None
        text, first = press.text, "field"
        if press.fields is not None:
            first = next(iter(press.fields), "field")
            filled = read_modal(press.code, found.approval, press.fields)
            if not isinstance(filled, str):
                said = {name: visible(problem, kind="words") for name, problem in filled.items()}
                return {name if name in press.fields else first: problem for name, problem in said.items()}
            text = filled
        await self._answering.until_recorded(self._supervisor, found.approval)
        result = await self._answering.decide(self._supervisor, found, press.code, text, _now())
        if not result.is_decision and text is not None:
            return {first: result.text}
        await self._whisper(press, result.text)
        if result.is_stale:
            await self._retire_pressed(press)
        return None

    async def _retire_pressed(self, press: Press) -> None:
        assert self._supervisor is not None
        card = f"{press.conversation}:{press.message}"
        await self._answering.retire_pressed(self._supervisor, self, press.approval, card)

    async def _open_form(self, press: Press, approval: Approval) -> None:
        place = {"conversation": press.conversation, "message": press.message, "thread": press.thread}
        try:
            view = form_view(press.code, approval, place, self._link)
        except InvalidInput as error:
            await self._whisper(press, visible(str(error), kind="words"))
        else:
            try:
                await self._web.write("views.open", trigger_id=press.trigger, view=view)
            except (SlackRefused, OSError) as error:  # Slack lets an app open a form within 3 s only
                log.warning("form.not_opened", channel=self.name, approval=approval.id, error=repr(error))
                await self._whisper(
                    press, "The form did not open in time. Nothing was decided; press the button again."
                )

    async def _whisper(self, act: Press | Words | Command, text: str) -> None:
        """Tell only the person who acted. If Slack refuses that, the decision still stands."""
        text = fit(inert(text), WHISPER_UNITS)
        where = {"channel": act.conversation or self._conversation, "user": act.user}
        if not isinstance(act, Command) and act.thread not in ("", act.message):
            where["thread_ts"] = act.thread
        try:
            try:
                await self._web.write("chat.postEphemeral", **where, text=text)
            except (SlackRefused, OSError):  # the app is not in that conversation, or Slack is unwell
                if isinstance(act, Words) or not act.reply_to:
                    raise
                await self._web.respond(act.reply_to, text)
        except (SlackRefused, OSError) as error:
            log.warning("answer.not_told", channel=self.name, error=repr(error))

    async def _said(self, words: Words) -> None:
        assert self._supervisor is not None
        if self.conversations is not None:
            answer = await self.conversations.hear(self._supervisor, incoming_of(words))
            if answer is not None:
                await self._whisper(words, answer)
        elif words.is_to_app:
            person = self._answering.find_person(words.user)
            no_agent = "This supervisor has no agent to talk to in Slack. You can decide its cards here."
            await self._whisper(words, person if isinstance(person, str) else no_agent)

    async def _commanded(self, command: Command) -> str:
        assert self._supervisor is not None
        return await self._answering.say(self._supervisor, command.text, command.user, _now(), LIST)


def _now() -> datetime:
    return datetime.now().astimezone()
