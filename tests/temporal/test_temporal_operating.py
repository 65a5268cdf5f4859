"""What operators have: workers for some tools alone, metrics and probes, certificates that change, and what can be
searched for."""

import socket
from functools import partial

import anyio
import httpx
import pytest
from temporal_server import namespace, working
from temporalio import activity
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client

from supervisor import Answer, Context, InvalidInput, agent, tool
from supervisor.core.store_urls import read_temporal_url
from supervisor.temporal import open_temporal, run_worker
from supervisor.temporal.telemetry import Metrics
from supervisor.temporal.worker.probes import address_of

pytestmark = pytest.mark.anyio


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def connected(url: str) -> Client:
    store = read_temporal_url(url)
    return await Client.connect(store.target, namespace=store.namespace)


@tool(policy="allow", queue="gpu")
async def rendering() -> str:
    return activity.info().task_queue


@tool(policy="allow")
async def adding() -> str:
    return activity.info().task_queue


@agent
async def painter(ctx: Context) -> list[str]:
    return [(await ctx.call(adding)).value, (await ctx.call(rendering)).value]


async def test_a_tool_with_a_queue_runs_on_workers_of_that_queue_alone():
    """The other worker runs the session, and the calls of all other tools: the call waits until the queue has one."""
    url = await namespace()
    async with working(url, [painter]), open_temporal(url) as supervisor:
        run = await supervisor.start(painter, session="p")
        handle = (await connected(url)).get_workflow_handle("p")
        pending: list[str] = []
        while not any("rendering" in each for each in pending):
            await anyio.sleep(0.05)
            pending = [each.activity_id for each in (await handle.describe()).raw_description.pending_activities]
        async with working(url, [painter], queue="gpu"):
            assert await run.result() == ["subagent-supervisor", "subagent-supervisor~gpu"]


def test_a_queue_has_a_name_that_a_server_takes():
    with pytest.raises(InvalidInput, match="tool rendering: its queue"):
        tool(queue="a~b")(rendering.fn)


_stages: list[anyio.Event] = []


@tool(policy="allow")
async def holding() -> None:
    _stages[0].set()
    await _stages[1].wait()


@agent
async def holder(ctx: Context) -> None:
    await ctx.call(holding)


async def read(address: str, path: str) -> tuple[int, str]:
    async with httpx.AsyncClient(base_url=f"http://{address}") as client:
        answer = await client.get(path)
    return answer.status_code, answer.text


async def test_a_worker_answers_probes_and_gives_the_metrics_of_temporal():
    """It is alive until it has left, and ready until it was told to leave. Labels tell the queue, and no session."""
    url, address = await namespace(), f"127.0.0.1:{free_port()}"
    begun, end = _stages[:] = anyio.Event(), anyio.Event()
    is_open = anyio.Event()
    async with open_temporal(url) as supervisor, anyio.create_task_group() as worker:
        worker.start_soon(partial(run_worker, url, [holder], probes=address, is_open=is_open.set))
        await is_open.wait()
        run = await supervisor.start(holder, session="h")
        await begun.wait()
        assert [await read(address, path) for path in ("/live", "/ready", "/x")] == [
            (200, "live\n"),
            (200, "ready\n"),
            (404, "there are /live, /ready and /metrics\n"),
        ]
        _, text = await read(address, "/metrics")
        worker.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            while (await read(address, "/ready"))[0] == 200:
                await anyio.sleep(0.02)
            assert (await read(address, "/live"))[0] == 200
            end.set()
    assert "# TYPE temporal_worker_task_slots_used gauge" in text
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    polled = [name for name in found if name.startswith("temporal_workflow_task_execution_latency_count{")]
    assert 'task_queue="subagent-supervisor"' in polled[0]
    assert float(found[polled[0]]) >= 1
    assert run.session not in {part.strip('"') for name in found for part in name.replace("=", ",").split(",")}


async def test_metrics_are_sums_and_the_latest_values():
    """A counter adds up, a gauge is the latest value, and a histogram is a sum and a count."""
    metrics = Metrics()
    meter = metrics.runtime.metric_meter.with_additional_attributes({"kind": 'a "b"'})
    for value in (2, 3):
        meter.create_counter("seen").add(value)
        meter.create_gauge("open").set(value)
        meter.create_histogram_float("took").record(value / 2)
    lines = [line for line in metrics.lines() if not line.startswith("#")]
    label = '{kind="a \\"b\\"",service_name="temporal-core-sdk"}'
    assert lines == [f"open{label} 3", f"seen{label} 5", f"took_count{label} 2", f"took_sum{label} 2.5"]


@pytest.mark.parametrize("address", ["9464", "127.0.0.1:", "127.0.0.1:70000", ":1"])
def test_probes_have_an_address(address):
    with pytest.raises(InvalidInput, match="HOST:PORT"):
        address_of(address)


@agent
async def asker(ctx: Context, wrong: bool) -> str:
    said = await ctx.ask("Well?")
    if wrong:
        raise ValueError(said)
    return said


async def test_sessions_are_found_by_agent_status_and_requester():
    """In Temporal's own pages, by the search attributes that a worker makes."""
    url = await namespace()
    client = await connected(url)

    async def found(status: str, query: str = "SupervisorAgent = 'asker' AND SupervisorRequester = 'ana'") -> set[str]:
        asked = f"{query} AND SupervisorStatus = '{status}'"
        return {each.id async for each in client.list_workflows(asked)}

    async with working(url, [asker]), open_temporal(url) as supervisor:
        runs = [
            await supervisor.start(asker, wrong, session=name, requester="ana")
            for name, wrong in (("right", False), ("wrong", True))
        ]
        with anyio.fail_after(30):
            while await found("waiting") != {"right", "wrong"}:
                await anyio.sleep(0.05)
        for each in await supervisor.find_approvals():
            await supervisor.decide(each.id, Answer(by="bob", value="so"))
        assert [(await run.outcome()).kind for run in runs] == ["succeeded", "failed"]
        with anyio.fail_after(30):
            while (await found("failed"), await found("active"), await found("waiting")) != (
                {"wrong"},
                {"right"},
                set(),
            ):
                await anyio.sleep(0.05)


async def test_a_namespace_without_these_attributes_runs_sessions_all_the_same():
    """One of another type is refused with the start of a session, which is sent again without them."""
    url = await namespace()
    client = await connected(url)
    kinds = {"SupervisorStatus": IndexedValueType.INDEXED_VALUE_TYPE_INT}
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
    await client.operator_service.add_search_attributes(request)
    async with working(url, [asker]), open_temporal(url) as supervisor:
        for name in ("a", "b"):
            run = await supervisor.start(asker, True, session=name)
            while not (found := await supervisor.find_approvals()):
                await anyio.sleep(0.05)
            await supervisor.decide(found[0].id, Answer(by="bob", value="so"))
            assert (await run.outcome()).kind == "failed"


@agent(approval_expires_in=3 * 86400)
async def conversing(ctx: Context, text: str) -> str:
    return text


async def test_a_retention_that_is_shorter_than_a_pause_or_an_expiry_is_logged(caplog):
    """The namespaces of tests keep what has ended for one day. What temporalio warns of is a log line, too."""
    url = await namespace()
    async with working(url, [conversing]), open_temporal(url) as supervisor:
        await (await supervisor.start(conversing, "x" * 600_000)).result()
    said = [each.getMessage() for each in caplog.records if "retention.short" in each.getMessage()]
    assert [("agent='conversing'" in each, "days=1" in each) for each in said] == [(True, True), (False, True)]
    assert [each for each in caplog.records if each.name.startswith("temporalio") and "TMPRL1103" in each.getMessage()]
