"""What is served: the API's table, pages, channels' own routes, behind the border.

The order of a request: border (host, size) -> router -> who, role, CSRF -> query and body as types -> handler.
"""

from collections.abc import Iterable
from typing import Any, Final

import anyio
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp

from supervisor.abc import Supervisor
from supervisor.channels.web import api, events, health, login, metrics, pages, rules_api, runs_api, store_api
from supervisor.channels.web.auth import Guard
from supervisor.channels.web.border import Border
from supervisor.channels.web.bounds import Bound
from supervisor.channels.web.endpoints import Call, Endpoint, Resource, document
from supervisor.channels.web.looks import Looks
from supervisor.channels.web.openapi import openapi
from supervisor.channels.web.problems import Problem
from supervisor.channels.web.shown import Shown

MAX_STREAMS: Final = 500
"""Clients that may listen at once: with everything else, fewer than the 1024 files that a process may commonly open."""
OTHERS: Final = 200
"""Requests that may be under way beside event streams."""


class Site:
    """What the handlers of one server share."""

    def __init__(
        self,
        guard: Guard,
        *,
        is_secure: bool,
        max_streams: int = MAX_STREAMS,
    ) -> None:
        self.guard = guard
        self.is_secure = is_secure
        """Whether browsers reach us by https: then cookies travel by nothing else."""
        self.serving: Supervisor | None = None
        """Whom it talks to, from the moment that the channel is served."""
        self.tally = metrics.Tally()
        self.shown = Shown()
        self.looks = Looks()
        self.streams = Bound("streams", max_streams, "server.max_streams in the configuration")
        self.requests = Bound("requests", max_streams + OTHERS, "server.max_streams in the configuration")
        """All that are under way, event streams too."""
        self.is_stopping = False
        self._stopped = anyio.Event()

    async def until_stopped(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        """End what would go on by itself: event streams."""
        self.is_stopping = True
        self._stopped.set()

    @property
    def supervisor(self) -> Supervisor:
        if self.serving is None:
            raise Problem(503, "the supervisor is starting; try again in a second", headers={"retry-after": "1"})
        return self.serving


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
    """Return the whole ASGI app. `more`: routes of other channels, which know themselves whom they listen to."""
    known = [*routes(site), *login.routes(site), *pages.routes(site), *more]
    router = Router(known, redirect_slashes=False, default=login.Nowhere(site))
    always = [endpoint.path for endpoint in health.ENDPOINTS]
    app = login.Methods(site, router)
    return Border(app, list(hosts), site.tally.answered, site.requests, any_address=any_address, always=always)
