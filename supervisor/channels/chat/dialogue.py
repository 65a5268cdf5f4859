"""Asks for the text that a press needs, on a platform without forms: one field after the other, or a text in a reply.

Rules
- Each question is a message in the platform's place of the press. An answered one is edited to the answer.
- A form that has ended has no live question: its message says why. That is so when the approval is decided on any
  surface, when the person begins the form anew, and when a button is pressed of a form that no process has open.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Protocol

from supervisor.channels.chat.acts import Place, Press, Replied
from supervisor.channels.chat.answering import Answering, Pressed
from supervisor.channels.chat.filling import Fill, Filling, Fillings
from supervisor.channels.chat.verbs import Platform, Questions
from supervisor.channels.wording.cards import decided
from supervisor.channels.wording.form_words import has_form
from supervisor.channels.wording.lengths import length
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor


class Later(Protocol):
    """Do something in a task; its failure is logged. Waits if too many people wait for their answers."""

    async def __call__(self, fn: Callable[..., Awaitable[object]], /, *what: Any) -> None: ...


class Dialogue:
    """The forms that people fill in on one platform. `link`: the address of the web inbox."""

    def __init__(
        self, platform: Platform, questions: Questions, answering: Answering, link: str | None, later: Later
    ) -> None:
        self._platform = platform
        self._questions = questions
        self._answering = answering
        self._link = link
        self._later = later
        self._fillings = Fillings()

    async def begin(self, press: Press, found: Pressed) -> str:
        """Ask for what a press needs; return the text for the person who pressed."""
        filling = None
        if self._questions.fits_data(found.approval):
            filling = self._fillings.begin(press.user, found.approval, press.code)
            await self._edit_ended()
        if filling is None:
            return await self._ask_for_text(press, found, press.code)
        await self._later(self._ask, filling, press, self._question(filling, found, press.user))
        return ""

    async def press(
        self, supervisor: Supervisor, press: Press, found: Pressed, token: str, action: str, now: datetime
    ) -> str:
        """Take a press on a question; return the text for the person who pressed."""
        approval, told, left = found.approval, "", ""
        filling = self._fillings.find(press.user, approval.id, token)
        if isinstance(filling, str):
            if not self._fillings.may_ask_in(press.card):
                await self._later(self._platform.edit, press.card, self._questions.left_message(filling))
            return filling
        if action == Fill.SEND and filling.interview.prompt is None and approval.status == "pending":
            return await self._send(supervisor, found, filling, press.user, now)
        if approval.status != "pending":
            told = left = f"This is over: {decided(approval, now)}."
        elif action == Fill.LEAVE:
            left = "The form was left. Nothing was decided."
        elif action == Fill.JSON:
            told, left = await self._ask_for_text(press, found, filling.code), "The form was left for JSON."
        elif (problem := filling.press(action)) is not None:
            return problem
        if left:
            await self._end(approval, left, press.user)
        else:
            await self._later(self._platform.edit, press.card, self._question(filling, found, press.user))
        return told

    async def _send(self, supervisor: Supervisor, found: Pressed, filling: Filling, user: str, now: datetime) -> str:
        """Decide by what was filled in."""
        shown, problems = filling.result()
        if problems or length(shown) > self._platform.limits.shown_units:
            return "Nothing was decided: it does not fit."
        result = await self._answering.decide(supervisor, found, filling.code, shown, now)
        if result.is_decision:
            await self._end(found.approval, result.text, user)
        return result.text

    async def reply(self, replied: Replied, found: Pressed, token: str, now: datetime) -> str:
        """Take a reply to a question; return the text for its sender, "" if the next question is asked."""
        approval = found.approval
        filling = self._fillings.find(replied.user, approval.id, token)
        if isinstance(filling, str):
            return filling
        if approval.status != "pending":
            await self.end(approval, now)
            return f"This is over: {decided(approval, now)}."
        label = filling.interview.prompt.label if filling.interview.prompt is not None else ""
        if (problem := filling.write(replied.text)) is not None:
            return f"That does not fit: {problem}. Reply to the question again."
        if filling.message is not None:
            done = f"{label or 'your answer'}: {visible(replied.text, kind='prose', lines=True)}"
            await self._later(self._platform.edit, filling.message, self._questions.left_message(done))
        await self._later(self._ask, filling, replied, self._question(filling, found, replied.user))
        return ""

    async def end(self, approval: Approval, now: datetime) -> None:
        """End all forms about an approval that has ended."""
        await self._end(approval, f"This is over: {decided(approval, now)}.")

    async def _end(self, approval: Approval, left: str, user: str | None = None) -> None:
        self._fillings.end(approval.id, left, user)
        await self._edit_ended()

    async def _edit_ended(self) -> None:
        for filling in self._fillings.take_ended():
            if filling.message is not None:  # otherwise it is being posted
                await self._later(self._platform.edit, filling.message, self._questions.left_message(filling.left))

    async def _ask_for_text(self, press: Press, found: Pressed, code: str) -> str:
        """Ask for a text, or for JSON, in a reply; return the text for the person who pressed."""
        person, link = (press.user, found.name), self._link if has_form(found.approval) else None
        try:
            prompt = self._questions.prompt_message(code, found.approval, _message(press.card), person, link)
        except InvalidInput as error:
            return visible(str(error), kind="words", lines=True)
        await self._later(self._platform.write, _place(press), prompt)
        return "Reply to the message below."

    def _question(self, filling: Filling, found: Pressed, user: str) -> dict[str, Any]:
        """Return the message of a form's present question."""
        person, interview = (user, found.name), filling.interview
        if (prompt := interview.prompt) is None:
            return self._questions.filled_message(
                *filling.result(), filling.token, filling.code, found.approval, person
            )
        part = interview.number, interview.count
        return self._questions.field_message(prompt, part, filling.token, found.approval, person)

    async def _ask(self, filling: Filling, at: Press | Replied, question: dict[str, Any]) -> None:
        """Post a question, in reply to the card or to the answer before it."""
        filling.message = await self._platform.write(_place(at), question, below=_message(at.card))
        if filling.left:  # it has ended meanwhile
            await self._platform.edit(filling.message, self._questions.left_message(filling.left))


def _message(card: str) -> str:
    return card.split(":")[1]


def _place(at: Press | Replied) -> Place:
    assert at.place is not None, "a platform without forms says where a button is"
    return at.place
