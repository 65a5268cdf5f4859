"""A4, A8: on every surface, a person who may decide a call cannot edit it into one that is reserved for others."""

from datetime import UTC, datetime

import pytest
from sites import ORIGIN, csrf_of, world

from supervisor import Approve, NotEntitled
from supervisor.channels.chat.answering import Answering, Pressed
from supervisor.channels.chat.presses import EDIT
from supervisor.core import events as e
from supervisor.core.encoding import to_json

pytestmark = pytest.mark.anyio
SECRET = {"text": "secret", "file": "/dev/null"}
"""Reserved for ana and cleo; bob may decide other calls that were asked on his behalf."""


async def in_python(here, asked):
    with pytest.raises(NotEntitled):
        await here.supervisor.decide(asked.id, Approve(by="bob", arguments=SECRET))


async def over_http(here, asked):
    async with here.client("bob") as client:
        body = {"decision": "approve", "arguments": SECRET}
        assert (await client.post(f"/api/approvals/{asked.id}/decision", json=body)).status_code == 403
        body = {"arguments": SECRET, "approval": asked.id}
        assert (await client.post(f"/api/sessions/{asked.session}/approve", json=body)).status_code == 403


async def on_a_page(here, asked):
    async with here.client() as client:
        csrf = csrf_of(await client.post("/login", data={"token": "bob"}, headers={"origin": ORIGIN}))
        form = {"decision": "edit", "arguments": bytes(to_json(SECRET, "it")).decode(), "csrf": csrf}
        answer = await client.post(f"/approvals/{asked.id}/decision", data=form, headers={"origin": ORIGIN})
        assert answer.status_code == 403


async def in_a_chats_form(here, asked):
    answering = Answering("slack", here.supervisor.people)
    written = bytes(to_json(SECRET, "it")).decode()
    result = await answering.decide(here.supervisor, Pressed(asked, "bob"), EDIT, written, datetime.now(UTC))
    assert not result.is_decision


@pytest.mark.parametrize("try_it", [in_python, over_http, on_a_page, in_a_chats_form])
async def test_an_edit_into_what_is_reserved_is_refused_and_the_call_stays_open(try_it):
    """The refusal is in the audit trail; ana, who is named there, makes the same edit."""
    async with world() as here:
        asked = await here.ask(requester="bob")
        await try_it(here, asked)
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"
        refused = [row.event for row in await here.supervisor.find_audit() if isinstance(row.event, e.DecisionRefused)]
        assert {(each.by, each.approval) for each in refused} == {("bob", asked.id)}
        assert (await here.supervisor.decide(asked.id, Approve(by="ana", arguments=SECRET))).kind == "accepted"
