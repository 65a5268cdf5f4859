"""Places of limits: locks of files next to the store, which the kernel releases."""

import os
import signal
import subprocess
import sys

from supervisor.store.places import Places

HOLD = """
import sys, time
from pathlib import Path
from supervisor.store.places import Places
print(Places(Path(sys.argv[1])).take("browser", 2), flush=True)
time.sleep(60)
"""


def test_a_place_that_another_process_holds_is_free_when_that_process_is_killed(tmp_path):
    """L1: at_once counts over processes, and a death gives back what it held."""
    store = tmp_path / "state.db"
    store.touch()
    mine = Places(store)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(store)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) == 0
        assert mine.take("browser", 2) == 1
        assert mine.take("browser", 2) is None
        assert mine.take("openai", 1) == 0
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert mine.take("browser", 2) == 0
    mine.give_back("browser", 1)
    mine.give_back("browser", 1)
    assert mine.take("browser", 2) == 1
    mine.release()


def test_a_forked_process_holds_no_place(tmp_path):
    """The other process goes on to hold it, although the fork ends."""
    store = tmp_path / "state.db"
    store.touch()
    mine, later = Places(store), Places(store)
    mine.take("browser", 1)
    if (child := os.fork()) == 0:
        mine.release()
        os._exit(0 if later.take("browser", 1) is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert later.take("browser", 1) is None
    mine.release()
    assert later.take("browser", 1) == 0
    later.release()
