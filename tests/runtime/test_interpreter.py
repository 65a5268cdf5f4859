"""The settings of the interpreter belong to the program: they change only if it asks for that, and are restored."""

import gc
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType

import anyio
import pytest

from supervisor import Context, MemoryStore, agent, open_supervisor, tool
from supervisor.system.interpreter import AFTER, SWITCH_INTERVAL_SECONDS, switching_fast, tuned


@tool
async def deploy() -> None:
    pass


@agent
async def waits(ctx: Context) -> None:
    await ctx.call(deploy)


@pytest.mark.parametrize("usual", [0, 700, AFTER + 1])
def test_a_threshold_is_raised_while_a_supervisor_is_open_and_restored_by_the_last(usual: int) -> None:
    """A low threshold is raised. A threshold that the program raised itself, or switched off, is left alone."""
    before = gc.get_threshold()
    raised = AFTER if usual == 700 else usual
    gc.set_threshold(usual, *before[1:])
    try:
        with tuned():
            with tuned():
                assert gc.get_threshold()[0] == raised
            assert gc.get_threshold()[0] == raised
        assert gc.get_threshold() == (usual, *before[1:])
    finally:
        gc.set_threshold(*before)


@pytest.fixture
def nothing_is_frozen() -> Iterator[None]:
    gc.unfreeze()  # what conftest.py has frozen
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_is_frozen")
def test_a_full_collection_visits_only_objects_that_are_younger_than_the_supervisor() -> None:
    """They are frozen while one is open. Objects that the program froze itself stay frozen."""
    assert gc.get_freeze_count() == 0
    with tuned():
        assert len(gc.get_objects()) < 100 < gc.get_freeze_count()
        with tuned():
            pass
        assert gc.get_freeze_count() > 100
    assert gc.get_freeze_count() == 0
    first, second = tuned(), tuned()
    first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_freeze_count() > 100, "until the last one closes"
    second.__exit__(None, None, None)
    assert gc.get_freeze_count() == 0
    gc.freeze()
    try:
        with tuned():
            pass
        assert gc.get_freeze_count() > 100
    finally:
        gc.unfreeze()


def test_threads_are_switched_faster_only_in_a_tuned_interpreter() -> None:
    """The interval is short while a commit runs in a thread, and is restored after it."""
    before = sys.getswitchinterval()
    with switching_fast():
        assert sys.getswitchinterval() == before
    with tuned(), switching_fast():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_SECONDS)
    assert sys.getswitchinterval() == before


@pytest.mark.anyio
@pytest.mark.parametrize("is_asked", [False, True])
async def test_a_library_leaves_the_interpreter_alone(is_asked: bool) -> None:
    """The program that opens a supervisor decides whether the whole process may be tuned for it."""
    before = gc.get_threshold()
    async with open_supervisor(MemoryStore(), tune_interpreter=is_asked):
        assert (gc.get_threshold() != before) is is_asked
    assert gc.get_threshold() == before


@pytest.mark.anyio
async def test_a_full_collection_does_not_visit_passivated_sessions_or_lists() -> None:
    """So it stays short with many of them, even with a store in memory."""
    async with open_supervisor(MemoryStore(), passivate_after=0.0) as supervisor:
        for _ in range(200):
            await supervisor.start(waits)
        while supervisor._runner.attempts.live:  # type: ignore[attr-defined]
            await anyio.sleep(0.01)
        pages = await supervisor.find_sessions(limit=None), await supervisor.find_approvals(limit=None)
        gc.collect()  # the first one finds tuples that hold only text and numbers, and stops visiting them
        assert sum(map(gc.is_tracked, _reached([supervisor.store, *pages]))) < 100


def _reached(root: object) -> list[object]:
    """Return the objects that the collector reaches from an object, but for classes, functions and modules."""
    found, seen = [root], {id(root)}
    for each in found:
        if not isinstance(each, type | FunctionType | ModuleType):
            for other in gc.get_referents(each):
                if id(other) not in seen:
                    seen.add(id(other))
                    found.append(other)
    return found
