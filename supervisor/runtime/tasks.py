"""Who does an operation: so that identical ones from two tasks that are alive at once can be told (design.md "Ids").

A task is known by its coroutine: it is the one thing of a task that both backends show through anyio and that says
whether it has come to its end. Keeping a reference to it keeps its identity from being used again.
"""

import inspect
from typing import Any

import anyio


class Claimant:
    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Any) -> None:
        self._coroutine = coroutine

    @classmethod
    def current(cls) -> "Claimant":
        return cls(anyio.get_current_task().coro)

    def is_current(self) -> bool:
        return anyio.get_current_task().coro is self._coroutine

    def is_alive(self) -> bool:
        return inspect.getcoroutinestate(self._coroutine) != inspect.CORO_CLOSED
