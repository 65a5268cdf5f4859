"""How a cancel reaches a body on another worker soon: a courier tells that worker to ask the server.

A body learns of its cancel by the answer to a sign of life, which it gives once a second. The worker that runs the
session knows earlier. It asks the server where the body runs: the mark of each body names a queue that its worker alone
reads. A workflow that is started there, a courier, lets the body give a sign of life at once.

Rules
- The server alone says that a body is cancelled. A courier that is lost costs time, and nothing else.
- The bodies of a session that are cancelled together take one look, and one courier for each worker.
"""

import secrets
from datetime import timedelta
from typing import Final

import anyio
from temporalio.client import Client
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError

from supervisor.system.logs import FactLog
from supervisor.temporal.connection import SOON
from supervisor.temporal.wire import COURIER, QUEUE

log = FactLog(__name__)

QUEUE_MARK: Final = "queue"
"""The name of the queue in the mark of a body."""
TOGETHER_SECONDS: Final = 0.02
"""How long a courier waits for more bodies of its session, and for the server to know of the cancel."""
LATE: Final = timedelta(seconds=5)
"""When a courier that no worker takes is given up."""


class Couriers:
    """The couriers of a worker: those that it sends, and the queue at which it gets those of others."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.queue = f"{QUEUE}~~{secrets.token_hex(8)}"
        self._asked: dict[str, list[str]] = {}
        """By session, the bodies that the next look is for."""

    def ask(self, tree: str, activity: str) -> bool:
        """Note that a body is to be told. Return whether `send` is to be run for its session: none waits for more."""
        is_first = tree not in self._asked
        self._asked.setdefault(tree, []).append(activity)
        return is_first

    async def send(self, tree: str) -> None:
        """Send couriers to the workers of the bodies of a session."""
        await anyio.sleep(TOGETHER_SECONDS)
        activities = self._asked.pop(tree)
        try:
            for queue, found in (await self._find_queues(tree, activities)).items():
                await self._client.start_workflow(
                    COURIER,
                    args=[tree, found],
                    id=f"courier~{secrets.token_hex(8)}",
                    task_queue=queue,
                    execution_timeout=LATE,
                    rpc_timeout=SOON,
                )
        except (RPCError, TemporalError) as error:
            log.debug("courier.not_sent", session=tree, reason=str(error))

    async def _find_queues(self, tree: str, activities: list[str]) -> dict[str, list[str]]:
        """Return the bodies that run, by the queues of their workers."""
        described = await self._client.get_workflow_handle(tree).describe(rpc_timeout=SOON)
        found: dict[str, list[str]] = {}
        for each in described.raw_description.pending_activities:
            if each.activity_id in activities and each.heartbeat_details.payloads:
                (mark,) = await self._client.data_converter.decode(each.heartbeat_details.payloads)
                if isinstance(mark, dict) and QUEUE_MARK in mark and mark[QUEUE_MARK] != self.queue:
                    found.setdefault(mark[QUEUE_MARK], []).append(each.activity_id)
        return found
