"""Forms in Telegram: one field after the other, since Telegram has no forms of its own.

    a press of Edit or Answer -> a question for each field -> what was filled in, as a whole -> the decision

A choice is a button. A text, a number and a date are replies to the question, checked before the next one is asked. The
messages are in messages.py. Each question also offers the other way: JSON in one reply.

Rules
- A form is in memory, for the person who began it. Before it decides, it is shown as a whole, and checked again.
- Each question has a token of its own, and only the last question takes an answer. A button or a reply from before a
  restart, of another person, or to an earlier question changes nothing, and its sender is told why.
- A form with more than MOST questions takes JSON, or is filled in on its page. So does one whose result is too long to
  be shown. At most OPEN forms are open: the one that was not touched for the longest time ends.
- Everything here is pure, except that tokens are random.
"""

import secrets
from typing import Final

from msgspec import UNSET

from supervisor.channels.chat.interview import NOTHING, Interview, interview_of
from supervisor.channels.chat.presses import EDIT, REPLY
from supervisor.channels.telegram.messages import BACK, EMPTY, KEEP, SKIP, fits_data
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Approval

MOST: Final = 40
OPEN: Final = 200


class Filling:
    """A form that a person fills in. `code`: what it decides, as a press says it."""

    def __init__(self, code: str, interview: Interview) -> None:
        self.code = code
        self.interview = interview
        self.token = _token()
        self.message: int | None = None
        """The message of the present question, once it is there."""

    def press(self, action: str) -> str | None:
        """Take a press on the present question. Returns the problem of one that does not fit."""
        prompt = self.interview.prompt
        if action == BACK:
            self.interview.go_back()
            self.token = _token()
            return None
        if prompt is None:
            return "Nothing is asked any more: go back, or send it."
        offers = {str(number): line for number, line in enumerate(prompt.offers)}
        lines = offers | {KEEP: prompt.text, SKIP: "", EMPTY: NOTHING}
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
    """The forms that people fill in now."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, str], Filling] = {}

    def begin(self, user: int, approval: Approval, code: str) -> Filling | None:
        """Begin a form, in place of the one that this person has open for the approval; None if it takes JSON."""
        interview = interview_of(approval) if code == (REPLY if approval.kind == "question" else EDIT) else None
        if interview is None or not 0 < interview.count <= MOST or not fits_data(approval):
            return None
        filling = Filling(code, interview)
        self._keep((user, approval.id), filling)
        return filling

    def find(self, user: int, approval: str, token: str) -> Filling | str:
        """Return the form of a question, or the text for the person who answers it."""
        filling = self._open.get((user, approval))
        if filling is None:
            return (
                "Nothing was decided: this form is not open. It is another person's, or what was filled in was lost in "
                "a restart. Press the button of the card again to begin anew."
            )
        if filling.token != token:
            return "That question was answered before. The last message of the form asks the next one."
        self._keep((user, approval), filling)
        return filling

    def end(self, user: int, approval: str) -> None:
        self._open.pop((user, approval), None)

    def _keep(self, key: tuple[int, str], filling: Filling) -> None:
        self._open.pop(key, None)
        self._open[key] = filling
        if len(self._open) > OPEN:
            del self._open[next(iter(self._open))]


def _token() -> str:
    return secrets.token_hex(3)
