"""Forms on pages: the fields of a value, as controls that work without scripts.

Rules
- Names and ids are places (core/approvals/forms.py), and never texts of an agent. An id begins with the name of its
  form, since a page may have several forms.
- The buttons that add and remove submit the form; what was typed in it is kept, and nothing is decided.
- A problem stands at its field, in words, and again in a summary with links to the fields. The summary gets the focus.
- After a button was pressed, the field that it made gets the focus.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from supervisor.channels.wording.cards import PATH_SEPARATOR
from supervisor.channels.wording.form_words import default_text, is_optional, option_text, takes_words
from supervisor.core.approvals.fields import Blank, Field
from supervisor.core.approvals.forms import (
    BLANK,
    ROOT,
    Reading,
    Texts,
    change_form_texts,
    count_of,
    find_field,
    read_form_texts,
    write_form_texts,
)
from supervisor.core.errors import InvalidInput

CHECK: Final = "check"
"""The press of the Enter key: it shows the problems, and decides nothing."""
_BLANKS: Final[Mapping[Blank, str]] = {"absent": "it is left out", "null": "it is null: no value"}
_TRUTH: Final = ("true", "false")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


class Misfilled(InvalidInput):
    """A form with problems. `problems`: by the place of their field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems


class Option(msgspec.Struct, frozen=True):
    value: str
    words: str


