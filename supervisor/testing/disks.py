"""Disks of a test: how long the commits of a store take.

A commit that is slow runs in a thread, for which a virtual clock does not wait (runtime/journal/writer.py). So a test
on virtual time says how fast its disk is, and the disk of the machine decides nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

import anyio

from supervisor.runtime.journal import writer
from supervisor.testing.replacing import replaced


@contextmanager
def fast_disk() -> Iterator[None]:
    """Keep all commits in the event loop, as those of a fast disk are. For a SqliteStore on virtual time."""
    with replaced(writer, "SLOW_COMMIT_SECONDS", inf):
        yield


@contextmanager
def slow_disk(takes: float | None = None) -> Iterator[None]:
    """Let each commit be slow, so that other tasks run meanwhile. `takes`: seconds of the loop's clock for which each
    commit waits before it is made, in the loop; None: it is made in a thread, in real time."""

    async def slowly(commit: Callable[[], None]) -> None:
        assert takes is not None
        await anyio.sleep(takes)
        commit()

    with replaced(writer, "SLOW_COMMIT_SECONDS", 0.0):
        if takes is None:
            yield
        else:
            with replaced(writer, "in_thread", slowly):
                yield
