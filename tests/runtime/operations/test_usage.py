"""B1: what was spent is on disk, and counts once."""

from datetime import timedelta

import anyio
import pytest
from msgspec.structs import replace
from scenes import ForkingStore, events, fork, knowing_no_agents, names, opened, replayed

from supervisor import (
    Context,
    InvalidInput,
    MemoryStore,
    Spent,
    StepContext,
    StepFailed,
    ToolContext,
    Usage,
    agent,
    tool,
)
from supervisor.core import events as e
from supervisor.core.usage import money_text, spent_by, sum_of
from supervisor.system.prices import genai_price, priced

pytestmark = pytest.mark.anyio

A_REQUEST = Usage(model="m", input_tokens=90, cached_input_tokens=40, output_tokens=10, usd=0.25)


async def ask(step: StepContext, how: str = "answers") -> str:
    step.used(A_REQUEST)
    if how == "fails":
        raise ValueError(how)
    if how == "hangs":
        await anyio.sleep_forever()
    return how


@tool(policy="allow", timeout=5.0, idempotent=True)
async def look_up(call: ToolContext, how: str) -> str:
    call.used(Usage(model="m", usd=1.0))
    if how == "hangs":
        await anyio.sleep_forever()
    return how


@agent(inactivity_timeout=30.0)
async def asks(ctx: Context, how: str) -> str:
    return await ctx.step(ask, how)


def spent(store, session="s") -> Spent:
    """Return what the journal says, and check that the index says the same."""
    found = sum_of(spent_by(each.usage) for each in events(store, session, e.UsageSpent))
    row = store.get_session(session)
    assert row is not None
    assert row.spent == found
    return found


async def test_the_usage_of_a_step_is_in_the_append_of_its_result():
    """So a crash leaves both, or neither."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(asks, "answers", session="s")).result()
    for copy, _ in store.copies:
        found = names(copy, "s")
        assert ("UsageSpent" in found) is ("OperationFinished" in found)
    assert spent(store) == spent_by(A_REQUEST)


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_a_step_that_fails_or_stalls_was_paid(how):
    store = MemoryStore()
    async with opened(store) as supervisor:
        outcome = await (await supervisor.start(asks, how, session="s")).outcome()
    assert outcome.kind == {"fails": "failed", "hangs": "stalled"}[how]
    assert spent(store).requests == 1


async def test_a_step_that_the_agent_cancels_was_paid():
    @agent
    async def hurries(ctx: Context) -> None:
        with anyio.move_on_after(1):
            await ctx.step(ask, "hangs")

    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(hurries, session="s")).result()
    assert spent(store).requests == 1


@pytest.mark.parametrize("how", ["answers", "hangs"])
async def test_a_call_was_paid_with_its_result(how):
    """Also one that its deadline ends."""

    @agent
    async def calls(ctx: Context) -> str:
        return (await ctx.call(look_up, how)).kind

    store = MemoryStore()
    async with opened(store) as supervisor:
        kind = await (await supervisor.start(calls, session="s")).result()
    assert kind == {"answers": "ok", "hangs": "error"}[how]
    assert spent(store).usd == 1.0
    order = names(store, "s")
    assert order.index("UsageSpent") == order.index("ToolCallFinished") - 1


@agent
async def talks(ctx: Context, text: str) -> str:
    if ctx.saved is None:
        await ctx.step(ask, text)
        await ctx.used(Usage(model="own", usd=0.5))
        await ctx.save({"said": text})
    await ctx.call(look_up, text)
    return text


async def test_a_replay_adds_nothing():
    """Wherever the process dies, and however often: the next one ends with the same sum."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(talks, "hello", session="s")).result()
    whole = spent(store)
    assert whole.usd == 1.75
    for copy, _ in store.copies[1:]:
        async with opened(copy) as supervisor:
            await (await supervisor.resume("s")).outcome()
        assert spent(copy) == whole


