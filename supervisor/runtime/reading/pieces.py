"""Reads in pieces, so that a long list does not block the loop: a generator stops wherever other tasks may run.

The items that are read between two stops are of one instant, whatever other processes commit.
"""

from collections.abc import Generator
from typing import Final, TypeVar

from anyio.lowlevel import checkpoint

from supervisor.seam.store import Store

T = TypeVar("T")

Pieces = Generator[None, None, T]
"""A read: it stops between two pieces, and returns the whole result."""
PIECE: Final = 100
"""The number of sessions, approvals or entries in one piece."""


async def read_pieces(store: Store, pieces: Pieces[T]) -> T:
    """Read all pieces from a store, with a checkpoint before each."""
    while True:
        await checkpoint()
        with store.one_instant():
            done = _read_one(pieces)
        if done is not None:
            return done[0]


def _read_one(pieces: Pieces[T]) -> tuple[T] | None:
    """Read one piece; return the result after the last one."""
    try:
        next(pieces)
    except StopIteration as done:
        return (done.value,)
    return None
