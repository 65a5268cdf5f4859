"""Reads in pieces, so that a long list does not block the loop: a generator stops wherever other tasks may run.

The items that are read between two stops are of one instant.
"""

from collections.abc import Generator
from typing import Final, TypeVar

from anyio.lowlevel import checkpoint

T = TypeVar("T")

Pieces = Generator[None, None, T]
"""A read: it stops between two pieces, and returns the whole result."""
PIECE: Final = 100
"""The number of sessions, approvals or entries in one piece."""


async def read(pieces: Pieces[T]) -> T:
    """Read all pieces, with a checkpoint before each."""
    while True:
        await checkpoint()
        try:
            next(pieces)
        except StopIteration as done:
            found: T = done.value
            return found


def read_at_once(pieces: Pieces[T]) -> T:
    """Read all pieces without a checkpoint."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            found: T = done.value
            return found
