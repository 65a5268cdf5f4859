"""Each set of event types that modules list by hand, against what the traits and the tables say."""

from typing import Any

import pytest

from supervisor.channels.web.pages import timeline
from supervisor.cli import story
from supervisor.core import events as e, forking, machine, operations, retrying, session
from supervisor.core.events import having
from supervisor.runtime import attempt, hub, local, runner
from supervisor.store import heads, projection

SETS: list[tuple[Any, Any]] = [
    (local.AUDITED, having("audited")),
    (story._PROGRESS, having("told")),
    (story._UNATTENDED, having("told") | machine.ASKS | machine.ENDS_APPROVAL),
    (timeline._PROGRESS, having("own")),
    (timeline._CLOSING, machine.ENDS_APPROVAL | {e.ToolCallFinished}),
    (session._OPERATIONS, machine.MOVES_OPERATION),
    (session.WAKING, having("wakes")),
    (session._BESIDE, having("no progress")),
    (operations._ASKS, machine.ASKS),
    (heads._ASKING, machine.ASKS),
    (attempt._BEGINNING, machine.BEGINS_OPERATION),
    (runner._WAKING, {*e.ANSWERS, e.CancelRequested}),
    (hub.INBOX_EVENTS, machine.ASKS | machine.ENDS_APPROVAL | having("reminds")),
    (projection._ENDING, machine.ENDS_APPROVAL),
    (projection._SHOWING, having("card", "reminds")),
    (projection._MOVING, {*having("begins run", "blocks", "wakes"), *e.SLEEPING, *e.ANSWERS}),
    (forking._LEFT_OUT, having("not copied")),
    (forking._ON_THE_WAY_OUT, having("last append")),
    (retrying._UNWINDING, having("unwinding")),
    ({getattr(e, name) for name in machine._CARDS}, having("card")),
]


@pytest.mark.parametrize(("listed", "derived"), SETS)
def test_a_list_of_event_types_is_what_the_traits_say(listed: Any, derived: Any) -> None:
    assert {*listed} == derived
