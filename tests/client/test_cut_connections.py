"""A connection that breaks at any byte: what was asked for is done once, and its result or one clear error comes."""

from collections.abc import Awaitable, Callable

import anyio
import pytest
from cutting import proxied
from remote_agents import effects
from sides import serving

from supervisor import Approve, ServerUnavailable, Supervisor, open_remote
from supervisor.core import events as e

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.usefixtures("short_pauses")]
STEP = 11  # bytes between two cuts; no length of a line or of a part of a message, so that cuts fall everywhere in them
Exchange = Callable[[Supervisor, Supervisor, str], Awaitable[None]]
"""Does something by the remote supervisor, and checks it by the local one; the text is new each time."""


@pytest.fixture(params=[STEP, pytest.param(1, marks=pytest.mark.soak)])
def cut_everywhere(request):
    """Cuts at every STEP-th byte, and by `-m soak` at each byte."""

    async def cut(prepare, exchange) -> None:
        await cut_at_each(request.param, prepare, exchange)

    return cut


async def cut_at_each(step: int, prepare, exchange) -> None:
    """Do an exchange once for each `step` bytes of it, and cut the connection there."""
    async with (
        serving(within=280) as (local, url),
        proxied(url) as proxy,
        open_remote(proxy.url, token="token-of-olga", reconnect_timeout=5) as remote,
    ):
        proxy.cut_after(None)
        await exchange(remote, local, await prepare(local, "whole"))
        for position in range(0, proxy.passed, step):  # how long it is when nothing is cut
            prepared = await prepare(local, f"p{position}")
            proxy.cut_after(position)
            with anyio.fail_after(30):
                await exchange(remote, local, prepared)


async def a_session(local, name: str) -> str:
    await (await local.start("chatting", "hello", session=name, requester="olga")).outcome()
    return name


async def an_approval(local, name: str):
    run = await local.start("noting", [name], session=name, requester="olga")
    async with run.watch_approvals() as watch:
        return await anext(watch)


async def a_name(local, name: str) -> str:
    return name


async def test_a_decision_counts_once_and_its_answer_comes(cut_everywhere):
    """The repeat says `already` where the first one had been made."""

    async def decide(remote, local, asked) -> None:
        result = await remote.decide(asked.id, Approve(by="olga"))
        assert result.is_accepted, result
        assert await (await local.get_run(asked.session)).result() == [f"noted {asked.session}"]
        entries = await local.find_entries(asked.session)
        assert sum(isinstance(row.event, e.ApprovalDecided) for row in entries) == 1
        assert effects.count(asked.session) == 1

    await cut_everywhere(an_approval, decide)


async def test_a_session_is_started_once(cut_everywhere):
    """Its id is made before the first try."""

    async def start(remote, local, name) -> None:
        before = (await local.get_counts()).sessions
        run = await remote.start("greeting", name)
        assert run.is_new
        assert await (await local.get_run(run.session)).result() == f"hello {name}"
        assert (await local.get_counts()).sessions == before + 1

    await cut_everywhere(a_name, start)


async def test_a_read_is_whole(cut_everywhere):
    """Never a part of it."""

    async def read(remote, local, name) -> None:
        assert (await remote.get_session(name)).id == name

    await cut_everywhere(a_session, read)


async def test_a_watch_gives_each_entry_once(cut_everywhere):
    """From a cursor on, in their order, and none is left out."""

    async def watch(remote, local, name) -> None:
        seen = await local.find_entries(name, limit=3)
        async with remote.watch_session(name, after=seen.next) as entries:
            found = [row async for row in entries]
        assert [*seen, *found] == [*await local.find_entries(name)]

    await cut_everywhere(a_session, watch)


async def test_a_message_is_never_sent_twice(cut_everywhere):
    """It has no id of its own: where the answer is lost, the error says that it may have been sent."""
    seen: set[int] = set()

    async def send(remote, local, name) -> None:
        expected = {1}
        try:
            await remote.send(name, "once", by="olga")
        except ServerUnavailable as error:
            expected = {0, 1} if error.maybe_done else {0}
        await (await local.get_run(name)).outcome()
        said = [message.text for message in await local.get_transcript(name)].count("once")
        assert said in expected
        seen.add(said)

    await cut_everywhere(a_session, send)
    assert seen == {0, 1}
