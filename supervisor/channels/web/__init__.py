"""The web as a channel: HTTP API, event streams, and pages, served by hypercorn in this process on either backend.

    server     hypercorn under our structured concurrency        border    outermost ASGI: Host, size, headers
    site       what is served, composed                          endpoints one table: routes, checks, OpenAPI
    state      what the handlers share                           table     the whole table, and its OpenAPI document
    api        sessions, approvals, decisions                    events    server-sent events
    runs_api   outcomes; resume, retry, fork                     store_api the server and the whole store
    auth       tokens, cookies, CSRF, patience                   login     a token becomes a cookie
    problems   errors as RFC 9457                                pages     pages for browsers: models and routes
    bounds     how much at once                                  revocations  tokens and logins that ended early
    looks      one look at what goes on, for all clients         rules_api rules
    rendering  templates/ and static/ become pages, harmless     schedules_api schedules
    triggers   signed requests that start agents

How to add
- **An endpoint of the API**: a handler, and `@ENDPOINTS.add(...)` above it. Role, CSRF, types and OpenAPI follow.
- **A page**: a line in `pages.routes.PAGES`, a function of a `Visit` (who asks, the form they sent, the supervisor),
  and a template; its model is pure. Our script puts `csrf` into every form. `rendering` escapes everything and gives
  each page its content security policy; the page's script uses the API under the same cookie.
- **Routes of another channel** (webhooks of chat platforms): channels do not know each other, so a channel declares
  `webhooks()` (`Channel`): a path below /channels/NAME, and an async function of headers and body that returns a
  `WebhookReply`. The composition root (daemon.py) passes them on; they are mounted here, inside the border, without a
  token: such a route verifies its sender itself, by a signature.
"""

import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from supervisor.channels.web.auth import Guard
from supervisor.channels.web.channel import Web
from supervisor.channels.web.revocations import Revocations
from supervisor.channels.web.shown import Shown
from supervisor.channels.web.site import make_app
from supervisor.channels.web.state import MAX_STREAMS, Site
from supervisor.channels.web.triggers import Trigger, trigger_routes
from supervisor.channels.web.webhooks import webhook_routes
from supervisor.core.approvals.people import People
from supervisor.seam.channel import Channel
from supervisor.seam.store import Book
from supervisor.system.chronicle import Chronicle

__all__ = ["Web", "make_web"]


def make_web(
    *,
    people: People,
    secret: bytes,
    listener: socket.socket,
    hosts: Iterable[str],
    any_address: bool = False,
    public_url: str | None = None,
    others: Sequence[Channel] = (),
    max_streams: int = MAX_STREAMS,
    revoked: Path | Book | None = None,
    shown: Path | Book | None = None,
    chronicle: Chronicle | None = None,
    triggers: Sequence[Trigger] = (),
) -> Web:
    """Return the channel, with all its parts.

    `people`: who may log in. `secret`: signs cookies. `listener`: the bound socket. `hosts`: names of this server.
    `public_url`: the address that browsers use, if it is another one. `others`: channels whose webhooks are served and
    whose health is shown here. `max_streams`: clients that may listen at once. `revoked`: the file or book of revoked
    tokens and ended logins, and `shown` that of what people were shown; without it each is forgotten when the process
    ends. `chronicle`: what the metrics count. `triggers`: what signed requests start. Raises StoreUnreadable if a file
    cannot be read.
    """
    public = urlsplit(public_url or "").hostname or ""
    known = [*hosts, f"[{public}]" if ":" in public else public]
    revocations = Revocations(revoked)
    revocations.refresh()
    guard = Guard(people, secret, public_url, f"supervisor-{listener.getsockname()[1]}", revocations)
    is_secure = public_url is not None and public_url.startswith("https:")
    site = Site(
        guard,
        is_secure=is_secure,
        max_streams=max_streams,
        channels=others,
        chronicle=chronicle,
        shown=Shown(shown),
    )
    app = make_app(
        site, known, any_address=any_address, more=[*webhook_routes(others), *trigger_routes(site, triggers)]
    )
    return Web(site, app, listener)
