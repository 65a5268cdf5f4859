"""Reads in pieces, so that a long list does not hold the loop: a generator stops wherever others may have their turn.

What is read between two stops is of one instant.
"""

from collections.abc import Generator
from typing import Final, TypeVar

from anyio.lowlevel import checkpoint

T = TypeVar("T")

Pieces = Generator[None, None, T]
"""A read: it stops between two pieces, and returns what was read."""
PIECE: Final = 100
"""Sessions, approvals or entries of one piece."""


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
    """Read all pieces, and let nobody in between."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            found: T = done.value
            return found
