"""JSON schemas: the valid answers to a question, made from a Python type and checked without it.

An answer may be given in another process, where the agent and its types cannot be imported; an answer that is accepted
there must fit here. So the schema is the one that msgspec makes of the type. It is kept with the question, and this
module checks a value against it: every word that msgspec writes, and no other words.

Rules
- Fail closed: a type whose schema has a word that is not known here is refused when the question is asked. No answer is
  checked against a part of a schema.
- Numbers are as the decoder of the types has them: 1.0 is not an integer, true is not a number.
- A value is checked once against each part that references name, since references can double the work of each other.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec

from supervisor.core.errors import InvalidInput

_IGNORED: Final = frozenset({"title", "description", "examples", "default", "deprecated", "$defs", "discriminator"})
_FORMATS: Final[dict[str, Any]] = {
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
}
LONGEST_CHARACTERS: Final = 1000
"""Characters of a problem: unions that refer to unions would double its text."""
TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and _is_number(value),
    "number": lambda value: _is_number(value),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def schema_of(type_: Any) -> dict[str, Any]:
    """Return the JSON schema of a type; raises InvalidInput for a type that JSON or `schema_misfit` cannot handle."""
    schema = _schema(type_)
    for part in (schema, *schema.get("$defs", {}).values()):
        _check_words(part)
    return schema


def _schema(type_: Any) -> dict[str, Any]:
    try:
        (schema,), components = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    except (TypeError, ValueError, NameError, RecursionError) as error:
        raise InvalidInput(f"{type_!r} cannot be the type of an answer: {error}") from None
    return {**schema, "$defs": components} if components else schema


def schema_misfit(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Return why a JSON value does not fit a schema of `schema_of` or `foreign_schema.checkable`; None if it fits."""
    try:
        return _misfit(value, schema, _Parts(schema.get("$defs", {})), "")
    except RecursionError:
        return "it is nested too deeply"


def closed_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in which no object may have a name that its type does not have: a misspelt name must not mean
    the default. (msgspec ignores such names, unless a type says otherwise.)"""
    return _mapped(schema, lambda part: {"additionalProperties": False, **part} if "properties" in part else part)


def refuse_unknown(raw: msgspec.Raw | bytes, type_: Any, what: str) -> None:
    """Raise InvalidInput, naming `what`, if JSON that fits a type has a name, at any depth, that the type does not."""
    value = msgspec.json.decode(raw)
    if not isinstance(value, dict | list):
        return
    try:
        schema = _mapped(_schema(type_), _without_unknown_words)
    except InvalidInput:
        return  # a type that JSON schema cannot describe: its own decoder has checked it
    if schema_misfit(value, schema) is None and (problem := schema_misfit(value, closed_schema(schema))) is not None:
        raise InvalidInput(f"{what}: {problem}")


def why_unlike(arguments: Mapping[str, Any], schema: Mapping[str, Any], *, is_closed: bool) -> str | None:
    """Return why the arguments of a call certainly do not fit its tool's types, by a schema of `msgspec.json`; None if
    they may fit: the tool's own decoder knows more. `is_closed`: whether it refuses names that no type has."""
    schema = _mapped(_mapped(schema, _without_unknown_words), _with_numbers)
    return schema_misfit(arguments, schema) or (schema_misfit(arguments, closed_schema(schema)) if is_closed else None)


