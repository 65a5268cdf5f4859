"""Time is virtual in these tests, and code is deployed in them."""

import pytest
from scenes import anyio_backend, no_commit_is_slow, nothing_has_happened

from supervisor import AgentSpec, agent, loading

__all__ = ["anyio_backend", "deployed", "no_commit_is_slow", "nothing_has_happened"]


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
