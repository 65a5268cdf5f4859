"""The caller's own words to the person who decides, and how urgent it says a call is: no part of the call."""

import pytest

from supervisor import (
    Approve,
    Context,
    Deny,
    MemoryStore,
    People,
    ToolCall,
    UrgencyRule,
    agent,
    allow,
    open_supervisor,
    tool,
)
from supervisor.core import events as e
from supervisor.core.approvals.facts import facts_of
from supervisor.core.values import URGENCIES

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@tool
async def drop(path: str) -> str:
    return f"dropped {path}"


@tool(policy="ask")
async def excuse(because: str) -> str:
    return f"because {because}"


@agent(tools=[drop])
async def helper(ctx: Context, because: str) -> str:
    return because


async def asked_by(call, **options):
    """Return what one call asks, its result, and the event of its request."""

    @agent(tools=[drop, helper])
    async def caller(ctx: Context, text: str) -> str:
        return (await call(ctx)).content

    store = MemoryStore()
    async with open_supervisor(store, **options) as supervisor:
        run = await supervisor.start(caller, "go", session="s")
        found = []
        async with run.watch_approvals() as watch:
            async for approval in watch:
                found.append(approval)
                await supervisor.decide(approval.id, Approve(by="ana"))
        said = await run.result()
    (event,) = [row.event for row in store.journal("s") if isinstance(row.event, e.ToolCallRequested)]
    return found, said, event


CALLS = {
    "a tool": lambda ctx, **words: ctx.call(drop, "a", **words),
    "a model's call": lambda ctx, **words: ctx.call(ToolCall("1", "drop", {"path": "a"}), **words),
    "a named call": lambda ctx, **words: ctx.named("once").call(drop, path="a", **words),
}


@pytest.mark.parametrize("case", CALLS)
async def test_the_words_are_shown_and_change_neither_the_digest_nor_the_operation(case):
    (told,), said, event = await asked_by(lambda ctx: CALLS[case](ctx, because="the disk is full \ud800"))
    (silent,), _, plain = await asked_by(CALLS[case])
    assert (told.because, silent.because) == ("the disk is full \\ud800", "")
    assert (told.arguments, said) == ({"path": "a"}, "dropped a")
    assert (event.digest, event.operation) == (plain.digest, plain.operation)


@pytest.mark.parametrize("case", CALLS)
async def test_an_agents_urgency_is_journaled_and_shown_and_no_part_of_the_call(case):
    (told,), _, event = await asked_by(lambda ctx: CALLS[case](ctx, urgency="low"))
    (silent,), _, plain = await asked_by(CALLS[case])
    assert (told.urgency, event.urgency, silent.urgency, plain.urgency) == ("low", "low", None, None)
    assert (event.digest, event.operation) == (plain.digest, plain.operation)
    said = [fact.text for fact in facts_of(told, told.created_at) if fact.name == "urgency"]
    assert said == ["at most low, the agent says"]


@pytest.mark.parametrize("given", URGENCIES)
@pytest.mark.parametrize("ruled", URGENCIES)
async def test_an_agent_lowers_urgency_and_never_raises_it(ruled, given):
    """Of a call and of a question, over a rule of its agent, and over the configuration."""

    @agent
    async def asks(ctx: Context, text: str) -> str:
        return await ctx.ask("tidy?", urgency=given)

    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(asks, "go")
        async with run.watch_approvals() as watch:
            question = await anext(aiter(watch))
        await supervisor.decide(question.id, Deny(by="ana"))
    (call,), _, _ = await asked_by(lambda ctx: ctx.call(drop, "a", urgency=given))
    for approval in (question, call):
        for people in (People([], urgency=ruled), People([], [], [UrgencyRule(urgency=ruled)], "low")):
            expected = URGENCIES[min(URGENCIES.index(ruled), URGENCIES.index(given))]
            assert people.urgency_of(approval) == expected


async def test_an_unknown_urgency_is_refused_before_anything_is_journaled():
    with pytest.raises(Exception, match="urgency is one of low, normal, high, not 'huge'"):
        await asked_by(lambda ctx: ctx.call(drop, "a", urgency="huge"))


async def test_a_parameter_of_this_name_stays_the_tools():
    (approval,), said, _ = await asked_by(lambda ctx: ctx.call(excuse, because="I was late"))
    assert (approval.because, approval.arguments) == ("", {"because": "I was late"})
    assert said == "because I was late"


async def test_an_input_of_this_name_stays_the_agents():
    found, said, _ = await asked_by(lambda ctx: ctx.call(helper, because="I was late"))
    assert (found, said) == ([], "I was late")


async def test_a_call_about_which_no_person_is_asked_keeps_no_words():
    found, _, event = await asked_by(CALLS["a tool"], rules=[allow("drop")])
    assert (found, event.because) == ([], "")


async def test_words_are_cut_where_a_card_could_not_show_them_and_say_so():
    (approval,), _, _ = await asked_by(lambda ctx: ctx.call(drop, "a", because="x" * 70_000))
    assert approval.because == "x" * 65_536 + "… (4464 characters more)"


async def test_words_that_are_no_text_are_refused_before_anything_is_journaled():
    with pytest.raises(Exception, match="because is a text"):
        await asked_by(lambda ctx: ctx.call(drop, "a", because=5))
