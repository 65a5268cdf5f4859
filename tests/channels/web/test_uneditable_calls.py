"""A8: a call that its tool declares as not editable is approved as it is, or denied, on every surface."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console
from sites import ORIGIN, csrf_of, world
from watching import next_of

from supervisor import Approve, Context, InvalidInput, agent, foreign_tool, tool
from supervisor.channels.chat.answering import Answering, Pressed
from supervisor.channels.chat.presses import EDIT, decision_of, form_of
from supervisor.channels.discord import components
from supervisor.channels.slack import blocks
from supervisor.channels.terminal.commands import card_commands
from supervisor.channels.terminal.desk import Desk
from supervisor.channels.terminal.screen import draw_face
from supervisor.channels.web.pages.inbox import card_view
from supervisor.channels.wording.cards import card_lines, make_card

pytestmark = pytest.mark.anyio
NOW = datetime.now(UTC)
OTHER = {"text": "other"}


async def write(arguments):
    raise AssertionError("nothing was approved")


@tool(editable=False)
async def fixed(text: str) -> None: ...


@agent
async def calling(ctx: Context) -> None:
    await ctx.call(foreign_tool("reviewer.write", write, editable=False), {"text": "it"})


@agent
async def editable(ctx: Context) -> None:
    await ctx.call(foreign_tool("reviewer.write", write), {"text": "it"})


@agent
async def fixing(ctx: Context) -> None:
    await ctx.call(fixed, "it")


async def asked_by(here, spec):
    return await next_of((await here.supervisor.start(spec, requester="olga")).watch_approvals())


def on_the_desk(asked) -> str:
    """What the terminal shows, and what the key e opens."""
    desk, out = Desk("ana", 0.0), io.StringIO()
    desk.add(asked, 0.0)
    Console(file=out, width=100).print(draw_face(desk, asked, NOW))
    return out.getvalue() + ("edit" if desk.press(["e"], 1.0) or desk.line else "")


OFFERS = {
    "slack": lambda asked: str(blocks.card_blocks(asked, NOW)),
    "discord": lambda asked: str(components.card_message(asked, NOW)),
    "log": lambda asked: card_lines(make_card(asked, NOW), card_commands(asked, None)),
    "desk": on_the_desk,
    "page": lambda asked: card_view(asked, NOW).edit_text and "edit",
}


@pytest.mark.parametrize("surface", OFFERS)
async def test_no_surface_offers_an_edit_of_a_call_that_is_not_editable(surface):
    """Each of them offers it for a call that is."""
    async with world() as here:
        for spec, is_offered in ((editable, True), (calling, False), (fixing, False)):
            asked = await asked_by(here, spec)
            assert asked.editable is is_offered
            assert ("edit" in OFFERS[surface](asked).lower()) is is_offered


async def in_python(here, asked):
    with pytest.raises(InvalidInput):
        await here.supervisor.decide(asked.id, Approve(by="ana", arguments=OTHER))


async def over_http(here, asked):
    async with here.client("ana") as client:
        body = {"decision": "approve", "arguments": OTHER}
        answer = await client.post(f"/api/approvals/{asked.id}/decision", json=body)
        assert answer.status_code == 422, answer.text
        body = {"arguments": OTHER, "approval": asked.id}
        assert (await client.post(f"/api/sessions/{asked.session}/approve", json=body)).status_code == 422


async def on_a_page(here, asked):
    async with here.client() as client:
        csrf = csrf_of(await client.post("/login", data={"token": "ana"}, headers={"origin": ORIGIN}))
        page = (await client.get("/")).text
        assert 'value="edit"' not in page
        form = {"decision": "edit", "arguments": '{"text":"other"}', "csrf": csrf}
        answer = await client.post(f"/approvals/{asked.id}/decision", data=form, headers={"origin": ORIGIN})
        assert answer.status_code == 422


async def by_a_forged_press(here, asked):
    with pytest.raises(InvalidInput):
        form_of(EDIT, asked)
    with pytest.raises(InvalidInput):
        decision_of(EDIT, asked, "ana", '{"text":"other"}')
    answering = Answering("slack", here.supervisor.people)
    result = await answering.decide(here.supervisor, Pressed(asked, "ana"), EDIT, '{"text":"other"}', NOW)
    assert not result.is_decision


@pytest.mark.parametrize("try_it", [in_python, over_http, on_a_page, by_a_forged_press])
async def test_an_edit_of_a_call_that_is_not_editable_is_refused(try_it):
    """The call stays open, and may be approved as it is."""
    async with world() as here:
        asked = await asked_by(here, calling)
        await try_it(here, asked)
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"
