"""Reads that are made again while the server of a store does not answer: for a moment, or as long as it takes.

A read gives up within milliseconds, so that it holds no loop. The task that wants the answer can wait longer.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from math import inf
from typing import Any, Final, ParamSpec, TypeVar

import anyio

from supervisor.seam.store import StoreAway

P = ParamSpec("P")
T = TypeVar("T")

MOMENT_SECONDS: Final = 1.0
"""Seconds after which a read fails: a person has an answer then, if it is only that there is none."""
PAUSE_SECONDS: Final = 0.05


def patient(read: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a read again for MOMENT_SECONDS. Raises StoreAway after that."""
    return _made_again(read, MOMENT_SECONDS)


def endless(read: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a read again until it is answered."""
    return _made_again(read, inf)


def _made_again(read: Callable[P, Coroutine[Any, Any, T]], seconds: float) -> Callable[P, Coroutine[Any, Any, T]]:
    @wraps(read)
    async def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        until = None
        while True:
            try:
                return await read(*args, **kwargs)
            except StoreAway:
                until = anyio.current_time() + seconds if until is None else until
                if anyio.current_time() >= until:
                    raise
            await anyio.sleep(PAUSE_SECONDS)

    return ask
