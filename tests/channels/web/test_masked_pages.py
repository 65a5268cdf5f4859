"""Secrets on the web: neither a page nor an answer of the API quotes one, to whomever."""

import socket

import anyio
import httpx
import pytest
from watching import next_of

from supervisor import Context, agent, open_supervisor, tool
from supervisor.channels.web import make_web
from supervisor.core.approvals.people import People, Person, TokenHash, hash_token
from supervisor.core.text.masks import MASK

pytestmark = pytest.mark.anyio
PLANTED = "hunter2"


@tool(secret=["token"])
async def enter(user: str, token: str) -> str:
    return f"welcome {user}"


@agent
async def entering(ctx: Context, text: str) -> str:
    return (await ctx.call(enter, "ana", PLANTED)).content


async def test_a_secret_is_on_no_page_and_in_no_answer(tmp_path):
    """The inbox, the card, the session, its journal and its talk have the mask."""
    ana = Person(name="ana", roles=("operator",), tokens=(TokenHash(hash_token("ana")),))
    with socket.create_server(("127.0.0.1", 0)) as listener, anyio.fail_after(60):
        web = make_web(people=People([ana]), secret=b"x" * 32, listener=listener, hosts=["localhost"])
        async with open_supervisor(tmp_path / "state.db") as supervisor:
            web.site.serving = supervisor
            run = await supervisor.start(entering, "go", session="s", requester="ana")
            approval = (await next_of(run.watch_approvals())).id
            transport = httpx.ASGITransport(web._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                assert (await client.post("/login", data={"token": "ana"})).status_code == 303
                pages = ["/", f"/approvals/{approval}", "/sessions", "/sessions/s", "/history", "/history?text=ana"]
                answers = [f"/api/approvals/{approval}", "/api/approvals", "/api/sessions/s", "/api/sessions/s/journal"]
                found = {path: (await client.get(path)) for path in [*pages, *answers, "/api/sessions/s/transcript"]}
    assert {answer.status_code for answer in found.values()} == {200}
    assert [path for path, answer in found.items() if PLANTED in answer.text] == []
    assert all(MASK in found[path].text for path in ("/", f"/approvals/{approval}", *answers))
