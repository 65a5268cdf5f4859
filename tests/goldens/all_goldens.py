"""All goldens: files whose text today's code must make again, byte for byte.

    python -m tests.goldens         writes those that have changed, and says which

A golden is no rule of its own. It shows what people read and what waits on disk, so that a change of it is seen in the
diff of the commit that makes it, and reviewed there. docs/reference/api.md has a check of its own (tests/api_page.py).
"""

from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

from golden_commands import print_all
from golden_faces import ask_all, show_all
from golden_journals import write_all
from golden_openapi import describe_all
from still_world import Backend

from supervisor.testing import virtual_asyncio, virtual_trio

KEPT = Path(__file__).parent / "kept"
BACKENDS = {"asyncio": virtual_asyncio, "trio": virtual_trio}
MAKERS: dict[str, Callable[[Backend], dict[str, str]]] = {
    "faces": lambda backend: show_all(ask_all(backend)),
    "journals": write_all,
    "openapi": lambda backend: describe_all(),
    "json": print_all,
}
"""By the folder or the beginning of its files: what makes them. They are the same on each backend."""
ON_BOTH = ("faces", "journals")
"""What is made again on trio, since agents run for it."""


def kept(kind: str) -> dict[str, str]:
    """Return the goldens of a kind as they are in the tree."""
    files = sorted(file for file in KEPT.rglob("*") if file.is_file())
    named = {file.relative_to(KEPT).as_posix(): file for file in files}
    return {name: file.read_text(encoding="utf-8") for name, file in named.items() if name.startswith(kind)}


def difference(old: dict[str, str], new: dict[str, str]) -> str:
    """Return how goldens differ, as a diff; empty if they do not."""
    lines: list[str] = []
    for name in sorted({*old, *new}):
        before, after = old.get(name, "").splitlines(), new.get(name, "").splitlines()
        lines += unified_diff(before, after, f"kept/{name}", f"made/{name}", lineterm="", n=2)
    return "\n".join(lines)


def rewrite() -> list[str]:
    """Write all goldens, and return the names of those that have changed."""
    changed = []
    for kind, make in MAKERS.items():
        old, new = kept(kind), make(virtual_asyncio)
        for name in sorted({*old, *new}):
            file = KEPT / name
            if name not in new:
                file.unlink()
            elif old.get(name) != new[name]:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(new[name], encoding="utf-8")
            if old.get(name) != new.get(name):
                changed.append(name)
    return changed
