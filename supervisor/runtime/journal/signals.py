"""Signals: a lower layer announces a fact, and calls the listeners that upper layers have connected, at once.

Committed entries are announced by kind: who listens says which kinds concern it, so that no entry is shown to those of
whom it is none.

Rules
- A listener neither raises nor waits. For work that takes time it starts a task.
"""

from collections.abc import Callable
from typing import Generic, TypeVarTuple

Ts = TypeVarTuple("Ts")


class Signal(Generic[*Ts]):
    """One kind of fact."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[*Ts], object]] = []

    def connect(self, listener: Callable[[*Ts], object]) -> None:
        """Call `listener` each time, after the listeners that were connected before it."""
        self._listeners.append(listener)

    def send(self, *args: *Ts) -> None:
        for listener in self._listeners:
            listener(*args)
