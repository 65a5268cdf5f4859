"""W: the watchdog ends silent agents, and does not end agents that wait for a person."""

import anyio
import pytest
from scenes import freeze, opened
from watching import next_of

from supervisor import Approve, Context, Deny, MemoryStore, RunStalled, RunStopping, agent, open_supervisor, tool
from supervisor.core.errors import IllegalEvent
from supervisor.core.sessions.inactivity import Inactivity
from supervisor.runtime.clock.alarm import Alarm

pytestmark = pytest.mark.anyio
WEEK = 7 * 86_400.0


@tool
async def deploy(target: str) -> str:
    return f"deployed {target}"


@tool(policy="allow", timeout=900)
async def slow(seconds: float) -> None:
    await anyio.sleep(seconds)


async def quiet_step(seconds: float) -> None:
    await anyio.sleep(seconds)


@agent(inactivity_timeout=60)
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).content


@agent(inactivity_timeout=60)
async def silent(ctx: Context) -> None:
    await anyio.sleep(WEEK)


@agent
async def hundred(ctx: Context) -> list[str]:
    children = [await ctx.spawn(asks, f"host{n}") for n in range(100)]
    return [await child.result() for child in children]


async def test_a_hundred_agents_wait_seven_days_each_for_a_person_and_none_stalls():
    """W2: an open approval pauses the watchdog without a limit."""
    async with open_supervisor(MemoryStore(), passivate_after=1e9) as supervisor:
        run = await supervisor.start(hundred)
        async with run.watch_approvals() as approvals:
            first = [await anext(approvals) for _ in range(100)]
            await anyio.sleep(WEEK)
            for approval in first:
                await supervisor.decide(approval.id, Approve(by="ana"))
            assert await run.result() == [f"deployed host{n}" for n in range(100)]


@agent(inactivity_timeout=60)
async def hears_badly(ctx: Context) -> None:
    async with ctx.model_call(on_silence=lambda cause: 1 / 0):
        await anyio.sleep(WEEK)


async def test_an_on_silence_that_raises_stalls_its_run_and_no_other():
    """W5: it is the agent's code, and is called by the alarm of all runs."""
    async with open_supervisor(MemoryStore()) as supervisor:
        run, other = await supervisor.start(hears_badly), await supervisor.start(asks, "here")
        asked = await next_of(other.watch_approvals())
        assert (await run.outcome()).kind == "stalled"
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await other.result() == "deployed here"


async def test_a_silent_agent_is_stalled_no_earlier_than_its_budget_and_at_most_250_ms_later():
    """W11, W12: 60 s of silence end it, between 60.0 and 60.25 s after its start."""
    async with open_supervisor(MemoryStore()) as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(silent)
        outcome = await run.outcome()
        assert outcome.kind == "stalled"
        assert 60.0 <= anyio.current_time() - started <= 60.25
        with pytest.raises(RunStalled):
            await run.result()


async def test_a_call_of_ten_minutes_under_its_own_deadline_does_not_stall():
    """W2: an executing call is bounded by its deadline."""

    @agent(inactivity_timeout=60)
    async def patient(ctx: Context) -> str:
        return (await ctx.call(slow, 600.0)).kind

    async with open_supervisor(MemoryStore()) as supervisor:
        assert await (await supervisor.start(patient)).result() == "ok"


async def test_a_hung_step_next_to_a_pending_approval_stalls():
    """W2: a step in flight is watched even while other operations wait."""

    @agent(inactivity_timeout=60)
    async def both(ctx: Context) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.call, deploy, "a")
            await ctx.step(quiet_step, WEEK)

    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(both)
        approval = await next_of(run.watch_approvals())
        assert (await run.outcome()).kind == "stalled"
        assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == "closed"


async def test_heartbeats_keep_an_agent_alive():
    """W5: progress resets the budget."""

    @agent(inactivity_timeout=60)
    async def beating(ctx: Context) -> str:
        for _ in range(20):
            await anyio.sleep(50)
            ctx.heartbeat()
        return "done"

    async with open_supervisor(MemoryStore()) as supervisor:
        assert await (await supervisor.start(beating)).result() == "done"


