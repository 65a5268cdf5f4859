"""The sides of one seam: a supervisor next to its store, the same one by a daemon's HTTP API, and one on Temporal."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from remote_agents import AGENTS, effects
from temporal_server import namespace, working

from supervisor import ApproverRule, MemoryStore, People, Person, Supervisor, TokenHash, open_remote, open_supervisor
from supervisor.channels.web import make_web
from supervisor.channels.web.server import listen
from supervisor.core.approvals.people import hash_token
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.store_urls import read_temporal_url


def person(name: str, *roles: str, until: datetime | None = None) -> Person:
    """Somebody whose token is token-of-NAME."""
    return Person(name=name, roles=roles, tokens=(TokenHash(hash_token(f"token-of-{name}"), until),))


EVERYBODY = People(
    [
        person("olga", "operator"),
        person("ana", "approver"),
        person("bob"),
        person("late", "operator", until=datetime.now(UTC) - timedelta(seconds=1)),
    ],
    [ApproverRule(approvers=("olga",), agent="chief")],
)


class Side:
    """`local`: next to the store. `supervisor`: what is tested, which may be the same."""

    def __init__(self, local, supervisor: Supervisor, url: str) -> None:
        self.local = local
        self.supervisor = supervisor
        self.url = url

    async def ask(self, *texts: str, session: str | None = None):
        """Start an agent that asks for each text, and return its run and what it asks first."""
        run = await self.supervisor.start("noting", [*texts] or ["bread"], session=session, requester="olga")
        async with run.watch_approvals() as watch:
            return run, await anext(watch)


@asynccontextmanager
async def serving(store=None, port: int = 0, *, within: float = 60, agents=AGENTS, **options) -> AsyncIterator[tuple]:
    """Serve a store in this process; gives the supervisor next to it, and its address."""
    effects.clear()
    listener = listen("127.0.0.1", port)
    web = make_web(people=EVERYBODY, secret=b"s" * 32, listener=listener, hosts=["127.0.0.1"], **options)
    opened = open_supervisor(
        MemoryStore() if store is None else store, agents=agents, channels=[web], people=EVERYBODY, adopt=True
    )
    with anyio.fail_after(within):
        async with opened as local:
            yield local, f"http://127.0.0.1:{listener.getsockname()[1]}"
            if store is None:  # nothing else ends them
                for view in await local.find_sessions(is_open=True):
                    await local.cancel(view.id, by="olga")


@asynccontextmanager
async def over_temporal() -> AsyncIterator[Side]:
    """Open a supervisor over a namespace of its own, with one worker in this process."""
    from supervisor.temporal import open_temporal

    effects.clear()
    url = await namespace()
    with anyio.fail_after(60):
        async with working(url, AGENTS), open_temporal(url) as supervisor:
            yield Side(supervisor.near, supervisor, url)


@asynccontextmanager
async def over_shared(url: str) -> AsyncIterator[Side]:
    """Open a supervisor over a namespace that has a worker."""
    from supervisor.temporal import open_temporal

    effects.clear()
    with anyio.fail_after(60):
        async with open_temporal(url) as supervisor:
            yield Side(supervisor.near, supervisor, url)


@asynccontextmanager
async def served_on_temporal() -> AsyncIterator[Side]:
    """Open the supervisor of a server on a namespace of its own, with one worker in this process."""
    from supervisor.temporal.mirror.store import MirrorFile
    from supervisor.wiring.cluster import open_cluster

    effects.clear()
    url = await namespace()
    web = make_web(people=EVERYBODY, secret=b"s" * 32, listener=listen("127.0.0.1", 0), hosts=["127.0.0.1"])
    with TemporaryDirectory() as folder, anyio.fail_after(60):
        mirror = MirrorFile(Path(folder) / "mirror.db", url)
        given = {"agents": {}, "channels": [web], "people": EVERYBODY, "reminders": Reminders(), "routes": []}
        async with working(url, AGENTS), open_cluster(read_temporal_url(url), mirror, **given) as supervisor:
            yield Side(supervisor, supervisor, url)


@asynccontextmanager
async def side(
    kind: str, who: str = "olga", store=None, *, served: bool = False, agents=AGENTS, shared: str | None = None
) -> AsyncIterator[Side]:
    """Open one side. `kind`: local, remote or temporal; `who`: whose token it is; `served`: with people, roles and a
    channel, which a server on Temporal has, and the other two always. `shared`: the URL of a namespace that many tests
    share, with its worker."""
    if shared is not None:
        async with over_shared(shared) as here:
            yield here
        return
    if kind == "temporal":
        async with served_on_temporal() if served else over_temporal() as here:
            yield here
        return
    async with serving(store, agents=agents) as (local, url):
        if kind == "local":
            yield Side(local, local, url)
        else:
            async with open_remote(url, token=f"token-of-{who}", reconnect_timeout=5) as remote:
                yield Side(local, remote, url)
