"""How to test agents: weeks that take no time, people and a model who follow a script, and a kill after each commit.

pip install . httpx pytest
pytest test_agents.py    # the fixtures whose names begin with supervisor_ come with the package
"""

import pytest
from chat_loop import chat

from supervisor import Context, Deny, agent, open_supervisor, tool
from supervisor.events import ApprovalDecided, ToolCallFinished, ToolCallRequested

WEEK = 7 * 86_400.0
pytestmark = pytest.mark.anyio
paid: list[str] = []


@tool
async def pay(order: str) -> str:
    paid.append(order)
    return f"{order} is paid"


@agent
async def clerk(ctx: Context, order: str) -> str:
    if await ctx.ask(f"Is {order} complete?", choices=["yes", "no"]) == "no":
        return "left"
    return (await ctx.call(pay, order)).content


REPLIES = {"Is A1 complete?": "yes", "pay": "approve"}


@pytest.fixture
def anyio_backend(supervisor_virtual_time):
    paid.clear()
    return supervisor_virtual_time


async def test_weeks_of_waiting_take_no_time(supervisor_store, supervisor_approver, supervisor_journal):
    async with open_supervisor(supervisor_store) as supervisor:
        async with supervisor_approver(supervisor, REPLIES, by="ana", after=WEEK) as decided:
            run = await supervisor.start(clerk, "A1", session="claim")
            assert await run.result() == "A1 is paid"
        journal = await supervisor_journal(supervisor, "claim")
    assert [approval.kind for approval in decided] == ["question", "call"]
    journal.assert_order(ToolCallRequested, ApprovalDecided, ToolCallFinished)
    (asked,), (approved,) = journal.events(ToolCallRequested), journal.events(ApprovalDecided)
    assert approved.by == "ana"
    assert round((approved.at - asked.at).total_seconds()) == WEEK


async def test_a_denied_payment_is_not_made(supervisor_store, supervisor_approver, supervisor_journal):
    script = REPLIES | {"pay": Deny(by="ben", reason="too late")}
    async with open_supervisor(supervisor_store) as supervisor:
        async with supervisor_approver(supervisor, script):
            run = await supervisor.start(clerk, "A1", session="claim")
            assert "too late" in await run.result()
        (await supervisor_journal(supervisor, "claim")).assert_started("pay", 0)


async def test_a_run_that_is_killed_while_it_waits_goes_on(supervisor_store, supervisor_copy, supervisor_approver):
    async with open_supervisor(supervisor_store) as supervisor:
        run = await supervisor.start(clerk, "A1", session="claim")
        async with run.watch_approvals() as approvals:
            await anext(approvals)
        killed = supervisor_copy(supervisor_store)
    async with open_supervisor(killed) as supervisor, supervisor_approver(supervisor, REPLIES):
        run = await supervisor.resume("claim")
        assert await run.result() == "A1 is paid"
    assert paid == ["A1"]


async def test_a_payment_starts_once_if_the_process_is_killed_after_any_commit(
    supervisor_store, supervisor_approver, supervisor_journal
):
    async with open_supervisor(supervisor_store) as supervisor, supervisor_approver(supervisor, REPLIES):
        await (await supervisor.start(clerk, "A1", session="claim")).result()
    for killed in supervisor_store.copies:
        async with open_supervisor(killed) as supervisor, supervisor_approver(supervisor, REPLIES):
            run = await supervisor.resume("claim")
            await run.outcome()
            journal = await supervisor_journal(supervisor, "claim")
        journal.assert_started("pay", 1)
        journal.assert_results()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])  # a server is in real time
async def test_a_model_that_calls_a_tool(anyio_backend, supervisor_model, supervisor_approver, tmp_path, monkeypatch):
    model = supervisor_model({"What is there?": [[("shell", {"command": "echo attic"})], "There is an attic."]})
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_MODEL", "scripted")
    store = tmp_path / "state.db"
    async with open_supervisor(store) as supervisor, supervisor_approver(supervisor, {"shell": "approve"}):
        run = await supervisor.start(chat, "What is there?")
        assert await run.result() == "There is an attic."
    (_, last) = model.requests
    assert "attic" in last.body["messages"][-1]["content"]
