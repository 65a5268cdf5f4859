"""A: an agent's questions are asked, answered once, and kept in all cases in which approvals are kept."""

from dataclasses import dataclass
from datetime import timedelta

import anyio
import pytest
from scenes import ForkingStore, events, fork, names, opened
from watching import next_of

from supervisor import (
    Answer,
    Approve,
    Context,
    Deny,
    InvalidInput,
    MemoryStore,
    QuestionUnanswered,
    agent,
    tool,
)
from supervisor.core import events as e
from supervisor.testing import wall_clock

pytestmark = pytest.mark.anyio
DAY = 86_400.0


@dataclass
class Plan:
    region: str
    count: int = 1


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def chooses(ctx: Context) -> str:
    return await ctx.ask("Which environment?", choices=["staging", "production"])


@agent
async def plans(ctx: Context) -> str:
    plan = await ctx.ask("What plan?", schema=Plan)
    return f"{plan.region} {plan.count}"


@agent
async def writes(ctx: Context) -> str:
    return await ctx.ask("What shall I say?")


@agent
async def root(ctx: Context) -> str:
    return await ctx.run(chooses)


@agent
async def asks_two(ctx: Context) -> list[str]:
    answers = {}

    async def ask(inner: Context, name: str) -> None:
        answers[name] = await inner.ask(f"Who is {name}?")

    async with ctx.task_group() as group:
        group.start_soon(ask, "a")
        group.start_soon(ask, "b")
    return [answers["a"], answers["b"]]


@agent
async def copes(ctx: Context) -> list[str]:
    said = []
    for n in range(2):
        try:
            said.append(await ctx.ask(f"Question {n}?", expires_in=DAY))
        except QuestionUnanswered as unanswered:
            said.append(unanswered.reason)
    return said


async def asked_by(run):
    return await next_of(run.watch_approvals())


@pytest.mark.parametrize(
    ("asks", "value", "result"),
    [(chooses, "staging", "staging"), (plans, {"region": "eu"}, "eu 1"), (writes, "yes", "yes"), (writes, "", "")],
)
async def test_the_agent_is_given_the_answer(asks, value, result):
    """It is a choice, a value of the type, or text."""
    async with opened() as supervisor:
        run = await supervisor.start(asks)
        question = await asked_by(run)
        assert (question.kind, question.tool, question.arguments, question.options) == ("question", "", None, ())
        decided = await supervisor.decide(question.id, Answer(value=value, by="ana"))
        assert (decided.kind, decided.status, decided.by) == ("accepted", "answered", "ana")
        assert await run.result() == result
        (answered,) = await supervisor.find_approvals(pending=False)
        assert (answered.status, answered.decision, answered.answer) == ("answered", "answer", value)


@pytest.mark.parametrize(
    ("asks", "decision"),
    [
        (chooses, Answer(value="elsewhere", by="ana")),
        (chooses, Answer(value=None, by="ana")),
        (plans, Answer(value={"region": 1}, by="ana")),
        (plans, Answer(value={"count": 1}, by="ana")),
        (plans, Answer(value="eu", by="ana")),
        (writes, Answer(value=7, by="ana")),
        (writes, Answer(value="\udcff", by="ana")),
        (writes, Answer(value="fine", by=" ")),
        (writes, Approve(by="ana")),
    ],
)
async def test_an_invalid_answer_decides_nothing(asks, decision):
    """A4, A5: a value that does not fit, an approval of a question, or an empty identity. The question stays
    pending."""
    async with opened() as supervisor:
        run = await supervisor.start(asks)
        question = await asked_by(run)
        with pytest.raises(InvalidInput):
            await supervisor.decide(question.id, decision)
        assert [each.id for each in await supervisor.find_approvals()] == [question.id]
        assert events(supervisor.store, run.session, e.QuestionAnswered) == []


