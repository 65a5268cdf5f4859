"""Forms on a platform that has none: one field after the other. dialogue.py asks.

    a press of Edit or Answer -> a question for each field -> what was filled in, as a whole -> the decision

A choice is a button. A text, a number and a date are replies to the question, checked before the next one is asked.
Each question also offers the other way: JSON in one reply.

Rules
- A form is in memory, for the person who began it. Before it decides, it is shown as a whole, and checked again.
- Each question has a token of its own, and only the last question takes an answer. A button or a reply from before a
  restart, of another person, or to an earlier question changes nothing, and its sender is told why.
- A form with more than MOST questions takes JSON, or is filled in on its page. So does one whose result is too long to
  be shown. At most OPEN forms are open: the one that was not touched for the longest time ends.
- Everything here is pure, except that tokens are random.
"""

import secrets
from enum import StrEnum
from typing import Final

from msgspec import UNSET

from supervisor.channels.chat.interview import NOTHING, Interview, interview_of
from supervisor.channels.chat.presses import EDIT, REPLY
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Approval

MOST: Final = 40
OPEN: Final = 200
FILL: Final = "fill."
"""The beginning of the code of a question of a form; its token follows."""


class Fill(StrEnum):
    """What the buttons of a question do; a number is one of its choices."""

    KEEP = "keep"
    SKIP = "skip"
    EMPTY = "empty"
    BACK = "back"
    LEAVE = "leave"
    JSON = "json"
    SEND = "send"


class Filling:
    """A form that a person fills in. `code`: what it decides, as a press says it."""

    def __init__(self, code: str, interview: Interview) -> None:
        self.code = code
        self.interview = interview
        self.token = _token()
        self.message: str | None = None
        """The message of the present question, once it is there."""
        self.left = ""
        """What takes the place of the present question, since the form has ended."""

    def press(self, action: str) -> str | None:
        """Take a press on the present question. Returns the problem of one that does not fit."""
        prompt = self.interview.prompt
        if action == Fill.BACK:
            self.interview.go_back()
            self.token = _token()
            return None
        if prompt is None:
            return "Nothing is asked any more: go back, or send it."
        offers = {str(number): line for number, line in enumerate(prompt.offers)}
        lines = offers | {Fill.KEEP: prompt.text, Fill.SKIP: "", Fill.EMPTY: NOTHING}
        return self.write(lines[action]) if action in lines else "This question has no such button."

    def write(self, line: str) -> str | None:
        """Take a line for the present question, as `press` does."""
        if self.interview.prompt is None:
            return "Nothing is asked any more: press a button of the message above."
        problem = self.interview.take(line)
        if problem is None:
            self.token = _token()
        return None if problem is None else visible(problem, kind="words")

    def result(self) -> tuple[str, list[str]]:
        """Return what was filled in, as JSON, and the problems that it has as a whole."""
        reading = self.interview.reading
        problems = [visible(problem, kind="words") for problem in reading.problems.values()]
        return ("", problems) if reading.value is UNSET else (json_text(reading.value, indent=2), [])


class Fillings:
    """The forms that people fill in now, by the person's identity and the approval."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Filling] = {}
        self._ended: list[Filling] = []

    def begin(self, user: str, approval: Approval, code: str) -> Filling | None:
        """Begin a form; None if it takes JSON. The form that this person has open for the approval ends before."""
        interview = interview_of(approval) if code == (REPLY if approval.kind == "question" else EDIT) else None
        if interview is None or not 0 < interview.count <= MOST:
            return None
        self.end(approval.id, "The form was begun anew.", user)
        self._open[user, approval.id] = filling = Filling(code, interview)
        if len(self._open) > OPEN:
            self._end(next(iter(self._open)), "The form was left, since too many are open. Nothing was decided.")
        return filling

    def find(self, user: str, approval: str, token: str) -> Filling | str:
        """Return the form of a question, or the text for the person who answers it."""
        filling = self._open.get((user, approval))
        if filling is None:
            return (
                "Nothing was decided: this form is not open. It is another person's, or what was filled in was lost in "
                "a restart. Press the button of the card again to begin anew."
            )
        if filling.token != token:
            return "That question was answered before. The last message of the form asks the next one."
        self._open[user, approval] = self._open.pop((user, approval))
        return filling

    def may_ask_in(self, message: str) -> bool:
        """Return whether any person's form may ask its question in a message."""
        return any(filling.message in (None, message) for filling in self._open.values())

    def end(self, approval: str, left: str, user: str | None = None) -> None:
        """End the forms about an approval: a person's, or all of them. `left`: what takes the place of the question."""
        for key in [key for key in self._open if key[1] == approval and user in (None, key[0])]:
            self._end(key, left)

    def take_ended(self) -> list[Filling]:
        """Return the forms that have ended since the last call. Their last questions stand, and have buttons."""
        ended, self._ended = self._ended, []
        return ended

    def _end(self, key: tuple[str, str], left: str) -> None:
        filling = self._open.pop(key)
        filling.left = left
        self._ended.append(filling)


def read_fill(code: str) -> tuple[str, str] | None:
    """Return the token and the action of a button of a form, the action "" for a reply; None for another code."""
    if not code.startswith(FILL):
        return None
    token, _, action = code.removeprefix(FILL).partition(".")
    return token, action


def _token() -> str:
    return secrets.token_hex(3)
