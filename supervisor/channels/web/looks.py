"""Shares watches of activity among all clients: each tree is watched once, however many clients show it.

A watch costs memory for each session that it knows. A watch that no client has read for KEPT seconds is dropped; the
next read begins a new one.
"""

from contextlib import AsyncExitStack
from typing import Final

import anyio

from supervisor.core.sessions.activity import Activity
from supervisor.seam.runs import ActivityWatch, Page
from supervisor.seam.supervisor import Supervisor

KEPT_SECONDS: Final = 60.0


class _Watched:
    def __init__(self, watch: ActivityWatch, closing: AsyncExitStack) -> None:
        self.watch = watch
        self.closing = closing
        self.looked_at = 0.0


class Looks:
    def __init__(self) -> None:
        self._watched: dict[str | None, _Watched] = {}
        """By session; None: every tree that is open."""
        self._lock = anyio.Lock()

    async def look(
        self, supervisor: Supervisor, session: str | None, *, after: str | None, limit: int, wholly: bool
    ) -> Page[Activity]:
        """Return what the sessions of a tree, or of all, are doing. Raises NotFound, CursorUnknown."""
        async with self._lock:
            await self._forget(anyio.current_time() - KEPT_SECONDS)
            found = self._watched.get(session)
            if found is None:
                closing = AsyncExitStack()
                watch = await closing.enter_async_context(supervisor.watch_activity(session))
                found = self._watched[session] = _Watched(watch, closing)
            found.looked_at = anyio.current_time()
            return await found.watch.look(after=after, limit=limit, wholly=wholly)

    async def _forget(self, before: float) -> None:
        for session in [session for session, each in self._watched.items() if each.looked_at < before]:
            await self._watched.pop(session).closing.aclose()
