"""A chat platform as a channel: cards whose buttons work for as long as the approval does.

Theory: a button returns only the approval's id and its own code. So the age of the card and the process that posted it
do not matter: the press finds the approval in the store, and the decision wakes the run that waits for it.

    press, form, reply, command -> who is it? -> may they? -> decide -> tell the person -> update the card

All platforms are driven alike (verbs.py): what one of them cannot do is a limit of it, and no branch here for its name.

Rules
- A platform that calls a webhook wants a response within seconds. It gets one within `answers_within` seconds, and the
  person is told later if work remains. If the process dies before a decision is on disk, the platform has got no
  response, or the card still has its buttons.
- Where the channel fetches what people do, each act is on disk before the next one is taken.
- The person who acts is always told the result. Other people see a decision on the card, but no refusal: a refused
  press leaves the card as it is.
- An answer that the platform does not take is logged. The decision stands.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec.structs import replace

from supervisor.channels.chat.acts import Act, Answer, Command, Noise, Place, Press, Replied, Said
from supervisor.channels.chat.answering import Pressed, Reply
from supervisor.channels.chat.cards import Asking, PlatformCards
from supervisor.channels.chat.dialogue import Dialogue
from supervisor.channels.chat.filling import read_fill
from supervisor.channels.chat.modal_fields import read_modal, refused
from supervisor.channels.chat.presses import EXPLAIN, FORMS, code_of_reply
from supervisor.channels.chat.verbs import Platform, Serving
from supervisor.channels.wording.cards import decided
from supervisor.core.errors import InvalidInput, StoreError, SupervisorError
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval
from supervisor.seam.channel import Webhook, WebhookReply
from supervisor.seam.shown import until_shown
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

TELLING: Final = 64
"""Answers to people that are under way at the same time."""
RECORDED_SECONDS: Final = 1.0
"""So long a press waits until the store holds the card that was pressed."""
NOTHING: Final = "."
"""A reply that gives no reason: on some platforms a message is never empty."""
_TOO_LATE: Final = Answer("The form did not open in time. Nothing was decided; press the button again.")


class ChatChannel(PlatformCards):
    """Ask people on a chat platform. The arguments are those of PlatformCards."""

    def __init__(self, platform: Platform, home: Place, asking: Asking) -> None:
        super().__init__(platform, home, asking)
        self.answers_within = platform.limits.answers_within
        self._dialogue: Dialogue | None = None
        if platform.questions is not None:
            self._dialogue = Dialogue(platform, platform.questions, self._answering, asking.link, self._later)
        self._telling = anyio.Semaphore(TELLING, max_value=TELLING)
        self._tasks: TaskGroup | None = None

    async def serve(self, supervisor: Supervisor) -> None:
        async with self.platform.connected(), anyio.create_task_group() as self._tasks:
            self._supervisor = supervisor
            try:
                await self.turn()  # webhooks are taken, and cards shown, without it
                if self.conversations is not None:
                    self._tasks.start_soon(self.conversations.run, supervisor)
                await self.platform.listen(self)
            finally:
                self._supervisor = self._tasks = None

    async def retire(self, approval: Approval, card: str) -> None:
        if approval.status != "pending" and self._dialogue is not None:
            await self._dialogue.end(approval, _now())
        await super().retire(approval, card)

    # -- how it arrives ----------------------------------------------------------------------------------------------

    def webhooks(self) -> Sequence[Webhook]:
        return [Webhook(path, self._receive)] if (path := self.platform.webhook) else []

    async def _receive(self, headers: Mapping[str, str], body: bytes) -> WebhookReply:
        title = self.platform.limits.title
        try:
            payload = self.platform.open_request(headers, body, _now())
            if payload is None:
                log.warning("request.refused", channel=self.name, reason=f"not signed by {title}, or too old")
                return _reply(401, {"error": f"the signature is not {title}'s, or it is too old"})
            answer = self.platform.greet(payload) or await self.take(payload)
        except InvalidInput as error:
            log.warning("request.refused", channel=self.name, reason=str(error))
            return _reply(400, {"error": str(error)})
        except anyio.ClosedResourceError:
            return _reply(503, {"error": "the supervisor is starting or stopping; try again"})
        return WebhookReply() if answer is None else _reply(200, answer)

    async def take(self, payload: Any) -> Any:
        """Take a request of the platform and return the response within `answers_within` seconds, even if work remains.

        Raises ClosedResourceError if the channel is not serving, so that it does nothing with the request (R2), and
        InvalidInput for a request that the platform would not send to this app.
        """
        if self._tasks is None:
            raise anyio.ClosedResourceError
        act = self.platform.read(payload)
        if act is None:
            return self.platform.unknown
        reply = Reply()
        self._tasks.start_soon(self._take_one, act, reply)
        in_time = await reply.wait(self.answers_within)
        return reply.payload if in_time and reply.payload is not None else self.platform.deferred

    async def _take_one(self, act: Act, reply: Reply) -> None:
        try:
            answer = await self._answer(act)
            if answer.is_form and reply.is_late:
                answer = _TOO_LATE
            response = None if reply.is_late else self.platform.respond(act, answer)
            if response is None:
                await self._tell(self.platform.whisper, act, answer)
        except anyio.get_cancelled_exc_class():
            reply.drop()
            raise
        reply.give(response)

    async def take_in_turn(self, payload: Any, is_again: bool) -> None:
        """Do what a person did. When this returns, it is on disk. The person is told in a task. Raises StoreError."""
        act = self.platform.read(payload)
        if act is None:
            return
        if isinstance(act, Said):
            act = replace(act, is_again=is_again)
        answer = await self._answer(act, raises=True)
        await self._later(self.platform.whisper, act, answer)

    async def _later(self, tell: Callable[..., Awaitable[object]], *what: Any) -> None:
        """Tell a person something in a task. If TELLING people wait for their answers, wait until one has it."""
        if self._tasks is None:  # the channel is closing
            await self._tell(tell, *what)
        else:
            await self._telling.acquire()
            self._tasks.start_soon(self._tell_and_release, tell, *what)

    async def _tell_and_release(self, tell: Callable[..., Awaitable[object]], *what: Any) -> None:
        try:
            await self._tell(tell, *what)
        finally:
            self._telling.release()

    async def _tell(self, tell: Callable[..., Awaitable[object]], *what: Any) -> None:
        try:
            await tell(*what)
        except Exception as error:  # noqa: BLE001 # the decision stands; an answer that fails must not end the others
            log.warning("answer.not_told", channel=self.name, error=repr(error))

    # -- what it does ------------------------------------------------------------------------------------------------

    async def _answer(self, act: Act, *, raises: bool = False) -> Answer:
        """Do what a person did, and return what to tell them. `raises`: StoreError is raised, and not told."""
        try:
            return await self._do(act)
        except SupervisorError as error:
            if raises and isinstance(error, StoreError):
                raise
            log.error("act.refused", channel=self.name, reason=str(error))
            what = "Nothing was decided" if isinstance(act, Press) else "Not all of that was done"
            return Answer(f"{what}: {visible(str(error), kind='words')}")
        except Exception as error:  # noqa: BLE001 # an act that fails must not end the others
            log.error("act.failed", channel=self.name, error=repr(error))
            return Answer("That failed here. A decision that was made stands. See: supervisor approvals.")

    async def _do(self, act: Act) -> Answer:
        match act:
            case Press():
                return await self._press(act)
            case Replied():
                return Answer(await self._reply(act))
            case Said():
                return Answer(await self._hear(act) or "")
            case Command():
                return await self._run(act)
            case Noise():
                return Answer(act.text)

    async def _press(self, press: Press) -> Answer:
        """Decide, or open the form that the press needs."""
        supervisor, now = self._serving(), _now()
        found = await self._answering.find_pressed(supervisor, press.approval, press.user)
        if isinstance(found, str):
            return Answer(found)
        if self._dialogue is not None and (of_form := read_fill(press.code)) is not None:
            return Answer(await self._dialogue.press(supervisor, press, found, *of_form, now))
        if press.code in FORMS and not press.is_form:
            return await self._open_form(press, found)
        return await self._decide(press, found)

    async def _decide(self, press: Press, found: Pressed) -> Answer:
        supervisor = self._serving()
        asked = (supervisor, self, found.approval, press.code, self._link)
        if (unseen := await self._answering.why_unseen(*asked, press.card)) is not None:
            return Answer(unseen)
        text = press.text
        if press.fields is not None:
            filled = read_modal(press.code, found.approval, press.fields)
            if not isinstance(filled, str):
                problems = {name: visible(problem, kind="words") for name, problem in filled.items()}
                return Answer(refused(press.code, found.approval, press.fields, filled), problems)
            text = filled
        # If this process died between the decision and the card's record, no process would retire the card (R3).
        await until_shown(supervisor, found.approval, self.name, RECORDED_SECONDS)
        result = await self._answering.decide(supervisor, found, press.code, text, _now())
        if not result.is_decision and press.is_form:  # the form may be shown once; so the text is not lost
            return Answer(f"{result.text}\nYou wrote:\n{text}" if text else result.text, {"": result.text})
        if result.is_stale:
            self._retire_pressed(press)
        return Answer(result.text)

    async def _open_form(self, press: Press, found: Pressed) -> Answer:
        if (hidden := await self._answering.why_hidden(self._serving(), found)) is not None:
            return Answer(hidden)
        if found.approval.status != "pending":
            self._retire_pressed(press)
            return Answer(f"This is over: {decided(found.approval, _now())}.")
        if self._dialogue is not None:
            return Answer(await self._dialogue.begin(press, found))
        try:
            payload = await self.platform.form(press, found.approval, self._link)
        except InvalidInput as error:
            return Answer(visible(str(error), kind="words", lines=True))
        except (SupervisorError, OSError) as error:  # a platform lets an app open a form within seconds only
            log.warning("form.not_opened", channel=self.name, approval=press.approval, error=repr(error))
            return _TOO_LATE
        return Answer(payload=payload, is_form=payload is not None)

    async def _reply(self, replied: Replied) -> str:
        """Decide by a reply: to a prompt, with the text that it asks for; to a card, with a word or an answer."""
        supervisor, now = self._serving(), _now()
        found = await self._answering.find_pressed(supervisor, replied.approval, replied.user)
        if isinstance(found, str):
            return found
        if self._dialogue is not None and (of_form := read_fill(replied.code)) is not None:
            return await self._dialogue.reply(replied, found, of_form[0], now)
        code, text = (replied.code, replied.text) if replied.code else code_of_reply(replied.text, found.approval)
        if replied.code == EXPLAIN and text == NOTHING:
            text = None
        if not code:
            return "Nothing was decided: press a button of the card, or reply yes or no."
        asked = (supervisor, self, found.approval, code, self._link)
        if (unseen := await self._answering.why_unseen(*asked)) is not None:
            return unseen
        return (await self._answering.decide(supervisor, found, code, text, now)).text

    async def _hear(self, said: Said) -> str | None:
        """Take a message for the agent; return the text for its sender."""
        if self.conversations is not None:
            incoming = await self.platform.incoming(said)
            if isinstance(incoming, str):
                return incoming
            answer = await self.conversations.hear(self._serving(), incoming)
            if answer is None and incoming.is_first:
                await self.platform.begun(incoming.session)
            return answer
        if not said.is_to_app:
            return None
        person = self._answering.find_person(said.user)
        no_agent = (
            f"This supervisor has no agent to talk to in {self.platform.limits.title}. You can decide its cards here."
        )
        return person if isinstance(person, str) else no_agent

    async def _run(self, command: Command) -> Answer:
        supervisor = self._serving()
        serving = Serving(supervisor, self._answering, self.conversations, self._home)
        if (answer := await self.platform.run(command, serving)) is not None:
            return answer
        room = self.platform.limits.list_units
        return Answer(await self._answering.say(supervisor, command.text, command.user, _now(), room))

    def _retire_pressed(self, press: Press) -> None:
        """Remove the buttons of a card whose approval has ended."""
        assert self._tasks is not None
        if press.card:
            self._tasks.start_soon(self._answering.retire_pressed, self._serving(), self, press.approval, press.card)


def _reply(status: int, answer: Any) -> WebhookReply:
    return WebhookReply(status, msgspec.json.encode(answer))


def _now() -> datetime:
    return datetime.now().astimezone()
