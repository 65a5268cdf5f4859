"""A: a person is asked once, the first decision wins, and the call runs as it was decided."""

import string
from dataclasses import dataclass

import anyio
import pytest
from scenes import HeldStore, events, fork, names, opened
from watching import next_of

from supervisor import (
    Approve,
    Context,
    Deny,
    InvalidInput,
    MemoryStore,
    NotFound,
    Policy,
    RunBlocked,
    SqliteStore,
    StoreRefused,
    agent,
    foreign_tool,
    tool,
)
from supervisor.core import events as e
from supervisor.core.ids import approval_route

pytestmark = pytest.mark.anyio
ran: list[tuple] = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    ran.clear()


@tool
async def deploy(target: str, count: int = 1) -> str:
    ran.append((target, count))
    return f"deployed {target}"


@agent
async def deployer(ctx: Context, target: str) -> list[str]:
    result = await ctx.call(deploy, target)
    return [result.kind, result.content, str(result.details["reason"]), str(result.details["effect"])]


@agent
async def parent(ctx: Context) -> list[str]:
    return await ctx.run(deployer, "x")


@agent
async def grandparent(ctx: Context) -> list[str]:
    return await ctx.run(parent)


async def test_each_stage_of_a_call_is_in_the_journal_before_the_next_begins():
    """A1: asked, decided, executing, effect, result, returned: each is on disk before what follows from it."""
    seen = []

    @tool
    async def look() -> str:
        seen.append(names(store, run.session)[-1])
        return "looked"

    @agent
    async def looker(ctx: Context) -> None:
        await ctx.call(look)
        seen.append(names(store, run.session)[-1])

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(looker)
        approval = await next_of(run.watch_approvals())
        seen.append(names(store, run.session)[-1])
        decided = await supervisor.decide(approval.id, Approve(by="ana"))
        assert decided.kind == "accepted"
        await run.outcome()
        assert seen == ["ToolCallRequested", "ToolCallStarted", "ToolCallFinished"]
        order = [name for name in names(store, run.session) if name.startswith(("ToolCall", "Approval"))]
        assert order == ["ToolCallRequested", "ApprovalDecided", "ToolCallStarted", "ToolCallFinished"]


async def test_an_approval_is_found_by_its_id_in_every_state():
    """A2: a button carries only the id, even days later."""
    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        approval = await next_of(run.watch_approvals())
        assert await supervisor.get_approval(approval.id) == approval
        await supervisor.decide(approval.id, Deny(by="ana"))
        await run.outcome()
        assert (await supervisor.get_approval(approval.id)).status == "denied"
        with pytest.raises(NotFound):
            await supervisor.get_approval("0" * 26)


async def test_every_surface_can_carry_ids():
    """A2: new session ids have 22 letters and digits at any depth. Approval ids have at least 128 random bits in such
    characters."""
    alphabet = set(string.ascii_lowercase + string.digits)
    async with opened() as supervisor:
        for _ in range(2):
            await supervisor.start(grandparent)
        async with supervisor.watch_approvals() as reader:
            approvals = [await anext(reader) for _ in range(2)]
            sessions = [view.id for view in await supervisor.find_sessions()]
            assert len({*sessions}) == 6
            assert all(len(name) == 22 and set(name) <= alphabet for name in sessions)
            assert len({approval.id for approval in approvals}) == 2
            assert all(len(approval.id) == 42 and set(approval.id) <= alphabet for approval in approvals)
            roots = {view.id for view in await supervisor.find_sessions() if view.parent is None}
            assert {approval.id[:16] for approval in approvals} == {approval_route(root) for root in roots}


@pytest.mark.parametrize("name", ["", "A", "-x", "a/b", "x" * 65, "ä", "a b"])
async def test_a_session_id_that_does_not_fit_is_refused(name):
    """A2: an id that a caller gives matches [a-z0-9][a-z0-9._-]{0,63}."""
    async with opened() as supervisor:
        with pytest.raises(InvalidInput):
            await supervisor.start(parent, session=name)
        await supervisor.start(parent, session="a" + "0._-" * 15)


