"""Reads that are made again while the server of a store does not answer: for a moment, or as long as it takes.

Theory: a read gives up within milliseconds, so that it holds no loop, and the server may be back soon. What wants the
answer can wait for it: a task in one of these functions; a callback is called again, by the alarm (alarm.py) or by the
runner (`Attempts.ask`).

Rules
- What is done again reads first, or does no harm when it is done twice.
- A command may be refused with StoreAway before its commit alone. What follows the commit waits for its answer, since
  the command counts.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from math import inf
from typing import Any, Final, ParamSpec, TypeVar

import anyio

from supervisor.seam.store import StoreAway

P = ParamSpec("P")
T = TypeVar("T")

PAUSE_SECONDS: Final = 0.2
"""Seconds after which a store that was away is asked again."""


def patient(read: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a read again for a moment (StoreAway.moment_seconds): a person has an answer then, if it is only that there
    is none. Raises StoreAway after that."""
    return _made_again(read)


def endless(read: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a read again until it is answered."""
    return _made_again(read, inf)


async def until_answered(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Read, and again until it is answered."""
    while True:
        try:
            return read(*args, **kwargs)
        except StoreAway:
            await anyio.sleep(PAUSE_SECONDS)


def _made_again(
    read: Callable[P, Coroutine[Any, Any, T]], seconds: float | None = None
) -> Callable[P, Coroutine[Any, Any, T]]:
    @wraps(read)
    async def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        until = None
        while True:
            try:
                return await read(*args, **kwargs)
            except StoreAway as away:
                until = until or anyio.current_time() + (away.moment_seconds if seconds is None else seconds)
                if anyio.current_time() >= until:
                    raise
            await anyio.sleep(PAUSE_SECONDS)

    return ask
