"""Who does an operation: so that identical ones from two tasks that are alive at once can be told.

A task is known by its coroutine: it is the one thing of a task that both backends show through anyio and that says
whether it has come to its end. Keeping a reference to it keeps its identity from being used again.
"""

import inspect
from typing import Any

import anyio


def current_coroutine() -> Any:
    """Return the coroutine of the task that runs."""
    return anyio.get_current_task().coro


def is_alive(coroutine: Any) -> bool:
    """Whether the task of a coroutine has not come to its end."""
    return inspect.getcoroutinestate(coroutine) != inspect.CORO_CLOSED
