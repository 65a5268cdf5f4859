"""Dump a process that makes no progress: where each of its tasks is, and the state of its runner.

Rules
- A busy machine is no hang. A process hangs if it commits nothing and begins no effect for a long time. The dump shows
  how much processor time it took meanwhile.
- A thread writes the dump, since the loop may hang.
"""

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trio

HANGS = 8.0  # seconds without any progress; no program waits for as long by itself
KINDS = {99: "hang", 98: "diverged", 97: "asleep"}
"""Exit codes. diverged: an agent does not ask for what its journal holds; asleep: all runs wait, or left memory."""


def watch(progress: Callable[[], Any], runner: Callable[[], Any]) -> None:
    """From now on, end this process with a dump if it makes no progress. Call this in the event loop."""
    tasks = _trio_tasks if _is_trio() else _asyncio_tasks
    root = trio.lowlevel.current_root_task() if _is_trio() else asyncio.get_running_loop()
    threading.Thread(target=_watch, args=(progress, runner, tasks, root), daemon=True).start()


def _is_trio() -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def _watch(progress: Callable[[], Any], runner: Callable[[], Any], tasks: Any, root: Any) -> None:
    last, since, cpu = progress(), time.monotonic(), time.process_time()
    while True:
        time.sleep(0.25)
        if (now := progress()) != last:
            last, since, cpu = now, time.monotonic(), time.process_time()
        elif time.monotonic() - since > HANGS:
            say = [f"no progress for {HANGS} s, in which it took {time.process_time() - cpu:.2f} s of a processor"]
            try:
                say += [*_runner(runner()), *tasks(root)]
            except BaseException:
                say.append(traceback.format_exc())
            sys.stderr.write("\n".join(say) + "\n")
            for thread, frame in sys._current_frames().items():
                sys.stderr.write(f"\nthread {thread}\n{''.join(traceback.format_stack(frame))}")
            sys.stderr.flush()
            os._exit(_kind(runner()))


def _kind(runner: Any) -> int:
    if runner is None or runner.is_closed:
        return 99
    if any(attempt.blocked and attempt.replay.is_replaying for attempt in runner.attempts.live.values()):
        return 98
    waits = all(attempt.is_quiet for attempt in runner.attempts.live.values())
    return 97 if waits and not runner.attempts.preparing and not runner.journal._is_committing else 99


def _runner(runner: Any) -> Iterator[str]:
    if runner is None:
        return
    journal, alarm = runner.journal, runner.alarm
    yield f"journal: { ({name: value for name, value in vars(journal).items() if name not in ('states', 'store')}) }"
    yield f"alarm: planned {alarm._planned}, lag {alarm.lag}, {sorted(map(str, alarm._heap))[:20]}"
    attempts = runner.attempts
    yield f"runner: running {attempts._running}, preparing {attempts.preparing}, refusals {attempts.refusals}"
    for attempt in attempts.live.values():
        yield (
            f"{attempt!r} in flight {attempt.in_flight}, waiting {attempt.waiting}, blocked {attempt.blocked}, "
            f"quiet {attempt.is_quiet}, sealed {attempt.is_sealed}, "
            f"hot {attempt.settling.hot}, held {attempt.settling.held}, "
            f"unclaimed {[*attempt.replay.unclaimed]}, front {attempt.replay.front(attempt.state)}, "
            f"turns {[*attempt._turns]}, waiters {[*attempt._waiters]}, order {attempt.state.order}, "
            f"pauses {attempt.watch.inactivity.pauses}"
        )


def _trio_tasks(root: Any, depth: int = 0) -> Iterator[str]:
    yield f"{'  ' * depth}{root.name}: {_places(root.coro)}"
    for nursery in root.child_nurseries:
        for task in nursery.child_tasks:
            yield from _trio_tasks(task, depth + 1)


def _asyncio_tasks(loop: Any) -> Iterator[str]:
    for task in asyncio.all_tasks(loop):
        yield f"{task.get_name()}: {_places(task.get_coro())}"


def _places(coroutine: Any) -> str:
    found = []
    while coroutine is not None:
        frames = (getattr(coroutine, f"{kind}_frame", None) for kind in ("cr", "gi", "ag"))
        found += [f"{Path(f.f_code.co_filename).name}:{f.f_lineno} {f.f_code.co_name}" for f in frames if f is not None]
        coroutine = (
            getattr(coroutine, "cr_await", None)
            or getattr(coroutine, "gi_yieldfrom", None)
            or getattr(coroutine, "ag_await", None)
        )
    return " < ".join(reversed(found))
