"""What a model of a framework writes as the arguments of a call: as the journal can hold them, and what is wrong.

    given = read_arguments("pay", '{"amount": NaN}')
    given.arguments == {"amount": None}
    given.problem == "the arguments of tool pay do not fit: amount is nan, which JSON cannot hold"

A call whose arguments cannot be used is refused before a person is asked. The model reads the error, and may call
again.

Rules
- What is wrong never changes which call it is: its name and its digest are made of `arguments`, as they always were.
- Wrong are: text that is no JSON object, a name that stands twice in one object, numbers that JSON cannot hold, half of
  a surrogate pair, and what is nested too deeply. So is a value that does not fit the tool's schema.
- A schema for strict models requires each name. A name that has a default, or that takes null, may be left out
  nevertheless: the framework fills it in.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from supervisor.core.declarations.foreign_schema import checkable
from supervisor.core.declarations.schemas import schema_misfit
from supervisor.core.encoding import MOST_LEVELS, printable_text

_NOT_AN_OBJECT: Final = "arguments"
"""The one name of arguments that are no JSON object. Their text is its value."""


class Given(NamedTuple):
    """What a model wrote. `problem`: what is wrong with it, for the model; "" if nothing is."""

    arguments: dict[str, Any]
    problem: str


def read_arguments(tool: str, given: str | Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> Given:
    """Return the arguments of a call. `given`: JSON, where an empty text means no arguments; or what a framework has
    read of it."""
    problems: list[str] = []
    found: Any = given
    if isinstance(given, str):
        found = _read(given, problems)
    if not isinstance(found, Mapping):
        found = {_NOT_AN_OBJECT: given}
    arguments = _plain(dict(found), problems, "", MOST_LEVELS)
    if not problems and schema is not None:
        problems = list(filter(None, [schema_misfit(arguments, _lenient(checkable(schema)))]))
    return Given(arguments, f"the arguments of tool {tool} do not fit: {'; '.join(problems)}" if problems else "")


def journal_value(value: Any) -> Any:
    """Return a JSON value as the journal can hold it: null for a number that JSON cannot hold, and so on."""
    return _plain(value, [], "", MOST_LEVELS)


def encodable(text: str) -> str:
    """Return JSON in which no text has half of a surrogate pair, for code that cannot read one; other text as it is."""
    try:
        text.encode()
        json.dumps(json.loads(text), ensure_ascii=False).encode()
        return text
    except UnicodeEncodeError:
        pass
    except (ValueError, RecursionError):
        return text
    try:
        return json.dumps(journal_value(json.loads(printable_text(text))))
    except (ValueError, RecursionError):
        return printable_text(text)


def _read(text: str, problems: list[str]) -> Any:
    """Return the value of a JSON text; None if it is none."""

    def pairs(each: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(each)
        if len(found) < len(each):
            names = [name for name, _ in each]
            problems.append(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
        return found

    try:
        value = json.loads(text or "{}", object_pairs_hook=pairs)
    except RecursionError:
        problems.append("they are nested too deeply")
        return None
    except ValueError as error:
        problems.append(f"they are no JSON object: {error}")
        return None
    if not isinstance(value, dict):
        problems.append(f"they are a JSON {type(value).__name__}, and no object")
    return value


def _plain(value: Any, problems: list[str], at: str, levels: int) -> Any:
    """Return a value as the journal can hold it, and note where it was another one. `at`: its path."""
    match value:
        case str():
            shown = printable_text(value)
            if shown != value:
                problems.append(f"{at or 'the text'} has half of a surrogate pair")
            return shown
        case float() if not math.isfinite(value):
            problems.append(f"{at} is {value}, which JSON cannot hold")
            return None
        case Mapping() | list() | tuple() if not levels:
            problems.append(f"{at} is nested more than {MOST_LEVELS} levels deep")
            return None
        case Mapping():
            return {
                (_plain(name, problems, "a name", levels) if isinstance(name, str) else name): _plain(
                    each, problems, f"{at}.{name}" if at else str(name), levels - 1
                )
                for name, each in value.items()
            }
        case list() | tuple():
            return [_plain(each, problems, f"{at}[{place}]", levels - 1) for place, each in enumerate(value)]
        case _:
            return value


def _lenient(schema: Any) -> Any:
    """Return a schema in which a name may be left out that the framework fills in."""
    if isinstance(schema, list):
        return [_lenient(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {word: said if word in ("enum", "const", "default") else _lenient(said) for word, said in schema.items()}
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and isinstance(schema.get("required"), list):
        found["required"] = [name for name in schema["required"] if not _is_filled_in(properties.get(name))]
    return found


def _is_filled_in(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    either = [each for word in ("anyOf", "oneOf") for each in schema.get(word) or () if isinstance(each, Mapping)]
    return "default" in schema or any("null" in (each.get("type") or ()) for each in [schema, *either])