async def test_turns_keep_the_sum_and_a_fork_begins_with_nothing():
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(talks, "one", session="s")).result()
        first = (await supervisor.get_session("s")).usage
        await supervisor.send("s", "two", by="ann")
        await (await supervisor.get_run("s", number=2)).result()
        assert (await supervisor.get_session("s")).usage == first + first
        before = names(store, "s").index("RunFinished") + 1
        made = await supervisor.fork("s", before=before, by="ann")
        view = await supervisor.get_session(made.session)
        assert view.usage.requests < first.requests


async def test_a_fork_copies_no_usage():
    """What was spent is a fact of the session that it was made of, also where the fork keeps the operations."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(talks, "one", session="s")).result()
        with knowing_no_agents():  # so nothing of the fork runs
            made = await supervisor.fork("s", before=len(names(store, "s")), by="ann")
        assert "ToolCallFinished" in names(store, made.session)
        assert not events(store, made.session, e.UsageSpent)
        assert (await supervisor.get_session(made.session)).usage == Spent()
        assert (await supervisor.get_session("s")).usage.requests == 3


failures: list[int] = []


@agent(restart="transient", max_restarts=1)
async def frail(ctx: Context) -> int:
    for number in range(ctx.saved or 0, 4):
        await ctx.step(ask_badly, number)
        await ctx.save(number + 1)
    return 4


async def ask_badly(step: StepContext, number: int) -> None:
    """Has spent, and fails three times: once for a restart, and then for a retry."""
    step.used(A_REQUEST)
    if number == 2 and failures:
        raise ConnectionError(failures.pop())


async def test_saves_restarts_and_retries_keep_the_sum():
    """In the session, in the index, and in what the counters of its journal say after a replay."""
    failures[:] = 1, 2, 3
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(frail, session="s")
        assert (await run.outcome()).kind == "failed"
        assert await (await supervisor.retry("s")).result() == 4
    assert {"RunRestarted", "StateSaved"} <= {*names(store, "s")}
    assert names(store, "s").count("UsageSpent") == spent(store).requests == 7
    assert replayed(store, "s").spent == spent(store)


async def test_a_stop_journals_what_a_running_step_has_said():
    """A run that was told to stop has spent, too."""

    @agent
    async def waits(ctx: Context) -> None:
        await ctx.step(ask, "hangs")

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(waits, session="s")
        await anyio.sleep(1)
        await supervisor.cancel("s", by="ann")
        assert (await run.outcome()).kind == "cancelled"
    order = names(store, "s")
    assert order.index("CancelRequested") < order.index("UsageSpent") < order.index("RunFinished")


async def test_what_was_spent_is_shown_by_agent_model_person_and_day():
    """Without what was pruned, and since when it counts."""

    @agent
    async def spends(ctx: Context, model: str) -> None:
        await ctx.used(Usage(model=model, usd=1.0))

    store = MemoryStore()
    async with opened(store) as supervisor:
        for number, (model, person) in enumerate([("m", "ann"), ("m", "bob"), ("", "bob")]):
            await (await supervisor.start(spends, model, session=f"s{number}", requester=person)).result()
            await anyio.sleep(86_400)
        found = {
            by: {part.name: part.spent.usd for part in (await supervisor.get_usage(by=by)).parts}
            for by in ("agent", "model", "person", "day")
        }
        days = [f"{store.get_session(f's{number}').created_at:%Y-%m-%d}" for number in range(3)]
        assert found == {
            "agent": {"spends": 3.0},
            "model": {"m": 2.0, "unknown": 1.0},
            "person": {"bob": 2.0, "ann": 1.0},
            "day": dict.fromkeys(days, 1.0),
        }
        first = await supervisor.get_usage()
        assert (first.since, first.total.usd) == (store.get_session("s0").created_at, 3.0)
    async with opened(fork(store)) as supervisor:
        await supervisor.prune(before=store.get_session("s1").created_at - timedelta(hours=1))
        then = await supervisor.get_usage()
        assert (then.since, then.total.usd) == (store.get_session("s1").created_at, 2.0)


def test_a_usage_is_a_value():
    """Public, and as long as it lives the same."""
    usage = Usage("m", 2, 90, 40, 10, 0.5)
    assert (usage.model, usage.requests, usage.input_tokens, usage.cached_input_tokens) == ("m", 2, 90, 40)
    assert (Usage(), {usage}) == (Usage("", 1, 0, 0, 0, None), {Usage("m", 2, 90, 40, 10, 0.5)})
    with pytest.raises(AttributeError):
        usage.usd = 1.0


async def test_a_session_has_the_sum_of_everything_below_it():
    """In the index: no journal is read for it."""

    @agent
    async def parent(ctx: Context) -> None:
        await ctx.run(asks, "answers")
        await ctx.call(asks, "answers")
        await ctx.step(ask, "answers")

    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(parent, session="s")).result()
        view = await supervisor.get_session("s")
        assert (view.own_usage.requests, view.usage.requests) == (1, 3)
        parts = {part.name: part.spent.requests for part in (await supervisor.get_usage("s", by="agent")).parts}
        assert parts == {"parent": 1, "asks": 2}
        assert (await supervisor.get_usage(by="model")).total == view.usage


async def test_an_unknown_number_is_shown_as_unknown():
    @agent
    async def unsure(ctx: Context) -> None:
        await ctx.used(Usage(model="unheard-of", input_tokens=None, output_tokens=None))
        await ctx.used(Usage(model="known", requests=2, usd=4.1))

    async with opened() as supervisor:
        await (await supervisor.start(unsure, session="s")).result()
        usage = (await supervisor.get_session("s")).usage
        assert (usage.unpriced, usage.uncounted) == (1, 1)
        assert str(usage) == money_text(usage) == "4.10 USD and 1 request of unknown price"


def test_the_default_prices_are_those_of_genai_prices():
    """Their data come with them. A model that they do not know, and unknown tokens, have no price: it is not 0."""
    known = Usage("gpt-4o", input_tokens=1_000_000, output_tokens=100_000)
    price = genai_price(known)
    assert price is not None
    assert price > 1
    assert genai_price(replace(known, model="openai/gpt-4o")) == price
    assert genai_price(replace(known, cached_input_tokens=1_000_000)) < price
    for unknown in (replace(known, model="unheard-of"), replace(known, model=""), replace(known, output_tokens=None)):
        assert genai_price(unknown) is None
        assert priced(unknown, genai_price).usd is None
    assert priced(replace(known, usd=0.25), genai_price).usd == 0.25


async def test_the_price_is_fixed_when_it_is_said():
    """By the program's own price list, which may fail for a model."""

    def prices(usage):
        return {"m": 0.5}[usage.model]

    @agent
    async def asks_two(ctx: Context) -> None:
        await ctx.used(Usage(model="m"))
        await ctx.used(Usage(model="other"))

    store = MemoryStore()
    async with opened(store, prices=prices) as supervisor:
        await (await supervisor.start(asks_two, session="s")).result()
    assert [each.usage.usd for each in events(store, "s", e.UsageSpent)] == [0.5, None]
    async with opened(fork(store), prices=lambda usage: 9.0) as supervisor:
        assert (await supervisor.get_session("s")).usage.usd == 0.5


@pytest.mark.parametrize(
    "wrong", [{"requests": -1}, {"input_tokens": 1.5}, {"usd": float("nan")}, {"usd": -1.0}, {"output_tokens": True}]
)
async def test_a_value_that_is_no_usage_is_refused_where_it_is_given(wrong):
    async def says(step: StepContext) -> None:
        step.used(Usage(**wrong))

    @agent
    async def wrongly(ctx: Context) -> str:
        try:
            await ctx.named("says").step(says)
        except StepFailed as failed:
            return str(failed)
        return ""

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(wrongly, session="s")
        assert InvalidInput.__name__ in str(await run.outcome())
    assert not events(store, "s", e.UsageSpent)