async def test_heartbeats_count_as_finely_next_to_an_agent_with_a_longer_budget():
    """W11: the shortest budget sets the tick that renews heartbeats, from the moment at which it is watched."""

    @agent(inactivity_timeout=0.2)
    async def brisk(ctx: Context) -> str:
        for _ in range(4):
            await anyio.sleep(0.07)
            ctx.heartbeat()
        return "alive"

    async with open_supervisor(MemoryStore()) as supervisor:
        await supervisor.start(silent)
        await anyio.sleep(0.21)
        assert await (await supervisor.start(brisk)).result() == "alive"


async def test_of_three_overlapping_approvals_one_resolved_leaves_the_clock_paused():
    """W2: the set of pauses counts, not the last change of it."""

    @agent(inactivity_timeout=60)
    async def three(ctx: Context) -> list[str]:
        results = []

        async def one(target: str) -> None:
            results.append((await ctx.call(deploy, target)).kind)

        async with anyio.create_task_group() as tasks:
            for target in "abc":
                tasks.start_soon(one, target)
        return results

    async with opened(passivate_after=1e9) as supervisor:
        run = await supervisor.start(three)
        async with run.watch_approvals() as approvals:
            asked = [await anext(approvals) for _ in "abc"]
            for approval in asked:
                await supervisor.decide(approval.id, Approve(by="ana"))
                await anyio.sleep(WEEK)
            assert await run.result() == ["ok"] * 3


async def test_the_last_pause_that_ends_arms_the_full_budget_anew():
    """W2: silence before a wait does not count after it."""

    @agent(inactivity_timeout=60)
    async def waits_between_silences(ctx: Context) -> None:
        await anyio.sleep(50)
        await ctx.call(deploy, "a")
        await anyio.sleep(WEEK)

    async with opened(passivate_after=1e9) as supervisor:
        run = await supervisor.start(waits_between_silences)
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(WEEK)
        await supervisor.decide(approval.id, Approve(by="ana"))
        decided = anyio.current_time()
        assert (await run.outcome()).kind == "stalled"
        assert 60.0 <= anyio.current_time() - decided <= 60.3


@pytest.mark.parametrize("offset", [-0.1, 0.0, 0.001, 0.1, 0.2, 0.25, 0.3])
async def test_a_stall_and_an_approval_at_the_same_instant_are_never_both(offset):
    """W3: the first commit counts. A late decision is told so, and no call that it allowed runs."""
    effects = []

    @tool
    async def touch() -> None:
        effects.append("touched")

    @agent(inactivity_timeout=60)
    async def hung_beside_approval(ctx: Context) -> str:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.step, quiet_step, WEEK)
            kind = (await ctx.call(touch)).kind
            tasks.cancel_scope.cancel()
        return kind

    async with opened() as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(hung_beside_approval)
        approval = await next_of(run.watch_approvals())
        await anyio.sleep_until(started + 60 + offset)
        decision = await supervisor.decide(approval.id, Approve(by="ana"))
        outcome = await run.outcome()
        if decision.kind == "accepted":
            assert (outcome.kind, effects) in (("succeeded", ["touched"]), ("stalled", []))
        else:
            assert (decision.kind, outcome.kind, effects) == ("closed", "stalled", [])


async def test_a_stall_followed_by_a_cancel_while_unwinding_stays_a_stall():
    """W1: the first stop reason wins, although the run is cancelled while it cleans up."""
    unwinding = anyio.Event()

    @agent(inactivity_timeout=60, stop_timeout=300)
    async def slow_to_end(ctx: Context) -> None:
        try:
            await anyio.sleep(WEEK)
        finally:
            unwinding.set()
            with anyio.CancelScope(shield=True):
                await anyio.sleep(100)

    async with opened() as supervisor:
        run = await supervisor.start(slow_to_end)
        await unwinding.wait()
        await run.cancel("never mind")
        assert (await run.outcome()).kind == "stalled"


@pytest.mark.parametrize("first", ["watchdog", "cancel"])
async def test_of_a_stall_and_a_cancel_5_ms_apart_the_first_is_the_outcome(first):
    """W1: the outcome follows from the stop reason; the scopes cannot tell."""
    unwinding = anyio.Event()

    @agent(inactivity_timeout=60)
    async def short(ctx: Context) -> None:
        try:
            await anyio.sleep(WEEK)
        finally:
            unwinding.set()
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)

    async with opened() as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(short)
        if first == "cancel":
            await anyio.sleep_until(started + 59.995)
        else:
            await unwinding.wait()
            await anyio.sleep(0.005)
        await run.cancel()
        assert (await run.outcome()).kind == ("cancelled" if first == "cancel" else "stalled")


