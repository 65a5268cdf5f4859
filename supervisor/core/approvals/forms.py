"""Forms: a value written into the fields of core/approvals/fields.py as texts, and read back. Pure.

    write(field, value) -> texts                what a form shows at first
    read(field, texts) -> value, problems       what was submitted, as JSON; each problem with the field that has it
    change(field, texts, press) -> texts        buttons that add and remove items, and objects that may be left out

The names of texts are places, such as `f.0.2`, and never texts of a schema: `f` is the whole, and each number counts
the fields of an object, or the items of a list. `f.0:n` is the number of items, `f.0:blank` what no content means.

Rules
- Reading never raises: a text that does not fit is a problem of its field, and all problems are found at once.
- A submitted form is hostile: a list has at most MOST_ITEMS items, all lists together MOST_IN_ALL, and texts of unknown
  names are ignored. A form that claims more is refused as a whole: without a part of it, it would say something else.
- What is read is checked against the field's own schema, and then the whole against the whole schema.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from supervisor.core.approvals.fields import MOST_IN_ALL, MOST_ITEMS, Blank, Field, carrying, same_json
from supervisor.core.declarations.schemas import schema_misfit
from supervisor.core.encoding import from_json, read_exact
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import json_text

ROOT: Final = "f"
COUNT, BLANK = ":n", ":blank"
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_EMPTY: Final[Mapping[Blank, Any]] = {"absent": UNSET, "null": None}

Texts = Mapping[str, str]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was read. `value` is UNSET if there is a problem. `problems`: by the place of their field."""

    value: Any
    problems: dict[str, str]


def write_form_texts(field: Field, value: Any = UNSET, place: str = ROOT) -> dict[str, str]:
    """Return the texts of a form that carries a value, as `carrying` has made it; without one, its defaults."""
    if value is UNSET:
        value = _first(field)
    if field.kind == "object" and (isinstance(value, dict) or not field.is_held):
        return _write_object(field, value if isinstance(value, dict) else None, place)
    if field.kind == "list" and field.items is not None and (value or (value is UNSET and not field.blanks)):
        items = value if isinstance(value, list) else [UNSET] * min(MOST_ITEMS, int(field.schema.get("minItems", 1)))
        texts = {place + COUNT: str(len(items))}
        for number, item in enumerate(items):
            texts |= write_form_texts(field.items, item, f"{place}.{number}")
        return texts
    blank = _blank_of(field, value)
    return {place: _text_of(field, value)} if blank is UNSET else _blank(field, blank, place)


def _write_object(field: Field, value: dict[str, Any] | None, place: str) -> dict[str, str]:
    texts = {place + COUNT: "1"} if field.is_held else {}
    for number, part in enumerate(field.parts):
        at = f"{place}.{number}"
        if value is not None and part.label not in value and "absent" in part.blanks:
            texts |= _blank(part, "absent", at)
        else:
            texts |= write_form_texts(part, (value or {}).get(part.label, UNSET), at)
    return texts


def _blank_of(field: Field, value: Any) -> Blank | Any:
    """Return what no content means for a value; UNSET if it has content."""
    if value is UNSET:
        return field.blank
    if value is None and "null" in field.blanks:
        return "null"
    return "empty" if value in ("", []) and "empty" in field.blanks else UNSET


def _text_of(field: Field, value: Any) -> str:
    match field.kind:
        case "json":
            return json_text(value, indent=2)
        case "switch":
            return "true" if value else "false"
        case "choice":
            return str(next(n for n, option in enumerate(field.options) if same_json(option, value)))
        case "number":
            return msgspec.json.encode(value).decode()
        case _:
            return str(value)


def _first(field: Field) -> Any:
    """Return what a new form shows of a field: its default, if leaving it out would not mean the same."""
    if field.default is UNSET or (field.default in (None, "", []) and "absent" in field.blanks):
        return UNSET
    return field.default if carrying(field, field.default) == field else UNSET


def _blank(field: Field, blank: Blank | None, place: str) -> dict[str, str]:
    """Return the texts of a field without content."""
    texts = {place + COUNT: "0"} if field.is_held else {place: ""}
    if field.kind == "choice" and blank is None and len(field.options) == 1:
        texts[place] = "0"
    return texts if blank is None or (blank == field.blank and not field.is_held) else {**texts, place + BLANK: blank}


def read_form_texts(field: Field, texts: Texts) -> Reading:
    """Return the value of a submitted form, and the problems of its fields."""
    if not _is_bounded(texts):
        too_many = f"a form has at most {MOST_IN_ALL} items in all: remove some, or use the command line"
        return Reading(value=UNSET, problems={ROOT: too_many})
    reader = _Reader(texts)
    value = reader.value(field, ROOT)
    if not reader.problems and value is not UNSET and (problem := schema_misfit(value, field.schema)) is not None:
        reader.problems[ROOT] = problem
    return Reading(value=UNSET if reader.problems else value, problems=reader.problems)


def _is_bounded(texts: Texts) -> bool:
    """Return whether the texts of a form claim no more items than a form of ours has."""
    counts = (text for name, text in texts.items() if name.endswith(COUNT))
    return (
        sum(int(count) for count in counts if count.isascii() and count.isdecimal() and len(count) < 6) <= MOST_IN_ALL
    )


def problem_at(field: Field, texts: Texts, place: str) -> str | None:
    """Return the problem of the texts of one field, which is at a place; None if they fit."""
    reader = _Reader(texts)
    reader.value(field, place)
    return next(iter(reader.problems.values()), None)


