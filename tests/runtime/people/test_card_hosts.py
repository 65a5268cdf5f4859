"""The same code posts cards for any card host. This one keeps approvals in a dictionary, without a store or a
runtime."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace
from test_channels import Wall

from supervisor import Approval
from supervisor.channels.sdk import CardGone
from supervisor.core import events as e
from supervisor.core.approvals.state import Left, fold
from supervisor.runtime.people.poster import Poster

pytestmark = pytest.mark.anyio

AT = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = Approval(
    id="a" * 42,
    session="s",
    root_session="s",
    path=("agent",),
    agent="agent",
    operation="o",
    digest="d",
    cwd="/",
    requester="ann",
    status="pending",
    created_at=AT,
    tool="shell",
    arguments={"command": "ls"},
    options=(),
)


class Kept:
    """A card host that keeps approvals and card events in memory."""

    def __init__(self) -> None:
        self.approvals = {ASKED.id: ASKED}
        self.noted: list = []
        self.tasks = None

    def now(self):
        return AT

    def after(self, seconds, callback):
        scope = anyio.CancelScope()

        async def wait():
            with scope:
                await anyio.sleep(seconds)
                callback()

        self.tasks.start_soon(wait)
        return scope.cancel

    def read(self, approval):
        return self.approvals.get(approval.id)

    def mark(self, approval):
        return approval

    async def claim(self, approval, begun):
        await self.note(approval, begun)

    def find_left(self, approval):
        return fold(self.noted, approval.id).left

    async def note(self, approval, event):
        await anyio.lowlevel.checkpoint()  # this host is far from its store
        self.noted.append(event)


@asynccontextmanager
async def posting(host, *channels):
    poster = Poster(host, channels)
    with anyio.fail_after(3600):
        async with anyio.create_task_group() as host.tasks:
            poster.serve_in(host.tasks)
            yield poster
            host.tasks.cancel_scope.cancel()


async def test_an_approval_goes_to_the_next_channel_and_is_tried_again_on_the_first():
    """A11: a failure is noted, and the card tried again until it succeeds. A decision retires both cards (R3)."""
    host, broken, wall = Kept(), Wall("broken", fails=True), Wall("wall")
    async with posting(host, broken, wall) as poster:
        poster.show(ASKED)
        await poster.settle()
        assert (broken.posted, wall.posted) == ([], [(ASKED.id, None)])
        broken.fails = False
        await anyio.sleep(60)
        assert broken.posted == [(ASKED.id, None)]
        host.approvals[ASKED.id] = decided = replace(ASKED, status="denied")
        poster.retire(decided)
        await poster.settle()
    assert [each.retired for each in (broken, wall)] == [[("denied", f"card of {name}")] for name in ("broken", "wall")]
    of_wall, of_broken = ([type(event) for event in host.noted if event.channel == name] for name in ("wall", "broken"))
    assert of_wall == [e.CardPosted, e.CardRetired]
    assert of_broken == [e.CardFailed, e.CardPosted, e.CardRetired]


async def test_a_claimed_card_that_is_gone_is_posted_anew():
    """Another process had posted it, and a person has deleted it."""
    host, wall = Kept(), Wall("wall")
    wall.keeps_cards, post = True, wall.post

    async def refuse(approval, card):
        if card is not None:
            raise CardGone("deleted")
        return await post(approval, card)

    async def claim(approval, begun):
        return Left("card of another process")

    wall.post, host.claim = refuse, claim
    async with posting(host, wall) as poster:
        poster.show(ASKED)
        await poster.settle()
    assert wall.posted == [(ASKED.id, None)]
    assert [type(event) for event in host.noted][-2:] == [e.CardBegun, e.CardPosted]


async def test_the_next_process_renews_the_card_that_was_noted():
    """R3: the host has kept it, so there are no two cards of one approval."""
    host, wall = Kept(), Wall("wall")
    for _ in range(2):
        async with posting(host, wall) as poster:
            poster.show(host.approvals[ASKED.id])
            await poster.settle()
            host.approvals[ASKED.id] = replace(ASKED, shown=("wall",))
    assert wall.posted == [(ASKED.id, None), (ASKED.id, "card of wall")]
    assert [type(event) for event in host.noted] == [e.CardPosted]