class FieldView(msgspec.Struct, frozen=True, kw_only=True):
    """A field as it is drawn. `draw`: its kind of control."""

    draw: str
    id: str
    name: str
    label: str
    hint: str
    description: str
    text: str
    is_optional: bool
    problem: str
    options: tuple[Option, ...] = ()
    blanks: tuple[Option, ...] = ()
    """What no content may mean, where the person has to say so."""
    blank: str = ""
    """What no content means now; without `blanks`, it is sent as it is."""
    below: tuple["FieldView", ...] = ()
    count: int | None = None
    """How many items there are, of a list or of an object that may be left out; None for any other field."""
    press: str = ""
    """The press of the button that removes the field."""
    add: str = ""
    """The press of the button that adds an item, or the object."""
    gets_focus: bool = False
    """Whether its control gets the focus, or else its button that adds."""

    @property
    def rows(self) -> int:
        return min(18, max(self.text.count("\n") + 1, len(self.text) // 70 + 1, 3 if self.draw == "json" else 1))


class FormView(msgspec.Struct, frozen=True, kw_only=True):
    """A form. `problems`: id, label and text of each; `told`: what a press of the Enter key found."""

    root: FieldView
    problems: tuple[tuple[str, str, str], ...] = ()
    told: str = ""


def read_form(field: Field, form: Mapping[str, str]) -> Any:
    """Return the value of a submitted form. Raises Misfilled."""
    reading = read_form_texts(field, form)
    if reading.problems:
        raise Misfilled(reading.problems)
    return reading.value


def form_view(
    field: Field, prefix: str, value: Any = UNSET, form: Mapping[str, str] | None = None, problem: str = ""
) -> FormView:
    """Return a form. `value`: what it shows at first; `form`: what was submitted, if it was; `problem`: what was wrong
    with the value as a whole."""
    first = write_form_texts(field, value)
    if form is None:
        return FormView(root=_Drawer(field, prefix, first, first, {}, "").view(field, ROOT, ""))
    press = form.get("press", "")
    texts = change_form_texts(field, form, press)
    reading = read_form_texts(field, texts) if press in ("", CHECK) else Reading(value=UNSET, problems={})
    problems = {**reading.problems, **({ROOT: problem} if problem else {})}
    drawer = _Drawer(field, prefix, first, texts, problems, press)
    root = drawer.view(field, ROOT, "")
    told = "Everything fits. Nothing is decided yet." if press == CHECK and not problems else ""
    return FormView(root=root, problems=tuple(drawer.summary), told=told)


class _Drawer:
    def __init__(
        self, field: Field, prefix: str, first: Texts, texts: Texts, problems: Mapping[str, str], press: str
    ) -> None:
        self._prefix = prefix
        self._first = first
        self._texts = texts
        self._problems = problems
        self.summary: list[tuple[str, str, str]] = []
        verb, _, place = press.partition(":")
        target = find_field(field, place)
        if verb == "add" and target is not None and target.kind == "list":
            place = f"{place}.{count_of(target, texts, place) - 1}"
        self._focus = place.rpartition(".")[0] if verb == "remove" else place
        """The place whose first control gets the focus; "" for none, or once a control has it."""

    def view(self, field: Field, place: str, label: str, press: str = "", above: str = "") -> FieldView:
        problem, text = self._problems.get(place, ""), self._texts.get(place, "")
        count = count_of(field, self._texts, place) if field.is_held else None
        if problem:
            self.summary.append((f"{self._prefix}-{place}", PATH_SEPARATOR.join(filter(None, (above, label))), problem))
        is_control = field.kind != "object" or (field.is_held and not count)
        gets_focus = bool(self._focus) and is_control and f"{place}.".startswith(f"{self._focus}.")
        self._focus = "" if gets_focus else self._focus
        blanks, blank = self._blanks(field, place, has_content=bool(count) if field.is_held else text != "")
        return FieldView(
            draw=self._draw(field, place, text),
            id=f"{self._prefix}-{place}",
            name=place,
            label=label,
            hint=_hint(field),
            description=field.description,
            text=text,
            is_optional=is_optional(field),
            problem=problem,
            options=tuple(Option(str(number), option_text(each)) for number, each in enumerate(field.options)),
            blanks=blanks,
            blank=blank,
            below=tuple(self._below(field, place, label, count, above)),
            count=count,
            press=press or (f"clear:{place}" if field.kind == "object" and count else ""),
            add=f"add:{place}" if field.is_held and (field.kind == "list" or not count) else "",
            gets_focus=gets_focus,
        )

    def _below(self, field: Field, place: str, label: str, count: int | None, above: str) -> Iterator[FieldView]:
        if field.kind == "object" and count != 0:
            path = PATH_SEPARATOR.join(filter(None, (above, label)))
            for number, part in enumerate(field.parts):
                yield self.view(part, f"{place}.{number}", part.label, above=path)
        if field.items is not None:
            for number in range(count or 0):
                at = f"{place}.{number}"
                yield self.view(field.items, at, f"{label} {number + 1}".strip(), f"remove:{at}", above)

    def _draw(self, field: Field, place: str, text: str) -> str:
        if field.kind == "switch":
            has_value = self._first.get(place) in _TRUTH or isinstance(field.default, bool)
            return "switch" if has_value and not field.blanks else "yesno"
        return "line" if field.kind == "date" and text and not _DATE.fullmatch(text) else field.kind

    def _blanks(self, field: Field, place: str, *, has_content: bool) -> tuple[tuple[Option, ...], str]:
        """Return what no content may mean, where the person has to say so, and what they said last."""
        said = self._texts.get(place + BLANK, "")
        usual = field.blank or ""
        blank = said if said in field.blanks else usual
        if field.default is None and blank == "null":  # as good as left out, and kept as it is
            return (), blank
        is_open = len(field.blanks) > 1 and (field.default is UNSET or default_text(field) != "")
        if not (
            (blank != usual and not has_content)
            or (is_open and ((field.is_held and not has_content) or default_text(field) != ""))
            or (place in self._problems and "empty" in field.blanks and not has_content)
        ):
            return (), ""
        words = {**_BLANKS, "empty": "an empty list" if field.kind == "list" else "an empty text"}
        found = [Option(each, words[each]) for each in field.blanks]
        return ((*found,) if usual else (Option("", "it must be filled in"), *found)), blank


def _hint(field: Field) -> str:
    hint = "" if field.kind in ("object", "choice", "switch") else takes_words(field)
    default = default_text(field)
    found = [hint] * (hint not in ("", "text", "list")) + [f"default {default}"] * (default != "")
    return ", ".join(found)