async def test_an_answer_to_a_call_decides_nothing():
    """A1: only yes and no decide whether a call runs."""

    @agent
    async def deploys(ctx: Context) -> str:
        return (await ctx.call(deploy, "x")).kind

    async with opened() as supervisor:
        run = await supervisor.start(deploys)
        with pytest.raises(InvalidInput):
            await supervisor.decide((await asked_by(run)).id, Answer(value="yes", by="ana"))
        assert len(await supervisor.find_approvals()) == 1


async def test_the_first_answer_wins_and_every_later_one_is_told():
    """A3: the same answer again is `already`, another one is a conflict."""
    async with opened() as supervisor:
        run = await supervisor.start(chooses)
        question = (await asked_by(run)).id
        decisions = [
            Answer(value="staging", by="ana"),
            Answer(value="staging", by="bob"),
            Answer(value="production", by="bob"),
            Deny(by="bob"),
        ]
        results = [await supervisor.decide(question, decision) for decision in decisions]
        assert [decided.kind for decided in results] == ["accepted", "already", "conflict", "conflict"]
        assert {decided.by for decided in results} == {"ana"}
        assert (await supervisor.decide("nosuch", Answer(value="x", by="ana"))).kind == "unknown"


async def test_parallel_questions_are_independent_and_visible_at_the_root():
    """A13, A14: each task goes on when its own question is answered. The root shows all."""
    async with opened() as supervisor:
        run = await supervisor.start(asks_two)
        async with run.watch_approvals() as reader:
            first, second = await anext(reader), await anext(reader)
            assert len((await supervisor.get_session(run.session)).pending_approvals) == 2
            await supervisor.decide(second.id, Answer(value=second.question, by="ana"))
            assert [each.id for each in await supervisor.find_approvals()] == [first.id]
            await supervisor.decide(first.id, Answer(value=first.question, by="ana"))
            assert await run.result() == ["Who is a?", "Who is b?"]
            nested = await supervisor.start(root)
            question = await asked_by(nested)
            assert (question.path, question.root_session) == (("root", "chooses"), nested.session)
            await supervisor.decide(question.id, Answer(value="staging", by="ana"))
            assert await nested.result() == "staging"


async def test_a_question_leaves_memory_and_wakes_its_run():
    """A run that only asks is passivated; the answer wakes it, under the same id."""
    store = MemoryStore()
    async with opened(store, passivate_after=60) as supervisor:
        run = await supervisor.start(chooses)
        question = await asked_by(run)
        await anyio.sleep(DAY)
        assert store.get_session(run.session).is_asleep
        await supervisor.decide(question.id, Answer(value="staging", by="ana"))
        assert await run.result() == "staging"
    assert names(store, run.session).count("QuestionAsked") == 1


