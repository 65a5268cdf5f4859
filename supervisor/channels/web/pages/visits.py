"""One request of a person for a page: who asks, what the form says, and the answer as a page."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

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
        viewer = Viewer(self.person.name)
        body = rendering.render(
            template, self.now, viewer=viewer, here=here, pending=await self.count_pending(), **model
        )
        return html(body, status)


def html(body: str, status: int = 200) -> Response:
    return HTMLResponse(body, status, rendering.HEADERS)


def stream_url(path: str, after: str, **query: str) -> str:
    """Return the address of the event stream with the changes after a page was drawn."""
    return f"{path}?{urlencode({'after': after, **query})}"
