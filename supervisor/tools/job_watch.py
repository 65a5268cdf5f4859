"""Background jobs as their supervisor sees them: watched again after a restart, ended by policy, reported once (T6).

Theory: the journal names the jobs, and the folder next to the store says whose end is not journaled yet. The watch
looks at the jobs several times a second while there are any. No job needs this process in order to live.

Rules
- A job of another machine is not looked at: no pid of it says anything here. That machine's logs say that it runs.
- The watch sees only jobs of trees that this process owns. A job that is found by pid and start time is watched
  again; the end of one that has ended meanwhile is journaled; one that is gone without a record is journaled as lost.
- The end is reported once: the plan appends no second JobEnded for a job, and a job whose end is journaled is marked
  in its folder, so that no later start reads its journal for it.
- A session that has asked for it (`notify`) gets a message with the end, in the same commit. It quotes no output of the
  job, which is hostile text. No message tells of an end that a caller of ours has asked for, or goes to a session that
  cannot receive it.
- A job that is not to be kept ends with its root session: when that session has ended and can be given no further
  turn. The job of an idle conversation ends when the supervisor closes. As long as the root session can go on, the job
  is left alone, by a shutdown too.
- Where the store dies with the process, so do its jobs, unless they are to be kept: no later process could find them.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from supervisor.core import events as e
from supervisor.core.errors import InvalidInput, StoreDied, StoreError, StoreUnreadable
from supervisor.core.sessions.state import Job, SessionState
from supervisor.core.values import JobView
from supervisor.runtime.clock.clock import Clock
from supervisor.runtime.journal.writer import Entry, Journal, View
from supervisor.runtime.plans.turns import message_entries
from supervisor.system.identity import is_elsewhere
from supervisor.system.logs import FactLog
from supervisor.system.threads import in_thread
from supervisor.tools.background import TOLD, Seen, end_job, look_at
from supervisor.tools.job_logs import job_folders, size_of
from supervisor.tools.session_jobs import how_it_is, view_of

log = FactLog(__name__)

LOOK_AGAIN_SECONDS: Final = 0.2  # seconds between two looks at the jobs
LEAVE_TIMEOUT_SECONDS: Final = 20.0  # seconds for which ending jobs may delay a supervisor that closes
SESSION_ENDED: Final = "the end of its session"


class JobWatch:
    """Gives calls what they need of background jobs, and watches the jobs."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._store = journal.store
        self._parent: str | None = self._store.jobs_folder
        self._watched: dict[str, tuple[str, e.JobStarted]] = {}
        self._claimed: set[str] = set()
        """Trees that were claimed, and whose jobs have not been looked for yet."""
        self._has_jobs = anyio.Event()
        self._looking = anyio.Lock()

    def folder(self) -> str:
        if self._parent is None:
            import tempfile  # a store on disk has its own folder

            self._parent = tempfile.mkdtemp(prefix="supervisor-jobs-")
        return self._parent

    def began(self, session: str, job: e.JobStarted) -> None:
        self._watched[job.job] = (session, job)
        self._has_jobs.set()

    async def look_at(self, job: JobView) -> JobView:
        return await view_of(job)

    def untold(self) -> Iterable[str]:
        return () if self._store.jobs_folder is None else _untold(self._store.jobs_folder)

    def recover(self, roots: Iterable[str]) -> None:
        """Watch the jobs of trees whose end is not journaled, from the next look on."""
        if self._store.jobs_folder is not None and Path(self._store.jobs_folder).is_dir():
            self._claimed.update(roots)
            self._has_jobs.set()

    def clear_logs(self, is_gone: Callable[[str], bool], *, dry_run: bool) -> tuple[int, int]:
        gone = [folder for session, folder in job_folders(self._store.jobs_folder) if is_gone(session)]
        size = sum(map(size_of, gone))
        if gone and not dry_run:
            for folder in gone:
                _remove(folder)
        return len(gone), size

    async def _recover_trees(self) -> None:
        """Look through the folders once for all trees that were claimed meanwhile: there may be thousands of each."""
        assert self._store.jobs_folder is not None
        claimed = frozenset(self._claimed)
        untold = await in_thread(_untold, self._store.jobs_folder)
        for session, names in untold.items():
            with suppress(StoreUnreadable):  # a reader of that session gets the error
                row = self._store.get_session(session)
                if row is not None and row.root in claimed:
                    self._recover_jobs(session, names)
        self._claimed -= claimed

    def _recover_jobs(self, session: str, names: set[str]) -> None:
        events = [row.event for row in self._store.journal(session)]
        ended = {event.job for event in events if isinstance(event, e.JobEnded)}
        for event in events:
            if isinstance(event, e.JobStarted) and event.job in names and not is_elsewhere(event.host):
                if event.job in ended:
                    _mark_told(event)
                else:
                    self.began(session, event)

    async def run(self) -> None:
        """Look at the jobs until cancelled; sleep while there are none."""
        while True:
            await self._has_jobs.wait()
            await anyio.sleep(LOOK_AGAIN_SECONDS)
            try:
                await self.look()
            except StoreDied:
                return  # the runner reports it
            except (StoreError, OSError) as error:
                log.warning("jobs.unseen", reason=str(error))  # the next look reports what this one did not
            if not (self._watched or self._claimed):
                self._has_jobs = anyio.Event()

    async def leave(self) -> None:
        """The supervisor closes: end the jobs that end with it, and journal which have ended, for a bounded time."""
        with anyio.move_on_after(LEAVE_TIMEOUT_SECONDS, shield=True) as scope, suppress(StoreError, OSError):
            await self.look(is_leaving=True)
        if scope.cancelled_caught:
            log.warning("jobs.left", count=len(self._watched))  # the next owner of their trees watches them

    async def look(self, *, is_leaving: bool = False) -> None:
        """Journal which jobs have ended, and end the jobs whose time has come."""
        async with self._looking:
            if self._claimed:
                await self._recover_trees()
            at_work = await self._tell_of_ended()
            over = [job for session, job in at_work if not job.keep and self._is_over(session, is_leaving=is_leaving)]
            if over:
                async with anyio.create_task_group() as group:  # all at once: each may use its whole grace
                    for job in over:
                        group.start_soon(_end, job)
                await self._tell_of_ended()

    async def _tell_of_ended(self) -> list[tuple[str, e.JobStarted]]:
        """Journal the end of the jobs that are over; return the others, each with its session."""
        at_work = []
        for name, (session, job) in list(self._watched.items()):
            seen = await in_thread(look_at, job)
            if seen.state == "running":
                at_work.append((session, job))
            else:
                await self._tell(session, job, seen)
                self._watched.pop(name, None)
        return at_work

    def _is_over(self, session: str, *, is_leaving: bool) -> bool:
        row = self._store.get_session(session)
        root = self._store.get_session(row.root) if row is not None else None
        if root is None or (is_leaving and not self._store.is_durable):
            return True
        if root.outcome is None:
            return False
        return is_leaving or root.outcome.kind == "cancelled" or not self._takes_text(root.id)

    def _takes_text(self, root: str) -> bool:
        first = self._store.journal(root)[0].event
        return isinstance(first, e.SessionCreated) and first.takes_text

    async def _tell(self, session: str, job: e.JobStarted, seen: Seen) -> None:
        event = e.JobEnded(
            at=self._clock.now(),
            job=job.job,
            how=seen.how,
            exit_code=seen.exit_code,
            signal=seen.signal,
            duration=seen.end.duration if seen.end is not None else None,
            by=seen.by,
        )

        def plan(view: View) -> list[Entry]:
            state = view.session(session)
            known = state.jobs.get(job.job)
            if known is None or known.ended is not None:
                return []
            return [(session, event), *_message_of(state, job, event, seen)]

        await self._journal.append(plan)
        _mark_told(job)
        if seen.how == "failed":  # it is no job, so it has no log
            await in_thread(_remove, Path(job.log).parent)


