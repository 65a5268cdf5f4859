"""Slots limit the number of tasks at a time; the most urgent one is next.

Rules
- One slot is reserved for urgent tasks (rank 0): so a new card never waits for old ones that hang.
- Among tasks of equal rank, the one that has waited longest is next.
"""

import heapq
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

import anyio

URGENT = 0


class Slots:
    def __init__(self, total: int) -> None:
        self._free = total
        self._waiting: list[tuple[int, int, anyio.Event]] = []
        self._count = count()

    @asynccontextmanager
    async def taken(self, rank: int) -> AsyncGenerator[None, None]:
        """Hold a slot inside the context. Wait for one if none is free."""
        if self._is_free_for(rank):
            self._free -= 1
        else:
            await self._wait(rank)
        try:
            yield
        finally:
            self._give_back()

    async def _wait(self, rank: int) -> None:
        place = rank, next(self._count), anyio.Event()
        heapq.heappush(self._waiting, place)
        try:
            await place[2].wait()
        except BaseException:
            if place[2].is_set():
                self._give_back()
            else:
                self._waiting.remove(place)
                heapq.heapify(self._waiting)
            raise

    def _give_back(self) -> None:
        self._free += 1
        while self._waiting and self._is_free_for(self._waiting[0][0]):
            self._free -= 1
            heapq.heappop(self._waiting)[2].set()

    def _is_free_for(self, rank: int) -> bool:
        return self._free > (0 if rank == URGENT else 1)
