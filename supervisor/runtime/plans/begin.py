"""Plans that begin a session: the events of its first commit, whether a start means a session that exists, and the
limits on sub-agents."""

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.budgets import Budget
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import SessionConflict
from supervisor.core.sessions.state import SessionState

Where = tuple[str, str | None]
"""An agent's reference, and the file of its module."""


def first_events(
    spec: AgentSpec[Any, Any], where: Where, given: Raw, attempt: e.AttemptStarted, **facts: Any
) -> tuple[e.SessionCreated, e.RunStarted, e.AttemptStarted]:
    """Return the three events with which every session begins: it was created, and its run and attempt have begun."""
    return (
        e.SessionCreated(at=attempt.at, agent=where[0], file=where[1], takes_text=spec.takes_text, **facts),
        e.RunStarted(at=attempt.at, input=given),
        attempt,
    )


def check_same_start(
    known: SessionState,
    references: Collection[str],
    name: str,
    given: Raw,
    folder: str | None,
    is_configured: Callable[[str, str], bool],
    budget: Budget | None = None,
) -> None:
    """Raise SessionConflict unless a session was started with the agent that `references` and `name` name, with this
    input, in this folder and with this budget; None: in any folder, with any budget. `is_configured`: whether this
    process has an agent of this reference under this name."""
    session, facts, first = known.id, known.facts, known.first_input
    if known.origin is not None:
        raise SessionConflict(f"session {session} was imported; send a message to continue it")
    if facts.parent is not None:
        raise SessionConflict(f"session {session} belongs to a sub-agent; choose another id")
    if facts.path[-1] != name and is_configured(facts.agent, facts.path[-1]):
        raise SessionConflict(f"session {session} belongs to agent {facts.path[-1]}, not {name}; choose another id")
    if facts.agent not in references:
        raise SessionConflict(
            f"session {session} belongs to agent {facts.agent}, not {min(references)}; choose another id; if the "
            "agent has moved, import it under its old name in the old module (from NEW import AGENT)"
        )
    if bytes(first) != bytes(given):
        raise SessionConflict(
            f"session {session} was started with input {bytes(first).decode()}, not {bytes(given).decode()}; "
            "choose another id, or pass the same input to continue"
        )
    if folder not in (None, facts.cwd):
        raise SessionConflict(
            f"session {session} works in {facts.cwd}, not {folder}; choose another id, or pass no folder"
        )
    if budget not in (None, facts.budget):
        raise SessionConflict(
            f"session {session} was started with another budget; choose another id, pass none, or raise it: supervisor "
            f"budget {session} usd=..."
        )


def exceeded_limit(state: SessionState, spec: AgentSpec[Any, Any]) -> str | None:
    """Return which limit of the agent's declaration another child would exceed, in words; None for no limit."""
    if len(state.facts.path) > spec.max_depth:
        return f"agent {spec.name} is {len(state.facts.path)} levels deep; max_depth is {spec.max_depth}"
    if len(state.children) >= spec.max_children:
        return f"agent {spec.name} has spawned {len(state.children)} sub-agents; max_children is {spec.max_children}"
    if state.live_children >= spec.max_live_children:
        return (
            f"agent {spec.name} has {state.live_children} sub-agents at work; "
            f"max_live_children is {spec.max_live_children}"
        )
    return None
