"""Forms as the modals of chat platforms carry them: a few fields, one below the other, without buttons between. Pure.

A modal carries texts, numbers, switches, choices and dates, also those of objects that must be given. A form with
lists, with objects that may be left out, with JSON or with too many fields takes JSON there, or is filled in on its
page.

Rules
- The name of a field is its place (core/approvals/forms.py), so nothing of an agent's text comes back as a name.
- A field that is sent as it was keeps its value: what no content means is not asked again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from supervisor.channels.chat.presses import EDIT, REPLY
from supervisor.channels.wording.form_words import fields_of, is_optional, option_text, takes_words
from supervisor.channels.wording.lengths import length
from supervisor.core.approvals.fields import Field
from supervisor.core.approvals.forms import BLANK, ROOT, read_form_texts, write_form_texts
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Approval

OPTION_UNITS: Final = 75
"""UTF-16 units of the label of an option, on every platform."""
_CARRIED: Final = ("text", "number", "switch", "choice", "date")


class ModalField(msgspec.Struct, frozen=True, kw_only=True):
    """One field. `text`: what it has at first. `options`: value and label of each, of a choice or a switch."""

    name: str
    kind: Literal["text", "choice", "date"]
    label: str
    hint: str
    text: str
    is_required: bool
    options: tuple[tuple[str, str], ...] = ()


def modal_fields(code: str, approval: Approval, *, fields: int, options: int, room: int) -> list[ModalField]:
    """Return the fields of the form that a press opens; none if a modal cannot carry it.

    `fields`, `options`: the most that the platform's modals have; `room`: the most UTF-16 units of one text.
    """
    field = _field(code, approval)
    if field is None:
        return []
    texts = write_form_texts(field, _value(approval))
    found = [*_leaves(field, ROOT, "", texts)]
    if not 0 < len(found) <= fields or None in found:
        return []
    carried = [each for each in found if each is not None]
    fits = all(
        length(each.text) <= room
        and len(each.options) <= options
        and all(length(words) <= OPTION_UNITS for _, words in each.options)
        for each in carried
    )
    return carried if fits else []


def read_modal(code: str, approval: Approval, given: Mapping[str, str]) -> str | dict[str, str]:
    """Return the JSON of what a modal's fields say, or the problems by the names of their fields. Raises InvalidInput
    for an approval without these fields."""
    field = _field(code, approval)
    if field is None:
        raise InvalidInput("this approval has no such form; look at it again")
    first = write_form_texts(field, _value(approval))
    kept = {name: text for name, text in first.items() if name.endswith(BLANK)}
    reading = read_form_texts(field, {**kept, **given})
    return dict(reading.problems) or json_text(reading.value)


def refused(code: str, approval: Approval, given: Mapping[str, str], problems: Mapping[str, str]) -> str:
    """Return the text for a person whose fields have problems, with what they wrote: a modal may be shown once only."""
    field = _field(code, approval)
    assert field is not None, "it was read before"
    labels = {each.name: each.label for each in _leaves(field, ROOT, "", {}) if each is not None}
    lines = [f"{labels.get(name, 'the form')}: {visible(problem, kind='words')}" for name, problem in problems.items()]
    read = {labels[name]: text for name, text in given.items() if name in labels}
    wrote = [f"{label}: {visible(text, kind='prose', lines=True)}" for label, text in read.items()]
    return "\n".join(["Nothing was decided.", *lines, "You wrote:", *wrote])


def _field(code: str, approval: Approval) -> Field | None:
    is_form = code == (REPLY if approval.kind == "question" else EDIT)
    return fields_of(approval) if is_form else None


def _value(approval: Approval) -> Any:
    return UNSET if approval.kind == "question" else approval.arguments


def _leaves(field: Field, place: str, label: str, texts: Mapping[str, str]) -> Iterator[ModalField | None]:
    """Yield the fields without others in them; None for one that no modal carries."""
    if field.kind == "object" and not field.is_held:
        for number, part in enumerate(field.parts):
            name = f"{label}.{visible(part.label)}" if label else visible(part.label)
            yield from _leaves(part, f"{place}.{number}", name, texts)
    elif field.kind not in _CARRIED:
        yield None
    else:
        options = [(str(number), option_text(each)) for number, each in enumerate(field.options)]
        about = " ".join(visible(field.description, kind="prose").split())
        yield ModalField(
            name=place,
            kind="date" if field.kind == "date" else "text" if field.kind in ("text", "number") else "choice",
            label=label or "Your answer",
            hint=": ".join(part for part in (takes_words(field), about) if part),
            text=texts.get(place, ""),
            is_required=field.blank is None and f"{place}{BLANK}" not in texts and not is_optional(field),
            options=(("true", "yes"), ("false", "no")) if field.kind == "switch" else tuple(options),
        )
