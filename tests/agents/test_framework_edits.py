"""An edit that does not fit a framework's tool is refused where people decide, without the tool."""

import socket

import anyio
import httpx
import pytest
from framework_table import FRAMEWORKS, Said, Wanted
from watching import next_of

from supervisor import People, Person, open_supervisor
from supervisor.channels.web import make_web
from supervisor.cli import main
from supervisor.core.approvals.people import TokenHash, hash_token

OLGA = Person(name="olga", roles=("operator",), tokens=(TokenHash(hash_token("olga")),))


async def delete(path: str, force: bool = False) -> str:
    raise AssertionError("no decision was accepted")


async def script(said: Said):
    return [Wanted("delete", {"path": "a", "force": False}, "c1")]


def cleaner_of(framework):
    made = framework.agent("cleaner", script, [framework.tool(delete, asks=True)])
    made.__module__ = __name__
    return made


pydantic_cleaner, openai_cleaner = map(cleaner_of, FRAMEWORKS[:2])


async def ask(store, cleaner) -> str:
    """Leave a call of a framework's tool that waits for a person. Return its approval."""
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(cleaner, "clean up", session="s")
        return (await next_of(run.watch_approvals())).id


async def decide_on_the_web(store, approval: str, arguments) -> httpx.Response:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        web = make_web(people=People([OLGA]), secret=b"x" * 32, listener=listener, hosts=["localhost"])
        async with open_supervisor(store, channels=[web]):
            with anyio.fail_after(60):
                while web.site.serving is None:
                    await anyio.sleep(0.01)
            headers = {"authorization": "Bearer olga"}
            asgi = httpx.ASGITransport(web._app)
            async with httpx.AsyncClient(transport=asgi, base_url="http://localhost", headers=headers) as client:
                body = {"decision": "approve", "arguments": arguments}
                return await client.post(f"/api/approvals/{approval}/decision", json=body)


@pytest.mark.parametrize("cleaner", [pydantic_cleaner, openai_cleaner], ids=["pydantic_ai", "openai_agents"])
def test_the_command_line_and_the_web_refuse_an_edit_that_does_not_fit(cleaner, tmp_path, capsys):
    """Each names the argument, in a process that does not have the tool; then an edit that fits is accepted."""
    store = str(tmp_path / "state.db")
    approval = anyio.run(ask, store, cleaner)
    answer = anyio.run(decide_on_the_web, store, approval, {"path": 3, "force": True})
    assert (answer.status_code, "path" in answer.json()["detail"]) == (422, True)
    assert main(["approve", approval, "--edit", '{"path": "a", "force": "yes"}', "--store", store]) == 2
    assert "force" in capsys.readouterr().err
    assert main(["approve", approval, "--edit", '{"path": "b", "force": true}', "--store", store]) == 0
