"""A1, A7, A8, A10, A12: what people are asked, why, what they are offered, and what an agent hears of their answer."""

import math

import anyio
import pytest
from scenes import effects, opened
from watching import next_of

from supervisor import Approve, Context, Deny, InvalidInput, MemoryStore, ToolCall, agent, allow, ask, deny, tool
from supervisor.tools import shell

pytestmark = pytest.mark.anyio
given: list[object] = []


@tool
async def send(to: str, copy_to: str | None = None, count: int = 1) -> str:
    effects.append((to, copy_to, count))
    return "sent"


@tool
async def back_up() -> str:
    return "done"


@tool
async def pay(options: dict[str, object]) -> str:
    effects.append(options)
    return "paid"


@agent
async def sends(ctx: Context, arguments: dict[str, object]) -> list[object]:
    result = await ctx.call(send, **arguments)
    return [result.content, result.details.get("arguments")]


@agent
async def looks(ctx: Context, command: str) -> str:
    return (await ctx.call(shell, command)).kind


@agent
async def pays(ctx: Context, text: str) -> object:
    return (await ctx.call(pay, {"limit": given[0]})).kind


@agent(tools=[pay])
async def emits(ctx: Context, text: str) -> list[object]:
    result = await ctx.call(ToolCall("1", "pay", given[0]))
    return [result.kind, result.details["reason"]]


async def asked_about(supervisor, spec, *args, **options):
    run = await supervisor.start(spec, *args, **options)
    return run, await next_of(run.watch_approvals())


# -- why, and what is offered ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "command", "told"),
    [
        ([], "ls", "no rule allows it"),
        ([allow("shell"), ask("shell", "git push")], "git push origin", "`ask shell: git push` (from code)"),
        ([deny("shell", "rm")], "$x -f", "`deny shell: rm`"),
        ([allow("shell", "git status *")], "git status --short | cat", "no rule allows its part `cat`"),
        ([allow("shell", "git status *")], "git status > x", "no list of simple commands"),
        ([allow("shell", "git status *")], "git status --short --ext=x", "because of `--ext=x`"),
    ],
)
async def test_an_approval_says_why_a_person_is_asked(rules, command, told):
    """The rule that asks, with where it is from, or the part that keeps a rule from allowing the call."""
    async with opened(rules=rules) as supervisor:
        _, asked = await asked_about(supervisor, looks, command, session="s")
        assert told in asked.why
        await supervisor.cancel("s")


async def test_it_says_that_a_sub_agents_own_rule_does_not_count():
    """A14: a child never allows more than what is above it."""

    @agent(rules=[allow("shell", "ls")])
    async def child(ctx: Context, command: str) -> str:
        return (await ctx.call(shell, command)).kind

    @agent
    async def parent(ctx: Context) -> str:
        return await ctx.run(child, "ls")

    async with opened() as supervisor:
        _, asked = await asked_about(supervisor, parent, session="s")
        assert "`allow shell: ls`" in asked.why
        assert "parents" in asked.why
        await supervisor.cancel("s")


@pytest.mark.parametrize("rule", [ask("send"), ask("send", '{"to":"x"}'), deny("send", '{"to":"y"}')])
async def test_only_what_would_allow_this_very_call_is_offered(rule):
    """Not while a rule asks about it. A denial for longer still works, since a deny beats all."""
    async with opened(rules=[rule]) as supervisor:
        run, asked = await asked_about(supervisor, sends, {"to": "x"})
        wide = {option.scope for option in asked.options} - {"once"}
        assert wide == (set() if rule.kind == "ask" else {"session", "always"})
        if rule.kind == "ask":
            with pytest.raises(InvalidInput):
                await supervisor.decide(asked.id, Approve(by="ana", scope="always"))
        await supervisor.decide(asked.id, Deny(by="ana", scope="always"))
        assert "denied" in (await run.result())[0]
        assert "ana" in (await (await supervisor.start(sends, {"to": "x"})).result())[0]


