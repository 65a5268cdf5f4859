"""The whole table of the HTTP API, from the tables of its parts, and the document that describes it."""

from functools import cache
from typing import Any, Final

from starlette.responses import Response

from supervisor.channels.web import api, events, health, metrics, rules_api, runs_api, schedules_api, store_api
from supervisor.channels.web.endpoints import Call, Endpoint, Endpoints, json_document
from supervisor.channels.web.openapi import openapi as describe

DOCUMENT: Final = Endpoints()


@DOCUMENT.add("GET /openapi.json", {200: dict[str, Any]})
async def openapi(call: Call) -> Response:
    """This document."""
    return json_document(described())


def endpoints() -> list[Endpoint]:
    modules = (store_api, api, runs_api, rules_api, schedules_api, events, health, metrics)
    return [*(endpoint for module in modules for endpoint in module.ENDPOINTS), *DOCUMENT]


@cache
def described() -> dict[str, Any]:
    """Return the OpenAPI document of the table."""
    return describe(endpoints())
