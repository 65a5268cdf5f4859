"""Time is virtual in these tests."""

from scenes import anyio_backend, no_commit_is_slow, nothing_has_happened

__all__ = ["anyio_backend", "no_commit_is_slow", "nothing_has_happened"]


def pytest_itemcollected(item):
    """By hand on PostgreSQL (`-m soak`): while a thread waits for its server, virtual hours pass."""
    if getattr(item, "callspec", None) and item.callspec.params.get("new_store") == "postgres":
        item.add_marker("soak")
