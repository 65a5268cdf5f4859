"""A daemon's process with one schedule, at an hour of the wall clock that the job says. It ends when all is done."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
from dying import DyingStore

from supervisor import Context, Schedule, agent, open_supervisor
from supervisor.testing import wall_clock

MIDNIGHT = datetime(2027, 1, 1, tzinfo=UTC)


async def note(folder: str) -> None:
    with Path(folder, "effects").open("a") as file:
        file.write("x")


@agent
async def noting(ctx: Context, folder: str) -> str:
    await ctx.step(note, folder)
    return "noted"


async def live(job: dict[str, Any]) -> None:
    """`done`: the hour of the instant that ends this life; None: it looks once and ends."""
    schedule = Schedule("hourly", "noting", job["folder"], cron="0 * * * *", if_running="after")
    news = anyio.Event()
    with wall_clock() as wall, anyio.fail_after(30):
        wall.stands_at = MIDNIGHT + timedelta(hours=job["hour"])
        store = DyingStore(Path(job["folder"]), job.get("die"))
        async with open_supervisor(store, agents=[noting], schedules=[schedule], adopt=True) as supervisor:
            supervisor.listen(lambda rows: news.set())
            while not await is_done(supervisor, job["done"]):
                await news.wait()
                news = anyio.Event()


async def is_done(supervisor: Any, hour: int | None) -> bool:
    found = await supervisor.find_schedules()
    is_handled = bool(found) and (hour is None or (found[0].last is not None and found[0].last.hour == hour))
    return is_handled and not await supervisor.find_sessions(is_open=True)


def main(job: dict[str, Any]) -> int:
    anyio.run(live, job, backend=job["backend"])
    return 0