async def test_an_approval_is_bound_to_its_call():
    """A2: it names session, operation, tool, arguments with defaults, digest, cwd, requester, options, path."""
    async with opened() as supervisor:
        run = await supervisor.start(parent, requester="bob")
        approval = await next_of(run.watch_approvals())
        child = (await supervisor.find_sessions())[1]
        assert (approval.session, approval.root_session) == (child.id, run.session)
        assert approval.path == ("parent", "deployer")
        assert (approval.tool, approval.arguments) == ("deploy", {"target": "x", "count": 1})
        assert (approval.requester, approval.status, approval.decision) == ("bob", "pending", None)
        assert [option.scope for option in approval.options] == ["once", "session", "always"]
        assert len(approval.digest) == 64
        assert approval.cwd
        assert approval.expires_at is None


async def test_the_first_decision_wins_and_every_later_one_is_told():
    """A3: the same decision again is `already`, another one a conflict, and an unknown id is unknown."""
    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        decisions = [Approve(by="ana"), Approve(by="bob"), Deny(by="bob"), Approve(by="bob", arguments=_args("y"))]
        results = [await supervisor.decide(asked, decision) for decision in decisions]
        assert [decided.kind for decided in results] == ["accepted", "already", "conflict", "conflict"]
        assert {decided.by for decided in results} == {"ana"}
        assert len({decided.decided_at for decided in results}) == 1
        unknown = await supervisor.decide("nosuch", Deny(by="ana"))
        assert (unknown.kind, unknown.running) == ("unknown", False)
        await run.outcome()
        assert (await supervisor.decide(asked, Approve(by="eve"))).kind == "already"
        assert ran == [("x", 1)]


async def test_of_fifty_decisions_at_once_one_wins():
    """A3: a decision is one compare-and-set, although many come at the same instant."""
    kinds = []

    async def click(supervisor, asked: str, n: int) -> None:
        decision = Approve(by=f"p{n}") if n % 2 else Deny(by=f"p{n}")
        kinds.append((n % 2, (await supervisor.decide(asked, decision)).kind))

    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        async with anyio.create_task_group() as tasks:
            for n in range(50):
                tasks.start_soon(click, supervisor, asked, n)
        (winner,) = [odd for odd, kind in kinds if kind == "accepted"]
        assert all(kind == ("already" if odd == winner else "conflict") for odd, kind in kinds if kind != "accepted")
        assert (await run.result())[0] == ("ok" if winner else "denied")


async def test_a_withdrawn_approval_is_closed():
    """A3: a late decision is told so, and runs nothing."""
    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        await run.cancel()
        assert (await supervisor.decide(asked, Approve(by="ana"))).kind == "closed"
        assert (await run.outcome()).kind == "cancelled"
        assert ran == []


async def test_an_empty_identity_decides_nothing():
    """A4: a decision needs the name of a person."""
    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        for decision in (Approve(by=""), Deny(by="  ")):
            with pytest.raises(InvalidInput):
                await supervisor.decide(asked, decision)
        assert [approval.id for approval in await supervisor.find_approvals()] == [asked]


async def test_a_decision_that_cannot_be_committed_does_not_count():
    """A5: the caller is told, and nothing runs. The same decision counts when the store accepts it again."""
    full = []

    class Full(MemoryStore):
        def commit(self) -> None:
            if full:
                raise StoreRefused("no room")
            super().commit()

    async with opened(Full()) as supervisor:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        full.append(True)
        with pytest.raises(StoreRefused):
            await supervisor.decide(asked, Approve(by="ana"))
        assert (await supervisor.find_approvals())[0].status == "pending"
        await anyio.sleep(5)
        assert ran == []
        full.clear()
        assert (await supervisor.decide(asked, Approve(by="ana"))).kind == "accepted"
        assert (await run.result())[0] == "ok"


