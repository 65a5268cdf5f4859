"""Virtual time on both backends: a week of waiting takes no time. For tests of agents, and our own.

When nothing is ready, the loop's clock jumps to the next timer. Use it with anyio's pytest plugin and a MemoryStore:
the clock does not wait for another process or a worker thread, but PATIENCE_SECONDS for a tool or step without async.
With a SqliteStore, `fast_disk()` keeps its commits in the loop, and `slow_disk(0.1)` lets each take so long on that
clock.

    @pytest.fixture(params=[virtual_asyncio, virtual_trio])
    def anyio_backend(request):
        return request.param()

`scripted_approver` decides, `copy_store` and `CopyingStore` kill, `scripted_model` replies, `read_journal` asserts: see
docs/how-to/test-your-agents.md. The fixtures of supervisor/pytest_plugin.py offer the same.
`run_scene` plays one of SCENES with a channel of yours (testing/channels.py).
`fresh_process` is a process that has loaded no agent, and `wall_clock` sets the wall clock.
`wrapped` and `replaced` put a fault or a smaller bound where a test cannot reach otherwise (testing/replacing.py).
`check_replay` checks that the agents of a test follow their journals, from a store or an export.
"""

import asyncio
import selectors
from collections import Counter
from time import monotonic
from typing import Any, Final

import sniffio

from supervisor.runtime.attempt.bodies import began_or_ended
from supervisor.testing.approving import scripted_approver
from supervisor.testing.channels import NOTICES_CANNOT, SCENES, CardSeen, ChannelBench, Failure, run_scene
from supervisor.testing.clocks import WallClock, wall_clock
from supervisor.testing.disks import fast_disk, slow_disk
from supervisor.testing.journals import Journal, read_journal
from supervisor.testing.models import ModelRequest, ModelServer, Turn, scripted_model
from supervisor.testing.platforms import PlatformBench
from supervisor.testing.processes import fresh_process
from supervisor.testing.replacing import replaced, wrapped
from supervisor.testing.stores import CopyingStore, copy_store
from supervisor.wiring.checking import Checked, check_replay, read_export

__all__ = [
    "NOTICES_CANNOT",
    "SCENES",
    "CardSeen",
    "ChannelBench",
    "Checked",
    "CopyingStore",
    "Failure",
    "Journal",
    "ModelRequest",
    "ModelServer",
    "PlatformBench",
    "Turn",
    "WallClock",
    "check_replay",
    "copy_store",
    "fast_disk",
    "fresh_process",
    "read_export",
    "read_journal",
    "replaced",
    "run_scene",
    "scripted_approver",
    "scripted_model",
    "slow_disk",
    "virtual_asyncio",
    "virtual_trio",
    "wall_clock",
    "wrapped",
]


class _JumpingSelector(selectors.DefaultSelector):
    """If nothing is ready, it moves the loop's clock to the next timer instead of sleeping."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.patient_until = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout is None:
            return ready or super().select(None)
        while not ready and (left := self.patient_until - monotonic()) > 0:
            ready = super().select(left)
        if ready:
            return ready
        self.now += timeout
        return ready


class AutojumpLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on virtual time; with nothing ready and no timer it waits for real events."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def be_patient(self, seconds: float) -> None:
        """Do not jump for so many seconds of the real clock."""
        self._jumping.patient_until = monotonic() + seconds


PATIENCE_SECONDS: Final = 0.25
"""Seconds of the real clock for which virtual time waits for a function without async, from the latest one's start."""


class _TrioPatience:
    """Keeps a clock of trio from jumping at once: trio calls it after each wait."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._until = monotonic() + PATIENCE_SECONDS
        clock.autojump_threshold = PATIENCE_SECONDS

    def after_io_wait(self, timeout: float) -> None:
        if monotonic() >= self._until:
            self._clock.autojump_threshold = 0


class _Patience:
    """Lets the virtual clock of a loop wait while functions without async run in it."""

    def __init__(self) -> None:
        self._running = Counter[Any]()
        self._on_trio: dict[Any, _TrioPatience] = {}

    def hear(self, change: int) -> None:
        """Note that so many more run, or fewer."""
        if sniffio.current_async_library() == "trio":
            import trio.testing

            clock: Any = trio.lowlevel.current_clock()
            if isinstance(clock, trio.testing.MockClock) and clock.autojump_threshold in (0, PATIENCE_SECONDS):
                self._hear_on_trio(trio.lowlevel, clock, change)
        elif isinstance(loop := asyncio.get_running_loop(), AutojumpLoop):
            self._running[loop] += change
            loop.be_patient(PATIENCE_SECONDS if self._running[loop] else 0.0)

    def _hear_on_trio(self, lowlevel: Any, clock: Any, change: int) -> None:
        self._running[clock] += change
        if (before := self._on_trio.pop(clock, None)) is not None:
            lowlevel.remove_instrument(before)
        clock.autojump_threshold = 0
        if self._running[clock]:
            self._on_trio[clock] = _TrioPatience(clock)
            lowlevel.add_instrument(self._on_trio[clock])


began_or_ended.append(_Patience().hear)


def virtual_asyncio() -> tuple[str, dict[str, Any]]:
    """Return the value that `anyio_backend` or `anyio.run` takes for asyncio on virtual time."""
    return "asyncio", {"loop_factory": AutojumpLoop}


def virtual_trio() -> tuple[str, dict[str, Any]]:
    """Return the value that `anyio_backend` or `anyio.run` takes for trio on virtual time."""
    import trio.testing  # it imports pytest, for which other processes of a test have no use

    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}
