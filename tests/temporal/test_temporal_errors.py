"""Errors of a server, as ours: which of them say that it does not answer."""

import pytest
from temporalio.service import RPCError, RPCStatusCode

from supervisor.core.errors import NotFound, ServerError, ServerUnavailable
from supervisor.core.store_urls import read_temporal_url
from supervisor.temporal.connection import border

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
    with pytest.raises(expected) as caught, border(STORE, maybe_done=maybe_done):
        raise RPCError(message, RPCStatusCode[status], b"")
    assert type(caught.value) is expected
    if expected is ServerUnavailable:
        assert caught.value.maybe_done is maybe_done
