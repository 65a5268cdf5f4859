"""Import public names at their first use: a command needs few of them, so it answers sooner.

A public package lists its names twice: as imports for type checkers, and in the table that it passes here.
tests/test_public_names.py proves that the two lists are equal.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, tables: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` for a package. `tables`: for each module, its names, separated by
    spaces."""
    modules = {name: module for module, names in tables.items() for name in names.split()}
    offered = sorted(modules)

    def find(name: str) -> Any:
        """Import a public name."""
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return offered, find, lambda: offered
