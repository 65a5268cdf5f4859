"""Which thread of the checkpointer a turn goes on with, and where in it.

Rules
- A session has one thread: a later turn sends its message to what the turn before it has left, the whole state.
- A turn goes on from the checkpoint at which the last turn that succeeded has ended. What a failed turn has written
  after that is not part of it.
- A session of a former version, which had a thread for each turn, goes on in the latest one that has ended.
- A fork has a thread of its own, and the state is copied into it. If the checkpointer cannot, the fork has the messages
  only, and says so.
"""

from typing import Any

import msgspec
from langgraph.types import StateSnapshot

from supervisor.agents.langgraph.checks import Graph
from supervisor.seam.context import Context


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn begins. `base`: the checkpoint from which it goes on; None: a new thread, with the messages of the
    turns before. `start`: the last checkpoint of the thread at that time. `lost`: the thread whose state is not there.
    """

    thread: str
    base: str | None = None
    start: str | None = None
    lost: str | None = None


def checkpoint_of(state: StateSnapshot) -> str | None:
    """Return the id of a state's checkpoint; None for a thread that is not known."""
    return None if state.created_at is None else state.config["configurable"].get("checkpoint_id")


def config_of(thread: str, checkpoint: str | None = None) -> Any:
    found = {"thread_id": thread}
    return {"configurable": found if checkpoint is None else {**found, "checkpoint_id": checkpoint}}


async def place_of(ctx: Context, graph: Graph) -> Place:
    """Return where the turn of this run begins."""
    before, own = ctx.saved_before(), ctx.session if ctx.run_number == 1 else f"{ctx.session}:{ctx.run_number}"
    if not before:
        return Place(thread=own)
    thread, at = before[-1].get("thread"), before[-1].get("at")
    if thread is None or at is None:
        return await _latest(ctx, graph) or Place(thread=own)
    if thread.partition(":")[0] == ctx.session:
        latest = checkpoint_of(await graph.aget_state(config_of(thread)))
        return Place(thread=thread, base=at, start=latest or at)
    if await _copy(graph, config_of(thread, at), own):
        return Place(thread=own, base=at, start=at)
    return Place(thread=own, lost=thread)


async def _latest(ctx: Context, graph: Graph) -> Place | None:
    for number in range(ctx.run_number - 1, 0, -1):
        thread = ctx.session if number == 1 else f"{ctx.session}:{number}"
        state = await graph.aget_state(config_of(thread))
        if (at := checkpoint_of(state)) is not None and not state.next:
            return Place(thread=thread, base=at, start=at)
    return None


async def _copy(graph: Graph, source: Any, target: str) -> bool:
    """Copy the state at a checkpoint into another thread; False if the checkpointer cannot."""
    saver: Any = graph.checkpointer
    if (found := await saver.aget_tuple(source)) is None:
        return False
    into = {"configurable": {"thread_id": target, "checkpoint_ns": ""}}
    await saver.aput(into, found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
    values, copied = (await graph.aget_state(source)).values, (await graph.aget_state(config_of(target))).values
    return bool(values == copied)
