"""JSON schemas that others wrote: the part of one against which this package can check a value.

A tool of an MCP server or of another agent comes with a schema of whatever draft. Each word of a schema only narrows
what fits, so a word that is left out lets more through, and never refuses what fits.

Rules
- Checked: types, enum, const, properties and required, additionalProperties, propertyNames, items, prefixItems, bounds
  of numbers, texts, lists and objects, anyOf, allOf, and references into the schema itself. Of oneOf at least one must
  fit.
- Not checked: not, if, dependencies, formats, references to elsewhere, patterns of texts and of names (a pattern that
  another program wrote might run for ever), and each word with a value that JSON schema does not give it.
- Descriptions and defaults are kept, for people who fill in a form; they are ignored when a value is checked.
- 1.0 is not an integer, as in the rest of the package.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from supervisor.core.declarations.schemas import TYPES

_REFERENCES: Final = ("#/$defs/", "#/definitions/")


def checkable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a schema that `schemas.misfit` can check, with its descriptions and defaults."""
    tables = (schema.get("definitions"), schema.get("$defs"))
    parts = {name: part for table in tables if isinstance(table, dict) for name, part in table.items()}
    return {**_part(schema, parts), "$defs": {name: _part(part, parts) for name, part in parts.items()}}


def _part(schema: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can be checked of one schema; `parts`: the schemas to which it may refer, by name."""
    if not isinstance(schema, Mapping):
        return {"enum": []} if schema is False else {}  # false fits nothing, true everything
    found = {word: said for word, said in schema.items() if word in _VALID and _VALID[word](said)}
    for word in found.keys() & {"items", "additionalProperties", "propertyNames"}:
        found[word] = False if found[word] is False else _part(found[word], parts)
    for word in found.keys() & {"anyOf", "oneOf", "allOf", "prefixItems"}:
        found[word] = [_part(each, parts) for each in found[word]]
    if "properties" in found:
        found["properties"] = {name: _part(each, parts) for name, each in found["properties"].items()}
    if "oneOf" in found:
        found["allOf"] = [*found.get("allOf", ()), {"anyOf": found.pop("oneOf")}]
    if found.get("$ref", "").rpartition("/")[2] not in parts:
        found.pop("$ref", None)
    if "patternProperties" in schema or ("properties" in schema and "properties" not in found):
        found.pop("additionalProperties", None)  # which names are additional is not known
    if "prefixItems" in schema and "prefixItems" not in found:
        found.pop("items", None)
    return found


def _is_schema(said: Any) -> bool:
    return isinstance(said, Mapping | bool)


def _is_schemas(said: Any) -> bool:
    return isinstance(said, list) and bool(said) and all(map(_is_schema, said))


def _is_number(said: Any) -> bool:
    return isinstance(said, int | float) and not isinstance(said, bool)


def _is_count(said: Any) -> bool:
    return isinstance(said, int) and not isinstance(said, bool) and said >= 0


def _is_type(said: Any) -> bool:
    names = said if isinstance(said, list) else [said]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


_VALID: Final[Mapping[str, Callable[[Any], bool]]] = {
    "description": lambda said: isinstance(said, str),
    "default": lambda said: True,
    "type": _is_type,
    "enum": lambda said: isinstance(said, list),
    "const": lambda said: True,
    "anyOf": _is_schemas,
    "oneOf": _is_schemas,
    "allOf": _is_schemas,
    "$ref": lambda said: isinstance(said, str) and said.startswith(_REFERENCES) and said.count("/") == 2,
    "properties": lambda said: isinstance(said, Mapping) and all(map(_is_schema, said.values())),
    "required": lambda said: isinstance(said, list) and all(isinstance(name, str) for name in said),
    "additionalProperties": _is_schema,
    "propertyNames": _is_schema,
    "prefixItems": _is_schemas,
    "items": _is_schema,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
}
"""The words that are kept, and for each whether a value is one that the check understands."""