def change_form_texts(field: Field, texts: Texts, press: str) -> dict[str, str]:
    """Return the texts after the person pressed a button: `add:PLACE` for a further item, or for an object that is left
    out; `clear:PLACE` to leave it out again; `remove:PLACE.NUMBER` for an item. A press that fits nothing changes
    nothing, and one of a form that claims too many items leaves nothing to draw."""
    if not _is_bounded(texts):
        return {}
    changed = _changed(field, texts, press)
    return changed if _is_bounded(changed) else dict(texts)


def _changed(field: Field, texts: Texts, press: str) -> dict[str, str]:
    verb, _, place = press.partition(":")
    held, _, number = place.rpartition(".") if verb == "remove" else (place, "", "")
    target, changed = find_field(field, held), dict(texts)
    if target is None or not target.is_held:
        return changed
    count = count_of(target, changed, held)
    match verb:
        case "add" if target.items is not None and count < MOST_ITEMS:
            return {**changed, held + COUNT: str(count + 1), **write_form_texts(target.items, UNSET, f"{held}.{count}")}
        case "add" if target.items is None and not count:
            return {**changed, **_write_object(target, None, held)}
        case "clear" if target.items is None:
            return {**changed, held + COUNT: "0"}
        case "remove" if number.isascii() and number.isdecimal() and int(number[:9]) < count:
            return _without(changed, held, int(number), count)
        case _:
            return changed


def _without(texts: Texts, held: str, gone: int, count: int) -> dict[str, str]:
    """Return the texts without one item of a list; each later item takes the place before it."""
    found = {held + COUNT: str(count - 1)}
    for name, text in texts.items():
        rest = re.match(r"\.(\d{1,9})(.*)", name.removeprefix(held), re.DOTALL) if name.startswith(held) else None
        if rest is None:
            found.setdefault(name, text)
        elif int(rest[1]) != gone:
            found[f"{held}.{int(rest[1]) - (int(rest[1]) > gone)}{rest[2]}"] = text
    return found


def find_field(field: Field, place: str) -> Field | None:
    """Return the field at a place; None if there is none."""
    first, *numbers = place.split(".")
    found: Field | None = field if first == ROOT else None
    for number in numbers:
        if found is None or not number.isdecimal() or len(number) > 9:
            return None
        if found.kind == "list":
            found = found.items if int(number) < MOST_ITEMS else None
        else:
            found = found.parts[int(number)] if int(number) < len(found.parts) else None
    return found


def count_of(field: Field, texts: Texts, place: str) -> int:
    """Return how many items a list has in a form; of an object that may be left out, 1 or 0."""
    said = texts.get(place + COUNT, "0")
    count = int(said) if said.isascii() and said.isdecimal() and len(said) < 6 else 0
    return min(count, MOST_ITEMS if field.kind == "list" else 1)


class _Reader:
    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.problems: dict[str, str] = {}

    def value(self, field: Field, place: str) -> Any:
        """Return the value of a field; UNSET if it is left out, or has a problem."""
        if field.kind == "object" and (not field.is_held or count_of(field, self._texts, place)):
            found = {part.label: self.value(part, f"{place}.{n}") for n, part in enumerate(field.parts)}
            return {name: value for name, value in found.items() if value is not UNSET}
        if field.kind == "list" and field.items is not None and (count := count_of(field, self._texts, place)):
            items = [self.value(field.items, f"{place}.{number}") for number in range(count)]
            return self._checked(field, items, place) if UNSET not in items else UNSET
        text = "" if field.is_held else self._texts.get(place, "").replace("\r\n", "\n")
        if text == "" or (field.kind in ("number", "date", "json") and not text.strip()):
            return self._no_content(field, place)
        try:
            return self._checked(field, _converted(field, text), place)
        except InvalidInput as error:
            return self._problem(place, str(error))

    def _no_content(self, field: Field, place: str) -> Any:
        said = self._texts.get(place + BLANK, "")
        blank = next((blank for blank in field.blanks if blank == said), field.blank)
        if blank is None:
            what = "say yes or no" if field.kind == "switch" else "choose one" if field.kind == "choice" else ""
            return self._problem(place, what or "this must be filled in")
        return ([] if field.kind == "list" else "") if blank == "empty" else _EMPTY[blank]

    def _checked(self, field: Field, value: Any, place: str) -> Any:
        problem = schema_misfit(value, field.schema)
        return value if problem is None else self._problem(place, problem)

    def _problem(self, place: str, text: str) -> Any:
        self.problems[place] = text
        return UNSET


def _converted(field: Field, text: str) -> Any:
    """Return the value of a text that is not empty. Raises InvalidInput."""
    match field.kind:
        case "json":
            return read_exact(text, "this is not JSON")
        case "number":
            if not _NUMBER.fullmatch(text.strip()):
                raise InvalidInput(f"write a {'whole number, such as 3' if field.is_whole else 'number, such as 2.5'}")
            return from_json(text.strip(), Any, "this is not a number")
        case "switch" if text in ("true", "false"):
            return text == "true"
        case "choice" if text.isascii() and text.isdecimal() and int(text[:9]) < len(field.options):
            return field.options[int(text)]
        case "date":
            return text.strip()
        case "text":
            return text
        case _:
            raise InvalidInput("choose one of the values that are offered")
