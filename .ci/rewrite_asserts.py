"""Writes the bytecode of the tests with their rewritten asserts, as pytest does: once, and not again in each worker.

The workers begin together, so each of them would rewrite nearly all modules, which takes each of them seconds. This
uses what pytest keeps to itself. If that changes, this fails, CI says so, and the workers rewrite them as before.
"""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from _pytest.assertion import rewrite


class State:
    """What pytest's own writer tells about its work."""

    def trace(self, *_: Any) -> None: ...


def write(file: Path) -> None:
    folder = rewrite.get_cache_dir(file)
    folder.mkdir(exist_ok=True)
    digest, code = rewrite._rewrite_test(file, None)  # noqa: SLF001 # pytest has no public way
    written = folder / f"{file.stem}{rewrite.PYC_TAIL}"
    rewrite._write_pyc(State(), code, digest, written)  # noqa: SLF001 # the same
    assert rewrite._read_pyc(file, written), "pytest would not take it"  # noqa: SLF001 # the same


def main() -> None:
    tests = Path("tests").resolve()
    files = [*tests.rglob("test_*.py"), *tests.rglob("conftest.py")]
    with ProcessPoolExecutor() as processes:
        list(processes.map(write, files, chunksize=20))


if __name__ == "__main__":
    main()
