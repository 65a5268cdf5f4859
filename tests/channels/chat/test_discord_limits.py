"""Discord says with each answer how many requests of its kind it takes; it shuts out who asks for more too often."""

import anyio
import httpx
import pytest

from supervisor.channels.discord import DiscordRest

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


class Limited(httpx.AsyncBaseTransport):
    """Takes `limit` requests of each method in each 2 seconds, and says so, unless it `hides` it."""

    def __init__(self, limit=5, *, hides=False, is_global=False):
        self.limit, self.hides, self.is_global = limit, hides, is_global
        self.windows, self.taken, self.refused = {}, [], 0

    async def handle_async_request(self, request):
        now = anyio.current_time()
        began, count = self.windows.get(request.method, (now, 0))
        if now >= began + 2:
            began, count = now, 0
        self.windows[request.method] = began, count + 1
        after = {"x-ratelimit-reset-after": f"{began + 2 - now:.3f}"}
        await anyio.sleep(0.01)
        if count >= self.limit:
            self.refused += 1
            told = {"x-ratelimit-global": "true"} if self.is_global else {}
            return httpx.Response(429, headers=told, json={"retry_after": began + 2 - now})
        self.taken.append(now)
        left = {} if self.hides else after | {"x-ratelimit-remaining": str(self.limit - count - 1)}
        return httpx.Response(200, headers=left, json={"id": "1"})


async def post_all(there, count):
    async with DiscordRest("token", transport=there) as rest, anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(rest.call, "POST", "/channels/77/messages", {})


async def test_no_request_is_refused_that_an_answer_said_would_be():
    """A11: forty cards at once take as long as Discord needs for them."""
    there = Limited()
    await post_all(there, 40)
    assert (len(there.taken), there.refused) == (40, 0)
    assert there.taken[-1] - there.taken[0] < 16


async def test_a_refused_request_makes_the_others_of_its_kind_wait():
    """Discord may not say its limit before: then one request in each window is refused, and not all that wait."""
    there = Limited(hides=True)
    await post_all(there, 20)
    assert (len(there.taken), there.refused) == (20, 3)


async def test_a_limit_of_one_kind_delays_no_other_and_a_global_one_delays_all():
    """An answer to a person does not wait for cards, unless Discord takes nothing at all."""
    for is_global in (False, True):
        there = Limited(limit=1, hides=True, is_global=is_global)
        async with DiscordRest("token", transport=there) as rest, anyio.create_task_group() as tasks:
            await rest.call("POST", "/channels/77/messages", {})
            tasks.start_soon(rest.call, "POST", "/channels/77/messages", {})
            await anyio.sleep(0.1)
            began = anyio.current_time()
            await rest.call("PATCH", "/webhooks/900/token/messages/@original", {})
            assert (anyio.current_time() - began > 1) == is_global
