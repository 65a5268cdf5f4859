"""Problems: which status an error has, and what programs read of it."""

import pytest
from sites import world

from supervisor.channels.web.problems import Problem, problem_of
from supervisor.core.errors import (
    CursorUnknown,
    InvalidInput,
    NotAuthenticated,
    NotEntitled,
    NotFound,
    SessionConflict,
    StoreDied,
    StoreRefused,
    StoreUnreadable,
    TreeOwned,
    UnknownAgent,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidInput("it"), 422, "invalid_input"),
        (UnknownAgent("it"), 422, "unknown_agent"),
        (CursorUnknown("it"), 422, "cursor_unknown"),
        (NotFound("it"), 404, "not_found"),
        (SessionConflict("it"), 409, "session_conflict"),
        (TreeOwned("root", "owner"), 409, "tree_owned"),
        (NotEntitled("it"), 403, "not_entitled"),
        (NotAuthenticated("it"), 401, "not_authenticated"),
        (StoreRefused("it"), 507, "store_refused"),
        (StoreDied("it"), 503, "store_died"),
        (StoreUnreadable("it"), 503, "store_unreadable"),
    ],
)
async def test_an_error_has_its_status_and_its_name_as_code(error, status, code):
    """A program tells by `code` what went wrong, also where two errors share a status."""
    document = problem_of(error).document
    assert (document["status"], document["code"]) == (status, code)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_input"),
        (401, "not_authenticated"),
        (403, "not_entitled"),
        (404, "not_found"),
        (422, "invalid_input"),
        (405, "method_not_allowed"),
        (429, "too_many_requests"),
        (500, "internal_server_error"),
    ],
)
async def test_a_refusal_at_the_border_has_the_code_of_its_status(status, code):
    """The exception that it stands for, or the status's own words."""
    assert Problem(status, "it").document["code"] == code


async def test_an_unknown_fault_shows_nothing_of_itself():
    """It is 500, and its words are in the log alone."""
    document = problem_of(RuntimeError("a secret")).document
    assert (document["status"], document["code"]) == (500, "internal_server_error")
    assert "a secret" not in document["detail"]


async def test_a_problem_over_http_carries_its_code():
    """Requests without a login, for missing things, and with values that do not fit."""
    async with world() as here, here.client() as stranger, here.client("olga") as client:
        assert (await stranger.get("/api/sessions")).json()["code"] == "not_authenticated"
        assert (await client.get("/api/sessions/nowhere")).json()["code"] == "not_found"
        assert (await client.get("/api/sessions?limit=x")).json()["code"] == "invalid_input"
