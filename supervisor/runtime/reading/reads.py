"""What the Supervisor of one machine reads, for programs, commands and channels: lists, runs and watches.

Rules
- A read is one checkpoint, then one synchronous read, or read piece by piece where a list may be long.
- A read that the store does not answer is made again for a moment (clock/patience.py); `check` says so at once.
- Who asks for approvals may show them to people: from then on the process has readers (audience.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from anyio.lowlevel import checkpoint

from supervisor.core.approvals.masking import masked_rule
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import NotFound
from supervisor.core.rows import ApprovalFilter, Counts, JournalEntry, Owner, SessionFilter, TreeView
from supervisor.core.schedules import ScheduleView
from supervisor.core.text.masks import hide
from supervisor.core.usage import UsageKind, UsageReport
from supervisor.core.values import AgentView, Approval, JobView, Message, SessionView
from supervisor.runtime.clock.patience import patient
from supervisor.runtime.lifecycle.runner import Raised, Runner
from supervisor.runtime.plans.allowances import listed
from supervisor.runtime.reading.activity import LocalActivityWatch
from supervisor.runtime.reading.audience import Audience
from supervisor.runtime.reading.counting import Counting
from supervisor.runtime.reading.lists import Lists
from supervisor.runtime.reading.pieces import read_pieces
from supervisor.runtime.reading.reader import Reader
from supervisor.runtime.reading.runs import LocalRun
from supervisor.runtime.reading.streams import Inbox, PendingApprovals, SessionJournal, WrittenText
from supervisor.seam.runs import ActivityWatch, Page, Run, TextWatch, Watch
from supervisor.seam.store import Store
from supervisor.seam.supervisor import StoreSupervisor

R = TypeVar("R")


class LocalReads(StoreSupervisor):
    """`agents`: those that are found by name."""

    def __init__(self, runner: Runner, agents: Mapping[str, AgentSpec[..., Any]]) -> None:
        self._runner = runner
        self.reader = Reader(runner)
        self._lists = Lists(self.reader)
        self._counting = Counting(self.reader)
        self.store: Store = runner.journal.store
        self.where = self.store.name
        self.agents = agents
        self.audience = Audience()

    @property
    def functions_left(self) -> int:
        return len(self._runner.bodies.left)

    @property
    def refusals(self) -> Mapping[str, str]:
        return self._runner.attempts.refusals

    def listen(self, listener: Callable[[Sequence[JournalEntry]], object]) -> None:
        self._runner.published.append(listener)

    async def wait_until_broken(self) -> None:
        await self._runner.attempts.wait_until(lambda: self._runner.journal.death is not None)
        self.reader.check_running(None)

    def _run(self, session: str) -> LocalRun[Any]:
        return self._run_of(session, self.reader.latest_run(session))

    def _run_of(
        self, session: str, number: int, spec: AgentSpec[..., R] | None = None, *, is_new: bool = False
    ) -> LocalRun[R]:
        raised = self._runner.raised.setdefault((session, number), Raised())
        parts = (self.reader, self.audience, raised, self.cancel)
        return LocalRun(session, number, spec, *parts, is_new=is_new)

    @patient
    async def get_run(
        self, session: str, *, number: int | None = None, agent: AgentSpec[..., Any] | None = None
    ) -> Run[Any]:
        await checkpoint()
        latest = self.reader.latest_run(session)
        if number is not None and not 0 < number <= latest:
            raise NotFound(f"session {session} has no run {number}: it has {latest}")
        return self._run_of(session, number or latest, agent)

    @patient
    async def get_session(self, session: str) -> SessionView:
        return await read_pieces(self.store, self._lists.session(session))

    @patient
    async def get_tree(self, session: str, *, entries: int | None = 5000) -> TreeView:
        return await read_pieces(self.store, self._lists.tree(session, entries))

    @patient
    async def get_approval(self, approval: str) -> Approval:
        await checkpoint()
        return self.reader.get_approval(approval)

    @patient
    async def get_transcript(self, session: str) -> tuple[Message, ...]:
        return await read_pieces(self.store, self._lists.transcript(session))

    @patient
    async def get_counts(self) -> Counts:
        return await read_pieces(self.store, self._counting.counts())

    @patient
    async def get_usage(self, session: str | None = None, *, by: UsageKind = "agent") -> UsageReport:
        from supervisor.runtime.reading.usage import read_usage  # most programs never ask

        return await read_pieces(self.store, read_usage(self.reader, session, by))

    @patient
    async def _find_sessions(self, only: SessionFilter, after: str | None, limit: int | None) -> Page[SessionView]:
        return await read_pieces(self.store, self._lists.sessions(only, after=after, limit=limit))

    @patient
    async def _find_approvals(
        self, only: ApprovalFilter, session: str | None, after: str | None, limit: int | None
    ) -> Page[Approval]:
        self.audience.has_readers = True
        return await read_pieces(self.store, self._lists.approvals(only, session, after=after, limit=limit))

    @patient
    async def find_entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = 1000
    ) -> Page[JournalEntry]:
        return await read_pieces(self.store, self._lists.entries(session, tree=tree, after=after, limit=limit))

    @patient
    async def find_audit(self, *, after: str | None = None, limit: int | None = 1000) -> Page[JournalEntry]:
        return await read_pieces(self.store, self._lists.audit(after=after, limit=limit))

    @patient
    async def find_rules(self) -> Page[Rule]:
        await checkpoint()
        self._runner.journal.catch_up()
        view = self._runner.journal.look()  # a commit that is not live yet comes after its position
        found, now = list[Rule](), self._runner.clock.now()
        for rule in self._runner.rules.find(view):
            if rule.uses is not None and rule.session is not None:
                await checkpoint()  # the journal of its session is read, if that is not in memory
            found.append(masked_rule(listed(self._runner.journal.look(), rule, now)))
        return self._lists.whole(found, view.position)

    @patient
    async def find_schedules(self) -> Page[ScheduleView]:
        from supervisor.runtime.plans.schedules import timetable  # few programs need them
        from supervisor.runtime.reading.schedules import view_of

        await checkpoint()
        self._runner.journal.catch_up()
        view = self._runner.journal.look()
        return self._lists.whole(map(view_of, timetable(view).plans.values()), view.position)

    @patient
    async def find_agents(self) -> Page[AgentView]:
        await checkpoint()
        return self._lists.whole(self.agents[name].view() for name in sorted(self.agents))

    @patient
    async def find_jobs(self, *, running: bool = True) -> Page[JobView]:
        page = await read_pieces(self.store, self._lists.jobs())
        looked = [await self._runner.jobs.look_at(job) for job in page]
        looked = [msgspec.structs.replace(job, command=hide(job.command)) for job in looked]
        hidden = {"exited", "ended", "lost", "failed"} if running else {"failed"}  # one that could not begin is no job
        shown = tuple(job for job in looked if job.state not in hidden)
        return Page(shown, page.next, page.cursor)

    @patient
    async def find_owners(self) -> Page[Owner]:
        await checkpoint()
        return self._lists.whole(self.store.owners())

    async def check(self) -> None:
        await checkpoint()
        self.reader.check_running(None)
        self.store.last_position()

    def watch_inbox(self, *, session: str | None = None, after: str | None = None) -> Watch[Approval]:
        self.audience.has_readers = True
        return Inbox(self.reader, session, after)

    def watch_approvals(self, *, session: str | None = None) -> Watch[Approval]:
        self.audience.has_readers = True
        return PendingApprovals(self.reader, session)

    def watch_session(self, session: str, *, after: str | None = None, stay: bool = False) -> Watch[JournalEntry]:
        return SessionJournal(self.reader, session, after, stay=stay)

    def watch_activity(self, session: str | None = None) -> ActivityWatch:
        return LocalActivityWatch(self._runner, session)

    def watch_text(self, session: str) -> TextWatch:
        return WrittenText(self.reader, session)
