"""A test as another process: one that has loaded no agent yet, as the process that resumes a session later."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from supervisor.system import loading
from supervisor.testing.replacing import replaced

_LOADED: Final = ("_named", "_seen", "_located", "_nameless")
"""What a process knows of the agents that it has loaded (supervisor/system/loading.py)."""


@contextmanager
def fresh_process() -> Iterator[None]:
    """Be a process that has loaded no agent. It finds each agent again by the reference in the journal, so that a test
    can change the code in between, as a deployment does."""
    with ExitStack() as stack:
        for name in _LOADED:
            stack.enter_context(replaced(loading, name, type(getattr(loading, name))()))
        yield
