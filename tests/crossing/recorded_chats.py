"""What waits in the recorded stores `slack`, `discord` and `telegram`, and what stands on these platforms.

A person has begun forms and not sent them. One approval was decided while no channel was open, so its card still has
its buttons. The process died after the platform had taken the last card, and before it could note it.
"""

from typing import Any

import anyio
import crossing_agents as agents
from chat_platforms import Platform, until
from recording import AT, dying, knowing_no_agents, live

from supervisor import Deny, MemoryStore, StoreSupervisor
from supervisor.core import events as e

STARTED = {
    "card": (agents.caller, "a"),
    "edit": (agents.caller, "b"),
    "why": (agents.caller, "c"),
    "tree": (agents.parent, ["d"]),
    "question": (agents.asker,),
    "answer": (agents.asker,),
    "fields": (agents.releaser,),
    "choices": (agents.chooser,),
    "secret": (agents.publisher,),
    "elsewhere": (agents.caller, "e"),
}
FORMS = {"edit": "edit", "why": "explain", "answer": "reply", "fields": "reply"}
"""The forms that are open, with the codes of their buttons."""
FOUND = "found"


async def record(platform: Platform) -> tuple[MemoryStore, Any, dict[str, str]]:
    """Return the store, the state of the platform with the open forms, and the texts to replace in both."""
    forms: dict[str, Any] = {}

    async def begin(supervisor: StoreSupervisor) -> None:
        for session, (spec, *given) in STARTED.items():
            await supervisor.start(spec, *given, session=session, requester="ann")
            approval = await _shown(supervisor, session)
            await until(lambda approval=approval: platform.codes(platform.cards()[approval]))
            if session in FORMS:
                form = await platform.open_form(approval, FORMS[session])
                forms[session] = await platform.half_fill(form, {"channel": "beta"} if session == "fields" else "")

    async def restart(supervisor: StoreSupervisor) -> None:
        """A process that goes on notes what the cards show that have their buttons since they were noted."""
        for number, session in enumerate(STARTED, start=1):
            await supervisor.resume(session)
            while sum(isinstance(row.event, e.CardPosted) and row.event.shows != "" for row in store.rows(0)) < number:
                await anyio.sleep(0.005)

    async def lose(supervisor: StoreSupervisor) -> None:
        await supervisor.start(agents.caller, "f", session=FOUND, requester="ann")
        await _shown(supervisor, FOUND)

    with platform.serving:
        store = await live(MemoryStore(), begin, channels=[platform.open()])
        if platform.name == "telegram":
            store = await live(store, restart, channels=[platform.open()])
        store = await live(store, _decide)
        if platform.name != "telegram":  # it cannot be searched: a card of which no process knows has no buttons
            store = await dying(store, lose, FOUND, e.CardBegun, channels=[platform.open()])
        state, replaced = platform.save(AT)
    return store, {"state": state, "forms": forms}, replaced


async def _shown(supervisor: StoreSupervisor, session: str) -> str:
    """Wait until the card of a tree is noted, and return the id of its approval."""
    while True:
        for each in await supervisor.find_approvals():
            if each.root_session == session and each.shown:
                return each.id
        await anyio.sleep(0.005)


async def _decide(supervisor: StoreSupervisor) -> None:
    with knowing_no_agents():
        (asked,) = await supervisor.find_approvals(session="elsewhere")
        await supervisor.decide(asked.id, Deny(by="ben"))
