"""The web without sockets: its ASGI app on a store in memory, and clients with a person's token."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
import httpx
import served_agents
from watching import next_of

from supervisor import ApproverRule, MemoryStore, People, Person, TokenHash, ask, open_supervisor
from supervisor.channels.web.auth import Guard
from supervisor.channels.web.site import make_app
from supervisor.channels.web.state import Site
from supervisor.core.approvals.people import hash_token

HOST = "127.0.0.1:8787"
ORIGIN = f"http://{HOST}"


def csrf_of(login):
    """Return the CSRF token that a browser takes from the answer to its login."""
    return re.search(r"#csrf=([\w-]+)$", login.headers["location"])[1]


AGENTS = [spec for spec in vars(served_agents).values() if hasattr(spec, "takes_text")]


def person(name: str, *roles: str, until: datetime | None = None) -> Person:
    """Somebody whose token is their name."""
    return Person(name=name, roles=roles, tokens=(TokenHash(hash_token(name), until),))


EVERYBODY = People(
    [
        person("olga", "operator"),
        person("ana", "approver"),
        person("cleo", "approver"),
        person("bob"),
        person("late", "operator", until=datetime.now(UTC) - timedelta(seconds=1)),
    ],
    [
        ApproverRule(approvers=("cleo",), agent="chief"),
        ApproverRule(approvers=("ana", "cleo"), rule=ask("note", '{"text": "secret"}')),
    ],
)


class World:
    """A supervisor, its site, and clients of it."""

    def __init__(self, supervisor, site: Site, app) -> None:
        self.supervisor = supervisor
        self.site = site
        self.app = app

    def client(self, token: str | None = None, **options) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        headers.update(options.pop("headers", {}))
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url=ORIGIN, headers=headers, timeout=None, **options
        )

    async def ask(
        self, *, text: str = "bread", agent: str = "noting", requester: str = "olga", file: str = "/dev/null"
    ):
        """Start something that asks, and return what it asks."""
        spec = getattr(served_agents, agent)
        run = await self.supervisor.start(spec, {text: "/dev/null"}, requester=requester)
        return await next_of(run.watch_approvals())


def world_of(supervisor, people: People) -> World:
    site = Site(Guard(people, b"s" * 32, None, "supervisor-8787"), is_secure=False)
    site.serving = supervisor
    return World(supervisor, site, make_app(site, ["127.0.0.1", "localhost"], any_address=False))


@asynccontextmanager
async def world(people: People = EVERYBODY, **options) -> AsyncIterator[World]:
    with anyio.fail_after(60):
        async with open_supervisor(MemoryStore(), agents=AGENTS, people=people, **options) as supervisor:
            yield world_of(supervisor, people)
            for view in await supervisor.find_sessions(is_open=True):
                await supervisor.cancel(view.id, by="olga")
