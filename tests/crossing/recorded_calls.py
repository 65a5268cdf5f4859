"""What waits in the recorded store `calls`: calls, questions, timers, rules, turns, forks, a blocked run."""

import anyio
import crossing_agents as agents
from recording import dying, knowing_no_agents, live

from supervisor import Answer, Approve, Deny, MemoryStore, RunBlocked, StoreSupervisor, allow, deny
from supervisor.core import events as e

STARTED = {
    "own": (agents.caller, "a"),
    "built": (agents.builder, "b"),
    "secret": (agents.publisher,),
    "sub": (agents.chief, "c"),
    "tree": (agents.parent, ["d", "e"]),
    "branches": (agents.brancher,),
    "cleaning": (agents.cleaner, ["k", "l"]),
    "timer": (agents.mover, "f"),
    "sleep": (agents.sleeper,),
    "saved": (agents.saver, "g"),
    "turns": (agents.worker, "first"),
    "talk": (agents.talker,),
    "session-rule": (agents.repeater, "h"),
    "always-rule": (agents.repeater, "i"),
    "patched": (agents.patcher, "j"),
    "blocked": (agents.follower, "m"),
    "failed": (agents.failer, "n"),
    "stopped": (agents.caller, "o"),
    "text": (agents.asker,),
    "choices": (agents.chooser,),
    "schema": (agents.releaser,),
    "expired": (agents.expirer,),
    "unbegun-approved": (agents.caller, "p"),
    "unbegun-edited": (agents.caller, "q"),
    "unbegun-denied": (agents.caller, "r"),
    "unbegun-answered": (agents.asker,),
}
"""The sessions of the first life, with their agents and inputs."""


async def record() -> MemoryStore:
    """Live several lives."""
    store = MemoryStore()
    for life, options in ((_begin, {}), (_decide, {}), (_fork, {}), (_passivate, {"passivate_after": 1.0})):
        store = await live(store, life, **options)
    for session, given, until in (
        ("dying-approved", "s", e.ApprovalDecided),
        ("executing", "t", e.ToolCallStarted),
    ):
        store = await _die(store, session, given, until)
    return await _block(store)


async def _pause() -> None:
    """Let everything go on that can: the clock is virtual."""
    await anyio.sleep(0.01)


async def _asked(supervisor: StoreSupervisor, session: str) -> str:
    """Return the id of the one approval of a session."""
    await _pause()
    (found,) = await supervisor.find_approvals(session=session)
    return found.id


async def _begin(supervisor: StoreSupervisor) -> None:
    await supervisor.add_rule(deny("rm"), by="ben")
    revoked = await supervisor.add_rule(allow("mv"), by="ben")
    await supervisor.revoke_rule(revoked.id, by="ben")
    for session, (spec, *given) in STARTED.items():
        await supervisor.start(spec, *given, session=session, requester="ann")
        await _pause()
    await supervisor.decide(await _asked(supervisor, "session-rule"), Approve(by="ben", scope="session"))
    approval = await supervisor.get_approval(await _asked(supervisor, "always-rule"))
    pattern = next(option.pattern for option in approval.options if option.scope == "always")
    await supervisor.decide(approval.id, Approve(by="ben", scope="always", pattern=pattern))
    await supervisor.decide(await _asked(supervisor, "turns"), Approve(by="ben"))
    await _pause()
    await supervisor.send("turns", "second", by="ann")
    await supervisor.cancel("stopped", reason="not today", by="ben")
    await supervisor.note_refusal(await _asked(supervisor, "own"), by="eve", reason="she may not", channel="slack")
    await supervisor.start(agents.caller, "finished", session="done", requester="ann")
    await supervisor.decide(await _asked(supervisor, "done"), Approve(by="ben"))
    await _pause()


async def _decide(supervisor: StoreSupervisor) -> None:
    """Decide in a process that runs none of the sessions."""
    with knowing_no_agents():
        for session, decision in (
            ("unbegun-approved", Approve(by="ben")),
            ("unbegun-edited", Approve(by="ben", arguments={"target": "edited", "count": 3})),
            ("unbegun-denied", Deny(by="ben", reason="not on a Friday")),
            ("unbegun-answered", Answer(by="ben", value="production")),
        ):
            result = await supervisor.decide(await _asked(supervisor, session), decision)
            assert (result.kind, result.running) == ("accepted", False), result


async def _fork(supervisor: StoreSupervisor) -> None:
    entries = await supervisor.find_entries("done")
    await supervisor.fork("done", before=len(entries), new="fork", by="ben")


async def _passivate(supervisor: StoreSupervisor) -> None:
    """Leave memory while a tree waits for a person, and one for a timer."""
    await supervisor.start(agents.parent, ["u", "v"], session="passive", requester="ann")
    await supervisor.start(agents.sleeper, session="passive-sleep", requester="ann")
    await anyio.sleep(60)


async def _die(store: MemoryStore, session: str, given: str, until: type) -> MemoryStore:
    """Approve a call, and die after the first commit of such an event."""

    async def approve(supervisor: StoreSupervisor) -> None:
        await supervisor.start(agents.caller, given, session=session, requester="ann")
        await supervisor.decide(await _asked(supervisor, session), Approve(by="ben"))
        await _pause()

    return await dying(store, approve, session, until)


async def _block(store: MemoryStore) -> MemoryStore:
    """Resume a run with code that does not follow its journal."""

    async def resume(supervisor: StoreSupervisor) -> None:
        run = await supervisor.resume("blocked")
        try:
            await run.outcome()
        except RunBlocked:
            return
        raise AssertionError("the run is not blocked")

    agents.is_changed = True
    try:
        return await live(store, resume)
    finally:
        agents.is_changed = False
