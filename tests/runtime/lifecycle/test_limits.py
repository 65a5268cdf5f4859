"""Limits: what is bounded waits in order, without a place; what is busy is waited for once (L1 to L4)."""

from collections import Counter

import anyio
import pytest
from scenes import fork, knowing_no_agents, names, opened
from watching import next_of

from supervisor import Approve, Context, InvalidInput, Limit, LimitWait, MemoryStore, RetryAfter, agent, tool
from supervisor.channels.terminal.tree import draw_tree
from supervisor.core import events as e
from supervisor.core.telling import Telling, drawn, how_it_is
from supervisor.seam.store import StoreAway
from supervisor.wiring.config import read_configuration

pytestmark = pytest.mark.anyio
running: Counter[str] = Counter()
most: Counter[str] = Counter()
order: list[str] = []
busy_until = [0.0]
refused: list[float] = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    for each in (running, most, order, refused):
        each.clear()
    busy_until[0] = 0.0


async def work(what: str, seconds: float = 1.0) -> str:
    running[what] += 1
    most[what] = max(most[what], running[what])
    try:
        await anyio.sleep(seconds)
    finally:
        running[what] -= 1
    return what


async def request(number: int) -> int:
    order.append(str(number))
    if anyio.current_time() < busy_until[0]:
        refused.append(anyio.current_time())
        raise RetryAfter(2.0)
    await work("model")
    return number


@tool(policy="allow", limit="browser")
async def browse(page: str) -> str:
    return await work("browser")


@tool(limit="browser")
async def buy(page: str) -> str:
    return await work("browser")


@agent
async def asker(ctx: Context, number: int) -> int:
    async with ctx.model_call(limit="openai"):
        return await ctx.step(request, number)


@agent
async def own_asker(ctx: Context, number: int) -> int:
    async with ctx.model_call(limit="openai"):
        await work("model")
    return number


@agent
async def browser(ctx: Context, page: str) -> str:
    return (await ctx.call(browse, page)).content


@agent
async def buyer(ctx: Context, page: str) -> str:
    await work("agent", 3)
    return (await ctx.call(buy, page)).content


@agent(limit="reviewers")
async def reviewer(ctx: Context, depth: int) -> int:
    """Work, let a reviewer below do so, and work again."""
    order.append(f"begins {depth}")
    await work("reviewer")
    below = await ctx.run(reviewer, depth - 1) if depth else 0
    await work("reviewer")
    return below + 1


async def _all(spec, count, limits, store=None, **options):
    """Run an agent so many times at once; return how long that took."""
    began = anyio.current_time()
    async with opened(store, limits=limits, **options) as supervisor:
        runs = [await supervisor.start(spec, number, session=f"s{number}") for number in range(count)]
        assert [await run.result() for run in runs] == [*range(count)]
    return anyio.current_time() - began


@pytest.mark.parametrize("spec", [asker, own_asker])
async def test_model_calls_of_all_runs_hold_a_place_each_and_the_others_wait(spec):
    """L1: with steps the place is asked for by the first new step, without steps at the entry."""
    took = await _all(spec, 12, [Limit("openai", at_once=3)])
    assert most["model"] == 3
    assert took == pytest.approx(4, abs=0.5)


async def test_so_many_begin_within_a_minute():
    """L1: `per_minute` counts what begins."""
    took = await _all(asker, 7, [Limit("openai", per_minute=3)])
    assert took == pytest.approx(121, abs=1)


async def test_a_tool_holds_its_place_from_executing_to_its_result():
    """L1: a call that waits is not executing."""
    store = MemoryStore()
    async with opened(store, limits=[Limit("browser", at_once=1)]) as supervisor:
        runs = [await supervisor.start(browser, page, session=page) for page in "ab"]
        await anyio.sleep(0.5)
        assert sorted(names(store, page).count("ToolCallStarted") for page in "ab") == [0, 1]
        assert [await run.result() for run in runs] == ["browser"] * 2
    assert most["browser"] == 1


