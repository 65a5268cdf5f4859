"""What waits in the recorded store `acp`: a request that waits and one that was approved, of two agents. One of them
gives raw inputs. The sessions that the agents themselves have on disk are recorded, too.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import anyio
from crossing_acp import AGENTS, HOME
from recording import knowing_no_agents, live

from supervisor import Approve, MemoryStore, StoreSupervisor
from supervisor.core import events as e

NAME = re.compile(r"fake-[0-9a-f]{8}")
"""An agent's own name of a session."""
PROCESS = re.compile(r'"process":(\{[^}]*\})')
"""The process of an agent in its saved state."""


async def record(home: Path) -> tuple[MemoryStore, dict[str, Any], dict[str, str]]:
    """Return the store, the agents' own sessions, and the texts that only this run has."""
    os.environ[HOME] = str(home)
    store = await live(MemoryStore(), _begin)
    store = await live(store, _decide)
    texts = [e.encode_event(row.event).decode() for row in store.rows(0)]
    names = dict.fromkeys(found for text in texts for found in NAME.findall(text))
    fixed = {name: f"fake-{number:08d}" for number, name in enumerate(names, start=1)}
    sessions = {new: json.loads((home / "sessions" / f"{name}.json").read_text()) for name, new in fixed.items()}
    processes = {found for text in texts for found in PROCESS.findall(text)}
    return store, sessions, fixed | dict.fromkeys(processes, "null")


async def _asked(supervisor: StoreSupervisor, session: str) -> str:
    while not (found := await supervisor.find_approvals(session=session)):
        await anyio.sleep(0.005)
    return found[0].id


async def _begin(supervisor: StoreSupervisor) -> None:
    for name, spec in AGENTS.items():
        for state in ("waits", "decided"):
            await supervisor.start(spec, "go", session=f"{name}-{state}", requester="ann")
            await _asked(supervisor, f"{name}-{state}")


async def _decide(supervisor: StoreSupervisor) -> None:
    with knowing_no_agents():
        for name in AGENTS:
            await supervisor.decide(await _asked(supervisor, f"{name}-decided"), Approve(by="ben"))
