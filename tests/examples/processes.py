"""The examples that are about processes, run as their first lines say."""

import re
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import preloaded

EXAMPLES = Path(__file__).parents[2] / "examples"


@contextmanager
def running(folder: Path, *arguments: str):
    """Run Python with these arguments in a folder; gives the process, which is killed afterwards."""
    process = preloaded.Popen([sys.executable, *arguments], cwd=folder, text=True, stdin=-3, stdout=-1, stderr=-1)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def serving(folder: Path, *arguments: str):
    """Run a server as above; gives its address, which it writes to stderr."""
    with running(folder, *arguments) as process:
        yield next(found[0] for line in process.stderr if (found := re.search(r"http://[\d.]+:\d+", line)))


def until(condition):
    """Ask again until there is an answer, and return it: another process works on it, and sends no event."""
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found
