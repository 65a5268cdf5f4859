"""A16: what a person ticks in the inbox is shown whole, and then decided in one batch; the rest stays."""

import re

import pytest
from sites import world

from supervisor import events as e

pytestmark = pytest.mark.anyio


def hidden(page):
    """Return the hidden fields of the form that decides."""
    return dict(re.findall(r'name="(one\.[^"]+)" value="([^"]+)"', page))


async def batches(supervisor):
    rows = await supervisor.find_audit(limit=None)
    return [row.event.batch for row in rows if isinstance(row.event, e.ApprovalDecided)]


async def test_equal_calls_of_several_sessions_are_one_card_and_one_press():
    """Another call is not among them."""
    async with world() as here, here.client("ana") as ana:
        asked = [await here.ask(text="bread") for _ in range(6)]
        other = await here.ask(text="milk")
        inbox = (await ana.get("/")).text
        assert f'name="equal" value="{asked[0].id}"' in inbox
        assert inbox.count('name="equal"') == 1
        page = (await ana.post("/decisions", data={"equal": asked[0].id})).text
        assert "Approve these 6, which are equal" in page
        assert page.count("<article") == 1
        assert hidden(page) == {f"one.{each.id}": each.digest for each in asked}
        assert len(await here.supervisor.find_approvals()) == 7
        done = (await ana.post("/decisions", data={**hidden(page), "decision": "approve"})).text
        assert done.count("approved by ana") == 6
        assert [each.id for each in await here.supervisor.find_approvals()] == [other.id]
        assert len({*await batches(here.supervisor)}) == 1


async def test_the_card_of_the_first_does_not_speak_for_equal_calls():
    """They may be for other people; then the card names these, too."""
    async with world() as here, here.client("ana") as ana:
        first = await here.ask(text="bread")
        await here.ask(text="bread", requester="bob")
        page = (await ana.post("/decisions", data={"equal": first.id})).text
        assert "Approve these 2, which are equal" in page
        assert re.search(r"<dt>for, of others</dt>\s*<dd><span .+?>bob</span></dd>", page)


async def test_each_different_call_is_shown_whole_before_any_is_decided():
    """A long text is not folded. Denying takes a reason."""
    async with world() as here, here.client("ana") as ana:
        long = "\n".join(f"line {number}" for number in range(400))
        asked = [await here.ask(text=text) for text in (long, "milk")]
        page = (await ana.post("/decisions", data={f"one.{each.id}": "on" for each in asked})).text
        assert (page.count("<article"), "line 200" in page, "data-must-open" in page) == (2, True, False)
        assert "<details" not in re.sub(r"<details class=\"cut \w+\" open>", "", page)
        await ana.post("/decisions", data={**hidden(page), "decision": "deny", "reason": "not now"})
        found = await here.supervisor.find_approvals(pending=False)
        assert [(each.status, each.reason) for each in found] == [("denied", "not now")] * 2


async def test_a_tick_without_the_page_of_the_whole_call_decides_nothing():
    """The form has no digest of what was shown, or another one."""
    async with world() as here, here.client("ana") as ana:
        asked = await here.ask(text="bread")
        for value in ("on", "", "0" * 64):
            answer = await ana.post("/decisions", data={f"one.{asked.id}": value, "decision": "approve"})
            assert "not decided" in answer.text
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"


async def test_calls_for_others_and_questions_are_named_and_stay():
    """What is reserved has no button."""
    async with world() as here, here.client("ana") as ana:
        reserved = await here.ask(agent="chief")
        mine = await here.ask(text="bread")
        page = (await ana.post("/decisions", data={f"one.{each.id}": "on" for each in (reserved, mine)})).text
        assert "Not among them" in page
        assert hidden(page) == {f"one.{mine.id}": mine.digest}
        forged = {f"one.{reserved.id}": reserved.digest, "decision": "approve"}
        assert "reserved for cleo" in (await ana.post("/decisions", data=forged)).text


@pytest.mark.parametrize(
    ("data", "status"), [({}, 422), ({"one.x": "on"}, 422), ({"equal": "x"}, 404), ({"decision": "approve"}, 422)]
)
async def test_a_form_that_names_nothing_says_so(data, status):
    async with world() as here, here.client("ana") as ana:
        await here.ask()
        assert (await ana.post("/decisions", data=data)).status_code == status