async def test_a_call_without_arguments_is_granted_once_only():
    """It says nothing of what is approved."""

    @agent
    async def backs_up(ctx: Context) -> str:
        return (await ctx.call(back_up)).kind

    async with opened() as supervisor:
        run, asked = await asked_about(supervisor, backs_up)
        assert [option.scope for option in asked.options] == ["once"]
        for wrong in (Approve(by="ana", scope="session"), Deny(by="ana", scope="always")):
            with pytest.raises(InvalidInput):
                await supervisor.decide(asked.id, wrong)
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "ok"


# -- edits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "ran"),
    [
        ({"to": "y"}, ("y", None, 1)),
        ({"to": "y", "count": 3}, ("y", None, 3)),
        ({"to": "x", "copy_to": "z", "count": 2}, ("x", "z", 2)),
    ],
)
async def test_an_edit_may_leave_out_what_has_a_default_and_is_told_to_the_agent(edit, ran):
    """A8: the default value is filled in, is ruled, shown and journaled, and is in the details of the result."""
    async with opened() as supervisor:
        run, asked = await asked_about(supervisor, sends, {"to": "x", "copy_to": "all"})
        await supervisor.decide(asked.id, Approve(by="ana", arguments=edit))
        whole = dict(zip(("to", "copy_to", "count"), ran, strict=True))
        assert await run.result() == ["sent", whole]
        assert (effects, (await supervisor.get_approval(asked.id)).arguments) == ([ran], whole)


async def test_a_deny_rule_sees_the_default_of_an_edit():
    """A8: an argument that is left out is ruled like one that is given."""
    async with opened(rules=[deny("send", '{"copy_to":null}')]) as supervisor:
        run, asked = await asked_about(supervisor, sends, {"to": "x", "copy_to": "all"})
        await supervisor.decide(asked.id, Approve(by="ana", arguments={"to": "x"}))
        assert ("denied" in (await run.result())[0], effects) == (True, [])


async def test_an_unedited_result_has_no_arguments_in_its_details():
    """Nor has one whose approver gave the same arguments again."""
    async with opened() as supervisor:
        for edit in (None, {"to": "x"}):
            run, asked = await asked_about(supervisor, sends, {"to": "x"})
            await supervisor.decide(asked.id, Approve(by="ana", arguments=edit))
            assert await run.result() == ["sent", None]


# -- values that JSON cannot hold --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, [{"deep": -math.inf}]])
async def test_a_nan_in_an_argument_is_refused_before_a_person_is_asked(value):
    """It would be shown, approved and run as null."""
    given[:] = [value]
    async with opened() as supervisor:
        run = await supervisor.start(pays, "go")
        assert "NaN" in (await run.outcome()).cause
        assert list(await supervisor.find_approvals(pending=False)) == []


@pytest.mark.parametrize(
    "arguments", [{"options": {"limit": math.nan}}, '{"options":{"limit":1,"limit":2}}', '{"options":{},"options":{}}']
)
async def test_a_model_reads_that_its_arguments_say_two_things_or_nothing(arguments):
    """Nobody is asked about them."""
    given[:] = [arguments]
    async with opened() as supervisor:
        assert await (await supervisor.start(emits, "go")).result() == ["error", "invalid_arguments"]
        assert list(await supervisor.find_approvals(pending=False)) == []


async def returns(value: object) -> object:
    effects.append("step")
    return given[0] if value is None else value


@tool(policy="allow")
async def measures() -> dict[str, object]:
    return {"mean": given[0]}


@agent
async def hands_over(ctx: Context, how: str) -> object:
    match how:
        case "argument":
            return await ctx.step(returns, given[0])
        case "result":
            return await ctx.step(returns, None)
        case "tool":
            result = await ctx.call(measures)
            assert not result.is_error, result.content
        case "state":
            await ctx.save([given[0]])
    return [given[0]]


@pytest.mark.parametrize("how", ["argument", "result", "tool", "state", "outcome"])
async def test_a_nan_is_journaled_nowhere_as_null(how):
    """Not as what a step takes or returns, as the result of a tool, as a state, or as the outcome: each is an error."""
    given[:] = [math.nan]
    async with opened() as supervisor:
        outcome = await (await supervisor.start(hands_over, how)).outcome()
        assert outcome.kind == "failed"
        assert "NaN" in outcome.cause
        assert effects == (["step"] if how == "result" else [])