async def test_a_call_that_waits_for_a_person_holds_no_place():
    """L2: the place is asked for after the approval."""
    async with opened(limits=[Limit("browser", at_once=1)]) as supervisor:
        first = await supervisor.start(buyer, "a")
        asked = await next_of(first.watch_approvals())
        assert await (await supervisor.start(browser, "b")).result() == "browser"
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await first.result() == "browser"


async def test_an_agent_gives_its_place_back_while_it_waits_for_an_agent_of_the_same_limit():
    """L2: nothing deadlocks at one place, however deep."""
    async with opened(limits=[Limit("reviewers", at_once=1)]) as supervisor:
        with anyio.fail_after(60):
            runs = [await supervisor.start(reviewer, 3) for _ in range(3)]
            assert [await run.result() for run in runs] == [4] * 3
    assert most["reviewer"] == 1


@agent(limit="reviewers")
async def crossing(ctx: Context, is_first: bool) -> str:
    """Hold one limit and want another, in one of two orders, and ask a person below."""
    outer, inner = ("openai", "browser") if is_first else ("browser", "openai")
    async with ctx.model_call(limit=outer), ctx.model_call(limit=inner):
        await ctx.step(work, "model")
        await ctx.call(browse, "a")
        await ctx.step(work, "model")
    await ctx.run(browser, "b")
    return "done"


async def test_opposite_orders_and_nested_calls_do_not_deadlock_at_one_place_each():
    """L2: what waits holds nothing."""
    limits = [Limit(name, at_once=1) for name in ("openai", "browser", "reviewers")]
    async with opened(limits=limits) as supervisor:
        with anyio.fail_after(600):
            runs = [await supervisor.start(crossing, number % 2 == 0) for number in range(6)]
            assert [await run.result() for run in runs] == ["done"] * 6
    assert most["browser"] == 1


async def test_a_cancelled_run_leaves_the_queue_at_once():
    """L3: those after it move up."""
    async with opened(limits=[Limit("openai", at_once=1)]) as supervisor:
        runs = []
        for number in range(3):
            runs.append(await supervisor.start(asker, number))
            await anyio.sleep(0.1)
        await runs[1].cancel(reason="no")
        assert (await runs[1].outcome()).kind == "cancelled"
        assert await runs[2].result() == 2
    assert order == ["0", "2"]


async def test_the_clock_stands_while_a_run_waits_for_a_place():
    """L3: a wait for a limit is no silence."""

    @agent(inactivity_timeout=5)
    async def patient(ctx: Context, seconds: float) -> str:
        async with ctx.model_call(limit="openai"):
            return await ctx.named("work").step(work, "model", seconds)

    async with opened(limits=[Limit("openai", at_once=1)]) as supervisor:
        runs = [await supervisor.start(patient, 4.0) for _ in range(4)]
        assert [await run.result() for run in runs] == ["model"] * 4


async def test_forty_agents_wait_once_for_an_endpoint_that_is_busy():
    """L4: at most at_once + 1 requests are refused for each closing, and no run stalls or journals it."""
    store = MemoryStore()
    busy_until[0] = anyio.current_time() + 7
    await _all(asker, 40, [Limit("openai", at_once=4)], store)
    closings = Counter(round(instant) for instant in refused)
    assert len(closings) == 4
    assert max(closings.values()) <= 5
    assert names(store, "s0").count("OperationFinished") == 1


async def test_a_step_without_a_limit_waits_for_itself():
    """L4: RetryAfter needs no limit."""

    @agent
    async def lone(ctx: Context) -> int:
        return await ctx.step(request, 1)

    busy_until[0] = anyio.current_time() + 3
    async with opened() as supervisor:
        assert await (await supervisor.start(lone)).result() == 1
    assert order == ["1"] * 3


def test_a_limit_says_what_is_wrong_with_it():
    """A limit bounds something, by whole numbers, and has a name that can stand in a key."""
    for wrong in (
        {"name": "a"},
        {"name": "a", "at_once": 0},
        {"name": "a:b", "at_once": 1},
        {"name": "", "at_once": 1},
    ):
        with pytest.raises(InvalidInput):
            Limit(**wrong)


