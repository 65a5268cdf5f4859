"""Logging in: a token, shown once, becomes a cookie.

    GET  /login            the form
    GET  /login?token=...  the link that `supervisor serve` prints, as notebooks do: logs in, and leaves the address bar
    POST /login            the form, sent: token=...
    POST /logout           forgets the cookie

Where to go afterwards is a path on this server (`next`), never another site's address.
"""

import secrets
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

if TYPE_CHECKING:
    from supervisor.channels.web.site import Site

_FORM = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>supervisor: log in</title><h1>supervisor</h1>
<form method="post" action="/login"><p><label>Token <input name="token" type="password" autocomplete="current-password"
 required autofocus></label><input type="hidden" name="next" value="{next}"><button>Log in</button></form>
<p>It is in the file or variable that the daemon was started with, or in the link that it printed.</html>
"""


def routes(site: "Site") -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        if (token := request.query_params.get("token")) is not None:
            return _enter(site, request, token, request.query_params.get("next"))
        page = _FORM.format(next=escape(_local(request.query_params.get("next"))))
        return HTMLResponse(page, headers={"content-security-policy": "default-src 'none'; form-action 'self'"})

    async def log_in(request: Request) -> Response:
        if "origin" in request.headers:
            site.guard.check_origin(request)
        form = await read_form(request)
        return _enter(site, request, form.get("token", ""), form.get("next"))

    async def visit(request: Request) -> Response:
        return await (log_in if request.method == "POST" else show)(request)

    async def log_out(request: Request) -> Response:
        identity = site.guard.identify(request)
        if identity is not None:
            site.guard.check_csrf(request, identity, (await read_form(request)).get("csrf", ""))
        response = RedirectResponse("/login", 303)
        site.guard.log_out(response)
        return response

    return [
        Route("/login", visit, methods=["GET", "POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


def ask_to_log_in(request: Request) -> Response:
    """Send a browser to the form, and back to where it wanted to go."""
    return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that was sent as browsers do by default."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in fields.items()}


def _enter(site: "Site", request: Request, token: str, then: str | None) -> Response:
    person, known = site.guard.check_token(request, token)
    response = RedirectResponse(_local(then), 303)
    site.guard.log_in(response, person, known, secrets.token_urlsafe(12), is_secure=site.is_secure)
    return response


def _local(path: str | None) -> str:
    """Return a path on this server, whatever was asked for."""
    if not path or not path.startswith("/") or path.startswith(("//", "/\\")) or not path.isprintable():
        return "/"
    return path
