"""The OpenAPI 3.1 document of the API, derived from the table of endpoints and its types."""

from collections.abc import Iterable
from importlib import metadata
from typing import Any, Final

import msgspec

from supervisor.channels.web.endpoints import Endpoint
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
{"items", "next", "cursor"}: send `next` as `after` to get the next page. Event streams (text/event-stream) continue
after Last-Event-ID.
"""


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
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "supervisor",
            "version": metadata.version("subagent-supervisor"),
            "description": " ".join(_INFO.split()),
        },
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in used},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(endpoint: Endpoint, schemas: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    answers = {
        str(status): {"description": _describe(status), **_content(endpoint, kind, schemas)}
        for status, kind in endpoint.answers.items()
    }
    problem = {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": schemas[ProblemDocument]}}}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "description": _NEEDS[endpoint.need],
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