def _message_of(state: SessionState, job: e.JobStarted, event: e.JobEnded, seen: Seen) -> list[Entry]:
    """Return the message to its session about a job that has ended, and the turn that it begins."""
    is_deadline = seen.end is not None and seen.end.deadline is not None
    if not job.notify or seen.how == "failed" or (seen.how == "ended" and not is_deadline):
        return []
    ended = how_it_is(Job(started=job, ended=event).view(state.id))
    why = f" at {event.by}" if is_deadline else ""
    text = f"[job {job.job} has {ended}{why}; job_output returns its output]"
    received = e.MessageReceived(at=event.at, message=f"job-{job.job}", text=text, by=f"job {job.job}")
    with suppress(InvalidInput):  # its session has ended, and begins no turn
        return message_entries(state, received, ())[0]
    return []


async def _end(job: e.JobStarted) -> None:
    log.debug("job.ended", job=job.job)
    with suppress(OSError):  # the job is still running; the next look tries again
        await end_job(job, SESSION_ENDED)


def _untold(parent: str) -> dict[str, set[str]]:
    """Return the jobs that are not marked as told, by session."""
    found: dict[str, set[str]] = {}
    for session, folder in job_folders(parent):
        if not (folder / TOLD).exists():
            found.setdefault(session, set()).add(folder.name)
    return found


def _remove(folder: Path) -> None:
    import shutil  # few processes remove any

    shutil.rmtree(folder, ignore_errors=True)


def _mark_told(job: e.JobStarted) -> None:
    with suppress(OSError):  # without the mark a later start reads the journal, and finds JobEnded there
        Path(job.log).with_name(TOLD).touch(mode=0o600)
