"""A18: on each surface, who edits a call with a preview sees evidence of what they typed, and then confirms it."""

from datetime import UTC, datetime

import anyio
import pytest
from scenes import effects, opened
from sites import world
from watching import next_of

from supervisor import Context, People, Person, Preview, agent, tool
from supervisor.channels.chat.answering import Answering, Pressed
from supervisor.channels.chat.presses import EDIT

pytestmark = pytest.mark.anyio
NEW = '{"table": "new"}'


@pytest.fixture(autouse=True)
def nothing_done():
    effects.clear()


def rows_of(table: str) -> Preview:
    return Preview(table=[["row"], [f"a row of {table}"]])


@tool(preview=rows_of)
async def delete_table(table: str) -> str:
    effects.append(table)
    return "deleted"


@agent
async def deletes_table(ctx: Context) -> str:
    return (await ctx.call(delete_table, "old")).kind


async def asked_of(supervisor):
    with anyio.fail_after(30):
        while not (found := await next_of(supervisor.watch_approvals())).evidence:
            await anyio.sleep(0.01)
    return found


async def test_over_http_the_result_has_the_evidence_and_its_code():
    """202, and nothing is decided; the same with the code is 200."""
    async with world() as here, here.client("olga") as olga:
        run = await here.supervisor.start(deletes_table, requester="olga")
        asked = await asked_of(here.supervisor)
        body = {"decision": "approve", "arguments": {"table": "new"}}
        first = await olga.post(f"/api/approvals/{asked.id}/decision", json=body)
        assert (first.status_code, first.json()["kind"]) == (202, "unseen")
        assert first.json()["evidence"]["text"] == "row\n------------\na row of new"
        again = await olga.post(f"/api/approvals/{asked.id}/decision", json=body)
        assert (again.status_code, again.json()["seen"]) == (202, first.json()["seen"])
        last = await olga.post(f"/api/approvals/{asked.id}/decision", json=body | {"seen": first.json()["seen"]})
        assert (last.status_code, last.json()["kind"]) == (200, "accepted")
        assert await run.result() == "ok"
    assert effects == ["new"]


async def test_a_chat_confirms_what_the_same_person_submits_again():
    """Another text, and another person, see their evidence first."""
    people = People([Person(name=each, roles=("operator",)) for each in ("ana", "ben")])
    answering = Answering("chat", people)
    async with opened() as supervisor:
        run = await supervisor.start(deletes_table)
        asked = await asked_of(supervisor)

        async def submits(name, text):
            return await answering.decide(supervisor, Pressed(asked, name), EDIT, text, datetime.now(UTC))

        for name, text in (("ana", NEW), ("ben", NEW), ("ana", '{"table": "other"}')):
            result = await submits(name, text)
            assert "submit the same again to confirm" in result.text
            assert not result.is_stale
        assert "a row of new" in (await submits("ana", NEW)).text
        assert (await supervisor.get_approval(asked.id)).status == "pending"
        assert "approved by ana" in (await submits("ana", NEW)).text
        assert await run.result() == "ok"
    assert effects == ["new"]
