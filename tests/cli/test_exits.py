"""The exit code of each error."""

import pytest

from supervisor.cli.exits import Exit, code_of
from supervisor.core.errors import (
    CursorUnknown,
    InvalidInput,
    NotAuthenticated,
    NotEntitled,
    NotFound,
    RunBlocked,
    ServerMismatch,
    ServerUnavailable,
    SessionConflict,
    StoreUnreadable,
    TreeOwned,
    UnknownAgent,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("it"), 2),
        (UnknownAgent("it"), 2),
        (CursorUnknown("it"), 2),
        (SessionConflict("it"), 4),
        (NotFound("it"), 5),
        (TreeOwned("root", "owner"), 6),
        (NotEntitled("it"), 6),
        (NotAuthenticated("it"), 6),
        (StoreUnreadable("it"), 6),
        (OSError("it"), 6),
        (RunBlocked("session", type("Block", (), {"entry": 0, "where": "", "cause": ""})), 7),
        (ServerUnavailable("it", maybe_done=True), 8),
        (ServerMismatch("it"), 8),
    ],
)
def test_an_error_has_one_exit_code(error, code):
    """The codes are a contract: scripts read them."""
    assert code_of(error) == Exit(code)
