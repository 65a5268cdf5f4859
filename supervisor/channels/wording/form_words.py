"""What people are asked to fill in, in words: which fields an approval has, and what each of them takes. Pure.

Every surface that shows a form uses these words, so that a person finds the same form everywhere.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from supervisor.core.approvals.fields import Field, describe_arguments, describe_schema
from supervisor.core.approvals.forms import write_form_texts
from supervisor.core.approvals.questions import is_yes_or_no
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Approval

MOST_TEXTS: Final = 400
"""Texts of one form; a larger value is edited as JSON only."""
LARGEST_CHARACTERS: Final = 50_000
"""Characters of all texts of one form."""
_KINDS: Final = {
    "text": "text",
    "number": "number",
    "switch": "yes or no",
    "choice": "one of",
    "date": "date, such as 2026-11-23",
    "list": "list",
    "object": "several fields",
    "json": "JSON",
}


def fields_of(approval: Approval) -> Field | None:
    """Return the fields of an answer, or of edited arguments; None if the approval has no form, or too large a one."""
    if approval.kind == "question":
        if approval.schema is None or is_yes_or_no(approval.schema):
            return None
        field = describe_schema(approval.schema, narrow=dict)
        return field if is_small(write_form_texts(field)) else None
    if not approval.editable or not isinstance(approval.arguments, dict) or not approval.arguments:
        return None
    if len(msgspec.json.encode(approval.arguments)) > LARGEST_CHARACTERS:
        return None
    schema = approval.schema if approval.schema is not None else approval.arguments_schema
    field = describe_arguments(approval.arguments, schema, approval.secret)
    return field if is_small(write_form_texts(field, approval.arguments)) else None


def has_form(approval: Approval) -> bool:
    """Whether a person can fill in fields for it; it takes JSON in any case."""
    field = fields_of(approval)
    return field is not None and field.kind != "json"


def is_small(texts: Mapping[str, str]) -> bool:
    """Whether a form is small enough to be shown."""
    return len(texts) <= MOST_TEXTS and sum(map(len, texts.values())) <= LARGEST_CHARACTERS


def takes_words(field: Field) -> str:
    """Return in a few words what a field takes: its kind and its bounds."""
    kind = "whole number" if field.is_whole else _KINDS[field.kind]
    if field.kind == "choice":
        kind = f"one of {', '.join(option_text(option) for option in field.options[:20])}"
        kind += f" and {len(field.options) - 20} more" if len(field.options) > 20 else ""
    if field.kind == "text" and (form := field.schema.get("format")) is not None:
        kind = visible(str(form))
    return ", ".join([kind, *_bounds(field.schema)])


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    for least, most, unit in _RANGES:
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            yield f"{low} to {high}{unit}"
        elif high is not None:
            yield f"at most {high}{unit}"
        elif low is not None and (low, unit) != (1, " characters"):  # that it must be filled in goes without saying
            yield f"at least {low}{unit}"
    for word, words in _BOUNDS.items():
        if word in schema:
            yield f"{words} {visible(str(schema[word]))}"


_RANGES: Final = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
)
_BOUNDS: Final = {
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
    "pattern": "matching",
}


def option_text(value: Any) -> str:
    """Return a value of a choice: a text as it is, if it cannot be taken for another value, else JSON."""
    is_plain = isinstance(value, str) and value.strip() == value and value not in ("", "null", "true", "false")
    return visible(value, kind="prose") if is_plain and not value.replace(".", "").isdigit() else json_text(value)


def is_optional(field: Field) -> bool:
    """Whether a person may leave the field out."""
    return "absent" in field.blanks or "null" in field.blanks


def default_text(field: Field) -> str:
    """Return a default that a person may want to know; "" if there is none, or it is nothing."""
    return "" if field.default in (UNSET, None, "", [], {}) else option_text(field.default)


def outline(field: Field) -> list[str]:
    """Return a line for each field: its name, what it takes, and what it is for."""
    return [*_lines(field, "", 0)]


def _lines(field: Field, name: str, depth: int) -> Iterator[str]:
    words = [] if field.kind == "object" else [takes_words(field)]
    words += ["optional"] if is_optional(field) else []
    words += [f"default {default}"] if (default := default_text(field)) else []
    about = f": {' '.join(visible(field.description, kind='prose').split())}" if field.description and depth else ""
    told = f" ({', '.join(words)})" if words and name else ", ".join(words)
    if name or told:
        yield f"{'  ' * max(0, depth - 1)}{visible(name)}{told}{about}"
    for part in field.parts:
        yield from _lines(part, part.label, depth + 1)
    if field.items is not None:
        yield from _lines(field.items, "each", depth + 1)
