"""One request of a person for a page: who asks, what the form says, and the answer as a page."""

import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from supervisor.channels.web import rendering
from supervisor.channels.web.auth import Identity
from supervisor.channels.web.state import Site
from supervisor.core.values import Approval


class Viewer(msgspec.Struct, frozen=True):
    """The reader of a page."""

    name: str


class Visit:
    """A request of an authenticated person."""

    def __init__(self, site: Site, request: Request, identity: Identity, form: dict[str, str]) -> None:
        self.site = site
        self.request = request
        self.person = identity.person
        self.form = form
        self.supervisor = site.supervisor
        self.now = datetime.now(UTC).astimezone()

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    @property
    def seen_at(self) -> datetime:
        """When the page of this form was drawn. The person was shown its approvals at that time (A12)."""
        try:
            return min(self.now, datetime.fromisoformat(self.form.get("seen", "")))
        except (ValueError, TypeError):
            return datetime.fromtimestamp(0, UTC)

    def refusal(self, approval: Approval) -> str | None:
        """Return why this person may not decide an approval; None if they may."""
        return self.site.guard.people.why_not_decide(self.person.name, approval)

    def show(self, *approvals: Approval) -> None:
        """Note that the page shows these approvals to the person who asks."""
        self.site.shown.note(self.person.name, approvals)

    async def count_pending(self) -> int:
        return (await self.supervisor.get_counts()).pending_approvals

    async def page(self, template: str, here: str, model: Mapping[str, Any], *, status: int = 200) -> Response:
        """Answer with a page. `here`: its entry in the navigation."""
        return html(rendering.render(template, self.now, **await self._model(here, model)), status)

    async def long_page(self, template: str, here: str, model: Mapping[str, Any]) -> Response:
        """Answer with a page that is sent as it is drawn: a browser shows its beginning before the rest is there."""
        pieces = rendering.pieces(template, self.now, **await self._model(here, model))
        return Pieces(pieces, is_gzip="gzip" in self.request.headers.get("accept-encoding", ""))

    async def _model(self, here: str, model: Mapping[str, Any]) -> dict[str, Any]:
        viewer, pending = Viewer(self.person.name), await self.count_pending()
        return {"viewer": viewer, "here": here, "pending": pending, **model}


class Pieces(Response):
    """A page in pieces, each of which is sent before the next one is drawn. No other client waits for all of them. It
    may be compressed, since it has no secret of its reader that a text of others on it could find out."""

    def __init__(self, pieces: Iterator[str], *, is_gzip: bool) -> None:
        how = {"content-encoding": "gzip"} if is_gzip else {}
        super().__init__(None, media_type="text/html", headers={**rendering.HEADERS, **how, "vary": "accept-encoding"})
        del self.headers["content-length"]
        self._pieces = pieces
        self._gzip = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16) if is_gzip else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for piece in self._pieces:
            body = piece.encode()
            if self._gzip is not None:
                body = self._gzip.compress(body) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
            await send({"type": "http.response.body", "body": body, "more_body": True})
            await anyio.lowlevel.checkpoint()
        last = b"" if self._gzip is None else self._gzip.flush()
        await send({"type": "http.response.body", "body": last})


def html(body: str, status: int = 200) -> Response:
    return HTMLResponse(body, status, rendering.HEADERS)


def stream_url(path: str, after: str, **query: str) -> str:
    """Return the address of the event stream with the changes after a page was drawn."""
    return f"{path}?{urlencode({'after': after, **query})}"
