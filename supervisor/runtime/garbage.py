"""The garbage collector, while agents live: it looks less often.

What waits for people lives long, and there may be a lot of it. With Python's usual threshold, a collection after every
700 new objects, the same young waiting agents are walked over again and again, and all of them each time their number
has grown by a quarter: with 1,000 at the same time that was a fourth of what a full cycle takes, and is a tenth now.
With a threshold of 5,000 one collection of the young takes 1.3 ms. It is not switched off, since agents are the user's
code and may make cycles.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

AFTER: Final = 5_000  # new objects between two collections

_usual: list[int] = []
"""The threshold that was found, once for every supervisor that is open."""


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Raise the threshold while a supervisor is open; one that is higher, or 0 (never), is the program's own wish."""
    _usual.append(_usual[0] if _usual else gc.get_threshold()[0])
    if 0 < _usual[0] < AFTER:
        gc.set_threshold(AFTER, *gc.get_threshold()[1:])
    try:
        yield
    finally:
        usual = _usual.pop()
        if not _usual and gc.get_threshold()[0] == AFTER:
            gc.set_threshold(usual, *gc.get_threshold()[1:])
