"""Pages: all that a store finds, so many at a time, so that a caller can let other tasks run after each.

A page shows the instant at which it is read, and not the one of the page before it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar


class Found(Protocol):
    """An item of a store, which lists it by its position."""

    @property
    def position(self) -> int: ...


F = TypeVar("F", bound=Found)
T = TypeVar("T")


def pages_of(find: Callable[..., list[F]], most: int, *, after: int = 0, **only: Any) -> Iterator[list[F]]:
    """Yield what `find` returns of what comes after a position, at most so many items at a time."""
    while page := find(**only, after=after, limit=most):
        yield page
        if len(page) < most:
            return
        after = page[-1].position


def pages_in(
    roots: Sequence[str], find: Callable[[Sequence[str], int, int], list[F]], most: int, root_of: Callable[[F], str]
) -> Iterator[list[F]]:
    """Yield what `find` returns of trees, tree after tree. A page may end within a tree."""
    after = 0
    while roots:
        page = find(roots, after, most)
        yield page
        if len(page) < most:
            return
        roots, after = roots[roots.index(root_of(page[-1])) :], page[-1].position


def parts_of(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Yield items, at most so many at a time."""
    for start in range(0, len(items), most):
        yield items[start : start + most]
