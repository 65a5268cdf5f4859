"""A page and the stream that it opens leave no gap: what changes while the page is drawn comes by the stream."""

import html
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from sites import world
from watching import next_of

from supervisor import Approve
from supervisor.core import events as e

pytestmark = pytest.mark.anyio


class Changing:
    """A supervisor in which one approval is decided right after each read that a page may begin with."""

    def __init__(self, supervisor, approval):
        self._supervisor = supervisor
        self._approval = approval

    def __getattr__(self, name):
        return getattr(self._supervisor, name)

    async def get_approval(self, approval):
        return await self._then_decide(await self._supervisor.get_approval(approval))

    async def find_approvals(self, **what):
        return await self._then_decide(await self._supervisor.find_approvals(**what))

    async def get_tree(self, session, **what):
        return await self._then_decide(await self._supervisor.get_tree(session, **what))

    async def _then_decide(self, found):
        await self._supervisor.decide(self._approval, Approve(by="olga"))
        return found


async def stream_of(here, path):
    """Draw a page, and return where its stream begins."""
    async with here.client("olga") as client:
        page = await client.get(path)
    assert page.status_code == 200
    url = html.unescape(re.search(r'data-stream="([^"]+)"', page.text)[1])
    return parse_qs(urlsplit(url).query)["after"][0]


@pytest.mark.parametrize("path", ["/", "/approvals/{0.id}"])
async def test_a_decision_while_a_card_is_drawn_comes_by_the_stream(path):
    """The page shows the card as pending; nothing but the stream can correct it."""
    async with world() as here:
        asked = await here.ask()
        here.site.serving = Changing(here.supervisor, asked.id)
        after = await stream_of(here, path.format(asked))
        changed = await next_of(here.supervisor.watch_inbox(after=after))
        assert (changed.id, changed.status) == (asked.id, "approved")


async def test_events_while_a_page_is_drawn_come_by_its_stream():
    """From the first entry that the page does not show."""
    async with world() as here:
        asked = await here.ask()
        shown = await here.supervisor.get_tree(asked.session)
        here.site.serving = Changing(here.supervisor, asked.id)
        after = await stream_of(here, f"/sessions/{asked.session}")
        row = await next_of(here.supervisor.watch_session(asked.session, after=after))
        assert isinstance(row.event, e.ApprovalDecided)
        assert row.position > shown.entries[-1].position
