"""Fields: a JSON schema as a form that a person can fill in. Pure.

A field is a text, a number, a switch, a choice, a date, a list of fields, or an object of named fields.
`describe_schema` makes the tree of fields of a schema; `core/approvals/forms.py` writes a value into the fields and
reads it back. Each surface draws the tree in its own way.

Rules
- A part of a schema that is no such field takes JSON: other unions, recursion, free names, tuples, anything untyped.
- A field that could not carry its present value exactly takes JSON, too: a text with characters that a person would not
  see, an object with a name that the schema does not have. So a value that is written into a form and read back is the
  same value.
- Labels are the names of the properties, since cards and rules name arguments so. Titles and descriptions are texts of
  the schema's author, and prove nothing.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from supervisor.core.declarations.foreign_schema import checkable
from supervisor.core.declarations.schemas import TYPES, schema_misfit
from supervisor.core.text.visible import is_visible, kind_of

Kind = Literal["text", "number", "switch", "choice", "date", "list", "object", "json"]
Blank = Literal["absent", "null", "empty"]
"""What a field without content means: the name is left out of the object, null, or an empty text or list."""
DEEPEST_LEVELS: Final = 8
"""Levels of fields; what is below takes JSON."""
MOST_FIELDS: Final = 400
"""Fields of one description; an object with more of them takes JSON. References multiply the fields of a schema."""
MOST_LOOKS: Final = 10_000
"""Definitions that are looked at for the fields of one description that take JSON: each may refer to all of them."""
MOST_OPTIONS: Final = 500
MOST_ITEMS: Final = 200
"""Of one list; a longer one takes JSON."""
MOST_IN_ALL: Final = 500
"""Items of all lists of a form; a form that would begin with more takes JSON."""
_ABOUT: Final = frozenset({"title", "description", "default", "examples", "deprecated"})
"""Words that say nothing about which values fit."""
_TABLES: Final = ("$defs", "definitions")
"""Where a schema keeps the parts to which it refers."""
_LOOKED_INTO: Final[Mapping[str, Collection[str]]] = {
    "object": ("properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties"),
    "list": ("items",),
    **dict.fromkeys(("text", "number", "switch", "choice", "date"), ()),
}
"""Words that a field leaves to the fields in it, and to the check of the whole."""
_NOTHING: Final[Mapping[str, Any]] = {"text": "", "list": []}
_SCALARS: Final[Mapping[str, Kind]] = {"string": "text", "integer": "number", "number": "number", "boolean": "switch"}

Narrow = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field and those in it. `schema`: what its value is checked against."""

    kind: Kind
    schema: Mapping[str, Any]
    label: str = ""
    description: str = ""
    default: Any = UNSET
    blanks: tuple[Blank, ...] = ()
    """What it may mean that the field has no content. Without any, the field must be filled in."""
    options: tuple[Any, ...] = ()
    """The values of a choice."""
    parts: tuple["Field", ...] = ()
    """The fields of an object; each label is a name."""
    items: "Field | None" = None
    """The field of each item of a list."""
    is_whole: bool = False
    """Whether a number must be a whole one."""

    @property
    def blank(self) -> Blank | None:
        """What no content means if the person says nothing else; None: the field must be filled in."""
        first = self.blanks[0] if self.blanks else None
        return None if first == "empty" and self.kind == "text" else first

    @property
    def is_held(self) -> bool:
        """Whether the field can be there or not, as a whole: a list has items, an object may be left out."""
        return self.kind == "list" or (self.kind == "object" and bool(self.blanks))


def describe_schema(schema: Mapping[str, Any], value: Any = UNSET, *, narrow: Narrow = checkable) -> Field:
    """Return the fields of a schema. `value`: what they are to carry at first. `narrow`: returns the part of a schema
    against which a value can be checked; by default that of a schema that others wrote."""
    found = _Describer(schema, narrow).field(schema, "", is_required=True, depth=0, seen=frozenset())
    found = carrying(msgspec.structs.replace(found, schema=narrow(schema)), value)
    return as_json(found) if _items_of(found, value) > MOST_IN_ALL else found


def describe_arguments(
    arguments: Mapping[str, Any], schema: Mapping[str, Any] | None = None, secret: Collection[str] = ()
) -> Field:
    """Return the fields of a call's arguments: all of its names, and no others. Without a schema, each value says which
    kind of field it has. A mask in place of a secret may stay."""
    known = (schema or {}).get("properties")
    known = known if isinstance(known, Mapping) else {}
    named = {name: known[name] if name in known else schema_like(value) for name, value in arguments.items()}
    for name in secret:
        if named.get(name) != {"type": "string"}:
            named |= {name: {}} if name in named else {}
    about = {word: said for word, said in (schema or {}).items() if word in _TABLES}
    return describe_schema({**about, "type": "object", "properties": named, "required": list(named)}, arguments)