async def test_a_frozen_loop_stalls_no_run():
    """W11: while the loop is blocked no agent can show progress, so that time does not count."""

    @agent(inactivity_timeout=60)
    async def slow_but_alive(ctx: Context) -> str:
        await anyio.sleep(50)
        freeze(300)
        await anyio.sleep(9)
        return "alive"

    async with opened() as supervisor:
        bystander = await supervisor.start(silent)
        run = await supervisor.start(slow_but_alive)
        assert await run.result() == "alive"
        assert (await bystander.outcome()).kind == "stalled"
        assert 359.5 <= anyio.current_time() <= 361


async def test_a_loop_that_was_held_makes_no_stall_late_either():
    """W11: the lag is subtracted once, even for a run that shows progress before the alarm has measured it."""

    @agent(inactivity_timeout=60)
    async def silent_afterwards(ctx: Context) -> None:
        await anyio.sleep(10)
        freeze(300)
        async with ctx.model_call():
            pass
        await anyio.sleep(WEEK)

    async with opened() as supervisor:
        started = anyio.current_time()
        assert (await (await supervisor.start(silent_afterwards)).outcome()).kind == "stalled"
        assert 370 <= anyio.current_time() - started <= 370.5


async def test_a_loop_that_was_held_takes_no_active_time():
    """W11: so it is for a wait that begins before the alarm has measured the lag."""

    @agent(active_timeout=100)
    async def works(ctx: Context) -> str:
        await anyio.sleep(10)
        freeze(300)
        await ctx.sleep(1)
        await anyio.sleep(5)
        return "alive"

    async with opened() as supervisor:
        assert await (await supervisor.start(works)).result() == "alive"


async def test_an_appointment_that_is_overdue_when_the_alarm_begins_makes_no_lag():
    """W11: otherwise every watch would be late by the age of an overdue timer that a daemon finds at its start."""
    await anyio.sleep(1000)
    alarm, rang = Alarm(), anyio.Event()
    alarm.at(anyio.current_time() - 500, rang.set)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(alarm.run)
        await rang.wait()
        tasks.cancel_scope.cancel()
    assert alarm.lag == 0


async def test_a_model_call_has_its_first_budget_until_its_first_heartbeat_and_the_short_one_after():
    """W5: a slow first token is no stall, a wedged stream is."""

    @agent(inactivity_timeout=60, first_progress_timeout=1800)
    async def streams(ctx: Context) -> None:
        async with ctx.model_call():
            await anyio.sleep(1799)
            ctx.heartbeat()
            await anyio.sleep(WEEK)

    async with opened() as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(streams)
        assert (await run.outcome()).kind == "stalled"
        assert 1859 <= anyio.current_time() - started <= 1859.5


async def test_of_two_model_calls_at_once_each_has_its_own_first_heartbeat():
    """W5: a slow first token is no stall next to a stream that has ended. A stream that hangs later is."""

    @agent(inactivity_timeout=60, first_progress_timeout=1800)
    async def two(ctx: Context, last: float) -> str:
        async def stream(first: float, then: float) -> None:
            async with ctx.model_call():
                await anyio.sleep(first)
                ctx.heartbeat()
                await anyio.sleep(then)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream, 2, 10)
            tasks.start_soon(stream, 300, last)
        return "done"

    async with opened() as supervisor:
        assert await (await supervisor.start(two, 50)).result() == "done"
        started = anyio.current_time()
        assert (await (await supervisor.start(two, WEEK)).outcome()).kind == "stalled"
        assert 360 <= anyio.current_time() - started <= 360.25


async def test_a_wait_for_a_person_inside_a_model_call_is_no_silence_of_it():
    """W2: the model call waits itself. When it goes on it has its full budget."""

    @agent(inactivity_timeout=60, first_progress_timeout=60)
    async def asks_inside(ctx: Context, then: float) -> str:
        async with ctx.model_call():
            result = await ctx.call(deploy, "north")
            await anyio.sleep(then)
        return result.content

    async with opened() as supervisor:
        for then, kind in ((59, "succeeded"), (61, "stalled")):
            run = await supervisor.start(asks_inside, then)
            approval = await next_of(run.watch_approvals())
            await anyio.sleep(WEEK)
            await supervisor.decide(approval.id, Approve(by="ana"))
            assert (await run.outcome()).kind == kind


