"""Import public names at their first use: a command needs few of them, so it answers sooner.

A public package lists its names three times: as imports for type checkers, in `__all__`, and in the table that it
passes here. tests/test_public_names.py proves that the three lists are equal.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, tables: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], Iterable[str]]]:
    """Return `__getattr__` and `__dir__` for a package. `tables`: for each module, its names, separated by spaces."""
    modules = {name: module for module, names in tables.items() for name in names.split()}

    def find(name: str) -> Any:
        """Import a public name."""
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return find, lambda: sorted(modules)
