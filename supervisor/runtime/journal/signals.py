"""Facts that go up: a lower part says that something has happened, and whoever listens is called at once.

Rules
- A listener must not raise, and must not wait: it starts a task for what takes time.
"""

from collections.abc import Callable
from typing import Generic, TypeVarTuple

Ts = TypeVarTuple("Ts")


class Signal(Generic[*Ts]):
    """One kind of fact."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[*Ts], object]] = []

    def connect(self, listener: Callable[[*Ts], object]) -> None:
        """Call this whenever it happens, after those that were connected before."""
        self._listeners.append(listener)

    def send(self, *args: *Ts) -> None:
        for listener in self._listeners:
            listener(*args)