async def test_a_call_inside_a_model_call_has_its_own_deadline_only():
    @agent(inactivity_timeout=60, first_progress_timeout=60)
    async def calls_inside(ctx: Context) -> None:
        async with ctx.model_call():
            await ctx.call(slow, 600)

    async with opened() as supervisor:
        assert (await (await supervisor.start(calls_inside)).outcome()).kind == "succeeded"


async def test_a_wait_elsewhere_does_not_stop_the_clock_of_a_model_call():
    """W4: a stream that hangs is found although a person is waited for."""

    @agent(inactivity_timeout=60, first_progress_timeout=60)
    async def asks_elsewhere(ctx: Context) -> None:
        async def stream() -> None:
            async with ctx.model_call():
                await anyio.sleep(WEEK)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream)
            await ctx.call(deploy, "south")

    async with opened() as supervisor:
        assert (await (await supervisor.start(asks_elsewhere)).outcome()).kind == "stalled"


async def test_a_model_call_that_never_answers_is_stalled_by_its_first_budget():
    """W5: the first budget is a budget, too."""

    @agent(inactivity_timeout=60, first_progress_timeout=1800)
    async def waits_for_a_token(ctx: Context) -> None:
        async with ctx.model_call():
            await anyio.sleep(WEEK)

    async with opened() as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(waits_for_a_token)
        assert (await run.outcome()).kind == "stalled"
        assert 1800 <= anyio.current_time() - started <= 1800.25


@pytest.mark.parametrize(("has_progress", "lasts"), [(False, 3 * 1700 + 1800), (True, 1 + 60)])
async def test_a_keepalive_counts_before_the_first_progress_only(has_progress, lasts):
    """W6: a live peer must not hide a stream that hangs."""

    @agent(inactivity_timeout=60, first_progress_timeout=1800)
    async def pinged(ctx: Context) -> None:
        async with ctx.model_call():
            if has_progress:
                await anyio.sleep(1)
                ctx.heartbeat()
            for _ in range(3):
                await anyio.sleep(15 if has_progress else 1700)
                ctx.keepalive()
            await anyio.sleep(WEEK)

    async with opened() as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(pinged)
        assert (await run.outcome()).kind == "stalled"
        assert lasts - 0.001 <= anyio.current_time() - started <= lasts + 0.5


async def test_active_time_counts_executing_calls_and_no_waits():
    """W5: `active_timeout` bounds the work, calls included. Waits for people, children and timers do not count."""

    @agent(inactivity_timeout=60, active_timeout=1000)
    async def works(ctx: Context) -> None:
        await ctx.sleep(WEEK)
        await ctx.call(deploy, "a")
        await ctx.run(asks, "b")
        await ctx.call(slow, 600.0)
        await ctx.call(slow, 601.0)

    async with opened(unattended="allow", passivate_after=1e9) as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(works)
        outcome = await run.outcome()
        assert outcome.kind == "stalled"
        assert outcome.cause.startswith("active_timeout")
        assert WEEK + 999.99 <= anyio.current_time() - started <= WEEK + 1000.3


async def test_heartbeats_do_not_buy_active_time():
    """W5: `active_timeout` is a total."""

    @agent(inactivity_timeout=60, active_timeout=100)
    async def busy(ctx: Context) -> None:
        while True:
            await anyio.sleep(1)
            ctx.heartbeat()

    async with opened() as supervisor:
        started = anyio.current_time()
        assert (await (await supervisor.start(busy)).outcome()).kind == "stalled"
        assert 100 <= anyio.current_time() - started <= 100.25


async def test_parent_and_child_never_race_with_equal_budgets():
    """W7: while a parent waits for a child, which has its own watchdog, the parent's clock is paused."""

    @agent(inactivity_timeout=60)
    async def parent(ctx: Context) -> str:
        child = await ctx.spawn(silent)
        return (await child.outcome()).kind

    async with opened() as supervisor:
        assert await (await supervisor.start(parent)).result() == "stalled"


async def test_back_off_through_the_context_is_no_inactivity():
    """W5: a long sleep of the agent is a wait."""

    @agent(inactivity_timeout=60)
    async def backs_off(ctx: Context) -> str:
        await ctx.sleep(86_400)
        return "rested"

    async with opened(passivate_after=1e9) as supervisor:
        assert await (await supervisor.start(backs_off)).result() == "rested"


