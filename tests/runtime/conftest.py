"""Time is virtual in these tests, on both backends, and commits take none of it."""

import pytest
from scenes import effects

from supervisor import AgentSpec, agent, loading


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@pytest.fixture(autouse=True)
def _no_commit_is_slow(monkeypatch):
    """Keep all commits in the loop: a slow commit goes to a thread, for which the virtual clock does not wait. So no
    disk decides a test."""
    monkeypatch.setattr("supervisor.runtime.journal.writer.SLOW_COMMIT", 1e9)


@pytest.fixture(autouse=True)
def _nothing_has_happened():
    effects.clear()


@pytest.fixture
def deployed(request, monkeypatch):
    """Return a function that deploys code as another process would import it: a declared agent, or a body that
    `options` declare. None removes the code. `held_as`: its name in the test's module."""
    module = request.module

    def deploy(code, *, held_as="worker", **options):
        monkeypatch.setattr(loading, "_seen", {})
        if code is None:
            monkeypatch.delattr(module, held_as)
            return None
        new = code if isinstance(code, AgentSpec) else agent(**options)(code)
        new.__module__, new.__qualname__ = module.__name__, held_as
        monkeypatch.setattr(module, held_as, new, raising=False)
        return new

    return deploy
