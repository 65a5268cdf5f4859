"""What is on disk after each scene: journals/SCENE.jsonl, an event on each line, one session after another.

The agents are those of the scenes that run on every Supervisor (tests/client/scene_agents.py), on virtual time and over
a store in memory, which gets the same events as a file.
"""

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import msgspec
from golden_faces import in_order
from still_world import BEGAN, Backend, still, without_folder

from supervisor import (
    Answer,
    Approve,
    Deny,
    MemoryStore,
    NotEntitled,
    Origin,
    People,
    Person,
    Run,
    allow,
    deny,
    open_supervisor,
)
from supervisor.core.events import encode_event
from supervisor.events import MessageImported
from supervisor.seam.supervisor import StoreSupervisor

sys.path.append(str(Path(__file__).parents[1] / "client"))
import scene_agents as scenes
from remote_agents import noting, reporting

PEOPLE = People([Person(name="ana", roles=("operator",)), Person(name="eve")])
Play = Callable[[StoreSupervisor], Awaitable[None]]


async def _playing(supervisor: StoreSupervisor, agent: Any, *given: Any, decisions: tuple[Any, ...] = ()) -> Run[Any]:
    """Start an agent as the session `s`, and decide what it asks, in order. The rest is left as it is."""
    run = await supervisor.start(agent, *given, session="s", requester="ana", by="ana", cwd="/")
    async with run.watch_approvals() as watch:
        for decision in decisions:
            asked = await anext(watch)
            await supervisor.decide(asked.id, decision, channel="golden")
    return run


def _plain(agent: Any, *given: Any, decisions: tuple[Any, ...] = ()) -> Play:
    """Return a scene in which a person only decides, and the run then ends."""

    async def play(supervisor: StoreSupervisor) -> None:
        await (await _playing(supervisor, agent, *given, decisions=decisions)).outcome()

    return play


async def _waits(supervisor: StoreSupervisor) -> None:
    run = await _playing(supervisor, scenes.noting_one, "bread")
    async with run.watch_approvals() as watch:
        await anext(watch)


async def _messages(supervisor: StoreSupervisor) -> None:
    run = await _playing(supervisor, scenes.listening, 2)
    for text in ("one", "two"):
        await supervisor.send(run.session, text, by="ana")
        await anyio.sleep(1.0)
    await run.outcome()


async def _turns(supervisor: StoreSupervisor) -> None:
    run = await _playing(supervisor, scenes.remembering, "one")
    await run.outcome()
    await supervisor.send(run.session, "two", by="ana")
    await (await supervisor.get_run(run.session, number=2)).outcome()


async def _cancel(supervisor: StoreSupervisor) -> None:
    run = await _playing(supervisor, scenes.boss, ["one"])
    async with run.watch_approvals() as watch:
        await anext(watch)
    await supervisor.cancel(run.session, reason="enough", by="ana")
    await run.outcome()


async def _fork(supervisor: StoreSupervisor) -> None:
    run = await _playing(supervisor, noting, ["one", "two"], decisions=(Approve(by="ana"), Approve(by="ana")))
    await run.outcome()
    entries = await supervisor.find_entries(run.session)
    before = [type(each.event).__name__ for each in entries].index("ToolCallFinished") + 2
    await supervisor.fork(run.session, before=before, new="t", by="ana")
    await anyio.sleep(1.0)
    await supervisor.cancel("t", by="ana")


async def _retry(supervisor: StoreSupervisor) -> None:
    run = await _playing(supervisor, scenes.costly, decisions=(Approve(by="ana"),))
    await run.outcome()
    with patch.dict(os.environ, {"SCENES_WORK": "1"}):
        await (await supervisor.retry(run.session, by="ana")).outcome()


async def _rules(supervisor: StoreSupervisor) -> None:
    rule = await supervisor.add_rule(deny("reading"), by="ana")
    await supervisor.add_rule(allow("note", '{"text": "bread"}'), by="ana")
    await (await _playing(supervisor, scenes.noting_one, "bread")).outcome()
    await supervisor.revoke_rule(rule.id, by="ana")


async def _refusals(supervisor: StoreSupervisor) -> None:
    run = await _playing(supervisor, scenes.noting_one, "bread")
    async with run.watch_approvals() as watch:
        asked = await anext(watch)
    for refused in (
        supervisor.decide(asked.id, Approve(by="eve"), channel="golden"),
        supervisor.cancel(run.session, by="eve"),
        supervisor.send(run.session, "hello", by="eve"),
    ):
        try:
            await refused
        except NotEntitled:
            continue
        raise AssertionError("a stranger was admitted")


async def _import(supervisor: StoreSupervisor) -> None:
    origin = Origin("pi", "7", "/sessions/7.jsonl", "0" * 64, "/")
    said = [("user", "hello"), ("assistant", "good morning")]
    messages = [MessageImported(at=BEGAN, said_at=BEGAN, role=role, text=text) for role, text in said]
    async with supervisor.import_session("s", origin, agent=scenes.remembering) as importing:
        await importing.add(messages)
        await importing.finish(1)


SCENES: dict[str, Play] = {
    "asked": _waits,
    "approved": _plain(scenes.noting_one, "bread", decisions=(Approve(by="ana"),)),
    "denied": _plain(scenes.noting_one, "bread", decisions=(Deny(by="ana", reason="no bread"),)),
    "edited": _plain(scenes.noting_one, "bread", decisions=(Approve(by="ana", arguments={"text": "cake"}),)),
    "allowed-for-the-session": _plain(scenes.noting_twice, "bread", decisions=(Approve(by="ana", scope="session"),)),
    "questions": _plain(
        scenes.polling,
        decisions=(
            Answer(value="tea", by="ana"),
            Answer(value={"name": "bob", "number": 2}, by="ana"),
            Deny(by="ana", reason="do not ask"),
        ),
    ),
    "sub-agent": _plain(scenes.boss, ["one"], decisions=(Answer(value="well", by="ana"),)),
    "called-sub-agent": _plain(scenes.delegating, decisions=(Approve(by="ana"),)),
    "cancelled-sub-agent": _plain(scenes.strict),
    "timer": _plain(scenes.sleeper, 90.0),
    "expiry": _plain(scenes.unheard),
    "deadline": _plain(scenes.overdue),
    "stalled": _plain(scenes.stuck),
    "steps": _plain(scenes.stepping, "ann"),
    "named": _plain(scenes.naming),
    "chance": _plain(scenes.chancy),
    "reports": _plain(reporting, 2),
    "code-rules": _plain(scenes.ruled),
    "messages": _messages,
    "turns": _turns,
    "cancelled": _cancel,
    "fork": _fork,
    "retry": _retry,
    "rules": _rules,
    "refusals": _refusals,
    "import": _import,
}


def write_all(backend: Backend) -> dict[str, str]:
    """Return the journal of each scene, by its file."""
    found = {}
    for scene, play in SCENES.items():
        name, options = backend()
        with still():
            rows = anyio.run(_rows, play, backend=name, backend_options=options)
        lines = (msgspec.json.encode({"session": row.session, **_fields(row.event)}).decode() for row in in_order(rows))
        found[f"journals/{scene}.jsonl"] = without_folder("".join(f"{line}\n" for line in lines))
    return found


async def _rows(play: Play) -> list[Any]:
    store = MemoryStore()
    with anyio.fail_after(30 * 86_400.0):
        async with open_supervisor(store, people=PEOPLE) as supervisor:
            await play(supervisor)
    return list(store.rows(0))


def _fields(event: Any) -> dict[str, Any]:
    return msgspec.json.decode(encode_event(event), type=dict[str, Any])
