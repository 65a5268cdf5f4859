"""A form one field after the other, for a line of text: what is asked next, and what a typed line means. Pure.

Rules
- A prompt shows the text that its field has; a line replaces it. Two quotation marks are an empty text.
- A line that does not fit changes nothing, and the same field is asked again.
- Lists and objects that may be left out are asked by yes or no.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET

from supervisor.channels.wording.form_words import fields_of, is_optional, option_text, takes_words
from supervisor.core.approvals.fields import Field
from supervisor.core.approvals.forms import (
    BLANK,
    ROOT,
    Reading,
    change_form_texts,
    count_of,
    find_field,
    problem_at,
    read_form_texts,
    write_form_texts,
)
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval

NOTHING: Final = '""'
"""Typed for an empty text, where an empty line says that there is none."""
_REMOVE: Final = ("remove", "remove the last")
_YES_OR_NO: Final = ("yes", "no")
_YES: Final = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


class Prompt(msgspec.Struct, frozen=True):
    """What is asked next: the name of the field, what it takes, and the text that it has."""

    label: str
    about: str
    text: str
    takes_empty: bool = False
    """Whether two quotation marks are a text of their own here."""
    offers: tuple[str, ...] = ()
    """The lines to choose from, if the field takes no others; a surface may show them as buttons."""
    may_skip: bool = False
    """Whether an empty line leaves the field out."""


class _Step(msgspec.Struct, frozen=True):
    kind: str
    """value: a line of text; has: whether an object is given; more: whether a list has another item."""
    place: str
    label: str


def interview_of(approval: Approval) -> "Interview | None":
    """Return the interview for an answer, or for edited arguments; None if that takes JSON or a single text."""
    field = fields_of(approval)
    if field is None or field.kind == "json":
        return None
    return Interview(field, UNSET if approval.kind == "question" else approval.arguments)


class Interview:
    """Asks for the value of a field. `value`: what it has at first."""

    def __init__(self, field: Field, value: Any = UNSET) -> None:
        self._field = field
        self._texts = write_form_texts(field, value)
        self._step: _Step | None = next(self._steps(field, ROOT, ""), None)

    @property
    def prompt(self) -> Prompt | None:
        """What is asked now; None if everything was."""
        step = self._step
        if step is None:
            return None
        field = find_field(self._field, step.place)
        assert field is not None
        text = self._texts.get(step.place, "")
        match step.kind:
            case "has":
                given = "yes" if count_of(field, self._texts, step.place) else "no"
                return Prompt(step.label, f"give it? yes or no{_about(field)}", given, offers=_YES_OR_NO)
            case "more":
                count = count_of(field, self._texts, step.place)
                removing = ", or remove the last" if count else ""
                offers = (*_YES_OR_NO, *(_REMOVE[1:] if count else ()))
                return Prompt(step.label, f"has {count}: another? yes or no{removing}", "no", offers=offers)
            case _ if field.kind == "choice":
                text = option_text(field.options[int(text)]) if text else ""
            case _ if field.kind == "switch":
                text = {"true": "yes", "false": "no"}.get(text, "")
            case _ if text == "" and self._texts.get(f"{step.place}{BLANK}") == "empty":
                text = NOTHING
        words = f"{takes_words(field)}{', optional' if is_optional(field) else ''}{_about(field)}"
        offers = _YES_OR_NO if field.kind == "switch" else tuple(option_text(each) for each in field.options)
        return Prompt(step.label, words, text, "empty" in field.blanks, offers, is_optional(field))

    def take(self, line: str) -> str | None:
        """Take a line, and go on to the next field. Returns the problem of a line that does not fit."""
        step, steps = self._step, [*self._steps(self._field, ROOT, "")]
        assert step is not None, "nothing is asked any more"
        at = steps.index(step)
        if step.kind == "value":
            if (problem := self._write(step.place, line)) is not None:
                return problem
            at += 1
        elif step.kind == "more" and line.strip().lower() in _REMOVE:
            at -= self._remove_last(step.place, steps)
        elif (said := _YES.get(line.strip().lower())) is None:
            return "say yes or no"
        else:
            verb = "add" if said else "clear" if step.kind == "has" else ""
            self._texts = change_form_texts(self._field, self._texts, f"{verb}:{step.place}") if verb else self._texts
            at += not (said and step.kind == "more")  # the steps of a new item are before the question for another
        self._go_to(at)
        return None

    def go_back(self) -> bool:
        """Ask for the field before this one again; returns False at the first one."""
        steps = [*self._steps(self._field, ROOT, "")]
        at = steps.index(self._step) if self._step is not None else len(steps)
        self._go_to(max(0, at - 1))
        return at > 0

    @property
    def count(self) -> int:
        """The number of questions of the form as it is filled in now."""
        return sum(1 for _ in self._steps(self._field, ROOT, ""))

    @property
    def number(self) -> int:
        """The number of the present question, from 1; the one after the last if nothing is asked any more."""
        steps = [*self._steps(self._field, ROOT, "")]
        return 1 + (steps.index(self._step) if self._step is not None else len(steps))

    @property
    def reading(self) -> Reading:
        """What was given."""
        return read_form_texts(self._field, self._texts)

    def _go_to(self, at: int) -> None:
        steps = [*self._steps(self._field, ROOT, "")]
        self._step = steps[at] if at < len(steps) else None

    def _write(self, place: str, line: str) -> str | None:
        """Write a line into its field. Returns the problem of one that does not fit."""
        field = find_field(self._field, place)
        assert field is not None
        texts = self._texts
        if self.prompt is None or line != self.prompt.text:  # a text that is kept keeps what no content means, too
            texts = {name: text for name, text in texts.items() if name != f"{place}{BLANK}"}
            texts |= _typed(field, place, line)
        if (problem := problem_at(field, texts, place)) is None:
            self._texts = texts
        return problem

    def _remove_last(self, place: str, steps: list[_Step]) -> int:
        """Remove the last item of a list; returns by how many steps the form is shorter now."""
        field = find_field(self._field, place)
        assert field is not None
        last = count_of(field, self._texts, place) - 1
        self._texts = change_form_texts(self._field, self._texts, f"remove:{place}.{last}")
        return len(steps) - len([*self._steps(self._field, ROOT, "")])

    def _steps(self, field: Field, place: str, label: str) -> Iterator[_Step]:
        count = count_of(field, self._texts, place) if field.is_held else 1
        if field.kind == "object":
            if field.is_held:
                yield _Step("has", place, label)
            for number, part in enumerate(field.parts if count else ()):
                name = f"{label}.{visible(part.label)}" if label else visible(part.label)
                yield from self._steps(part, f"{place}.{number}", name)
        elif field.kind == "list" and field.items is not None:
            for number in range(count):
                yield from self._steps(field.items, f"{place}.{number}", f"{label}[{number + 1}]")
            yield _Step("more", place, label)
        else:
            yield _Step("value", place, label)


def _typed(field: Field, place: str, line: str) -> dict[str, str]:
    """Return the texts of a form for a typed line."""
    if line == NOTHING and "empty" in field.blanks:
        return {place: "", f"{place}{BLANK}": "empty"}
    if field.kind == "switch" and line.strip():
        return {place: {True: "true", False: "false", None: "?"}[_YES.get(line.strip().lower())]}
    if field.kind == "choice" and line:
        texts = [option_text(option) for option in field.options]
        return {place: str(texts.index(line)) if line in texts else "?"}
    return {place: line}


def _about(field: Field) -> str:
    return f": {' '.join(visible(field.description, kind='prose').split())}" if field.description else ""
