"""Time is virtual in these tests."""

from scenes import anyio_backend, no_commit_is_slow, nothing_has_happened

__all__ = ["anyio_backend", "no_commit_is_slow", "nothing_has_happened"]