async def test_a_restart_keeps_the_question_and_its_answer():
    """R1: killed after any commit, it is asked once, under one id, and has one answer."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(asks_two, session="s")
        async with run.watch_approvals() as watch:
            async for question in watch:
                await supervisor.decide(question.id, Answer(value=question.question, by="ana"))
    ids = {event.operation: event.approval for event in events(store, "s", e.QuestionAsked)}
    for copy, _ in store.copies:
        async with opened(copy) as supervisor:
            resumed = await supervisor.resume("s")
            async with resumed.watch_approvals() as watch:
                async for question in watch:
                    await supervisor.decide(question.id, Answer(value=question.question, by="ana"))
            assert await resumed.result() == ["Who is a?", "Who is b?"]
        later = {event.operation: event.approval for event in events(copy, "s", e.QuestionAsked)}
        begun = {event.operation for event in events(fork(copy), "s", e.QuestionAsked)}
        assert begun == ids.keys() == later.keys()
        assert len(events(copy, "s", e.QuestionAnswered)) == 2


async def test_a_cancel_withdraws_the_question():
    """W8: a late answer is told that the question is closed."""
    async with opened() as supervisor:
        run = await supervisor.start(root)
        question = await asked_by(run)
        await supervisor.cancel(run.session, by="ana")
        assert (await run.outcome()).kind == "cancelled"
        decided = await supervisor.decide(question.id, Answer(value="staging", by="ana"))
        assert (decided.kind, decided.status) == ("closed", "withdrawn")


async def test_a_question_that_a_scope_of_the_agent_cancels_is_withdrawn_for_good():
    """A replay cancels it at the same place."""

    @agent
    async def impatient(ctx: Context) -> str:
        async with ctx.move_on_after(60) as timer:
            await ctx.ask("Are you there?")
        assert timer.expired
        return await ctx.ask("And now?")

    store = MemoryStore()
    async with opened(store, passivate_after=10) as supervisor:
        run = await supervisor.start(impatient)
        first = await asked_by(run)
        await anyio.sleep(DAY)
        assert store.get_approval(first.id).status == "withdrawn"
        (second,) = await supervisor.find_approvals()
        await supervisor.decide(second.id, Answer(value="now", by="ana"))
        assert await run.result() == "now"


async def test_a_question_that_expires_raises_the_same_in_every_attempt():
    """A10: the expiry wakes the run, and a late answer is told that the question is closed."""
    store = MemoryStore()
    async with opened(store, passivate_after=60) as supervisor:
        run = await supervisor.start(copes)
        first = await asked_by(run)
        assert first.expires_at is not None
        await anyio.sleep(DAY / 2)
        assert store.get_session(run.session).is_asleep
        await anyio.sleep(DAY / 2 + 1)
        assert store.get_approval(first.id).status == "expired"
        assert (await supervisor.decide(first.id, Answer(value="late", by="ana"))).kind == "closed"
        (second,) = await supervisor.find_approvals()
        await anyio.sleep(DAY / 2)  # another attempt finds the expiry in its journal
        await supervisor.decide(second.id, Answer(value="in time", by="ana"))
        assert await run.result() == ["expired", "in time"]
    assert names(store, run.session).count("ApprovalExpired") == 1


async def test_a_decision_after_the_expiry_journals_the_expiry():
    """A10: another process decides while no process runs the tree. The decision is closed, and the run goes on with the
    expiry."""
    store = MemoryStore()
    with anyio.CancelScope() as leave:
        async with opened(store) as supervisor:
            run = await supervisor.start(copes)
            question = await asked_by(run)
            leave.cancel()
    async with opened(store) as elsewhere:
        await anyio.sleep(2 * DAY)
        decided = await elsewhere.decide(question.id, Answer(value="late", by="ana"))
        assert (decided.kind, decided.status) == ("closed", "expired")
        resumed = await elsewhere.resume(run.session)
        async with resumed.watch_approvals() as reader:
            await elsewhere.decide((await anext(reader)).id, Answer(value="in time", by="ana"))
            assert await resumed.result() == ["expired", "in time"]
    assert names(store, run.session).count("ApprovalExpired") == 1


@pytest.mark.parametrize(("early", "kind"), [(1, "accepted"), (0, "closed"), (-1, "closed")])
async def test_at_the_instant_of_the_expiry_it_has_expired(enter, early, kind):
    """A10: this is exact to the microsecond. A decision one microsecond before still counts."""
    store = MemoryStore()
    with anyio.CancelScope() as leave:
        async with opened(store) as supervisor:
            question = await asked_by(await supervisor.start(copes))
            leave.cancel()
    async with opened(store) as elsewhere:
        enter(wall_clock()).stands_at = question.expires_at - timedelta(microseconds=early)
        assert (await elsewhere.decide(question.id, Answer(value="so", by="ana"))).kind == kind


async def test_an_agents_approvals_expire_into_a_denial():
    """A10: the expiry is set for the agent. The call is denied with the reason expired, and nothing has run."""

    @agent(approval_expires_in=DAY)
    async def deploys(ctx: Context) -> list[str]:
        result = await ctx.call(deploy, "x")
        return [result.kind, str(result.details["reason"]), str(result.details["effect"])]

    for passivate_after in (1.0, 10 * DAY):
        store = MemoryStore()
        async with opened(store, passivate_after=passivate_after) as supervisor:
            run = await supervisor.start(deploys)
            approval = await asked_by(run)
            assert await run.result() == ["denied", "expired", "none"]
            assert store.get_approval(approval.id).status == "expired"
            assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == "closed"


@pytest.mark.parametrize(("unattended", "reason"), [("deny", "denied"), ("allow", "denied")])
async def test_a_question_that_no_person_can_answer_raises_in_the_agent(unattended, reason):
    """A6: the setting denies, or no person can ever answer. A setting that allows calls answers no question."""
    async with opened(unattended=unattended) as supervisor:
        run = await supervisor.start(copes)
        assert await run.result() == [reason, reason]


async def test_a_person_may_decline_to_answer():
    """The agent sees who declined, and why."""

    @agent
    async def asks(ctx: Context) -> list[str | None]:
        try:
            return [await ctx.ask("Shall I?", schema=str)]
        except QuestionUnanswered as unanswered:
            return [unanswered.reason, unanswered.by, unanswered.why]

    async with opened() as supervisor:
        run = await supervisor.start(asks)
        await supervisor.decide((await asked_by(run)).id, Deny(by="ana", reason="ask me tomorrow"))
        assert await run.result() == ["denied", "ana", "ask me tomorrow"]


@pytest.mark.parametrize(
    "options",
    [
        {"choices": []},
        {"choices": "ab"},
        {"choices": ["a", "a"]},
        {"choices": [" "]},
        {"choices": ["a"], "schema": bool},
        {"schema": bytes},
        {"schema": MemoryStore},
        {"expires_in": 0},
    ],
)
async def test_an_invalid_question_is_refused_before_it_is_asked(options):
    """The agent made a mistake, and nothing is journaled."""

    @agent
    async def asks(ctx: Context) -> bool:
        with pytest.raises(InvalidInput):
            await ctx.ask("Well?", **options)
        return True

    async with opened() as supervisor:
        run = await supervisor.start(asks)
        assert await run.result()
        assert "QuestionAsked" not in names(supervisor.store, run.session)


async def test_a_question_stands_in_the_transcript_where_it_was_asked_with_its_answer():
    """A15: and in the audit trail."""

    @agent
    async def chats(ctx: Context, text: str) -> list[str]:
        answer = await ctx.ask("Really?", schema=bool) if text == "hi" else None
        return [f"{each.kind} {each.text} {each.by}" for each in ctx.transcript()] + [str(answer)]

    async with opened() as supervisor:
        run = await supervisor.start(chats, "hi", session="s", requester="bob")
        await supervisor.decide((await asked_by(run)).id, Answer(value=True, by="ana"))
        await run.outcome()
        await supervisor.send("s", "more", by="bob")
        while (outcome := (await supervisor.get_session("s")).outcome) is None:
            await anyio.sleep(1)
        assert outcome["value"] == ["received hi bob", "question Really?: true ana", "None"]
        audited = [type(row.event).__name__ for row in await supervisor.find_audit()]
        assert audited == ["QuestionAsked", "QuestionAnswered"]


async def test_leaving_does_not_wait_for_an_expiry_but_going_on_does():
    """A program that asks and leaves keeps the question on disk. The next process that runs the session meets the
    expiry."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(copes)
        await asked_by(run)
        before = anyio.current_time()
    assert anyio.current_time() - before < 60
    async with opened(store) as supervisor:
        resumed = await supervisor.resume(run.session)
        async with resumed.watch_approvals() as watch:
            async for question in watch:
                expired = question
        assert await resumed.result() == ["expired", "expired"]
        assert expired.expires_at is not None