async def test_a_run_that_waits_long_leaves_memory_and_is_woken_in_its_turn():
    """L3: it keeps its place in the order, also when it is woken before its turn."""
    store = MemoryStore()

    @agent
    async def slow(ctx: Context, number: int) -> int:
        async with ctx.model_call(limit="openai"):
            await ctx.named("work").step(work, "model", 100.0)
        order.append(str(number))
        return number

    async with opened(store, limits=[Limit("openai", at_once=1)], passivate_after=10) as supervisor:
        runs = []
        for number in range(4):
            runs.append(await supervisor.start(slow, number, session=f"s{number}"))
            await anyio.sleep(0.1)
        await anyio.sleep(50)
        assert [*supervisor._runner.attempts.live] == ["s0"]
        assert [await run.result() for run in runs] == [0, 1, 2, 3]
    assert order == ["0", "1", "2", "3"]
    assert [names(store, f"s{number}").count("AttemptStarted") for number in range(4)] == [1, 2, 2, 2]
    assert most["model"] == 1


async def test_agents_that_sleep_for_their_turn_are_woken_before_those_that_have_not_begun():
    """L3: a woken run comes before one that has not begun; a closing supervisor waits for both."""
    store = MemoryStore()
    async with opened(store, limits=[Limit("reviewers", at_once=1)], passivate_after=0.5) as supervisor:
        await supervisor.start(reviewer, 1)
        await anyio.sleep(0.2)
        for _ in range(3):
            await supervisor.start(reviewer, 0)
    assert [row.outcome is not None for row in store.find_sessions()] == [True] * 5
    assert most["reviewer"] == 1


async def test_a_later_process_goes_on_with_runs_that_sleep_for_a_place():
    """L3: what waits on disk waits in the queue of the process that claims its tree."""
    store = MemoryStore()
    with anyio.move_on_after(30):
        async with opened(store, limits=[Limit("openai", at_once=1)], passivate_after=5) as supervisor:
            for number in range(3):
                await supervisor.start(asleep, number, session=f"s{number}")
            await anyio.sleep_forever()
    async with opened(store, limits=[Limit("openai", at_once=1)]) as supervisor:
        runs = [await supervisor.resume(f"s{number}") for number in range(3)]
        assert [await run.result() for run in runs] == [0, 1, 2]
    assert most["model"] == 1


@agent
async def asleep(ctx: Context, number: int) -> int:
    async with ctx.model_call(limit="openai"):
        await ctx.named("work").step(work, "model", 100.0)
    return number


async def test_a_cancelled_run_that_sleeps_leaves_the_queue():
    """L3: its place in the order is free at once."""
    async with opened(limits=[Limit("openai", at_once=1)], passivate_after=5) as supervisor:
        runs = [await supervisor.start(asleep, number) for number in range(2)]
        await anyio.sleep(50)
        sleeper = next(run for run in runs if run.session not in supervisor._runner.attempts.live)
        await sleeper.cancel(reason="no")
        assert (await sleeper.outcome()).kind == "cancelled"
        assert not supervisor._runner.limits.has_sleepers


