"""Questions: what an agent may ask a person in its own right, and which answers are valid. Pure.

The answer is one of the question's choices, a value that fits the JSON schema of a Python type, or free text if the
question has neither. An invalid answer is refused, and decides nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from supervisor.core.declarations.schemas import closed_schema, schema_misfit, schema_of
from supervisor.core.encoding import JSON_NULL, printable_text, read_exact, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import digest_of_value
from supervisor.core.values import Approval

_YES_AND_NO: Final = {"yes": True, "y": True, "no": False, "n": False}


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The question and its valid answers. Made by `make_question`."""

    text: str
    choices: tuple[str, ...] | None = None
    schema: msgspec.Raw = JSON_NULL

    @property
    def name(self) -> str:
        """A few of its words, fit for an operation's id."""
        return "-".join(re.findall(r"[A-Za-z0-9]+", self.text))[:40]

    @property
    def meaning(self) -> Any:
        """What identifies the question: its words and its valid answers, in JSON values."""
        return [self.text, self.choices, msgspec.json.decode(self.schema)]

    @property
    def digest(self) -> str:
        return digest_of_value(self.meaning)


def make_question(text: str, choices: Sequence[str] | None, schema: Any) -> Question:
    """Make a question; raises InvalidInput for one without a valid answer. `schema` is a Python type or None."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("the question is empty: ctx.ask takes a text that says what is asked")
    if choices is not None and schema is not None:
        raise InvalidInput("a question has choices or a schema, not both; give choices for one of several values")
    if choices is not None:
        choices = _checked(choices)
    json = JSON_NULL if schema is None else to_json(schema_of(schema), "the schema of an answer")
    return Question(text=printable_text(text), choices=None if choices is None else tuple(choices), schema=json)


def _checked(choices: Sequence[str]) -> list[str]:
    if isinstance(choices, str) or not all(isinstance(choice, str) and choice.strip() for choice in choices):
        raise InvalidInput(f"choices must be a list of texts that are not empty, not {choices!r}")
    found = [printable_text(choice) for choice in choices]
    if not found or len({*found}) < len(found):
        raise InvalidInput(f"choices must have at least one text, and no two equal ones: {choices!r}")
    return found


def check_answer(asked: Approval, value: Any) -> msgspec.Raw:
    """Return an answer as it is journaled; raises InvalidInput, which says what would be valid, for an invalid one."""
    raw = to_json(value, "the answer", exact=True)
    plain = msgspec.json.decode(raw)
    if asked.choices is not None:
        if plain not in asked.choices:
            raise InvalidInput(f"{_short(plain)} is not one of the choices: {', '.join(map(_short, asked.choices))}")
    elif asked.schema is not None:
        if (problem := schema_misfit(plain, closed_schema(asked.schema))) is not None:
            raise InvalidInput(f"that is not a valid answer: {problem}")
    elif not isinstance(plain, str):
        raise InvalidInput(f"the answer must be a text, not {_short(plain)}")
    return raw


def read_answer(asked: Approval, text: str) -> Any:
    """Return the value of a typed text: the text for choices and free text, JSON if the question has a schema.

    Yes and no are answers to a question of true or false, and a text needs no quotes. A choice may be given as a JSON
    string, too: some choices have characters that cannot be typed. Raises InvalidInput.
    """
    if asked.schema is None:
        return _choice(text, asked.choices or ())
    if is_yes_or_no(asked.schema) and text.strip().lower() in _YES_AND_NO:
        return _YES_AND_NO[text.strip().lower()]
    try:
        value = read_exact(text, "the answer")
    except InvalidInput as error:
        if schema_misfit(text, asked.schema) is None:
            return text
        raise InvalidInput(f"this question asks for JSON: {error}") from None
    return (
        text if schema_misfit(value, asked.schema) is not None and schema_misfit(text, asked.schema) is None else value
    )


def _choice(text: str, choices: Sequence[str]) -> str:
    """Return the choice that a JSON string names, and any other text unchanged."""
    if text in choices or not text.startswith('"'):
        return text
    try:
        named = msgspec.json.decode(text, type=str)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return text
    return named if named in choices else text


def is_yes_or_no(schema: Mapping[str, Any] | None) -> bool:
    """Return whether the answer is true or false."""
    return schema is not None and schema.get("type") == "boolean"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:59] + "…"
