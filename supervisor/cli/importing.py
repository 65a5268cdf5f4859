"""`supervisor import`: import a session of another program, as a session that has ended.

Exit codes: 0 imported, now or earlier; 2 usage, an agent that cannot be loaded or takes no text; 4 the id belongs to
another session, or an earlier import had another content or agent; 5 no such file; 6 refused: the format is unknown,
the file cannot be read, or results are missing while its program may be running.
"""

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import anyio
import msgspec
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit, Refused
from supervisor.cli.options import HERE, JsonOption, Place
from supervisor.core.calls.folders import known_folder
from supervisor.core.errors import InvalidInput, NotFound
from supervisor.core.ids import check_session_id
from supervisor.core.text.visible import visible

if TYPE_CHECKING:
    from supervisor.core.declarations.agent_spec import AgentSpec
    from supervisor.core.events import MessageImported
    from supervisor.core.sessions.trees import Origin
    from supervisor.seam.runs import SessionImport
    from supervisor.transcripts.history import History

_MANY: Final = 500  # messages in one append
_MUCH_CHARACTERS: Final = 1 << 20  # characters in one append; a single message may have more


class Imported(msgspec.Struct, frozen=True):
    """The JSON document of an import."""

    session: str
    format: str
    source: str
    state: str
    """imported, or present: an earlier import has added it."""
    messages: int
    """How many messages the session has."""
    left_out: int | None
    agent: str | None


def import_(
    file: Path,
    /,
    *,
    agent: Annotated[
        str | None, Parameter(help="The agent that goes on with it when a message comes: FILE.py:NAME or MODULE:NAME.")
    ] = None,
    session: Annotated[
        str | None, Parameter(help="Its id in the store. Default: made from the id in its file.")
    ] = None,
    not_running: Annotated[
        bool, Parameter(negative=(), help="Confirm that no running program uses the session.")
    ] = False,
    place: Place = HERE,
    json: JsonOption = False,
) -> int:
    """Import a session of pi, OpenClaw, Claude Code or Codex, to read it or, with an agent, to go on with it.

    Parameters
    ----------
    file
        The session's file: .jsonl or .jsonl.zst. It is not changed.
    """
    from supervisor.cli.running import load
    from supervisor.transcripts.history import open_history
    from supervisor.transcripts.session import RefusedError

    if not file.exists():
        raise NotFound(f"{file}: no such file")
    if session is not None:
        check_session_id(session)
    with answers.stdout_for_json(is_json=json):
        spec = load(agent) if agent is not None else None
    try:
        with open_history(file, not_running=not_running) as history:
            done = anyio.run(_import, history, str(file.resolve()), place, session, spec)
    except RefusedError as error:
        raise Refused(str(error)) from None
    if json:
        answers.print_json(done)
    else:
        _report(done, place)
    return Exit.DONE


async def _import(
    history: "History", file: str, place: Place, session: str | None, spec: "AgentSpec[Any, Any] | None"
) -> Imported:
    from supervisor.core.sessions.trees import Origin
    from supervisor.system.identity import working_directory

    # A session whose file names no folder goes on in the folder where it was imported.
    folder = known_folder(history.cwd) or working_directory()
    origin = Origin(history.format, history.source, file, history.digest(), folder)
    own = session or _own_id(history.source)
    async with _importing(place, own, origin, spec) as importing:
        left_out = None
        if not importing.is_finished:
            messages = history.messages(datetime.now(UTC))
            for _ in islice(messages, importing.present):
                pass
            for batch in _batches(messages):
                await importing.add(batch)
            left_out = history.left_out
            await importing.finish(left_out)
        agent = spec.name if spec is not None else None
        state = "present" if importing.is_finished else "imported"
        return Imported(own, history.format, history.source, state, importing.count, left_out, agent)


@asynccontextmanager
async def _importing(
    place: Place, session: str, origin: "Origin", spec: "AgentSpec[Any, Any] | None"
) -> "AsyncIterator[SessionImport]":
    if place.temporal is None:
        async with (
            place.open_store(create=True) as supervisor,
            supervisor.import_session(session, origin, agent=spec) as importing,
        ):
            yield importing
        return
    from supervisor.temporal import open_temporal
    from supervisor.temporal.client.remote import TemporalSupervisor

    async with open_temporal(str(place.temporal)) as there:
        assert isinstance(there, TemporalSupervisor)
        async with there.import_session(session, origin, agent=spec) as importing:
            yield importing


def _batches(messages: Iterator["MessageImported"]) -> Iterator[list["MessageImported"]]:
    batch: list[MessageImported] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += len(message.text)
        if len(batch) >= _MANY or size >= _MUCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    yield batch


def _own_id(source: str) -> str:
    """Return a session's id for the id in its file: the same one, if it is a valid id here."""
    try:
        return check_session_id(source.lower())
    except InvalidInput:
        return f"imported-{hashlib.sha256(source.encode('utf-8', 'backslashreplace')).hexdigest()[:22]}"


def _report(done: Imported, place: Place) -> None:
    word = "was imported before" if done.state == "present" else "is imported"
    print(f"{done.format} session {visible(done.source)} {word} [{done.session}]: {done.messages} messages")
    if done.left_out:
        say_on_stderr(f"{done.left_out} lines were left out: they cannot be read, or are results without a call.")
    say_on_stderr(f"\nsupervisor show {done.session}{place.option}")
    if done.agent is not None:
        say_on_stderr(f"supervisor send {done.session} TEXT{place.option}")
