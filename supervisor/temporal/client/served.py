"""The Supervisor of a server on a namespace: its mirror is a file, and people with roles give its commands.

Rules
- It follows every tree, so its lists and pages take what is in the mirror. A command is known there when its tree was
  read again, within a second.
- What a server notes itself (cards, reminders, refusals) is in its mirror. Cards are also in the namespace (cards.py);
  the others are lost with the mirror.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from temporalio.client import Client

from supervisor.core.approvals.people import People
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.trees import PruneResult
from supervisor.core.store_urls import TemporalStore
from supervisor.core.values import AgentView
from supervisor.seam.commands import Prune
from supervisor.seam.runs import Page
from supervisor.seam.supervisor import StoreSupervisor
from supervisor.temporal.client.remote import TemporalSupervisor
from supervisor.temporal.mirror.store import Feed, MirrorFile
from supervisor.temporal.telemetry import Metrics


class ServedSupervisor(TemporalSupervisor, StoreSupervisor):
    """`agents`: those that people can start by name; without any, those of the workers."""

    def __init__(
        self,
        client: Client,
        named: TemporalStore,
        store: MirrorFile,
        feed: Feed,
        people: People | None,
        agents: Mapping[str, AgentSpec[..., Any]],
        metrics: Metrics,
    ) -> None:
        super().__init__(client, named, store, feed, people)
        self._agents = agents
        self._metrics = metrics

    @property
    def other_metrics(self) -> Iterable[str]:
        return self._metrics.lines()

    @property
    def people(self) -> People | None:  # type: ignore[override] # a program that serves chooses them at the start
        return self.near.people

    @property
    def refusals(self) -> Mapping[str, str]:
        return {}

    async def find_agents(self) -> Page[AgentView]:
        if not self._agents:
            return await super().find_agents()
        return self._whole(self._agents[name].view() for name in sorted(self._agents))

    async def _prune(self, command: Prune, who: str) -> PruneResult:
        raise InvalidInput(
            "pruning is not possible on Temporal: the namespace removes what is older than its retention"
        )

    def listen(self, listener: Callable[[Sequence[JournalEntry]], object]) -> None:
        self.near.listen(listener)

    async def wait_until_broken(self) -> None:
        await self.near.wait_until_broken()
