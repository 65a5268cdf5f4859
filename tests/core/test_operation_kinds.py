import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Raw

from supervisor.channels.web.pages.timeline import lane
from supervisor.cli.story import Story
from supervisor.core import events as e
from supervisor.core.events.kinds import KINDS, OTHER, kind_of
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.restarts import Ended, partition_operations
from supervisor.core.sessions.state import SessionState
from supervisor.runtime import operations

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)


def named_in(source: str) -> set[str]:
    """Return the kinds that a module names: as the `kind` of an event, to `of_operation`, and to `_note`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    given = [word.value for call in calls for word in call.keywords if word.arg == "kind" and made_by(call) in MAKERS]
    given += [call.args[place] for call in calls if (place := PLACES.get(made_by(call))) is not None]
    return {each.value for each in given if isinstance(each, ast.Constant)}


def made_by(call: ast.Call) -> str:
    return getattr(call.func, "attr", "")


PLACES = {"of_operation": 1, "_note": 0}
MAKERS = ("OperationStarted", "OperationFinished", "OperationAbandoned")


def test_each_kind_that_the_runtime_makes_has_a_row():
    """A kind without a row would be told and restarted as an unknown one."""
    made = {kind for file in Path(operations.__path__[0]).glob("*.py") for kind in named_in(file.read_text())}
    assert {"call", "now", "sleep", "spawn", "step"} <= made <= {*KINDS}


def journal(*events: e.AnyEvent) -> list[JournalEntry]:
    first = e.SessionCreated(at=NOW, agent="m:a", file=None, path=("a",), root="s", requester="ana", cwd="/")
    given = [first, e.RunStarted(at=NOW, input=Raw(b"null")), *events]
    return [JournalEntry(number, "s", event) for number, event in enumerate(given, 1)]


def test_a_kind_that_is_not_known_has_a_row():
    """What a newer program did is told by its name, counts as the run's own work, and is kept by a restart."""
    rows = journal(e.OperationFinished(at=LATER, operation="dream:sheep:0#1", kind="dream"))
    state = SessionState(id="s")
    for row in rows:
        state.apply(row.event)
    assert kind_of("dream") is OTHER
    assert Story().tell(rows[-1], NOW) == "did dream sheep"
    assert [each.kinds for each in lane("s", rows, LATER).intervals] == [("active",)]
    stalled = Ended(kind="stalled", cause="", stopped_at=1, asked_late=["dream:sheep:0#1"])
    assert partition_operations(state, stalled, ()) == ([], ["dream:sheep:0#1"], [])
