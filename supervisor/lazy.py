"""Public names that are imported when they are asked for: a command needs few of them, so it answers sooner.

A public package lists its names three times: for type checkers as imports, in `__all__`, and in the table that it gives
here. tests/test_public_names.py holds the three together.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, tables: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], Iterable[str]]]:
    """Return `__getattr__` and `__dir__` of a package. `tables`: by module, the names that it defines, with spaces."""
    modules = {name: module for module, names in tables.items() for name in names.split()}

    def find(name: str) -> Any:
        """Import a public name, the first time that it is asked for."""
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return find, lambda: sorted(modules)