async def test_a_step_that_was_journaled_with_a_null_goes_on():
    """A former version wrote it so: in a replay nothing is refused."""

    @agent
    async def steps_and_waits(ctx: Context) -> object:
        taken = [await ctx.step(returns, given[0]), (await ctx.call(send, "x")).kind]
        return [each for each in taken if each == "ok"]

    store, given[:] = MemoryStore(), [None, 5]
    async with opened(store) as supervisor:
        await asked_about(supervisor, steps_and_waits, session="s")
    given[:] = [math.nan]
    async with opened(store.copy()) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide((await supervisor.find_approvals())[0].id, Approve(by="ana"))
        assert await run.result() == ["ok"]


@pytest.mark.parametrize("spec", [pays, emits])
async def test_a_call_that_waits_already_goes_on_whatever_is_refused_now(spec):
    """What was journaled, with a null, is what was shown and what runs."""
    store, old = MemoryStore(), None if spec is pays else {"options": {"limit": None}}
    given[:] = [old]
    async with opened(store) as supervisor:
        _, asked = await asked_about(supervisor, spec, "go", session="s")
    given[:] = [math.nan if spec is pays else {"options": {"limit": math.nan}}]
    async with opened(store.copy()) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert (await run.outcome()).kind == "succeeded"
        assert effects == [{"limit": None}]


# -- denials and expiries ----------------------------------------------------------------------------------------------


async def test_a_call_that_was_just_denied_says_so_when_it_is_asked_again():
    """B11a: models repeat a call that was denied; the person should know."""

    @agent
    async def insists(ctx: Context) -> list[str]:
        return [(await ctx.call(send, "x")).content for _ in range(3)]

    async with opened() as supervisor:
        run, notes = await supervisor.start(insists), []
        async with run.watch_approvals() as watch:
            async for asked in watch:
                notes.append(asked.note)
                await supervisor.decide(asked.id, Deny(by="ana", reason="no"))
        assert notes == ["", "ana denied the same call just before", "ana denied the same call just before, 2 times"]
        assert all("again" in content for content in await run.result())


async def test_an_expired_approval_is_never_pending_although_no_process_has_noted_it():
    """Not in a list, not in a session, not by its id, not in a count."""

    @agent(approval_expires_in=60)
    async def hurried(ctx: Context) -> str:
        return (await ctx.call(send, "x")).kind

    store = MemoryStore()
    async with opened(store) as supervisor:
        _, asked = await asked_about(supervisor, hurried, session="s")
    await anyio.sleep(61)
    async with opened(store.copy()) as supervisor:
        assert list(await supervisor.find_approvals()) == []
        (found,) = await supervisor.find_approvals(pending=False)
        assert (found.status, found.decided_at) == ("expired", asked.expires_at)
        assert (await supervisor.get_approval(asked.id)).status == "expired"
        view = await supervisor.get_session("s")
        assert (view.status, view.pending_approvals) == ("active", ())
        counts = await supervisor.get_counts()
        assert (counts.pending_approvals, counts.oldest_pending_at) == (0, None)
        assert (await supervisor.decide(asked.id, Approve(by="ana"))).kind == "closed"


async def test_a_count_of_what_waits_knows_what_was_asked_decided_and_expired_since():
    """The counts of one process, one after the other."""

    @agent(approval_expires_in=60)
    async def hurried(ctx: Context) -> str:
        return (await ctx.call(send, "x")).kind

    store = MemoryStore()
    async with opened(store) as supervisor:
        _, first = await asked_about(supervisor, hurried, session="old")
    await anyio.sleep(30)
    async with opened(store.copy()) as supervisor:
        counts = [await supervisor.get_counts()]
        _, second = await asked_about(supervisor, sends, {"to": "x"}, session="new")
        counts.append(await supervisor.get_counts())
        await anyio.sleep(31)
        counts.append(await supervisor.get_counts())
        await supervisor.decide(second.id, Approve(by="ana"))
        counts.append(await supervisor.get_counts())
        assert [each.pending_approvals for each in counts] == [1, 2, 1, 0]
        oldest = [first.created_at, first.created_at, second.created_at, None]
        assert [each.oldest_pending_at for each in counts] == oldest
