"""The state that the handlers of one web server share. `site` composes the routes; this module does not know them."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import anyio
import msgspec

from supervisor.channels.web.auth import Guard
from supervisor.channels.web.bounds import Bound, Streams
from supervisor.channels.web.looks import Looks
from supervisor.channels.web.problems import Problem
from supervisor.channels.web.shown import Shown
from supervisor.core.documents import approval_document
from supervisor.core.values import Approval
from supervisor.seam.channel import Channel
from supervisor.seam.supervisor import Supervisor
from supervisor.system.chronicle import Chronicle

MAX_STREAMS: Final = 500
"""Clients that may listen at once: with everything else, fewer than the 1024 files that a process may commonly open."""
OTHERS: Final = 200
"""The most requests that run at once, not counting event streams."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Tally:
    """Counters of this server since its start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()

    def answered(self, method: str, status: int) -> None:
        self.requests[method if method in _METHODS else "other", status] += 1


class Encoded:
    """The JSON of the approval that a stream sent last. All clients of the inbox are woken by the same change: it is
    encoded for the first of them."""

    def __init__(self) -> None:
        self._approval: Approval | None = None
        self._json = b""

    def json_of(self, approval: Approval) -> bytes:
        if approval is not self._approval:  # the watches of one store return the same object; see Reader.newest
            self._approval, self._json = approval, msgspec.json.encode(approval_document(approval))
        return self._json


class Site:
    """The state that the handlers of one server share."""

    def __init__(
        self,
        guard: Guard,
        *,
        is_secure: bool,
        max_streams: int = MAX_STREAMS,
        channels: Sequence[Channel] = (),
        chronicle: Chronicle | None = None,
        shown: Shown | None = None,
    ) -> None:
        self.guard = guard
        self.channels = channels
        """The other channels, whose health is shown."""
        self.chronicle = chronicle
        """What happened since the start of this process; None: that is not counted."""
        self.is_secure = is_secure
        """Whether browsers reach us by https; then cookies are sent only by https."""
        self.serving: Supervisor | None = None
        """The Supervisor that handlers use; None until the channel is served."""
        self.tally = Tally()
        self.shown = shown or Shown()
        self.looks = Looks()
        self.encoded = Encoded()
        self.streams = Streams(max_streams, "server.max_streams in the configuration")
        self.requests = Bound("requests", max_streams + OTHERS, "server.max_streams in the configuration")
        """All running requests, including event streams."""
        self.is_stopping = False
        self._stopped = anyio.Event()

    async def until_stopped(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        """End the event streams, which would not end by themselves."""
        self.is_stopping = True
        self._stopped.set()

    @property
    def supervisor(self) -> Supervisor:
        if self.serving is None:
            raise Problem(503, "the supervisor is starting; try again in a second", headers={"retry-after": "1"})
        return self.serving
