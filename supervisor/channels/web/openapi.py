"""The OpenAPI 3.1 document of the API, derived from the table of endpoints and its types.

Generators make clients of it without a warning (tests/channels/web/test_generated_clients.py), so it keeps to what
they know:

- A schema is an object: `items: false` after the items of a tuple is left out, since `maxItems` says the same.
- An object of any content says so with `additionalProperties`: some generators take one without it for an empty object.
- A field that may be left out has no default of null: some generators take a field with a default for a required one.
"""

import inspect
from collections.abc import Iterable
from importlib import metadata
from typing import Any, Final

import msgspec

from supervisor.channels.web.endpoints import Endpoint, Nothing
from supervisor.channels.web.problems import MEDIA_TYPE
from supervisor.channels.web.schemas import ProblemDocument

_NEEDS: Final = {
    "none": "No token is needed.",
    "scraper": "For every authenticated person, and for scrapers, which may read nothing else.",
    "person": "For every authenticated person.",
    "operator": "For operators.",
}
_INFO: Final = """
Sessions of supervised agents, and their approvals and questions. Errors are RFC 9457 problem details. A page is
`{"items", "next", "cursor"}`: send `next` as `after` to get the next page. Event streams (`text/event-stream`) continue
after `Last-Event-ID`.
"""
_TAGS: Final = {
    "sessions": "Start sessions, read them, write to them, cancel them, run them again.",
    "approvals": "Read approvals and questions, listen for them, and decide them.",
    "rules": "Standing decisions.",
    "schedules": "What begins by the clock.",
    "store": "What is in the whole store: agents, jobs, owners, counts, audit trail, activity.",
    "server": "The server itself: probes, metrics, this document.",
}
"""The groups of operations, in the order in which they are shown."""


def openapi(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the document."""
    table = list(endpoints)
    types = [ProblemDocument]
    for endpoint in table:
        types += [kind for kind in (endpoint.body, endpoint.query, *endpoint.answers.values()) if kind is not None]
    shown, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schemas = dict(zip(types, shown, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        operation = _operation(endpoint, schemas, components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    used = {kind.__name__ for endpoint in table if (kind := endpoint.query) is not None}
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "supervisor",
            "version": metadata.version("subagent-supervisor"),
            "description": " ".join(_INFO.split()),
        },
        "tags": [{"name": name, "description": about} for name, about in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in used},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }
    return {key: _plain(value) for key, value in document.items()}


def _plain(schema: Any) -> Any:
    """Return a part of the document with schemas that every generator knows."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _plain(value) for key, value in schema.items()}
    if kept.get("items") is False:
        del kept["items"]
    if kept.get("type") == "object" and not kept.keys() & {"properties", "additionalProperties"}:
        kept["additionalProperties"] = True
    if "anyOf" in kept and "default" in kept and kept["default"] is None:
        del kept["default"]
    if "type" not in kept and all(isinstance(value, str) for value in kept.get("enum", [None])):
        kept["type"] = "string"
    if isinstance(kept.get("description"), str):
        kept["description"] = inspect.cleandoc(kept["description"])
    return kept


def _operation(endpoint: Endpoint, schemas: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    answers = {
        str(status): {"description": _describe(status), **_content(endpoint, kind, schemas)}
        for status, kind in endpoint.answers.items()
    }
    problem = {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": schemas[ProblemDocument]}}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [_tag(endpoint.path)],
        "summary": endpoint.summary,
        "description": _about(endpoint),
        "parameters": _parameters(endpoint, components),
        "responses": {**answers, "default": problem},
    }
    if endpoint.need == "none":
        operation["security"] = []
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": not endpoint.may_omit_body,
            "content": {"application/json": {"schema": schemas[endpoint.body]}},
        }
    return operation


def _tag(path: str) -> str:
    """Return the group of a path."""
    top, _, rest = path.removeprefix("/").partition("/")
    if top != "api":
        return "server"
    part = rest.partition("/")[0]
    if part == "events":
        return "approvals"
    return part if part in _TAGS else "store"


def _about(endpoint: Endpoint) -> str:
    about = (endpoint.query.__doc__ if endpoint.query is not Nothing else None) or ""
    need = "operator" if endpoint.is_for_operators else endpoint.need
    return f"{_NEEDS[need]}\n\n{inspect.cleandoc(about)}".strip()


def _content(endpoint: Endpoint, kind: Any, schemas: dict[Any, Any]) -> dict[str, Any]:
    if kind is None:
        return {}
    schema = schemas[kind] if endpoint.media_type == "application/json" else {"type": "string"}
    return {"content": {endpoint.media_type: {"schema": schema}}}


def _parameters(endpoint: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    named = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    found = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named]
    for name, schema in components[endpoint.query.__name__]["properties"].items():
        found.append({"name": name, "in": "query", "required": False, "schema": _without_null(schema)})
    return found


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional parameter without null, which a query does not have."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    kept = {key: value for key, value in schema.items() if key not in ("anyOf", "default") or value is not None}
    if "anyOf" in schema and len(kinds) == 1:
        del kept["anyOf"]
        return {**kept, **kinds[0]}
    if "enum" in kept:
        kept["enum"] = [value for value in kept["enum"] if value is not None]
    return kept


def _describe(status: int) -> str:
    return {
        200: "Done, or it was so already.",
        201: "Created.",
        202: "Recorded on disk; the work that follows is still running.",
        204: "Done.",
        503: "Not available now.",
    }[status]
