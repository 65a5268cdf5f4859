"""What goes on in a tree, told while it goes on: one line on stderr for each event that a person would want to know.

What happened before this process opened the store is not told again; `supervisor show` has it.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import anyio

from supervisor.abc import Supervisor
from supervisor.cli.story import Story
from supervisor.core.errors import StoreError
from supervisor.core.events import AnyEvent, OperationFinished


async def follow(
    supervisor: Supervisor, root: str, since: datetime, say: Callable[..., None], wants: Callable[[AnyEvent], bool]
) -> None:
    """Tell the events of a tree that somebody wants, from `since` on, until it ends or the caller is cancelled."""
    story = Story(brief=True)

    async def watch(session: str) -> None:
        with suppress(StoreError):  # the store was closed, or died: whoever runs the tree says so
            await tell(session)

    async def tell(session: str) -> None:
        async for row in supervisor.watch(session):
            now = datetime.now().astimezone()
            sentence = story.tell(row, now)
            if isinstance(row.event, OperationFinished) and row.event.kind == "spawn" and row.event.child:
                tasks.start_soon(watch, row.event.child)
            if wants(row.event) and row.event.at >= since:
                local = row.event.at.astimezone(now.tzinfo)
                say(f"{local:%H:%M:%S}  {story.name(session)} {sentence}", "dim")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, root)
