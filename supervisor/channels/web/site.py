"""Composes the server's routes: the table of the API, the pages, and the routes of channels, inside the border.

The order of a request: border (host, size) -> router -> who, role, CSRF -> query and body as types -> handler.
"""

from collections.abc import Iterable

from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp

from supervisor.channels.web import health, login, pages
from supervisor.channels.web.border import Border
from supervisor.channels.web.endpoints import Endpoint, Resource
from supervisor.channels.web.state import Site
from supervisor.channels.web.table import endpoints


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
