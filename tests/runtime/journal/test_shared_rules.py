"""A5, A7, A9: two supervisors on one file see each other's rules. If rules cannot be read, no call begins."""

import sqlite3

import anyio
import pytest
from scenes import deploy, effects
from watching import next_of

from supervisor import (
    Approve,
    Context,
    SqliteStore,
    StoreUnreadable,
    SupervisorError,
    agent,
    allow,
    deny,
    open_supervisor,
)
from supervisor.core.ids import RULES

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """In real time: another connection writes to the file."""
    return request.param


@agent
async def deploys(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


async def test_a_rule_of_another_process_counts_for_the_very_next_call(tmp_path):
    """A7, A9: a call allowed there is not asked here. A call denied there does not run here, although it was approved.
    A revocation counts, too."""
    path = tmp_path / "state.db"
    with anyio.fail_after(60):
        async with open_supervisor(path) as here, open_supervisor(path) as there:
            rule = await there.add_rule(allow(deploy, '{"target":"a"}'), by="ana")
            assert await (await here.start(deploys, "a")).result() == "ok"
            assert list(await here.find_rules()) == list(await there.find_rules()) == [rule]
            await there.revoke_rule(rule.id, by="ana")
            for target, forbids in (("a", False), ("b", True)):
                run = await here.start(deploys, target)
                asked = await next_of(run.watch_approvals())
                if forbids:
                    await there.add_rule(deny(deploy), by="ben")
                assert (await there.decide(asked.id, Approve(by="ana"))).kind == "accepted"
                assert await run.result() == ("denied" if forbids else "ok")
    assert effects == ["a", "a"]


@pytest.mark.parametrize("is_open", [True, False], ids=["while it is open", "before it is opened"])
async def test_rules_that_a_newer_program_wrote_let_no_call_begin(tmp_path, is_open):
    """A5: an unreadable rule may be a deny. Runs are suspended, nothing is lost, and the store can still be read."""
    path = tmp_path / "state.db"

    def write_as_a_newer_program():
        with sqlite3.connect(path) as connection:
            (number,) = connection.execute("SELECT session FROM event WHERE id = ?", (RULES,)).fetchone()
            connection.execute("INSERT INTO event (session, body) VALUES (?, ?)", (number, b'{"event":"RuleBent"}'))
        connection.close()

    async with open_supervisor(SqliteStore(path)) as supervisor:
        await supervisor.add_rule(allow(deploy), by="ana")
        if is_open:
            write_as_a_newer_program()
            await refuses_to_run(supervisor)
    if not is_open:
        write_as_a_newer_program()
        async with open_supervisor(SqliteStore(path)) as supervisor:
            await refuses_to_run(supervisor)
    assert effects == []


async def refuses_to_run(supervisor):
    with anyio.fail_after(60):
        run = await supervisor.start(deploys, "a")
        with pytest.raises(SupervisorError):
            await run.outcome()
        assert (await supervisor.get_session(run.session)).outcome is None
        with pytest.raises(StoreUnreadable):
            await supervisor.find_rules()
        with pytest.raises(StoreUnreadable):
            await supervisor.add_rule(deny(deploy), by="ana")
