"""Replace a part of a program for a while: a function that fails or waits, or a bound that a test can reach.

Prefer what needs no replacement: a parameter, a store or a channel of your own, a real process, a virtual clock. What
is left is code of a library that a test must reach between two of its lines, or a bound such as "1,000 at a time".

Rules
- A part is named by its owner, a module, a class or an object, and its name there; no text holds the path to it. If it
  does not exist, an error says so: a test does not go on without the fault that it is about.
- A bound is replaced by a value of its own type, or a number by another one. A function is replaced by a function.
- What was there before is there again afterwards.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from numbers import Real
from typing import Any, Final

from supervisor.core.errors import InvalidInput

_ABSENT: Final = object()


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let `owner` have another value under a name that it has. Raises InvalidInput if it has no such name, or a value
    of another kind."""
    before = getattr(owner, name, _ABSENT)
    if before is _ABSENT:
        raise InvalidInput(f"{owner!r} has no {name}: it was renamed or moved, so name what a test replaces anew")
    if not _are_alike(before, value):
        raise InvalidInput(f"{name} is {before!r}, which {value!r} cannot replace: give a value of the same kind")
    own = vars(owner).get(name, _ABSENT)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


@contextmanager
def wrapped(owner: Any, name: str, around: Callable[..., Any]) -> Iterator[None]:
    """Let calls of a function go through `around(original, *args, **kwargs)`, which may fail, wait or count, before or
    after it calls the original, or instead. With a class as the owner, `args` begins with the object."""
    original = getattr(owner, name, None)

    @wraps(original or around)
    def through(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    with replaced(owner, name, through):
        yield


def _are_alike(before: Any, value: Any) -> bool:
    if callable(before) or callable(value):
        return callable(before) and callable(value)
    if isinstance(before, Real) and isinstance(value, Real):
        return isinstance(before, bool) == isinstance(value, bool)
    return isinstance(value, type(before))
