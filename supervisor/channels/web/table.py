"""The whole table of the HTTP API, from the tables of its parts, and the document that describes it."""

from functools import cache
from typing import Any, Final

from starlette.responses import Response

from supervisor.channels.web import api, events, health, metrics, rules_api, runs_api, schedules_api, store_api
from supervisor.channels.web.endpoints import Call, Endpoint, json_document
from supervisor.channels.web.openapi import openapi


async def show_openapi(call: Call) -> Response:
    return json_document(described())


DOCUMENT: Final = Endpoint(
    method="GET",
    path="/openapi.json",
    name="openapi",
    summary="This document",
    handle=show_openapi,
    answers={200: dict[str, Any]},
)


def endpoints() -> list[Endpoint]:
    modules = (store_api, api, runs_api, rules_api, schedules_api, events, health, metrics)
    return [*(endpoint for module in modules for endpoint in module.ENDPOINTS), DOCUMENT]


@cache
def described() -> dict[str, Any]:
    """Return the OpenAPI document of the table."""
    return openapi(endpoints())
