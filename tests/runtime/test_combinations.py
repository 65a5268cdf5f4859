"""Several rules at once: questions, rules, sub-agents, restarts and chat words together."""

from datetime import UTC, datetime

import anyio
import pytest
from scenes import ForkingStore, deploy, effects, names, opened
from watching import next_of

from supervisor import (
    Answer,
    Approve,
    Context,
    Deny,
    InvalidInput,
    MemoryStore,
    QuestionUnanswered,
    ToolCall,
    agent,
    allow,
    deny,
)

pytestmark = pytest.mark.anyio
DAY = 86_400.0
EVER = datetime.max.replace(tzinfo=UTC)


@agent
async def deploys(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


@agent
async def researcher(ctx: Context, topic: str) -> str:
    return f"{topic}: {await ctx.ask('Which one?', choices=['a', 'b'])}"


@agent(tools=[researcher])
async def thinks(ctx: Context) -> str:
    """A model's loop of two rounds, each with a sub-agent as a tool, under the same id."""
    said = [(await ctx.call(ToolCall("1", "researcher", {"topic": topic}))).content for topic in ("x", "y")]
    return " ".join(said)


async def asked_by(run):
    return await next_of(run.watch_approvals())


async def leave_at_once(store, agent, *args):
    """Start the agent, leave as soon as it asks, and return its session and its approval."""
    with anyio.CancelScope() as leave:
        async with opened(store) as supervisor:
            run = await supervisor.start(agent, *args)
            asked = await asked_by(run)
            leave.cancel()
    return run.session, asked


async def test_a_question_of_a_called_sub_agent_wakes_its_parent_also_after_any_crash():
    """R1, R2, A14: the answer wakes the sub-agent, and its outcome wakes the parent. So it is after each crash."""
    store = ForkingStore()
    async with opened(store, passivate_after=60) as supervisor:
        run = await supervisor.start(thinks, session="s")
        for _ in range(2):
            asked = await asked_by(run)
            await anyio.sleep(DAY)
            assert supervisor._runner.attempts.live == {}
            assert (asked.root_session, asked.path) == ("s", ("thinks", "researcher"))
            await supervisor.decide(asked.id, Answer(value="b", by="ana"))
            await anyio.sleep(1)
        assert await run.result() == "x: b y: b"
    for copy, _ in store.copies:
        before = {approval.id for approval in copy.find_approvals(pending=False)}
        async with opened(copy, passivate_after=60) as supervisor:
            for again in await supervisor.resume_all():
                async with again.watch_approvals() as watch:
                    async for asked in watch:
                        await supervisor.decide(asked.id, Answer(value="b", by="ana"))
                assert await again.result() == "x: b y: b"
        every = [approval.id for approval in copy.find_approvals(pending=False)]
        assert len(every) == len({*every}) == (2 if copy.find_sessions() else 0)
        assert before <= {*every}


async def test_an_always_approval_while_fifty_equal_calls_ask_decides_them_all():
    """A13, A7: there is one rule, even if it is granted often. Who decides one of them later is told so. A later call
    does not ask."""
    async with opened() as supervisor:
        runs = [await supervisor.start(deploys, "x") for _ in range(50)]
        asked = [await asked_by(run) for run in runs]
        decided = await supervisor.decide(asked[0].id, Approve(by="ana", scope="always"))
        assert [await run.result() for run in runs] == ["ok"] * 50
        late = [await supervisor.decide(each.id, Approve(by="ben", scope="always")) for each in asked[1:25]]
        late += [await supervisor.decide(each.id, Deny(by="ben")) for each in asked[25:]]
        assert [each.kind for each in late] == ["already"] * 24 + ["conflict"] * 25
        assert [rule.id for rule in await supervisor.find_rules()] == [decided.rule]
        assert await (await supervisor.start(deploys, "x")).result() == "ok"
        assert len(effects) == 51


@pytest.mark.parametrize("then", ["revoke", "deny"])
async def test_a_rule_that_changes_between_its_decision_and_the_effect(then):
    """A9: the call itself was approved, and runs though its rule is gone. If a deny has come, the deny wins."""
    store = MemoryStore()
    session, asked = await leave_at_once(store, deploys, "x")
    async with opened(store) as supervisor:
        decided = await supervisor.decide(asked.id, Approve(by="ana", scope="always"))
        await (
            supervisor.revoke_rule(decided.rule, by="ben")
            if then == "revoke"
            else supervisor.add_rule(deny(deploy), by="ben")
        )
        run = await supervisor.resume(session)
        assert (await run.result(), effects) == (("ok", ["x"]) if then == "revoke" else ("denied", []))
        later = await supervisor.start(deploys, "x")
        if then == "revoke":
            await supervisor.decide((await asked_by(later)).id, Deny(by="ana"))
        assert await later.result() == "denied"


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_an_edited_call_is_approved_once_only(scope):
    """A5, A8: no rule was offered for it. The refusal decides nothing, and the edit alone is accepted."""
    async with opened() as supervisor:
        run = await supervisor.start(deploys, "x")
        asked = await asked_by(run)
        with pytest.raises(InvalidInput):
            await supervisor.decide(asked.id, Approve(by="ana", arguments={"target": "y"}, scope=scope))
        assert (list(await supervisor.find_rules()), len(await supervisor.find_approvals())) == ([], 1)
        await supervisor.decide(asked.id, Approve(by="ana", arguments={"target": "y"}))
        assert (await run.result(), effects) == ("ok", ["y"])


@pytest.mark.parametrize("early", [0.0, 0.000002, 1.0])
@pytest.mark.parametrize("passivate_after", [1.0, 10 * DAY])
async def test_a_decision_in_the_instant_of_its_expiry_is_one_or_the_other(early, passivate_after):
    """A3, A10: the journal has one end of the approval, and person and agent get the same."""

    @agent
    async def hurries(ctx: Context) -> str:
        try:
            return await ctx.ask("Well?", expires_in=DAY)
        except QuestionUnanswered as unanswered:
            return unanswered.reason

    async with opened(passivate_after=passivate_after) as supervisor:
        run = await supervisor.start(hurries)
        asked = await asked_by(run)
        await anyio.sleep((asked.expires_at - asked.created_at).total_seconds() - early)
        decided = await supervisor.decide(asked.id, Answer(value="yes", by="ana"))
        assert decided.kind == ("accepted" if early == 1.0 else decided.kind)
        assert await run.result() == {"accepted": "yes", "closed": "expired"}[decided.kind]
        ends = [
            name for name in names(supervisor.store, run.session) if name in ("QuestionAnswered", "ApprovalExpired")
        ]
        assert len(ends) == 1


async def test_a_chat_word_to_a_sub_agent_decides_approvals_below_it():
    """A12: it does not decide those of its parent or siblings, though the root shows all of them."""

    @agent
    async def parent(ctx: Context) -> list[str]:
        kinds: dict[str, str] = {}

        async def own(inner: Context) -> None:
            kinds["own"] = (await inner.call(deploy, "own")).kind

        async def child(inner: Context, name: str) -> None:
            kinds[name] = await inner.run(deploys, name)

        async with ctx.task_group() as group:
            group.start_soon(own)
            for name in ("a", "b"):
                group.start_soon(child, name)
        return [kinds[name] for name in ("own", "a", "b")]

    async with opened() as supervisor:
        run = await supervisor.start(parent, session="s")
        async with run.watch_approvals() as reader:
            asked = {each.arguments["target"]: each for each in [await anext(reader) for _ in range(3)]}
            heard = await supervisor.chat(asked["a"].session, f"yes {asked['own'].id}", by="ana", shown_before=EVER)
            assert (heard.kind, heard.results[0].kind, len(await supervisor.find_approvals())) == (
                "listed",
                "unknown",
                3,
            )
            shown = [each.id for each in asked.values()]
            heard = await supervisor.chat(asked["a"].session, "approve all", by="ana", shown_before=EVER, shown=shown)
            assert [each.id for each in heard.approvals] == [asked["a"].id]
            await supervisor.chat("s", f"no {asked['b'].id}", by="ana", shown_before=EVER)
            await supervisor.chat("s", "approve all", by="ana", shown_before=EVER, shown=shown)
            assert await run.result() == ["ok", "ok", "denied"]


@agent(rules=[deny(deploy, '{"target":"b"}'), allow(deploy, '{"target":"a"}')])
async def below(ctx: Context) -> list[str]:
    return [(await ctx.call(deploy, target)).kind for target in ("a", "b", "c")]


@agent(rules=[deny(deploy, '{"target":"a"}')])
async def above(ctx: Context) -> list[str]:
    return [*await ctx.run(below), await ctx.ask("Why?")]


async def test_approving_everything_beforehand_neither_widens_rules_nor_answers_questions():
    """A5, A6, A7: a deny holds, in a sub-agent, too. The question waits, since it cannot be approved."""
    store = MemoryStore()
    store.is_durable = True
    async with opened(store, unattended="allow") as supervisor:
        run = await supervisor.start(above)
        async with run.watch_approvals() as reader:
            while (asked := await anext(reader)).kind == "call":
                pass
            assert effects == ["c"]
            await supervisor.decide(asked.id, Answer(value="so", by="ana"))
            assert await run.result() == ["denied", "denied", "ok", "so"]