async def test_a_policy_that_raises_asks():
    """A5: a policy function that raises has decided nothing."""

    def broken(target: str) -> Policy:
        raise RuntimeError(target)

    @tool(policy=broken)
    async def ruled(target: str) -> None:
        ran.append((target,))

    @agent
    async def uses(ctx: Context) -> str:
        return (await ctx.call(ruled, "x")).kind

    async with opened() as supervisor:
        run = await supervisor.start(uses)
        await supervisor.decide((await next_of(run.watch_approvals())).id, Deny(by="ana"))
        assert await run.result() == "denied"
        assert ran == []


async def test_a_call_that_no_person_can_answer_is_denied_with_the_reason():
    """A6: the store is in memory, there is no channel and no reader, and the program waits for the outcome."""
    async with opened() as supervisor:
        run = await supervisor.start(parent)
        with anyio.fail_after(10):
            kind, content, _, effect = await run.result()
        assert (kind, effect) == ("denied", "none")
        assert "--unattended" in content


async def test_a_call_waits_if_the_program_reads_approvals():
    """A6: a program that reads approvals may answer later."""
    async with opened() as supervisor:
        run = await supervisor.start(parent)
        async with run.watch_approvals() as reader:
            with anyio.move_on_after(86_400):
                await run.outcome()
            approval = await anext(reader)
            await supervisor.decide(approval.id, Approve(by="ana"))
            assert (await run.result())[0] == "ok"


async def test_a_call_in_a_durable_store_waits(tmp_path):
    """A6: the command line and the inbox can answer in a file."""
    async with opened(tmp_path / "state.db") as supervisor:
        run = await supervisor.start(deployer, "x")
        with anyio.move_on_after(300):
            await run.outcome()
        (approval,) = supervisor.store.find_approvals()
    async with opened(SqliteStore(tmp_path / "state.db")) as supervisor:
        (found,) = await supervisor.find_approvals()
        assert (found.id, found.status) == (approval.id, "pending")


@pytest.mark.parametrize(("unattended", "kind"), [("allow", "ok"), ("deny", "denied")])
async def test_the_unattended_setting_decides_and_is_audited(unattended, kind):
    """A6: the approvals of an unattended run are decided like any other one, under the setting's name."""
    store = MemoryStore()
    async with opened(store, unattended=unattended) as supervisor:
        run = await supervisor.start(parent)
        assert (await run.result())[0] == kind
        (approval,) = await supervisor.find_approvals(pending=False)
        assert approval.by.startswith("--unattended")
        assert len(events(store, approval.session, e.ApprovalDecided)) == 1


async def test_an_edited_call_runs_with_the_approvers_arguments():
    """A8: the edit replaces all arguments. The journal and the tool get the edited ones."""
    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        assert (await supervisor.decide(asked, Approve(by="ana", arguments=_args("y", 3)))).kind == "accepted"
        assert (await run.result())[1] == "deployed y"
        assert ran == [("y", 3)]
        assert (await supervisor.find_approvals(pending=False))[0].arguments == _args("y", 3)


async def test_a_plain_approval_after_an_edited_one_is_a_conflict():
    """A3: arguments count. An approval without arguments means the original ones."""
    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        edits = (_args("y", 3), _args("y", 3), None, _args("x", 1))
        kinds = [(await supervisor.decide(asked, Approve(by="ana", arguments=edit))).kind for edit in edits]
        assert kinds == ["accepted", "already", "conflict", "conflict"]


@pytest.mark.parametrize("edit", [{"count": 1}, {"target": "y", "count": 1, "force": True}, {}])
async def test_an_edit_with_missing_or_unknown_names_is_refused(edit):
    """A8: it decides nothing, and the approval stays pending."""
    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        with pytest.raises(InvalidInput):
            await supervisor.decide(asked, Approve(by="ana", arguments=edit))
        assert [approval.id for approval in await supervisor.find_approvals()] == [asked]


async def test_an_edit_of_the_wrong_type_is_refused_and_the_call_still_waits():
    """A8: the person who decides learns it, and may decide again."""
    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        with pytest.raises(InvalidInput, match="count"):
            await supervisor.decide(asked, Approve(by="ana", arguments={"target": "y", "count": "many"}))
        assert [each.id for each in await supervisor.find_approvals()] == [asked]
        assert ran == []