async def test_a_pending_approval_does_not_switch_off_the_deadline_of_a_sibling_call():
    """W4: an executing call has its own deadline, even while other operations wait."""
    kinds = []

    @tool(policy="allow", timeout=30)
    async def hangs() -> None:
        await anyio.sleep(WEEK)

    @agent
    async def both(ctx: Context) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.call, deploy, "a")
            kinds.append((await ctx.call(hangs)).details["reason"])

    async with opened() as supervisor:
        started = anyio.current_time()
        run = await supervisor.start(both)
        approval = await next_of(run.watch_approvals())
        with anyio.fail_after(31):
            while not kinds:
                await anyio.sleep(0.5)
        assert kinds == ["deadline"]
        assert anyio.current_time() - started >= 30
        await supervisor.decide(approval.id, Deny(by="ana"))
        assert (await run.outcome()).kind == "succeeded"


async def test_an_operation_that_waits_for_nothing_is_progress_too():
    """W5: every operation that the agent does is progress."""

    @agent(inactivity_timeout=60)
    async def asks_the_time(ctx: Context) -> None:
        for _ in range(3):
            await anyio.sleep(40)
            await ctx.now()

    async with opened() as supervisor:
        assert (await (await supervisor.start(asks_the_time)).outcome()).kind == "succeeded"


async def test_resuming_an_unknown_reason_raises():
    """W2: the set of pauses is never corrected silently."""
    inactivity = Inactivity(0.0, 60.0, 1800.0, None)
    with pytest.raises(IllegalEvent):
        inactivity.resume("approval", 1.0)
    inactivity.pause("approval", "wait", 1.0)
    with pytest.raises(IllegalEvent):
        inactivity.pause("approval", "wait", 2.0)


async def test_a_wait_that_begins_after_a_stall_raises_and_asks_no_approval():
    """W3: a stall is final. Operations that ask and spawn nothing are not refused; stop_timeout bounds them."""
    raised = []

    @agent(inactivity_timeout=60)
    async def asks_too_late(ctx: Context) -> None:
        try:
            await anyio.sleep(WEEK)
        finally:
            with anyio.CancelScope(shield=True):
                for begin in (lambda: ctx.call(deploy, "x"), lambda: ctx.spawn(silent), ctx.receive):
                    try:
                        await begin()
                    except RunStopping:
                        raised.append("stopping")
                await ctx.sleep(5)
                raised.append("slept")

    async with opened() as supervisor:
        run = await supervisor.start(asks_too_late)
        assert (await run.outcome()).kind == "stalled"
        assert raised == ["stopping"] * 3 + ["slept"]
        assert list(await supervisor.find_approvals(pending=False)) == []
        assert len(await supervisor.find_sessions()) == 1


async def test_an_agent_that_does_nothing_but_operations_lets_others_run_and_can_be_cancelled():
    """W13: an operation that has nothing to wait for also yields."""

    @agent
    async def spins(ctx: Context) -> None:
        while True:
            await ctx.now()

    async with opened() as supervisor:
        run = await supervisor.start(spins)
        await anyio.lowlevel.checkpoint()
        await run.cancel()
        assert (await run.outcome()).kind == "cancelled"


async def test_an_agent_that_swallows_cancellation_is_cancelled_again_at_every_operation():
    """W13: it can neither begin an operation nor freeze the loop, and is abandoned after `stop_timeout`."""
    refused, may_end = [], anyio.Event()

    @agent(stop_timeout=5)
    async def stubborn(ctx: Context) -> None:
        while not may_end.is_set():
            try:
                await ctx.sleep(1)
            except BaseException as error:
                refused.append(type(error))

    async with opened() as supervisor:
        run = await supervisor.start(stubborn)
        await anyio.sleep(0.5)
        await run.cancel()
        cancelled = anyio.current_time()
        while await run.find_outcome() is None and anyio.current_time() < cancelled + 100:
            freeze(0.1)  # an agent that spins leaves the virtual clock no time to jump
            await anyio.lowlevel.checkpoint()
        assert (await run.outcome()).kind == "abandoned"
        assert 5 <= anyio.current_time() - cancelled <= 6
        assert len(refused) > 3
        may_end.set()
