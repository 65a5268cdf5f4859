"""The page of the HTTP API: what /openapi.json says, for people to read. It needs no script and no file of others.

The models are pure functions of the document. A text of the document marks code with backticks; a type is written as
programmers write it, and the names in it lead to what the page says of them.
"""

from functools import cache
from typing import Any, Final

import msgspec
from starlette.responses import Response

from supervisor.channels.web import table
from supervisor.channels.web.pages.visits import Visit

_REFERENCE: Final = "#/components/schemas/"


class Part(msgspec.Struct, frozen=True):
    """A part of a line. `schema`: the name of the type that it leads to; `is_code`: whether it is code."""

    text: str
    schema: str | None = None
    is_code: bool = False


Line = tuple[Part, ...]


class FieldView(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a type, or a parameter of an operation. `told`: whether a request needs it, and its default."""

    name: str
    type: Line
    told: str


class AnswerView(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    about: str
    media_type: str
    type: Line


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    method: str
    path: str
    summary: Line
    about: tuple[Line, ...]
    parameters: tuple[FieldView, ...]
    body: Line
    may_omit_body: bool
    answers: tuple[AnswerView, ...]


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    about: str
    operations: tuple[OperationView, ...]


class TypeView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    about: tuple[Line, ...]
    fields: tuple[FieldView, ...]


class ReferenceView(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    about: Line
    groups: tuple[GroupView, ...]
    types: tuple[TypeView, ...]


async def show_reference(visit: Visit) -> Response:
    return await visit.page("docs.html", "docs", {"reference": _of_the_api()})


@cache
def _of_the_api() -> ReferenceView:
    return reference(table.described())


def reference(document: dict[str, Any]) -> ReferenceView:
    """Return what the page says of an OpenAPI document."""
    operations = [
        (operation["tags"][0], _operation(method, path, operation))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return ReferenceView(
        version=document["info"]["version"],
        about=_prose(document["info"]["description"]),
        groups=tuple(
            GroupView(
                name=tag["name"],
                about=tag["description"],
                operations=tuple(each for name, each in operations if name == tag["name"]),
            )
            for tag in document["tags"]
        ),
        types=tuple(
            TypeView(
                name=name,
                about=_paragraphs(schema.get("description", "")),
                fields=tuple(_field(name, each, schema) for name, each in schema["properties"].items()),
            )
            for name, schema in sorted(document["components"]["schemas"].items())
        ),
    )


def _field(name: str, field: dict[str, Any], schema: dict[str, Any]) -> FieldView:
    is_required = name in schema.get("required", ())
    if schema.get("additionalProperties", True):  # a type of answers
        return FieldView(name=name, type=type_of(field), told="" if is_required else "may be left out")
    return FieldView(name=name, type=type_of(field), told=_told(field, is_required))


def _operation(method: str, path: str, operation: dict[str, Any]) -> OperationView:
    body = operation.get("requestBody")
    return OperationView(
        name=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=_prose(operation["summary"]),
        about=_paragraphs(operation["description"]),
        parameters=tuple(
            FieldView(name=each["name"], type=type_of(each["schema"]), told=_told(each["schema"], each["required"]))
            for each in operation["parameters"]
        ),
        body=type_of(body["content"]["application/json"]["schema"]) if body else (),
        may_omit_body=body is not None and not body["required"],
        answers=tuple(
            AnswerView(status=status, about=answer["description"], media_type=media_type, type=type_of(each["schema"]))
            for status, answer in operation["responses"].items()
            for media_type, each in answer["content"].items()
        ),
    )


def type_of(schema: dict[str, Any]) -> Line:
    """Return a type as programmers write it: `Approval[] | null`."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return (Part(name, schema=name),)
    if "anyOf" in schema:
        return _joined([type_of(each) for each in schema["anyOf"]], " | ")
    if "enum" in schema:
        return _joined([_text(msgspec.json.encode(each).decode()) for each in schema["enum"]], " | ")
    kind = schema.get("type", "anything")
    if "prefixItems" in schema:
        return (Part("["), *_joined([type_of(each) for each in schema["prefixItems"]], ", "), Part("]"))
    if kind == "array":
        inside = type_of(schema["items"])
        return (*inside, Part("[]")) if len(inside) == 1 else (Part("("), *inside, Part(")[]"))
    return _text(" ".join([kind, *_limits(schema)]))


def _limits(schema: dict[str, Any]) -> list[str]:
    """Return what else a value must be."""
    found = []
    if "format" in schema:
        found.append(f"({schema['format']})")
    if "pattern" in schema:
        found.append(f"/{schema['pattern']}/")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None:
        found.append(f"≥ {low}")
    if high is not None and high < 2**53:  # that is what JavaScript can count to
        found.append(f"≤ {high}")
    if "minLength" in schema:
        found.append(f"of {schema['minLength']} or more characters")
    if "maxLength" in schema:
        found.append(f"of at most {schema['maxLength']} characters")
    return found


def _told(schema: dict[str, Any], is_required: bool) -> str:
    if is_required:
        return "required"
    return f"default {msgspec.json.encode(schema['default']).decode()}" if "default" in schema else "optional"


def _text(text: str) -> Line:
    return (Part(text),)


def _joined(lines: list[Line], between: str) -> Line:
    parts = list[Part]()
    for line in lines:
        parts += ([Part(between)] if parts else []) + [*line]
    return tuple(parts)


def _prose(text: str) -> Line:
    """Return a text; what stands between backticks is code."""
    parts = text.replace("\n", " ").split("`")
    return tuple(Part(part, is_code=number % 2 == 1) for number, part in enumerate(parts) if part)


def _paragraphs(text: str) -> tuple[Line, ...]:
    return tuple(_prose(paragraph) for paragraph in text.split("\n\n") if paragraph.strip())
