"""Forks: a new tree is a new workflow, which begins with the copy of a journal (core/sessions/forking.py).

The client copies what its mirror has of the source, and starts the workflow with that. Then it tells the source.

Rules
- The fork counts when the server has its start. The same fork again is the same one, by the mark in its memo. It tells
  the source again, which journals each fork once: so what a client that died had left is made up for. A source that
  Temporal has ended (mirror/ended.py) is told nothing. Nor is one whose fork is refused: no worker has what it needs.
- A journal that is too large to be carried is refused before anything is sent.
"""

import msgspec

from supervisor.core.errors import SessionConflict
from supervisor.core.ids import check_session_id, digest_of_value, new_session_id
from supervisor.core.values import Fork
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.plans.fork import Forking
from supervisor.seam.commands import Fork as ForkCommand
from supervisor.temporal.client.commands import any_session, send_command
from supervisor.temporal.client.starting import start_tree, start_with
from supervisor.temporal.client.trees import Trees
from supervisor.temporal.wanted import wanted_by
from supervisor.temporal.wire import ForkNote


async def fork_tree(trees: Trees, runner: Runner, command: ForkCommand, who: str) -> Fork:
    """Fork a tree; see Supervisor.fork. `runner`: of the mirror. Raises SessionConflict, InvalidInput, NotFound,
    LimitExceeded; UnknownAgent if no worker has its agents, or the version."""
    root = await trees.read(command.session)
    fork = check_session_id(command.new) if command.new is not None else new_session_id()
    forking = Forking(trees.store, root, command.session, command.before, fork)
    mark = digest_of_value(["fork", root, forking.fork.before])
    entries = [*forking.copied(who, command.version, runner.clock.now())]
    start = start_with(trees, fork, entries, who)
    if (run := await start_tree(trees, start, mark)) is None:
        described = await trees.namespace.describe(fork)
        if (await described.memo()).get("start") != mark:
            raise SessionConflict(f"session {fork} exists already; choose another id for the fork")
    await trees.until_accepted(fork, run, wanted_by(entries))
    note = ForkNote(fork=fork, before=forking.fork.before)
    if await trees.namespace.why_ended(await trees.namespace.describe(root)) is None:
        await send_command(trees, root, "forked", root, who, msgspec.json.encode(note).decode(), check=any_session)
    return forking.fork