def schema_like(value: Any) -> dict[str, Any]:
    """Return a schema for values of the same kind as this one; an empty schema for one that may be of any kind."""
    match value:
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case [first, *others]:
            item = schema_like(first)
            is_like = bool(item) and all(schema_like(each) == item for each in others)
            return {"type": "array", "items": item} if is_like else {}
        case {}:
            named = {name: schema_like(each) for name, each in value.items()}
            return {"type": "object", "properties": named, "required": list(named)} if named else {}
        case _:
            return {}


def carrying(field: Field, value: Any) -> Field:
    """Return the field, or one that takes JSON instead if it could not carry this value exactly."""
    if value is UNSET or (value is None and "null" in field.blanks):
        return field
    match field.kind:
        case "object" if isinstance(value, dict) and value.keys() <= {part.label for part in field.parts}:
            parts = tuple(carrying(part, value.get(part.label, UNSET)) for part in field.parts)
            is_missing = any(part.label not in value and "absent" not in part.blanks for part in parts)
            return as_json(field) if is_missing else msgspec.structs.replace(field, parts=parts)
        case "list" if isinstance(value, list) and field.items is not None and len(value) <= MOST_ITEMS:
            items = field.items
            for each in value:
                items = carrying(items, each)
            return msgspec.structs.replace(field, items=items)
        case kind:
            return field if kind == "json" or _carries(field, value) else as_json(field)


def _items_of(field: Field, value: Any = UNSET) -> int:
    """Return at most how many items of lists, and objects that may be left out, a form shows at first."""
    if value is UNSET and field.default is not UNSET:
        return max(_items_of(field, field.default), _items_of(msgspec.structs.replace(field, default=UNSET)))
    if field.kind == "list" and field.items is not None:
        if isinstance(value, list):
            return len(value) + sum(_items_of(field.items, each) for each in value)
        first = 0 if field.blanks else min(MOST_ITEMS, field.schema.get("minItems", 1))
        return first * (1 + _items_of(field.items))
    if field.kind == "object":
        held = value if isinstance(value, dict) else {}
        return field.is_held + sum(_items_of(part, held.get(part.label, UNSET)) for part in field.parts)
    return 0


def as_json(field: Field) -> Field:
    """Return a field for the same values that takes JSON."""
    blanks = tuple(blank for blank in field.blanks if blank == "absent")
    schema = field.schema
    if "null" in field.blanks:  # it is written as JSON now
        schema = {"anyOf": [schema, {"type": "null"}], "$defs": schema.get("$defs", {})}
    return msgspec.structs.replace(field, kind="json", schema=schema, blanks=blanks, parts=(), items=None, options=())


def _carries(field: Field, value: Any) -> bool:
    match field.kind:
        case "text" | "date":
            is_shown = isinstance(value, str) and is_visible(value, kind_of(value))
            return is_shown and (
                "empty" in field.blanks if value == "" else value == value.strip() or field.kind == "text"
            )
        case "number":
            return TYPES["integer" if field.is_whole else "number"](value)
        case "switch":
            return isinstance(value, bool)
        case "choice":
            return any(same_json(value, option) for option in field.options)
        case _:
            return False


