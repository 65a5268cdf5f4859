"""The login: a person shows a token once and gets a cookie.

    GET  /login            shows the form
    GET  /login?token=...  the link that `supervisor serve` prints: logs in and redirects, so that the token leaves the
                           address bar. If another site's page may have sent the browser here, the server shows the
                           filled-in form instead. Otherwise that page could log a person in, or make a wrong token
                           count as a guess
    POST /login            receives the form: token=...
    POST /logout           ends the login, and every copy of its cookie. It needs no CSRF token: it takes
                           rights away, and a person whose browser has lost the token must be able to sign out

The redirect after a login has the CSRF token of the login in its fragment, which no request carries (auth.py). Our
script takes it from there. `next` is the path to which the browser is sent after the login. It is always a path on this
server.
"""

import secrets
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from supervisor.channels.web.border import MAX_BODY_BYTES
from supervisor.channels.web.bounds import read_body
from supervisor.channels.web.problems import Problem
from supervisor.channels.web.rendering import HEADERS, render
from supervisor.channels.web.state import Site

NO_OTHER_SITE: Final = ("none", "same-origin")
"""Values of Sec-Fetch-Site for a request that no page made, or a page of ours. Old browsers do not send this header."""
CSRF_FRAGMENT: Final = "csrf="
"""What stands before the CSRF token in a fragment; static/inbox.js knows it, too."""
FIELDS: Final = 20
"""The most fields of one form. Our pages send few, and every other client waits while a form is parsed."""
LARGEST_BYTES: Final = 16 * 1024
"""The most bytes of the login form, which any client may send."""


def routes(site: Site) -> list[BaseRoute]:
    async def visit(request: Request) -> Response:
        if request.method == "POST":
            form = await read_form(request, LARGEST_BYTES)
        else:
            form = dict(request.query_params)
        token, then = form.get("token"), form.get("next")
        if token is None or (request.method != "POST" and request.headers.get("sec-fetch-site") not in NO_OTHER_SITE):
            return _form(then, token=token or "")
        try:
            if "origin" in request.headers:
                site.guard.check_origin(request)
            return _enter(site, request, token, then)
        except Problem as problem:
            return _form(then, problem)

    async def log_out(request: Request) -> Response:
        identity = site.guard.identify(request)
        if identity is not None:
            site.guard.check_origin(request)
        response = RedirectResponse("/login", 303)
        await site.guard.log_out(response, identity)
        return response

    return [
        Route("/login", visit, methods=["GET", "POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


def _form(then: str | None, problem: Problem | None = None, *, token: str = "") -> Response:
    said = problem.detail if problem is not None else ""
    body = render("login.html", datetime.now(UTC), viewer=None, problem=said, next=_local(then), token=token)
    headers = {**(problem.headers if problem is not None else {}), **HEADERS}
    return HTMLResponse(body, problem.status if problem is not None else 200, headers)


class UnknownPath:
    """The ASGI app for unknown paths: an authenticated person gets 404, any other client 401."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        self._site.guard.demand(request)
        raise Problem(404, f"there is nothing at {request.url.path}; /openapi.json says what there is")


class KnownMethods:
    """The ASGI app around all routes: for a wrong method it names the right ones, but only to authenticated people."""

    def __init__(self, site: Site, app: ASGIApp) -> None:
        self._site = site
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except HTTPException as error:
            if error.status_code != 405:
                raise
            self._site.guard.demand(Request(scope))
            known = ", ".join(sorted((error.headers or {})["Allow"].split(", ")))
            raise Problem(405, f"here one can {known}, not {scope['method']}", headers={"allow": known}) from None


def ask_to_log_in(request: Request) -> Response:
    """Redirect a browser to the form, which sends it back to this path after the login."""
    return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)


async def read_form(request: Request, most: int = MAX_BODY_BYTES, fields: int = FIELDS) -> dict[str, str]:
    """Return the fields of a form (application/x-www-form-urlencoded). `most`: bytes; `fields`: how many there may be.
    Raises Problem: 413, 422."""
    body = await read_body(request, most)
    try:
        found = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=fields)
    except ValueError:
        raise Problem(422, f"a form may have {fields} fields at most") from None
    return {name: values[-1] for name, values in found.items()}


def _enter(site: Site, request: Request, token: str, then: str | None) -> Response:
    person, known = site.guard.check_token(request, token)
    site.guard.refuse_scraper(person)
    response = RedirectResponse(_local(then), 303)
    csrf = site.guard.log_in(response, person, known, secrets.token_urlsafe(12), is_secure=site.is_secure)
    response.headers["location"] += f"#{CSRF_FRAGMENT}{csrf}"
    return response


def _local(path: str | None) -> str:
    """Return the path if it is one on this server, else that of the inbox."""
    path = (path or "").partition("#")[0]
    if not path.startswith("/") or path.startswith(("//", "/\\")) or not path.isprintable():
        return "/"
    return path
