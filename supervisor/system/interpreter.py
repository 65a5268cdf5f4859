"""Settings of the interpreter that make agents and commits faster. They apply to the whole process, so only a program
that asks for it gets them (`open_supervisor(tune_interpreter=True)`); our own commands do.

The garbage collector runs less often while a supervisor is open. Agents that wait for people live long, and there may
be many of them. With Python's usual threshold, a collection after every 700 new objects, it examines the same young
waiting agents again and again, and all of them each time their number has grown by a quarter: with 1,000 at the same
time that was a fourth of the time of a full cycle, and is a tenth now. With a threshold of 5,000 one collection of the
young takes 1.3 ms. It is not switched off, since agents are the user's code and may make cycles.

What is alive when the first supervisor opens, mostly imported modules, is frozen until the last one closes: a full
collection does not visit it. Sessions that begin later are not frozen, since a cycle in what they leave could never be
collected. A full collection visits the runs in memory, journals of more than 16 entries in a store in memory, and
values of agents in which objects hold objects. It visits nothing else of a passivated session or of what lists return:
with 100,000 of these it takes no longer than with one. With many runs in memory it still takes long.

The switch interval is short while a commit is in a thread. A thread that returns from the disk must get the interpreter
back. It may claim it only after a whole switch interval, 5 ms, in which no other thread released it; a busy loop
releases it at every tick, and has it again before the thread has woken. That can take seconds. The commit would seem
slow, and would therefore never move back into the loop, where it need not wait for another thread.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

AFTER: Final = 5_000  # new objects between two collections
SWITCH_INTERVAL_SECONDS: Final = 0.0005  # seconds

_thresholds: list[int] = []
"""The threshold that was set before, once for every supervisor that is open and tunes the interpreter."""
_frozen: list[bool] = []
"""Not empty while objects are frozen that no program has frozen itself."""
_intervals: list[float] = []
"""The switch interval that was set before, once for every commit in a thread."""


@contextmanager
def tuned() -> Iterator[None]:
    """Tune the interpreter. A threshold that is higher, or 0 (never), is the program's own choice, and stays."""
    _thresholds.append(_thresholds[0] if _thresholds else gc.get_threshold()[0])
    if 0 < _thresholds[0] < AFTER:
        gc.set_threshold(AFTER, *gc.get_threshold()[1:])
    if len(_thresholds) == 1 and gc.get_freeze_count() == 0:  # else the program has frozen its objects itself
        _frozen.append(True)
        gc.freeze()
    try:
        yield
    finally:
        usual = _thresholds.pop()
        if not _thresholds and gc.get_threshold()[0] == AFTER:
            gc.set_threshold(usual, *gc.get_threshold()[1:])
        if not _thresholds and _frozen:
            _frozen.clear()
            gc.unfreeze()


@contextmanager
def switching_fast() -> Iterator[None]:
    """Let threads have the interpreter soon, if it is tuned."""
    if not _thresholds:
        yield
        return
    _intervals.append(_intervals[0] if _intervals else sys.getswitchinterval())
    sys.setswitchinterval(min(SWITCH_INTERVAL_SECONDS, _intervals[0]))
    try:
        yield
    finally:
        usual = _intervals.pop()
        if not _intervals:
            sys.setswitchinterval(usual)
