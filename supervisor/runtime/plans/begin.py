"""Plans that begin a session: the events of its first commit, and the limits on sub-agents."""

from typing import Any

from msgspec import Raw

from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.session import SessionState
from supervisor.loading import locate


def first_events(
    spec: AgentSpec[Any, Any], given: Raw, attempt: e.AttemptStarted, **facts: Any
) -> tuple[e.SessionCreated, e.RunStarted, e.AttemptStarted]:
    """Return the three events with which every session begins: it was created, and its run and attempt have begun."""
    agent, file = locate(spec)
    return (
        e.SessionCreated(at=attempt.at, agent=agent, file=file, takes_text=spec.takes_text, **facts),
        e.RunStarted(at=attempt.at, input=given),
        attempt,
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
