"""Forms of questions that another program's agent asks: what it wants to know, as the type of one answer.

    parts = [Wanted("Which store?", one_of(["SQLite", "Postgres"]))]
    answer = await ctx.ask("The agent asks ...", schema=form_of(parts))
    content_of(answer, parts) == {"Which store?": "Postgres"}

Rules
- The names of a form are the agent's own words, so any text is one. Characters that no name of a type may have are
  shown as others. Two equal names are refused: the agent could not tell which of them an answer is for.
- A part that is not required may be left out, and is no part of the answer then.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from supervisor.core.declarations.schemas import schema_of
from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput
from supervisor.seam.context import Operations

_PLAIN: Final[Mapping[str, Any]] = {"string": str, "number": float, "integer": int, "boolean": bool}
_LIMITS: Final[Mapping[str, str]] = {"minimum": "ge", "maximum": "le"}
_BOUNDS: Final[Mapping[str, Mapping[str, str]]] = {
    "string": {"minLength": "min_length", "maxLength": "max_length"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
    "number": _LIMITS,
    "integer": _LIMITS,
}
"""Words of a JSON schema that bound a value of each type, by msgspec's names of them. A word that does not fit the type
says nothing, as in JSON schemas. Patterns and formats are left to the agent."""
_WHOLE: Final[Mapping[str, Callable[[float], int]]] = {
    "min_length": math.ceil,
    "max_length": math.floor,
    "ge": math.ceil,
    "le": math.floor,
}
"""The whole number that bounds what is whole as a bound that may be none does."""
_AGREED: Final = ("accept", "decline")
"""The choices of a form that asks for no value."""
_SHOWN: Final = str.maketrans({"\\": "/", '"': "'", **{chr(code): " " for code in range(32)}})


class Wanted(NamedTuple):
    """One part of an answer."""

    name: str
    type: Any
    is_required: bool = True


def form_of(parts: Sequence[Wanted]) -> type[msgspec.Struct]:
    """Return the type of an answer with these parts. Raises InvalidInput if no answer could have them all."""
    names = [printable_text(part.name).translate(_SHOWN) for part in parts]
    if not names or len({*names}) < len(names) or not all(name.strip() for name in names):
        raise InvalidInput(f"a form has parts with names that differ, not {names!r}")
    fields: list[Any] = [
        (f"part{number}", part.type) if part.is_required else (f"part{number}", part.type | UnsetType, UNSET)
        for number, part in enumerate(parts)
    ]
    rename = {f"part{number}": name for number, name in enumerate(names)}
    return msgspec.defstruct("Answers", fields, rename=rename, kw_only=True, frozen=True)


def parts_of(form: Mapping[str, Any]) -> list[Wanted]:
    """Return what a form of ACP or MCP asks for. Raises InvalidInput for what no form of ours can ask."""
    properties, required = form.get("properties") or {}, form.get("required") or ()
    if not isinstance(properties, Mapping) or not all(isinstance(each, Mapping) for each in properties.values()):
        raise InvalidInput("the properties of a form are schemas")
    parts = [Wanted(name, type_of(schema), name in required) for name, schema in properties.items()]
    if parts:
        schema_of(form_of(parts))
    return parts


async def ask_form(here: Operations, question: str, form: Mapping[str, Any]) -> dict[str, Any] | None:
    """Ask a person what such a form asks, and return the content of the answer; None: they declined. Raises
    QuestionUnanswered."""
    if parts := parts_of(form):
        return content_of(await here.ask(question, schema=form_of(parts)), parts)
    return {} if await here.ask(question, choices=_AGREED) == _AGREED[0] else None


def content_of(answer: msgspec.Struct, parts: Sequence[Wanted]) -> dict[str, Any]:
    """Return an answer by the agent's names of its parts, as JSON values."""
    found = {part.name: getattr(answer, f"part{number}") for number, part in enumerate(parts)}
    return {name: value for name, value in found.items() if value is not UNSET}


def one_of(labels: Sequence[str]) -> Any:
    """Return the type of a choice. Raises InvalidInput for labels of which two are equal or one is empty."""
    found = [printable_text(label) for label in labels]
    if not found or len({*found}) < len(found) or not all(label.strip() for label in found):
        raise InvalidInput(f"a choice has labels that differ, not {found!r}")
    return Literal[tuple(found)]


def type_of(schema: Mapping[str, Any]) -> Any:
    """Return the type of a value for a primitive JSON schema, as ACP's and MCP's forms have them. Raises InvalidInput
    for any other schema."""
    kind, items = schema.get("type"), schema.get("items")
    if (choices := _choices(schema)) is not None:
        kind, found = None, one_of(choices)
    elif kind == "array" and isinstance(items, Mapping) and (choices := _choices(items)) is not None:
        found = list[one_of(choices)]  # type: ignore[misc] # a type that is made here
    elif isinstance(kind, str) and kind in _PLAIN:
        found = _PLAIN[kind]
    else:
        raise InvalidInput(f"a form cannot ask for {kind!r}")
    said = {word: schema[word] for word in ("title", "description") if isinstance(schema.get(word), str)}
    try:
        said |= _bounds(kind, schema)
        return Annotated[found, msgspec.Meta(**said)] if said else found
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"a form cannot bound {kind!r} so: {error}") from None


def _bounds(kind: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what bounds a value of this type, by msgspec's names. Raises OverflowError or ValueError for a number that
    bounds nothing, such as infinity."""
    found = {ours: schema[word] for word, ours in _BOUNDS.get(kind or "", {}).items() if _is_number(schema.get(word))}
    if kind != "number":
        return {ours: _WHOLE[ours](bound) for ours, bound in found.items()}
    if not all(map(math.isfinite, found.values())):
        raise ValueError("it has no end")
    return found


def _choices(schema: Mapping[str, Any]) -> list[str] | None:
    """Return the values of which a schema takes one; None if it takes others."""
    if isinstance(values := schema.get("enum"), list):
        return [each for each in values if isinstance(each, str)]
    for word in ("oneOf", "anyOf"):
        if isinstance(each := schema.get(word), list) and all(
            isinstance(one, Mapping) and "const" in one for one in each
        ):
            return [str(one["const"]) for one in each]
    return None


def _is_number(said: Any) -> bool:
    return isinstance(said, int | float) and not isinstance(said, bool)