@dataclass
class Target:
    host: str
    port: int = 22


@tool
async def reach(target: Target) -> str:
    ran.append((target.host, target.port))
    return "reached"


async def test_a_misspelt_name_deep_in_an_edit_is_refused():
    """A8: a misspelt name does not mean the default."""

    @agent
    async def reaching(ctx: Context) -> None:
        await ctx.call(reach, Target("a"))

    async with opened() as supervisor:
        run = await supervisor.start(reaching)
        asked = (await next_of(run.watch_approvals())).id
        with pytest.raises(InvalidInput, match="prot"):
            await supervisor.decide(asked, Approve(by="ana", arguments={"target": {"host": "a", "prot": 2222}}))
        assert [each.id for each in await supervisor.find_approvals()] == [asked]
        assert ran == []


async def test_a_denial_is_a_result_that_says_who_and_why():
    """A8: the agent sees the reason as the call's result, and goes on."""
    async with opened() as supervisor:
        run = await supervisor.start(deployer, "x")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Deny(by="ana", reason="not on a Friday"))
        kind, content, _, effect = await run.result()
        assert (kind, effect) == ("denied", "none")
        assert "ana" in content
        assert "not on a Friday" in content
        assert ran == []


async def test_a_call_whose_defaults_changed_after_it_was_approved_is_blocked():
    """A9, R1: the digest, with defaults filled in, is checked again just before the effect. The approval stays
    unused."""

    @tool(name="deploy")
    async def deploy_to_all(target: str, count: int = 1000) -> None:
        ran.append((target, count))

    tools = [deploy]

    @agent
    async def uses(ctx: Context) -> list[str]:
        result = await ctx.call(tools[0], "x")
        return [result.kind, result.details["effect"]]

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(uses, session="s")
        asked = (await next_of(run.watch_approvals())).id
    tools[0] = deploy_to_all
    async with opened(store) as supervisor:
        await supervisor.decide(asked, Approve(by="ana"))
        with pytest.raises(RunBlocked) as caught:
            await (await supervisor.get_run("s")).outcome()
        assert caught.value.block.why == "call"
    assert ran == []
    tools[0] = deploy
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        assert await run.result() == ["ok", "done"]
    assert len(ran) == 1


async def test_a_cancel_between_decision_and_effect_runs_nothing():
    """A9: the plan that commits `executing` checks the run again. Cancel and decision are on disk in one commit."""
    async with opened(HeldStore()) as supervisor, anyio.create_task_group() as tasks:
        run = await supervisor.start(deployer, "x")
        asked = (await next_of(run.watch_approvals())).id
        supervisor.store.is_held = True
        tasks.start_soon(supervisor.decide, asked, Approve(by="ana"))
        await anyio.sleep(1)
        tasks.start_soon(run.cancel)
        await anyio.sleep(1)
        supervisor.store.is_held = False
        assert (await run.outcome()).kind == "cancelled"
        assert events(supervisor.store, run.session, e.ApprovalDecided)
        assert (ran, events(supervisor.store, run.session, e.ToolCallStarted)) == ([], [])
        assert len(events(supervisor.store, run.session, (e.ToolCallFinished, e.OperationAbandoned))) == 1


async def test_of_two_calls_that_wait_each_proceeds_when_its_own_is_decided():
    """A13: parallel approvals are independent, in any order."""
    finished = []

    @agent
    async def two(ctx: Context) -> None:
        async def one(target: str) -> None:
            finished.append((target, (await ctx.call(deploy, target)).kind))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "a")
            tasks.start_soon(one, "b")

    async with opened() as supervisor:
        run = await supervisor.start(two)
        async with run.watch_approvals() as reader:
            ids = {approval.arguments["target"]: approval.id for approval in [await anext(reader), await anext(reader)]}
            await supervisor.decide(ids["b"], Approve(by="ana"))
            await anyio.sleep(5)
            assert finished == [("b", "ok")]
            await supervisor.decide(ids["a"], Deny(by="ana"))
            await run.outcome()
            assert finished == [("b", "ok"), ("a", "denied")]