class _OtherProcess(MemoryStore):
    """A store whose places another process has, until an instant."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self.until = until
        self.taken = set()

    def take_place(self, limit, at_once):
        free = {*range(at_once)} - self.taken if anyio.current_time() >= self.until else set()
        self.taken |= {*sorted(free)[:1]}
        return min(free, default=None)

    def give_place_back(self, limit, place):
        self.taken.discard(place)


async def test_a_tool_waits_for_a_place_that_another_process_has():
    """L1: nothing tells when it is free, so it is looked for; what it held is given back."""
    began = anyio.current_time()
    store = _OtherProcess(began + 10)
    async with opened(store, limits=[Limit("browser", at_once=2)]) as supervisor:
        runs = [await supervisor.start(browser, page) for page in "abc"]
        assert [await run.result() for run in runs] == ["browser"] * 3
    assert 12 <= anyio.current_time() - began <= 13
    assert most["browser"] == 2
    assert not store.taken


async def test_another_process_says_for_which_limit_a_run_sleeps():
    """By its journal; the place is known to the process that runs it."""
    store = MemoryStore()
    async with opened(store, limits=[Limit("openai", at_once=1)], passivate_after=5) as supervisor:
        await supervisor.start(asleep, 1)
        await anyio.sleep(0.1)
        run = await supervisor.start(asleep, 2)
        await anyio.sleep(30)
        with knowing_no_agents():
            async with opened(fork(store)) as other:
                view = await other.get_session(run.session)
                assert view.limit == LimitWait(name="openai")
                assert how_it_is(view, view.created_at)[1].startswith("waits for openai")


async def test_people_see_for_what_a_run_waits_and_at_which_place():
    """L3: "waits for openai, 2nd of 3, since 20:14"."""
    async with opened(limits=[Limit("openai", at_once=1)], passivate_after=5) as supervisor:
        runs = []
        for number in range(4):
            runs.append(await supervisor.start(asleep, number))
            await anyio.sleep(0.1)
        for seconds in (1, 20):  # in memory, and asleep
            await anyio.sleep(seconds)
            async with supervisor.watch_activity() as watch:
                now = supervisor._runner.clock.now()
                lines = [line.plain for line in draw_tree((await watch.look(limit=None)).items, 200, 20, now)]
            assert sum("waits for openai, 2nd of 3, since " in line for line in lines) == 1
            views = [await supervisor.get_session(run.session) for run in runs]
            assert [view.limit and (view.limit.name, view.limit.place, view.limit.count) for view in views] == [
                None,
                *(("openai", place, 3) for place in (1, 2, 3)),
            ]
            assert [*(await supervisor.find_sessions())] == views
            assert "waits for openai, 2nd of 3, since " in how_it_is(views[2], now)[1]
            rows = [row for run in runs[1:] for row in supervisor.store.journal(run.session)]
            told = ["".join(map(drawn, Telling().tell(row))) for row in rows]
            assert told.count("left memory to wait for openai") == (3 if seconds == 20 else 0)


@pytest.mark.parametrize("text", ["[limits.openai]\nat_once = 0", "[limits.openai]", '[limits."a:b"]\nper_minute = 3'])
def test_a_configuration_names_the_limit_that_is_wrong(tmp_path, text):
    """It is read as a whole before anything is opened."""
    (tmp_path / "supervisor.toml").write_text(text)
    with pytest.raises(InvalidInput, match=r"supervisor\.toml: limits: "):
        read_configuration(tmp_path / "supervisor.toml")


def test_a_configuration_declares_limits(tmp_path):
    """`[limits.NAME]` is `Limit(NAME)`."""
    (tmp_path / "supervisor.toml").write_text("[limits.openai]\nat_once = 4\nper_minute = 60")
    assert read_configuration(tmp_path / "supervisor.toml").standing_limits() == (Limit("openai", 4, 60),)


@agent
async def graph(ctx: Context, number: int) -> int:
    """Ask a model without steps, and a person in between."""
    async with ctx.model_call(limit="openai", at_entry=True):
        await work("model")
        await ctx.call(buy, "a")
        await work("model")
    return number


async def test_a_model_call_without_steps_gives_its_place_back_while_a_person_is_asked():
    """L2: it takes the place again afterwards, also in a later attempt, which does not wait at its entry."""
    async with opened(limits=[Limit("openai", at_once=1)], passivate_after=5) as supervisor:
        runs = [await supervisor.start(graph, number) for number in range(3)]
        await anyio.sleep(4)
        assert len(await supervisor.find_approvals()) == 3  # each of them asked, at one place
        await anyio.sleep(60)
        assert not supervisor._runner.attempts.live
        for asked in await supervisor.find_approvals():
            await supervisor.decide(asked.id, Approve(by="ana"))
        assert [await run.result() for run in runs] == [0, 1, 2]


class _FreesMeanwhile(MemoryStore):
    """A store during whose commit of a passivation a place becomes free."""

    def __init__(self) -> None:
        super().__init__()
        self.free = None
        self.is_passivating = False

    def write(self, rows) -> None:
        self.is_passivating |= any(isinstance(row.event, e.RunPassivated) for row in rows)
        super().write(rows)

    def commit(self) -> None:
        super().commit()
        if self.is_passivating and self.free is not None:
            free, self.free = self.free, None
            free()


async def test_a_run_waits_on_that_gets_its_place_while_it_leaves_memory():
    """L3: the place is given back, and the run is woken for the next one."""
    store = _FreesMeanwhile()
    async with opened(store, limits=[Limit("reviewers", at_once=1)], passivate_after=0.3) as supervisor:
        first = await supervisor.start(reviewer, 0)
        await anyio.sleep(0.1)
        runner = supervisor._runner
        store.free = lambda: runner.limits.grew_quiet(runner.attempts.live[first.session])
        second = await supervisor.start(reviewer, 0, session="second")
        assert [await run.result() for run in (first, second)] == [1, 1]
    assert names(store, "second").count("AttemptStarted") == 2


class PlacesAway(MemoryStore):
    """A store whose server may not answer when it is asked for places. It has one."""

    is_away, taken = False, 0

    def take_place(self, limit, at_once):
        self._answer()
        if self.taken:
            return None
        self.taken = 1
        return 0

    def give_place_back(self, limit, place):
        self._answer()
        self.taken = 0

    def _answer(self):
        if self.is_away:
            raise StoreAway("the server does not answer")


@agent(limit="agents")
async def bounded_buyer(ctx: Context, page: str) -> str:
    await work("agent", 3)
    return (await ctx.call(buy, page)).kind


async def test_a_place_that_cannot_be_given_back_is_given_back_when_the_server_answers():
    """The run whose place it was waits on, and the next one gets its turn."""
    store, limits = PlacesAway(), [Limit("agents", at_once=1), Limit("browser", at_once=9)]
    async with opened(store, limits=limits, passivate_after=None) as supervisor:
        first = await supervisor.start(bounded_buyer, "a")
        await anyio.sleep(1)
        store.is_away = True
        asked = await next_of(first.watch_approvals())
        await anyio.sleep(5)
        assert store.taken == 1
        store.is_away = False
        await anyio.sleep(5)
        assert store.taken == 0
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await first.result() == "ok"
        second = await supervisor.start(bounded_buyer, "b")
        await supervisor.decide((await next_of(second.watch_approvals())).id, Approve(by="ana"))
        assert await second.result() == "ok"


async def busy_for_an_hour() -> None:
    raise RetryAfter(3600)


async def test_a_clean_up_that_waits_for_what_is_busy_fails_when_its_run_is_told_to_end():
    """L4: it does not wait then, also if it had begun to wait before."""

    @agent
    async def cleans(ctx: Context) -> None:
        with anyio.CancelScope(shield=True):
            await ctx.step(busy_for_an_hour)

    async with opened() as supervisor:
        run = await supervisor.start(cleans)
        await anyio.sleep(1)
        await run.cancel()
        assert (await run.outcome()).kind == "cancelled"


async def test_a_clean_up_that_waits_comes_first_when_its_run_is_told_to_end():
    """L1: it has little time."""

    @tool(policy="allow", limit="browser", timeout=None)
    async def takes(name: str) -> None:
        order.append(name)
        await anyio.sleep(20)

    @agent
    async def cleans(ctx: Context, name: str) -> None:
        with anyio.CancelScope(shield=True):
            await ctx.call(takes, name)

    async with opened(limits=[Limit("browser", at_once=1)]) as supervisor:
        runs = []
        for name in ("holds", "waits", "ends"):
            runs.append(await supervisor.start(cleans, name, session=name))
            await anyio.sleep(1)
        await runs[-1].cancel()
        await runs[1].outcome()
    assert order == ["holds", "ends", "waits"]
