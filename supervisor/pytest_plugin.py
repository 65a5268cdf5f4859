"""The plugin of pytest that comes with the package: fixtures for tests of agents (docs/how-to/test-your-agents.md).

Every run of pytest imports this module, also one that tests nothing of ours. So it imports pytest alone, and each
fixture imports what it offers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from supervisor import MemoryStore
    from supervisor.testing import CopyingStore, ModelServer, Turn


@pytest.fixture(params=["asyncio", "trio"])
def supervisor_virtual_time(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A value of anyio's fixture `anyio_backend`: each backend in turn, with a clock that jumps to the next timer."""
    from supervisor.testing import virtual_asyncio, virtual_trio

    return virtual_trio() if request.param == "trio" else virtual_asyncio()


@pytest.fixture
def supervisor_store() -> "CopyingStore":
    """A store in memory. Its `copies` are what a process leaves that is killed after a commit: one for each commit."""
    from supervisor.testing import CopyingStore

    return CopyingStore()


@pytest.fixture
def supervisor_copy() -> "Callable[[MemoryStore], MemoryStore]":
    """`copy_store`: the store in memory that a process leaves that is killed now."""
    from supervisor.testing import copy_store

    return copy_store


@pytest.fixture
def supervisor_approver() -> Callable[..., AbstractAsyncContextManager[Any]]:
    """`scripted_approver`: decides by a table or a function."""
    from supervisor.testing import scripted_approver

    return scripted_approver


@pytest.fixture
def supervisor_journal() -> "Callable[..., Any]":
    """`read_journal`: the journal of a session, with assertions."""
    from supervisor.testing import read_journal

    return read_journal


@pytest.fixture
def supervisor_model() -> "Iterator[Callable[[Mapping[str, Sequence[Turn]]], ModelServer]]":
    """`scripted_model`, without `with`: a call starts a server, which the end of the test stops."""
    from contextlib import ExitStack

    from supervisor.testing import scripted_model

    with ExitStack() as stack:
        yield lambda script: stack.enter_context(scripted_model(script))