async def test_an_approval_of_a_grandchild_is_seen_and_decided_at_the_root():
    """A14: the root's run shows it with its path, and so do the views of all sessions above it."""
    async with opened() as supervisor:
        run = await supervisor.start(grandparent)
        approval = await next_of(run.watch_approvals())
        assert approval.path == ("grandparent", "parent", "deployer")
        assert approval.root_session == run.session
        views = await supervisor.find_sessions()
        assert [view.status for view in views] == ["waiting_approval"] * 3
        assert [[pending.id for pending in view.pending_approvals] for view in views] == [[approval.id]] * 3
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert (await run.result())[0] == "ok"
        assert [view.status for view in await supervisor.find_sessions()] == ["completed"] * 3


async def test_the_approvals_of_a_run_are_its_own_and_those_below_it_and_end_with_it():
    """A14: those of its siblings are not included."""
    async with opened() as supervisor:
        first, second = await supervisor.start(parent), await supervisor.start(parent)
        for run in (first, second):
            seen = []
            async with run.watch_approvals() as watch:
                async for approval in watch:
                    seen.append(approval.root_session)
                    await supervisor.decide(approval.id, Approve(by="ana"))
            assert seen == [run.session]


async def test_the_audit_trail_shows_requests_decisions_and_calls():
    """A15: it shows them in order, for the whole store."""
    async with opened() as supervisor:
        run = await supervisor.start(parent)
        asked = (await next_of(run.watch_approvals())).id
        await supervisor.decide(asked, Approve(by="ana", arguments=_args("y")))
        await run.outcome()
        trail = [row.event for row in await supervisor.find_audit()]
        assert [type(event) for event in trail] == [
            e.ToolCallRequested,
            e.ApprovalDecided,
            e.ToolCallStarted,
            e.ToolCallFinished,
        ]
        assert (trail[1].by, trail[1].approval) == ("ana", asked)
        assert b'"y"' in bytes(trail[1].arguments)


async def test_every_state_of_an_approval_survives_a_restart():
    """R1: a pending approval is still asked, with the same id. A decided one is not asked again."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(parent, session="s")
        asked = (await next_of(supervisor.watch_approvals())).id
        pending = fork(store)
        await supervisor.decide(asked, Approve(by="ana"))
        decided = fork(store)
        assert ran == []
    ran.clear()
    async with opened(decided) as supervisor:
        run = await supervisor.resume("s")
        assert (await run.result())[0] == "ok"
        assert ran == [("x", 1)]
    async with opened(pending) as supervisor:
        (run,) = await supervisor.resume_all()
        assert (await next_of(run.watch_approvals())).id == asked


def _args(target: str, count: int = 1) -> dict:
    return {"target": target, "count": count}


async def keep(arguments):
    ran.append(tuple(arguments.values()))
    return "kept"


LIMITED = {"properties": {"size": {"type": "integer"}, "token": {"maxLength": 3}}, "minProperties": 2}


@agent
async def keeper(ctx: Context) -> str:
    tool = foreign_tool("keeper.keep", keep, schema=LIMITED, secret=["token"])
    return (await ctx.call(tool, {"size": 1, "token": "abc"})).content


async def test_an_edit_must_fit_the_schema_that_a_foreign_tool_came_with():
    """Secret arguments are left to the process that runs the call: an approver may leave the mask, which fits
    nothing."""
    async with opened() as supervisor:
        run = await supervisor.start(keeper)
        asked = await next_of(run.watch_approvals())
        with pytest.raises(InvalidInput, match="size"):
            await supervisor.decide(asked.id, Approve(by="ana", arguments={**asked.arguments, "size": "big"}))
        await supervisor.decide(asked.id, Approve(by="ana", arguments={**asked.arguments, "size": 2}))
        assert await run.result() == "kept"
    assert ran == [(2, "abc")]
