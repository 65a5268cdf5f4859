"""More clients than there is room for: who is told to come again, who is given up, and who gets through."""

from contextlib import ExitStack

import anyio
import pytest
from sites import HOST, world

from supervisor.channels.web.border import ARRIVALS
from supervisor.channels.web.site import make_app
from supervisor.channels.web.state import MAX_STREAMS, OTHERS
from supervisor.channels.web.webhooks import webhook_routes
from supervisor.seam.channel import Webhook, WebhookReply

pytestmark = pytest.mark.anyio


class SlowClient:
    """A request over ASGI whose body comes in pieces, when its test says so."""

    def __init__(self, app, tasks, path="/login", token=None):
        self.status = None
        self.answered = anyio.Event()
        self._said, self._has_said = [], anyio.Event()
        headers = [(b"host", HOST.encode()), (b"content-length", b"100")]
        if token is not None:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
        tasks.start_soon(app, scope, self._receive, self._send)

    def sends(self, body, *, more=True):
        self._say({"type": "http.request", "body": body, "more_body": more})

    def goes(self):
        self._say({"type": "http.disconnect"})

    def _say(self, message):
        self._said.append(message)
        self._has_said.set()

    async def _receive(self):
        await self._has_said.wait()
        if len(self._said) == 1:
            self._has_said = anyio.Event()
        return self._said.pop(0)

    async def _send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.answered.set()


async def test_a_full_house_does_not_look_like_a_dead_one():
    """A request beyond the bound is told to come again; what watches over us is answered nevertheless."""
    async with world() as here, here.client("olga") as client:
        with ExitStack() as stack:
            for _ in range(MAX_STREAMS + OTHERS):
                stack.enter_context(here.site.requests.held())
            for path, status in (("/api/sessions", 503), ("/health", 200), ("/ready", 200)):
                assert (await client.get(path)).status_code == status
        assert (await client.get("/api/sessions")).status_code == 200


async def test_a_request_is_under_way_from_when_its_body_is_there():
    """While its body comes it has no place; then it needs one, and is told if there is none."""
    async with world() as here, anyio.create_task_group() as tasks:
        slow, late = (SlowClient(here.app, tasks, "/api/sessions", "olga") for _ in range(2))
        slow.sends(b'{"agent": "chatting", ')
        late.sends(b"{")
        await anyio.wait_all_tasks_blocked()
        assert here.site.requests.count == 0
        slow.sends(b'"input": "x"}', more=False)
        await slow.answered.wait()
        with ExitStack() as stack:
            for _ in range(MAX_STREAMS + OTHERS):
                stack.enter_context(here.site.requests.held())
            late.sends(b"}", more=False)
            await late.answered.wait()
        assert (slow.status, late.status) == (201, 503)
        assert here.site.requests.count == 0


async def test_of_too_many_slow_bodies_the_oldest_is_given_up():
    """A client that sends its body at once gets through; single bytes do not make a request younger."""
    async with world() as here, here.client() as client, anyio.create_task_group() as tasks:
        oldest = SlowClient(here.app, tasks)
        await anyio.wait_all_tasks_blocked()
        others = [SlowClient(here.app, tasks) for _ in range(ARRIVALS - 1)]
        await anyio.wait_all_tasks_blocked()
        oldest.sends(b"t")
        await anyio.wait_all_tasks_blocked()
        assert not oldest.answered.is_set()
        assert (await client.post("/login", data={"token": "wrong"})).status_code == 401
        with anyio.fail_after(10):
            await oldest.answered.wait()
        assert (oldest.status, {each.status for each in others}) == (408, {None})
        for each in (oldest, *others):
            each.goes()


class Chat:
    """As much of a channel as has a webhook."""

    name = "chat"

    def webhooks(self):
        return [Webhook("/requests", self.receive)]

    async def receive(self, headers, body):
        return WebhookReply()


@pytest.mark.parametrize("path", ["/login", "/channels/chat/requests"])
async def test_an_unknown_client_may_send_little(path):
    """A body without a login has a small limit of its own, and is not kept beyond it."""
    async with world() as here, anyio.create_task_group() as tasks:
        app = make_app(here.site, ["127.0.0.1"], any_address=False, more=webhook_routes([Chat()]))
        rude = SlowClient(app, tasks, path)
        for _ in range(9):
            rude.sends(b"x" * (256 << 10))
        with anyio.fail_after(10):
            await rude.answered.wait()
        rude.goes()
        assert rude.status == 413
