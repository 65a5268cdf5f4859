"""The composition root of a server on a namespace of Temporal.

    workflows > feed > mirror (a store file) > posting (cards) > channels

The mirror is filled before the channels are served, for at most FILLING seconds: what cannot be read now, because no
worker answers, comes later. The supervisor of app.py runs no sessions here: its journal has the notes of this server.
"""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio

from supervisor.core.approvals.people import People
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.approvals.routes import Route
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.store_urls import TemporalStore
from supervisor.runtime.people.posting import Posting
from supervisor.runtime.people.routing import check_reminders, check_routes
from supervisor.seam.channel import Channel
from supervisor.seam.supervisor import StoreSupervisor
from supervisor.system.interpreter import tuned
from supervisor.temporal.client.cards import NamespaceCards
from supervisor.temporal.client.served import ServedSupervisor
from supervisor.temporal.connection import connect_to_server, keep_credentials, prepare
from supervisor.temporal.mirror.store import FileFeed, MirrorFile
from supervisor.temporal.telemetry import Metrics
from supervisor.wiring.app import serving

FILLING_SECONDS: Final = 10.0


@asynccontextmanager
async def open_cluster(
    named: TemporalStore,
    store: MirrorFile,
    *,
    agents: Mapping[str, AgentSpec[..., Any]],
    channels: Sequence[Channel],
    people: People | None,
    reminders: Reminders,
    routes: Sequence[Route],
) -> AsyncIterator[StoreSupervisor]:
    """Serve a namespace. Raises as `open_temporal`; InvalidInput for a file that is no mirror of it; StoreError."""
    check_routes(routes, channels, people)
    check_reminders(reminders, channels, people)
    if people is not None and any(each.quorum > 1 for each in people.reservations):
        raise InvalidInput("on Temporal one person decides: leave quorum away, or use a store of one machine")
    metrics = Metrics()
    client = await connect_to_server(named, metrics.runtime)
    await prepare(client, named)
    store.open()
    feed = FileFeed(store)
    try:
        feed.open()
        supervisor = ServedSupervisor(client, named, store, feed, people, agents, metrics)
        near = supervisor.near
        cards = NamespaceCards(supervisor.runner, near.reader.inputs, client, named, channels)
        with anyio.move_on_after(FILLING_SECONDS):
            await supervisor.mirror.follow_all()
        await cards.find_lost(feed)
        supervisor.runner.journal.catch_up()
        posting = Posting(
            supervisor.runner,
            near.reader,
            near.audience,
            channels,
            "ask",
            reminders,
            near.cards_failed,
            sweep=True,
            routes=routes,
            people=people,
            cards=cards,
            serves=lambda _: True,
        )
        with tuned():
            async with (
                serving(supervisor.runner, near, posting, None, channels, served=supervisor),
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(supervisor.mirror.run, math.inf)
                tasks.start_soon(metrics.keep)
                tasks.start_soon(keep_credentials, client, named)
                try:
                    yield supervisor
                finally:
                    tasks.cancel_scope.cancel()
    finally:
        feed.close()
        store.close()
