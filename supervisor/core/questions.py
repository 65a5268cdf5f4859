"""Questions: what an agent may ask a person in its own right, and what answers it. Pure.

A question takes one of its choices, a value that fits the JSON schema of a Python type, or free text where it has
neither. What is no answer is refused, and decides nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from supervisor.core.encoding import JSON_NULL, from_json, printable, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import digest
from supervisor.core.schemas import closed, misfit, schema_of
from supervisor.core.values import Approval

_YES_AND_NO: Final = {"yes": True, "y": True, "no": False, "n": False}


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, and what may be answered. Made by `question`."""

    text: str
    choices: tuple[str, ...] | None = None
    schema: msgspec.Raw = JSON_NULL

    @property
    def name(self) -> str:
        """A few words of it, fit for an operation's id."""
        return "-".join(re.findall(r"[A-Za-z0-9]+", self.text))[:40]

    @property
    def meaning(self) -> Any:
        """What makes it another question: its words and what may be answered, in JSON values."""
        return [self.text, self.choices, msgspec.json.decode(self.schema)]

    @property
    def digest(self) -> str:
        return digest(self.meaning)


def question(text: str, choices: Sequence[str] | None, schema: Any) -> Question:
    """Make a question; raises InvalidInput for one that nobody could answer. `schema` is a Python type or None."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("a question needs words: ctx.ask takes a text that says what is asked")
    if choices is not None and schema is not None:
        raise InvalidInput("a question has choices or a schema, not both; for one of several give choices")
    if choices is not None:
        choices = _checked(choices)
    json = JSON_NULL if schema is None else to_json(schema_of(schema), "the schema of an answer", canonical=True)
    return Question(text=printable(text), choices=None if choices is None else tuple(choices), schema=json)


def _checked(choices: Sequence[str]) -> list[str]:
    if isinstance(choices, str) or not all(isinstance(choice, str) and choice.strip() for choice in choices):
        raise InvalidInput(f"choices are a list of texts that say something, not {choices!r}")
    found = [printable(choice) for choice in choices]
    if not found or len({*found}) < len(found):
        raise InvalidInput(f"a person needs at least one choice, and no two that are the same: {choices!r}")
    return found


def check_answer(asked: Approval, value: Any) -> msgspec.Raw:
    """Return an answer as it is journaled; raises InvalidInput, saying what would do, for a value that answers
    nothing."""
    raw = to_json(value, "the answer")
    plain = msgspec.json.decode(raw)
    if asked.choices is not None:
        if plain not in asked.choices:
            raise InvalidInput(f"{_short(plain)} is none of the choices: {', '.join(map(_short, asked.choices))}")
    elif asked.schema is not None:
        if (problem := misfit(plain, closed(asked.schema))) is not None:
            raise InvalidInput(f"that is no answer to the question: {problem}")
    elif not isinstance(plain, str):
        raise InvalidInput(f"the question wants a text, not {_short(plain)}")
    return raw


def read_answer(asked: Approval, text: str) -> Any:
    """Return the value that typed text means: itself for choices and free text, JSON where a schema asks for it.

    Yes and no are answers to a question of true or false, and a text needs no quotes. A choice may be given as a JSON
    string, too: some have characters that nobody can type. Raises InvalidInput.
    """
    if asked.schema is None:
        return _choice(text, asked.choices or ())
    if is_yes_or_no(asked.schema) and text.strip().lower() in _YES_AND_NO:
        return _YES_AND_NO[text.strip().lower()]
    try:
        value = from_json(text, Any, "the answer")
    except InvalidInput as error:
        if misfit(text, asked.schema) is None:
            return text
        raise InvalidInput(f"this question asks for JSON: {error}") from None
    return text if misfit(value, asked.schema) is not None and misfit(text, asked.schema) is None else value


def _choice(text: str, choices: Sequence[str]) -> str:
    """Return the choice that a JSON string names, and any other text as it is."""
    if text in choices or not text.startswith('"'):
        return text
    try:
        named = msgspec.json.decode(text, type=str)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return text
    return named if named in choices else text


def is_yes_or_no(schema: Mapping[str, Any] | None) -> bool:
    """Whether the answer is true or false."""
    return schema is not None and schema.get("type") == "boolean"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:59] + "…"
