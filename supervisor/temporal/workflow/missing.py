"""What a worker does that lacks an agent of a tree: it leaves the tree to another worker.

A worker that lacks an agent or a version fails the task of the workflow, which Temporal gives to a worker again. It
decides nothing. So a tree waits for a worker that can run it, and no run of it is blocked there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.temporal.wanted import Wanted
from supervisor.temporal.workflow.references import NO_AGENT, find_referred


class AgentMissing(Exception):
    """The worker lacks an agent of a tree, or its version. It is no FailureError of temporalio, so it fails the task of
    the workflow, and not the workflow."""

    def __init__(self, agent: str, text: str) -> None:
        super().__init__(text)
        self.agent = agent


def find_missing(wanted: Sequence[Wanted], agents: Mapping[str, AgentSpec[..., Any]]) -> AgentMissing | None:
    """Return the first agent that this worker lacks; None if it has all. `agents`: those that it offers."""
    for each in wanted:
        spec = agents.get(each.name) if each.reference is None else find_referred(each.reference, each.name)
        shown = repr(each.name) if each.reference is None else each.reference
        if spec is None:
            return AgentMissing(each.name, f"{NO_AGENT} {shown}")
        try:
            spec.at_version(each.version or spec.version)
        except UnknownAgent as error:
            return AgentMissing(each.name, f"{NO_AGENT} {shown} of version {each.version}: {error}")
    return None


def find_misfit(wanted: Sequence[Wanted], agents: Mapping[str, AgentSpec[..., Any]]) -> str | None:
    """Return why an agent of this worker does not take the input that it is to have; None if each does."""
    for each in wanted:
        if each.given is msgspec.UNSET or (spec := agents.get(each.name)) is None:
            continue
        try:
            spec.check_input(spec.default_input() if each.given is None else each.given.encode())
        except InvalidInput as error:
            return str(error)
    return None
