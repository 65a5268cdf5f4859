"""Reports of an agent: written as notes, which need no sync of their own (Context.report). And pieces of text, which
are not written at all (Context.stream).

Rules
- A report is written with the next entry of its session, so all reports before an entry are on disk with it. Without
  one it is written after FLUSH_AFTER_SECONDS, or when MOST reports or LARGEST bytes are unwritten. SIGKILL loses what
  is not.
- A replay reports nothing: what the agent does there again is in the journal, with its reports. Where the journal ends,
  the agent does things that no entry holds, and reports them, perhaps a second time.
- A report changes nothing in the state of a session but its length, and whether anything was said. So neither memory
  nor the cost of a commit depends on the number of reports.
- A report may wait for a commit; one that a replay makes again does not. So each first waits until all other tasks of
  the agent have settled (Attempt.resting), and delays the next result while it waits for a commit.
"""

from contextlib import suppress
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from supervisor.core import events as e
from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput, StoreError, Suspended
from supervisor.core.sessions.reports import joined, make_report, size_of
from supervisor.core.values import ReportKind
from supervisor.runtime.attempt.attempt import Attempt

FLUSH_AFTER_SECONDS: Final = 5.0  # seconds
MOST: Final = 256  # reports of one session that are not written yet
LARGEST_BYTES: Final = 1024 * 1024  # bytes of them


def stream(attempt: Attempt, piece: str) -> None:
    """Show a piece of text that is being written; see Context.stream."""
    if not isinstance(piece, str):
        raise InvalidInput(f"a piece of a text is a text, not {piece!r:.40}")
    attempt.watch.heartbeat()
    if piece and _counts(attempt):
        attempt.host.hub.texts.add(attempt.session, printable_text(piece))


async def report(
    attempt: Attempt, kind: ReportKind, text: str, tool: str | None, call: str | None, *, is_error: bool
) -> None:
    """Record what the agent says of itself; see Context.report."""
    journal, session = attempt.host.journal, attempt.session
    said = make_report(attempt.host.clock.now(), kind, text, tool, call, is_error=is_error)
    attempt.watch.heartbeat()
    await checkpoint()
    async with attempt.resting():
        pass
    if not _counts(attempt):
        return
    if not journal.count_notes(session):
        attempt.unwritten = 0

    def make() -> e.Reported | None:
        return said if _counts(attempt) else None

    def join(before: e.AnyEvent) -> e.AnyEvent | None:
        return joined(before, said) if _counts(attempt) else None

    try:
        if not await journal.note(session, make, join=join, hold=attempt.settling.holding):
            return
    except StoreError as error:
        attempt.host.suspend_tree(attempt, error)
        raise Suspended from error
    if kind in ("text", "thought"):
        attempt.host.hub.texts.note_said(session)
    attempt.unwritten += size_of(said)
    if attempt.unwritten >= LARGEST_BYTES or journal.count_notes(session) >= MOST:
        with attempt.settling.holding():
            await _write(attempt)
    elif attempt.written_at is None:
        attempt.written_at = attempt.host.alarm.at(
            anyio.current_time() + FLUSH_AFTER_SECONDS, lambda: _come_due(attempt)
        )


def _counts(attempt: Attempt) -> bool:
    """Whether a report is recorded, and a piece shown, now: not in a replay, and not of a run that is over or has left
    this process."""
    if attempt.is_sealed or attempt.has_ended or attempt.replay.is_replaying:
        return False
    return attempt.state.is_open and attempt.state.runs == attempt.run


def _come_due(attempt: Attempt) -> None:
    attempt.written_at = None
    if not attempt.has_ended and attempt.host.journal.count_notes(attempt.session):
        attempt.host.start_soon(_write_late, attempt)


async def _write_late(attempt: Attempt) -> None:
    with suppress(Suspended):
        await _write(attempt)


async def _write(attempt: Attempt) -> None:
    """Write the reports of the session that are not written yet."""
    await attempt.append(lambda view, _: view.write_notes(attempt.session), bound=False)