def _with_numbers(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that takes a number for a decimal, as the decoder does."""
    return schema | {"type": ["string", "number"]} if schema.get("format") == "decimal" else schema


def _mapped(schema: Mapping[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return a schema with a change applied to it and to each schema in it."""
    found = dict(schema)
    for word, said in schema.items():
        match word:
            case "anyOf" | "allOf" | "prefixItems":
                found[word] = [_mapped(part, change) for part in said]
            case "properties" | "$defs":
                found[word] = {name: _mapped(part, change) for name, part in said.items()}
            case "items" | "additionalProperties" | "propertyNames" if isinstance(said, dict):
                found[word] = _mapped(said, change)
    return change(found)


def _without_unknown_words(schema: dict[str, Any]) -> dict[str, Any]:
    return {word: said for word, said in schema.items() if word in _IGNORED or _is_checked(word, said)}


def _is_checked(word: str, said: Any) -> bool:
    return word in _CHECKS and not (word == "format" and said not in _FORMATS) and word != "contentEncoding"


def _check_words(schema: Mapping[str, Any]) -> None:
    for word, said in schema.items():
        if word in _IGNORED:
            continue
        if not _is_checked(word, said):
            raise InvalidInput(f"the type cannot be used for an answer: {word}: {said!r} cannot be checked")
        for part in _parts(word, said):
            _check_words(part)


def _parts(word: str, said: Any) -> list[Mapping[str, Any]]:
    """Return the schemas within the value of a word."""
    match word:
        case "anyOf" | "allOf" | "prefixItems":
            return list(said)
        case "properties":
            return list(said.values())
        case "items" | "additionalProperties" | "propertyNames" if isinstance(said, dict):
            return [said]
        case _:
            return []


class _Parts:
    """The schemas to which a schema refers, by name, and what they have said of the parts of one value."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self.schemas = schemas
        self.said: dict[tuple[int, str], str | None] = {}
        """By the identity of a part of the value, all of which live during the check, and the name of the schema."""


def _misfit(value: Any, schema: Mapping[str, Any], defs: _Parts, place: str) -> str | None:
    for word, said in schema.items():
        if word in _IGNORED:
            continue
        if (problem := _CHECKS[word](value, said, schema, defs, place)) is not None:
            return problem
    return None


def _at(place: str) -> str:
    return f" at {place}" if place else ""


def _type(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    names = said if isinstance(said, list) else [said]
    if any(TYPES[name](value) for name in names):
        return None
    return f"{_short(value)}{_at(place)} is not of type {' or '.join(names)}"


def _enum(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    if any(_same(value, each) for each in said):
        return None
    return f"{_short(value)}{_at(place)} is not one of {', '.join(_short(each) for each in said)}"


def _any_of(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    problems = [_misfit(value, each, defs, place) for each in said]
    return None if None in problems else _cut("; ".join(problem for problem in problems if problem), LONGEST_CHARACTERS)


def _all_of(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    return next((problem for each in said if (problem := _misfit(value, each, defs, place))), None)


def _ref(value: Any, said: Any, schema: Any, defs: _Parts, place: str) -> str | None:
    name: str = said.rpartition("/")[2]
    if (id(value), name) not in defs.said:
        defs.said[id(value), name] = _misfit(value, defs.schemas[name], defs, place)
    return defs.said[id(value), name]


def _properties(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    if not isinstance(value, dict):
        return None
    problems = (_misfit(value[name], part, defs, f"{place}.{name}") for name, part in said.items() if name in value)
    return next((problem for problem in problems if problem), None)


def _required(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    missing = [name for name in said if isinstance(value, dict) and name not in value]
    return f"{', '.join(missing)} is missing{_at(place)}" if missing else None


def _additional(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    others = [name for name in value if name not in schema.get("properties", {})] if isinstance(value, dict) else []
    if said is False and others:
        return f"there is no {', '.join(map(str, others))}{_at(place)}"
    if isinstance(said, dict):
        problems = (_misfit(value[name], said, defs, f"{place}.{name}") for name in others)
        return next((problem for problem in problems if problem), None)
    return None


def _names(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    names = value if isinstance(value, dict) else ()
    return next((problem for name in names if (problem := _misfit(name, said, defs, place))), None)


def _items(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    first = len(schema.get("prefixItems", ()))
    others = value[first:] if isinstance(value, list) else []
    if said is False:
        return f"there are more than {first} values{_at(place)}" if others else None
    problems = (_misfit(each, said, defs, f"{place}[{n}]") for n, each in enumerate(others, first))
    return next((problem for problem in problems if problem), None)


def _prefix_items(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    if not isinstance(value, list):
        return None
    pairs = enumerate(zip(value, said, strict=False))
    problems = (_misfit(each, part, defs, f"{place}[{n}]") for n, (each, part) in pairs)
    return next((problem for problem in problems if problem), None)


def _pattern(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    fits = not isinstance(value, str) or re.search(said, value)
    return None if fits else f"{_short(value)}{_at(place)} does not match {said}"


def _format(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
    try:
        msgspec.convert(value, _FORMATS[said]) if isinstance(value, str) else None
    except msgspec.ValidationError:
        return f"{_short(value)}{_at(place)} is not a {said}"
    return None


def _bound(fits: Callable[[Any, Any], bool], kind: Any, words: str) -> Callable[..., str | None]:
    """Return a check of a number, or of the length of something."""

    def check(value: Any, said: Any, schema: Any, defs: Any, place: str) -> str | None:
        if kind is float:
            measured = value if _is_number(value) else None
        else:
            measured = len(value) if isinstance(value, kind) else None
        is_well = measured is None or fits(measured, said)
        return None if is_well else f"{_short(value)}{_at(place)} {words} {said}"

    return check


_CHECKS: Final[dict[str, Callable[..., str | None]]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda value, said, *rest: _enum(value, [said], *rest),
    "anyOf": _any_of,
    "allOf": _all_of,
    "$ref": _ref,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "prefixItems": _prefix_items,
    "items": _items,
    "pattern": _pattern,
    "format": _format,
    "minimum": _bound(lambda value, said: value >= said, float, "is less than"),
    "maximum": _bound(lambda value, said: value <= said, float, "is more than"),
    "exclusiveMinimum": _bound(lambda value, said: value > said, float, "is not more than"),
    "exclusiveMaximum": _bound(lambda value, said: value < said, float, "is not less than"),
    "multipleOf": _bound(lambda value, said: math.fmod(value, said) == 0, float, "is not a multiple of"),
    "minLength": _bound(lambda size, said: size >= said, str, "is shorter than"),
    "maxLength": _bound(lambda size, said: size <= said, str, "is longer than"),
    "minItems": _bound(lambda size, said: size >= said, list, "has fewer values than"),
    "maxItems": _bound(lambda size, said: size <= said, list, "has more values than"),
    "minProperties": _bound(lambda size, said: size >= said, dict, "has fewer fields than"),
    "maxProperties": _bound(lambda size, said: size <= said, dict, "has more fields than"),
}
"""The check of each word of a schema."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; True is not 1."""
    return msgspec.json.encode(one, order="deterministic") == msgspec.json.encode(other, order="deterministic")


def _short(value: Any) -> str:
    return _cut(msgspec.json.encode(value).decode(), 40)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
