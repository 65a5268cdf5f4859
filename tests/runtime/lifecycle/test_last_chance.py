"""R5: attempts at their last chance begin one after the other. A launch is over when its attempt has begun."""

import anyio
import pytest
from scenes import events, fork, opened

from supervisor import Context, MemoryStore, agent
from supervisor.core import events as e

pytestmark = pytest.mark.anyio


@agent
async def thinker(ctx: Context) -> None:
    await anyio.sleep(1)  # no operation, so the attempt is barren


async def killed_twice(*sessions):
    """Return the store of runs whose process was killed twice before they had appended anything."""
    store = MemoryStore()
    for _ in range(2):
        async with opened(store) as supervisor:
            for session in sessions:
                await supervisor.start(thinker, session=session)
            await anyio.sleep(0.1)
            store = fork(store)
    return store


async def test_no_launch_outlives_the_begin_of_its_attempt():
    """Else it would take back the marks of the next launch of its session, which may come at once: two attempts of one
    session would run."""
    async with opened(await killed_twice("s")) as supervisor:
        run, launcher = await supervisor.resume("s"), supervisor._runner.launcher
        await anyio.sleep(0.5)
        assert len(events(supervisor.store, "s", e.AttemptStarted)) == 3
        assert not launcher._last_chance.locked()
        await run.result()


async def test_the_next_one_begins_when_the_one_before_is_past():
    async with opened(await killed_twice("a", "b")) as supervisor:
        for run in [await supervisor.resume(session) for session in ("a", "b")]:
            await run.result()

        rows = [row for row in supervisor.store.rows(0) if isinstance(row.event, e.AttemptStarted | e.RunFinished)]
        assert [type(row.event) for row in rows[-4:]] == [e.AttemptStarted, e.RunFinished] * 2