def same_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; True is not 1."""
    return msgspec.json.encode(one, order="deterministic") == msgspec.json.encode(other, order="deterministic")


class _Unsaid(Exception):
    """This part of a schema is no field."""


class _Describer:
    def __init__(self, schema: Mapping[str, Any], narrow: Narrow) -> None:
        self._tables = {name: table for name in _TABLES if isinstance(table := schema.get(name), Mapping)}
        self._narrow = narrow
        self._left = MOST_FIELDS
        self._looks = MOST_LOOKS

    def field(self, schema: Any, label: str, *, is_required: bool, depth: int, seen: frozenset[str]) -> Field:
        """Return the field of one schema. `seen`: the references that lead to it, of which none may come again."""
        said = schema if isinstance(schema, Mapping) else {}
        about: dict[str, Any] = {"label": label, "description": _text(said, "description")}
        about["default"] = said.get("default", UNSET)
        absent: tuple[Blank, ...] = () if is_required else ("absent",)
        try:
            self._left -= 1
            if depth > DEEPEST_LEVELS or self._left < 0:
                raise _Unsaid
            said, is_nullable, seen = self._resolved(said, seen)
            found = self._of(said, depth, seen)
        except _Unsaid:
            return Field(kind="json", schema=self._checked(schema), blanks=absent, **about)
        about["description"] = about["description"] or _text(said, "description")
        checked = self._narrow({word: each for word, each in said.items() if word not in _LOOKED_INTO[found["kind"]]})
        blanks: list[Blank] = [*absent]
        if is_nullable:
            blanks.append("null")
        if found["kind"] in _NOTHING and schema_misfit(_NOTHING[found["kind"]], checked) is None:
            blanks.append("empty")
        return Field(schema=checked, blanks=tuple(blanks), **about, **found)

    def _checked(self, schema: Any) -> Mapping[str, Any]:
        """Return what the JSON of one part is checked against: anything, if looking at all that it may refer to would
        take too long. The whole is checked in any case."""
        if not isinstance(schema, Mapping):
            return {}
        if not _refers(schema):
            return self._narrow(schema)
        self._looks -= sum(map(len, self._tables.values()))
        return {} if self._looks < 0 else self._narrow({**schema, **self._tables})

    def _resolved(
        self, said: Mapping[str, Any], seen: frozenset[str]
    ) -> tuple[Mapping[str, Any], bool, frozenset[str]]:
        """Return a schema without references and without a union with null, whether null fits, and the references."""
        is_nullable = False
        while True:
            rest = {word: each for word, each in said.items() if word not in ("$ref", "anyOf", "oneOf", "allOf")}
            if "$ref" in said:
                name = str(said["$ref"])
                table, _, part = name.removeprefix("#/").partition("/")
                if name in seen or table not in self._tables:
                    raise _Unsaid
                said, seen = _merged(self._tables[table].get(part), rest), seen | {name}
            elif unions := [word for word in ("anyOf", "oneOf", "allOf") if word in said]:
                if len(unions) > 1 or not isinstance(said[unions[0]], list):
                    raise _Unsaid
                several = [part for part in said[unions[0]] if not _is_null(part) or unions[0] == "allOf"]
                is_nullable = is_nullable or len(several) < len(said[unions[0]])
                said = _merged(_one_of(several, unions[0]), rest)
            else:
                return said, is_nullable or _is_nullable(said), seen

    def _of(self, said: Mapping[str, Any], depth: int, seen: frozenset[str]) -> dict[str, Any]:
        """Return what the field of a resolved schema is."""
        if "enum" in said or "const" in said:
            options = said.get("enum", [said.get("const")])
            if not isinstance(options, list) or not 0 < len(options) <= MOST_OPTIONS:
                raise _Unsaid
            return {"kind": "choice", "options": tuple(each for each in options if each is not None) or (None,)}
        named = said.get("type", "object" if "properties" in said else None)
        named = [name for name in named if name != "null"] if isinstance(named, list) else [named]
        if len(named) != 1:
            raise _Unsaid
        match named[0]:
            case "string" if said.get("format") == "date":
                return {"kind": "date"}
            case "string" | "integer" | "number" | "boolean" as name:
                return {"kind": _SCALARS[name], "is_whole": name == "integer"}
            case "array" if isinstance(said.get("items"), Mapping) and not said.get("prefixItems"):
                items = self.field(said["items"], "", is_required=True, depth=depth + 1, seen=seen)
                least = self._narrow({"minItems": said.get("minItems", 1)})
                if _items_of(Field(kind="list", schema=least, items=items)) > MOST_IN_ALL:
                    raise _Unsaid
                return {"kind": "list", "items": items}
            case "object":
                return {"kind": "object", "parts": self._parts_of(said, depth, seen)}
            case _:
                raise _Unsaid

    def _parts_of(self, said: Mapping[str, Any], depth: int, seen: frozenset[str]) -> tuple[Field, ...]:
        properties, required = said.get("properties"), said.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            raise _Unsaid
        has_free_names = isinstance(said.get("additionalProperties"), Mapping) or "patternProperties" in said
        if has_free_names or not properties or not {*map(str, required)} <= properties.keys():
            raise _Unsaid
        if len(properties) > self._left:  # also because each field that takes JSON costs a look at all references
            raise _Unsaid
        return tuple(
            self.field(part, name, is_required=name in required, depth=depth + 1, seen=seen)
            for name, part in properties.items()
        )


def _refers(part: Any) -> bool:
    """Whether a part of a schema has a reference in it."""
    if isinstance(part, Mapping):
        return "$ref" in part or any(map(_refers, part.values()))
    return isinstance(part, list) and any(map(_refers, part))


def _one_of(several: list[Any], word: str) -> Mapping[str, Any]:
    """Return the one schema that a union leaves, or the choice that it is."""
    if len(several) == 1 and isinstance(several[0], Mapping):
        return several[0]
    options: list[Any] = []
    for part in several:
        if word == "allOf" or not isinstance(part, Mapping) or not part.keys() & {"enum", "const"}:
            raise _Unsaid
        enum = part.get("enum", [part.get("const")])
        options += enum if isinstance(enum, list) else []
    return {"enum": options}


def _merged(schema: Any, rest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with the words that stood next to it; raises _Unsaid where both say which values fit."""
    if not isinstance(schema, Mapping):
        raise _Unsaid
    if any(word in schema and word not in _ABOUT and schema[word] != said for word, said in rest.items()):
        raise _Unsaid
    return {**schema, **rest}


def _is_null(part: Any) -> bool:
    return isinstance(part, Mapping) and (part.get("type") == "null" or part.get("enum") == [None])


def _is_nullable(said: Mapping[str, Any]) -> bool:
    if isinstance(said.get("enum"), list):
        return None in said["enum"] and len(said["enum"]) > 1
    return isinstance(said.get("type"), list) and "null" in said["type"] and said["type"] != ["null"]


def _text(schema: Mapping[str, Any], word: str) -> str:
    return found if isinstance(found := schema.get(word), str) else ""
