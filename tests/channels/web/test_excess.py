"""Numbers that no integer takes, and too deeply nested JSON, get an answer that blames the client."""

import anyio
import pytest
import served_agents
from sites import HOST, world
from test_who_may import log_in
from watching import next_of

pytestmark = pytest.mark.anyio
DEEP = "[" * 100_000


async def post(here, client, path, **form):
    """Send a form as the page does."""
    await log_in(client)
    (cookie,) = client.cookies.values()
    headers = {"origin": f"http://{HOST}"}
    form["csrf"] = here.site.guard._read_cookie(cookie).csrf
    return await client.post(path, data=form, headers=headers)


async def test_a_length_of_thousands_of_digits_is_too_long():
    """Whatever server is in front of the border."""
    said = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        said.append(message)

    headers = [(b"host", HOST.encode()), (b"content-length", b"9" * 5000)]
    async with world() as here:
        scope = {"type": "http", "method": "POST", "path": "/login", "headers": headers, "query_string": b""}
        await here.app(scope, receive, send)
    assert said[0]["status"] == 413


async def test_a_text_that_looks_like_deep_json_is_shown_as_any_other():
    """An agent's argument cannot break the inbox."""
    async with world() as here, here.client() as client:
        asked = await here.ask(text=DEEP)
        await log_in(client)
        for path in ("/", f"/approvals/{asked.id}", f"/sessions/{asked.session}"):
            assert (await client.get(path)).status_code == 200
        assert (await post(here, client, f"/approvals/{asked.id}/decision", decision="edit", arguments=DEEP)).is_error


async def test_a_deep_answer_does_not_fit():
    """A question that asks for JSON is still there afterwards."""
    async with world() as here, here.client() as client:
        run = await here.supervisor.start(served_agents.counting, requester="olga")
        asked = await next_of(run.watch_approvals())
        answer = await post(here, client, f"/approvals/{asked.id}/decision", decision="answer", answer=DEEP)
        assert answer.status_code == 422
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"


async def test_a_body_of_two_lengths_is_refused():
    """A proxy before the server may believe the other one, and take its rest for a request of its own."""
    said = []

    async def send(message):
        said.append(message)

    headers = [(b"host", HOST.encode()), (b"content-length", b"4"), (b"transfer-encoding", b"chunked")]
    async with world() as here:
        scope = {"type": "http", "method": "POST", "path": "/login", "headers": headers, "query_string": b""}
        await here.app(scope, anyio.sleep_forever, send)
    assert said[0]["status"] == 400
