"""Errors of a server, as ours: which of them say that it does not answer."""

import asyncio
import gc

import anyio
import pytest
from fronts import missing
from temporal_server import namespace
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure, NotFoundFailure, WorkflowNotReadyFailure
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from supervisor.core.errors import NotFound, ServerError, ServerUnavailable
from supervisor.core.store_urls import read_temporal_url
from supervisor.temporal.connection import is_no_workflow, is_not_ready, server_errors
from supervisor.temporal.workflow import bridge
from supervisor.testing import replaced

STORE = read_temporal_url("temporal://127.0.0.1:7233/default")
ERRORS = [
    ("UNAVAILABLE", "tcp connect error", ServerUnavailable),
    ("DEADLINE_EXCEEDED", "context deadline exceeded", ServerUnavailable),
    ("CANCELLED", "operation was canceled", ServerUnavailable),
    ("UNKNOWN", "transport error", ServerUnavailable),
    ("UNKNOWN", "h2 protocol error: error reading a body from connection", ServerUnavailable),
    ("INTERNAL", "h2 protocol error: http2 error", ServerUnavailable),
    ("UNKNOWN", "a plugin of the server failed", ServerError),
    ("INTERNAL", "a bug of the server", ServerError),
    ("RESOURCE_EXHAUSTED", "namespace rate limit exceeded", ServerError),
    ("NOT_FOUND", "Namespace default is not found.", NotFound),
    ("NOT_FOUND", "workflow not found", NotFound),
]
"""Status and message, as temporalio gave them for a connection that was cut at many places, and what they become."""


@pytest.mark.parametrize(("status", "message", "expected"), ERRORS)
@pytest.mark.parametrize("maybe_done", [True, False])
def test_an_error_of_the_server_becomes_one_of_ours(status, message, expected, maybe_done):
    """A broken connection is a server that does not answer, and whether the request was done is kept."""
    with pytest.raises(expected) as caught, server_errors(STORE, maybe_done=maybe_done):
        raise RPCError(message, RPCStatusCode[status], b"")
    assert type(caught.value) is expected
    if expected is ServerUnavailable:
        assert caught.value.maybe_done is maybe_done


@pytest.mark.parametrize(
    ("message", "failure", "is_namespace", "is_workflow"),
    [
        ("Namespace default is not found.", NamespaceNotFoundFailure(namespace="default"), True, False),
        ("workflow not found for ID: namespace~1", NotFoundFailure(), False, True),
        ("no such route for this namespace", None, False, False),
    ],
)
def test_a_missing_thing_is_known_by_the_failure_alone(message, failure, is_namespace, is_workflow):
    """A message may hold the name of anything. Rules that cannot be read are not taken for rules that do not exist."""
    error = missing(message, failure)
    assert is_no_workflow(error) is is_workflow
    with pytest.raises(NotFound) as caught, server_errors(STORE):
        raise error
    assert ("namespace create" in str(caught.value)) is is_namespace


@pytest.mark.parametrize(("failure", "expected"), [(WorkflowNotReadyFailure(), True), (NotFoundFailure(), False)])
def test_a_workflow_that_failed_to_run_is_told_apart_from_workers_that_are_gone(failure, expected):
    """By the failure that the server gives for a query: other trees can be read all the same."""
    assert is_not_ready(missing("Unable to query workflow due to Workflow Task in failed state.", failure)) is expected


@pytest.mark.anyio
async def test_the_server_gives_that_failure():
    """The real one, for a workflow and for a namespace that it does not have."""
    target, named = (await namespace()).removeprefix("temporal://").split("/")
    for place, is_workflow in [(named, True), ("nowhere", False)]:
        client = await Client.connect(target, namespace=place)
        with pytest.raises(RPCError) as caught:
            await client.get_workflow_handle("nothing").describe()
        assert is_no_workflow(caught.value) is is_workflow


@pytest.mark.anyio
async def test_the_error_of_a_cancelled_activity_is_not_logged(enter):
    """A cancelled call has no use for the rules that it was about to read."""
    enter(replaced(bridge, "is_evicted", lambda: False))
    logged: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))

    async def activity() -> None:
        try:
            await anyio.sleep(60)
        except asyncio.CancelledError:
            raise OSError("activity cancelled") from None

    async def wait() -> None:
        cancellation = await bridge.wait_for(asyncio.ensure_future(activity()))
        assert cancellation is not None
        raise cancellation

    with anyio.move_on_after(0.01) as scope:
        await wait()
    assert scope.cancelled_caught
    gc.collect()
    assert logged == []
