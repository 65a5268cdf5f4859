"""The web as a channel: its inbox shows every pending approval while the server runs.

Theory: the inbox is drawn from the store, so the approval itself is the card, and `post` and `retire` change nothing.
The channel accepts every approval, so it comes last, after the channels that could fail (A11).
"""

import socket
from collections.abc import Sequence
from typing import Final

import anyio
from starlette.types import ASGIApp

from supervisor.channels.web.server import serve_http
from supervisor.channels.web.state import Site
from supervisor.channels.wording.cards import all_facts
from supervisor.core.approvals.facts import Fact
from supervisor.core.errors import SupervisorError
from supervisor.core.values import Approval
from supervisor.seam.channel import Channel
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)
PRUNE_SECONDS: Final = 60.0


class Web(Channel):
    name = "web"

    def __init__(self, site: Site, app: ASGIApp, listener: socket.socket) -> None:
        self.site = site
        self.people = site.guard.people
        self._app = app
        self._listener = listener
        self._failure: Exception | None = None

    async def serve(self, supervisor: Supervisor) -> None:
        """Serve until cancelled; then event streams end at once, and requests under way may finish."""
        self.site.serving = supervisor
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._serve_http, stop)
            tasks.start_soon(self.site.guard.revocations.watch)
            tasks.start_soon(self._prune_shown, supervisor)
            try:
                await anyio.sleep_forever()
            finally:
                self.site.stop()
                stop.set()

    async def _prune_shown(self, supervisor: Supervisor) -> None:
        while True:
            try:
                await self.site.shown.prune(supervisor)
            except SupervisorError as error:
                log.warning("shown.not_pruned", reason=str(error))
            while not self.site.shown.has_grown:  # noqa: ASYNC110 # requests write it; none of them waits for this
                await anyio.sleep(PRUNE_SECONDS)

    async def _serve_http(self, stop: anyio.Event) -> None:
        try:
            await serve_http(self._app, self._listener, stop.wait)
        except Exception as error:
            self._failure = error
            raise

    async def wait_until_it_fails(self) -> None:
        """Wait for as long as it is served. Raises SupervisorError if that ended by itself."""
        try:
            await self.site.until_stopped()
            raise SupervisorError(f"the web server has failed: {self._failure!r}; start the daemon again")
        finally:
            self.site.is_stopping = True  # the server goes on answering while the supervisor closes

    async def post(self, approval: Approval, card: str | None) -> str:
        return approval.id

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return all_facts(approval, approval.created_at)  # no part of a pending card scrolls or is cut

    async def retire(self, approval: Approval, card: str) -> None:
        """Do nothing: the inbox shows only pending approvals."""
