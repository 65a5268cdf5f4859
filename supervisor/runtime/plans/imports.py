"""Plans of imports: a session of another program begins, its messages follow, and it becomes idle."""

from datetime import datetime
from typing import Any

from supervisor.core import events as e
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput, SessionConflict
from supervisor.core.sessions.state import SessionState
from supervisor.core.sessions.trees import Origin
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.plans.begin import Where


def begin_import(
    view: View,
    session: str,
    origin: Origin,
    agent: AgentSpec[Any, Any] | None,
    where: Where,
    requester: str,
    now: datetime,
) -> list[Entry]:
    """Return the first entries of an import, none if the same one has begun before. Raises SessionConflict if another
    session has this id; TreeOwned."""
    known = view.find_session(session)
    if known is not None:
        check_same_import(known, origin, where[0])
        if known.phase == "imported":
            view.claim(session)
        return []
    view.claim(session)
    return first_entries(session, origin, agent, where, requester, now)


def check_agent(agent: AgentSpec[Any, Any] | None) -> None:
    """Raise InvalidInput for an agent that could not go on with an imported session."""
    if agent is not None and not agent.takes_text:
        raise InvalidInput(f"agent {agent.name} takes no text, so no message could continue the session")


def first_entries(
    session: str, origin: Origin, agent: AgentSpec[Any, Any] | None, where: Where, requester: str, now: datetime
) -> list[Entry]:
    """Return the entries with which an imported session begins."""
    reference, file = where
    created = e.SessionCreated(
        at=now,
        agent=reference,
        file=file,
        path=(agent.name if agent is not None else "imported",),
        root=session,
        requester=printable_text(requester),
        cwd=printable_text(origin.cwd),
        takes_text=agent is not None,
    )
    started = e.ImportStarted(
        at=now,
        format=origin.format,
        source=printable_text(origin.source),
        file=printable_text(origin.file),
        digest=origin.digest,
    )
    return [(session, created), (session, started)]


def end_import(view: View, session: str, left_out: int, now: datetime) -> list[Entry]:
    """Return the last entry of an import."""
    count = view.session(session).imported
    return [(session, e.ImportFinished(at=now, messages=count, left_out=left_out))]


def check_same_import(known: SessionState, origin: Origin, reference: str) -> None:
    """Raise SessionConflict unless a session was imported from the same file, for the same agent."""
    session, there = known.id, known.origin
    otherwise = "import under another id with --session ID"
    if there is None:
        raise SessionConflict(f"session {session} exists already and was not imported; {otherwise}")
    if (there.format, there.source) != (origin.format, printable_text(origin.source)):
        from_where = f"{there.format} session {there.source}"
        raise SessionConflict(f"session {session} was imported from {from_where}; {otherwise}")
    if there.digest != origin.digest:
        raise SessionConflict(
            f"session {session} was imported from an earlier content of this file ({there.file}, "
            f"{there.at:%Y-%m-%d %H:%M:%S} UTC); {otherwise}"
        )
    if known.facts.agent != reference:
        had = f"with agent {known.facts.agent}" if known.facts.agent else "without an agent"
        raise SessionConflict(f"session {session} was imported {had}; {otherwise}")
