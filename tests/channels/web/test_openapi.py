"""What /openapi.json promises is what the API does."""

import json
import re

import pytest
import schemathesis
from daemons import TOKEN, pending_of, until
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from supervisor.channels.web.openapi import openapi
from supervisor.channels.web.table import endpoints
from supervisor.seam.commands import LAWS

STREAMS = {"/api/events", "/api/sessions/{id}/events"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]


def test_every_endpoint_is_described():
    """From the table that makes the routes; nothing is served by halves."""
    names = [endpoint.name for endpoint in endpoints()]
    assert len(names) == len({*names})
    assert all(endpoint.summary for endpoint in endpoints())


def test_every_request_that_changes_something_names_its_command():
    """So its role is that of the command's law. All other requests only look."""
    changes = [endpoint for endpoint in endpoints() if endpoint.method != "GET"]
    assert all(each.command in LAWS for each in changes)
    assert all(each.command is None for each in endpoints() if each not in changes)


def test_every_type_has_one_name_that_a_generator_can_use():
    """Of two types of one name a client could be made for neither, and a decision would fail after it was counted."""
    described = openapi(endpoints())
    names = described["components"]["schemas"]
    assert [name for name in names if not re.fullmatch(r"[A-Z][A-Za-z]*", name)] == []
    used = set(re.findall(r"#/components/schemas/([^\"]+)", json.dumps(described)))
    assert used <= names.keys()


def test_every_schema_is_one_that_generators_know():
    """Each is an object, none has a default of null, and an object of any content says so."""
    described = openapi(endpoints())
    assert schemas_of(described["components"]["schemas"])
    for schema in schemas_of(described):
        assert schema.get("items") is not False
        assert "default" not in schema or schema["default"] is not None
        assert schema.get("type") != "object" or schema.keys() & {"properties", "additionalProperties"}
        assert "type" in schema or "enum" not in schema


def schemas_of(part) -> list[dict]:
    """Return each document below a part of the document."""
    below = list(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
    found = [schema for each in below for schema in schemas_of(each)]
    return [part, *found] if isinstance(part, dict) else found


@pytest.mark.slow
@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=pytest.mark.soak)])
def test_no_request_finds_a_fault_or_an_answer_that_was_not_promised(daemon, examples):
    """Any request, fitting or not, gets an answer as described, and never a 5xx."""
    daemon.start()
    headers = {"authorization": f"Bearer {TOKEN}"}
    with daemon.client() as client:
        body = {"agent": "noting", "input": {"x": "/dev/null"}, "session": "asking"}
        client.post("/api/sessions", json=body).raise_for_status()
        (asked,) = until(lambda: pending_of(client, "asking"))
    known = {"/api/sessions": "asking", "/api/approvals": asked["id"]}
    schema = schemathesis.openapi.from_url(f"{daemon.url}/openapi.json", headers=headers)
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path not in STREAMS:
            there = next((known[start] for start in known if operation.path.startswith(f"{start}/")), None)
            ask_anything(operation, there, headers, examples)


def ask_anything(operation, there: str | None, headers, examples: int) -> None:
    """Send requests that fit and such that do not; `there`: an id that half of them name."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def check(data):
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        if there is not None and data.draw(st.booleans()):
            case.path_parameters["id"] = there
        case.call_and_validate(headers=headers, checks=CHECKS)

    check()
