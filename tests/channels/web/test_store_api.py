"""What clients ask of the whole store: who serves it to whom, what there is, what goes on."""

from datetime import UTC, datetime

import anyio
import pytest
from sites import world

from supervisor.channels.web.looks import KEPT_SECONDS, Looks

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("who", "roles"), [("olga", ["operator"]), ("ana", ["approver"]), ("bob", [])])
async def test_a_client_learns_who_it_is_and_what_it_talks_to(who, roles):
    """The version of the API, the store, the person, the server's time, and a cursor of now."""
    async with world() as here, here.client(who) as client:
        before = datetime.now(UTC)
        found = (await client.get("/api")).json()
        assert (found["api"], found["person"], found["roles"]) == (1, who, roles)
        assert before <= datetime.fromisoformat(found["now"]) <= datetime.now(UTC)
        assert found["cursor"].startswith(f"{found['store']}.")


async def test_agents_owners_counts_and_the_audit_trail_are_read():
    """By all authenticated people."""
    async with world() as here, here.client("bob") as client:
        asked = await here.ask()
        agents = {each["name"]: each for each in (await client.get("/api/agents")).json()["items"]}
        assert agents["running"]["input"] == {"type": "string"}
        assert (await client.get("/api/counts")).json()["pending_approvals"] == 1
        assert isinstance((await client.get("/api/owners")).json()["items"], list)
        audit = (await client.get("/api/audit", params={"limit": 1000})).json()["items"]
        assert asked.id in [each.get("approval") for each in audit]


async def test_activity_shows_the_pending_approval():
    """So a person may decide it by a bare word afterwards (A12)."""
    async with world() as here, here.client("olga") as client:
        asked = await here.ask()
        (doing,) = (await client.get("/api/activity", params={"session": asked.session})).json()["items"]
        assert doing["doing"][0]["approval"]["id"] == asked.id
        assert asked.id in here.site.shown.to("olga")
        assert (await client.get("/api/activity", params={"session": "nowhere"})).status_code == 404


class Watched:
    """A Supervisor of which only the watches are looked at."""

    def __init__(self) -> None:
        self.opened: list[str | None] = []
        self.closed: list[str | None] = []

    def watch_activity(self, session=None):
        return Watch(self, session)


class Watch:
    def __init__(self, watched: Watched, session: str | None) -> None:
        self.watched, self.session = watched, session

    async def __aenter__(self):
        self.watched.opened.append(self.session)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.watched.closed.append(self.session)

    async def look(self, **_: object):
        await anyio.lowlevel.checkpoint()
        return []


class TestLooks:
    @pytest.fixture
    def anyio_backend(self, virtual_backend):
        return virtual_backend

    async def test_all_clients_share_one_look_and_it_is_forgotten_after_a_while(self):
        """However many draw a tree, it is watched once; what was not looked at for a minute is closed."""
        looks, watched = Looks(), Watched()
        async with anyio.create_task_group() as tasks:
            for session in (None, "mine", None, None):
                tasks.start_soon(
                    lambda session=session: looks.look(watched, session, after=None, limit=9, wholly=False)
                )
        assert sorted(watched.opened, key=str) == [None, "mine"]
        await anyio.sleep(KEPT_SECONDS - 1)
        await looks.look(watched, None, after=None, limit=9, wholly=False)
        await anyio.sleep(KEPT_SECONDS - 1)
        await looks.look(watched, None, after=None, limit=9, wholly=False)
        assert (len(watched.opened), watched.closed) == (2, ["mine"])
