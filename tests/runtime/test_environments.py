"""A runtime in another environment: time, ids and random numbers come from it, and bodies run in other event loops."""

import itertools
import threading
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import anyio
import anyio.to_thread
import msgspec
import pytest
from scenes import events
from watching import next_of

from supervisor import Answer, Approve, Context, MemoryStore, agent, tool
from supervisor.core import events as e
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.ids import RULES, approval_route
from supervisor.runtime.clock.clock import Clock
from supervisor.runtime.environment import Environment
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.local import LocalSupervisor
from supervisor.runtime.people.posting import Posting
from supervisor.wiring.app import serving

pytestmark = pytest.mark.anyio

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
threads: list[int] = []
"""In which thread each body ran."""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """Real time: a thread does not hold a virtual clock."""
    return request.param


class Still(Clock):
    """An environment whose wall clock stands still."""

    def now(self):
        return AT


class Elsewhere(Environment):
    """Runs each body in an event loop of its own, in another thread. Its ids are counters, and its random numbers
    constant."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.clock = Still()
        self._numbers = itertools.count(first)
        self.bodies: list[tuple[str, str, int, str]] = []

    def new_session_id(self):
        return f"made-{next(self._numbers)}"

    def new_approval_id(self, root):
        return f"{approval_route(root)}{next(self._numbers):026}"

    def new_rule_id(self):
        return f"rule{next(self._numbers)}"

    def random(self):
        return 0.25

    def user(self):
        return "robot"

    def working_directory(self):
        return "/elsewhere"

    async def run_body(self, body):
        self.bodies.append((body.kind, body.session, body.run, body.operation))
        return await anyio.to_thread.run_sync(anyio.run, partial(body.fn, *body.args, **body.kwargs))


@asynccontextmanager
async def opened(store, environment):
    """Open a supervisor whose runtime has this environment."""
    with anyio.fail_after(60):
        store.open()
        runner = Runner(store, environment=environment)
        supervisor = LocalSupervisor(runner)
        async with serving(
            runner, supervisor, Posting(runner, supervisor.reader, supervisor.audience, (), "ask", Reminders())
        ):
            yield supervisor
        store.close()


@tool
async def deploy(target: str) -> str:
    threads.append(threading.get_ident())
    return f"deployed {target}"


async def look(number: float) -> str:
    threads.append(threading.get_ident())
    if len(threads) == 1:
        raise ConnectionError("the first attempt fails")
    return f"saw {number}"


@agent(restart="transient", restart_delay=0.01)
async def worker(ctx: Context) -> list[str]:
    seen = await ctx.step(look, await ctx.random())
    done = await ctx.call(deploy, "app")
    await ctx.sleep(0.01)
    return [seen, done.content, (await ctx.now()).isoformat(), await ctx.ask("Well?")]


async def live(environments) -> MemoryStore:
    """Run the agent through a failed attempt, an approval, and a restart of the program. Return the store."""
    threads.clear()
    store = MemoryStore()
    async with opened(store, environments[0]) as supervisor:
        run = await supervisor.start(worker)
        approval = await next_of(run.watch_approvals())
        offered = next(option for option in approval.options if option.scope == "session")
        await supervisor.decide(approval.id, Approve(by="ana", scope="session", pattern=offered.pattern))
        question = await next_of(run.watch_approvals())
        assert (run.session, question.id) == ("made-1", f"{approval_route('made-1')}{4:026}")
    async with opened(store, environments[1]) as supervisor:
        run = await supervisor.resume("made-1")
        await supervisor.send("made-1", "hello")
        await supervisor.decide(question.id, Answer(by="ana", value="yes"))
        assert await run.result() == ["saw 0.25", "deployed app", AT.isoformat(), "yes"]
    return store


async def test_bodies_run_where_the_environment_runs_them():
    """No body runs in the runtime's thread. A repeated step keeps its name, and a body with a result does not run
    again."""
    environments = Elsewhere(1), Elsewhere(100)
    await live(environments)
    assert len(threads) == 3
    assert threading.get_ident() not in threads
    first, again, call = environments[0].bodies
    assert (first[:3], call[:3]) == (("step", "made-1", 1), ("call", "made-1", 1))
    assert first == again
    assert environments[1].bodies == []


async def test_two_runtimes_in_equal_environments_write_equal_journals():
    """All times, ids and numbers come from the environment, and so do the user and the working directory."""
    stores = [await live((Elsewhere(1), Elsewhere(100))) for _ in range(2)]
    one, other = (store.rows(0) for store in stores)
    assert one == other
    assert {row.event.at for row in one} == {AT}
    (created,) = events(stores[0], "made-1", e.SessionCreated)
    assert (created.requester, created.cwd) == ("robot", "/elsewhere")
    assert [event.rule.id for event in events(stores[0], RULES, e.RuleAdded)] == ["rule3"]
    assert [event.message for event in events(stores[0], "made-1", e.MessageReceived)] == ["made-100"]


begun, released = threading.Event(), threading.Event()


@tool(policy="allow")
async def hold() -> None:
    begun.set()
    released.wait()


@agent
async def holder(ctx: Context) -> None:
    await ctx.call(hold)


async def test_a_run_that_is_cancelled_ends_when_its_body_has_ended_elsewhere():
    """A body that blocks its own event loop does not block the runtime's. Its return value is the call's one result."""
    begun.clear()
    released.clear()
    store = MemoryStore()
    async with opened(store, Elsewhere(1)) as supervisor:
        run = await supervisor.start(holder)
        await anyio.to_thread.run_sync(begun.wait)
        await supervisor.cancel(run.session)
        ended = events(store, run.session, e.RunFinished)
        released.set()
        assert (ended, (await run.outcome()).kind) == ([], "cancelled")
    (finished,) = events(store, run.session, e.ToolCallFinished)
    assert (finished.kind, msgspec.json.decode(finished.details)["effect"]) == ("ok", "done")
