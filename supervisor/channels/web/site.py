"""Composes the server's routes: the table of the API, the pages, and the routes of channels, inside the border.

The order of a request: border (host, size) -> router -> who, role, CSRF -> query and body as types -> handler.
"""

from collections.abc import Iterable
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp

from supervisor.channels.web import api, events, health, login, metrics, pages, rules_api, runs_api, store_api
from supervisor.channels.web.border import Border
from supervisor.channels.web.endpoints import Call, Endpoint, Resource, document
from supervisor.channels.web.openapi import openapi
from supervisor.channels.web.state import Site


async def show_openapi(call: Call) -> Response:
    return document(openapi(endpoints()))


DOCUMENT: Final = Endpoint(
    method="GET",
    path="/openapi.json",
    name="openapi",
    summary="This document",
    handle=show_openapi,
    answers={200: dict[str, Any]},
)


def endpoints() -> list[Endpoint]:
    modules = (store_api, api, runs_api, rules_api, events, health, metrics)
    return [*(endpoint for module in modules for endpoint in module.ENDPOINTS), DOCUMENT]


def routes(site: Site) -> list[BaseRoute]:
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints():
        by_path.setdefault(endpoint.path, []).append(endpoint)
    return [Route(path, Resource(site, table)) for path, table in by_path.items()]


def make_app(site: Site, hosts: Iterable[str], *, any_address: bool, more: Iterable[BaseRoute] = ()) -> ASGIApp:
    """Return the whole ASGI app. `more`: routes of other channels, which verify their senders themselves."""
    known = [*routes(site), *login.routes(site), *pages.routes(site), *more]
    router = Router(known, redirect_slashes=False, default=login.UnknownPath(site))
    always = [endpoint.path for endpoint in health.ENDPOINTS]
    app = login.KnownMethods(site, router)
    return Border(app, list(hosts), site.tally.answered, site.requests, any_address=any_address, always=always)
