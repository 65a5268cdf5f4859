"""What channels, commands and programs use: the Supervisor of a store, of a server, or of a cluster.

Theory: a method that commands makes the value of its command, and `_do` applies the law of it (commands.py) before the
handler of this Supervisor gets it. So signatures, documentation and checks stand here once for all Supervisors, which
implement `_admit`, the handlers (`_METHOD`) and what only reads.

The module is longer than 400 lines because most of it is the documentation of what each command promises.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar, overload

from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.approvals.people import People
from supervisor.core.budgets import Budget, checked_budget
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec, AgentWithoutInput
from supervisor.core.encoding import INEXACT, is_exact, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import new_session_id
from supervisor.core.rows import ApprovalFilter, Counts, JournalEntry, Owner, SessionFilter, TreeView
from supervisor.core.schedules import Schedule, ScheduleChange, ScheduleView
from supervisor.core.sessions.trees import Origin, PruneResult
from supervisor.core.usage import UsageKind, UsageReport
from supervisor.core.values import (
    AgentView,
    Approval,
    ApprovalStatus,
    Decision,
    DecisionResult,
    Fork,
    JobView,
    Message,
    SendResult,
    SessionStatus,
    SessionView,
    decider_of,
)
from supervisor.seam import commands as c
from supervisor.seam.runs import ActivityWatch, Page, Run, SessionImport, TextWatch, Watch

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")


class Supervisor(ABC):
    """The interface of channels, commands and programs. Every method may be called from any task, in any process that
    has the store open. A method that needs the tree's owner records the request, and its result says so.

    `get_x` raises NotFound; `find_xs` returns a Page. The result of one call is of one instant; the results of two
    calls are not. In a list of more than 100 items, each hundred is of one instant. A watch after the page's `cursor`
    returns all changes since the page was begun. A `watch_x` is opened by `async with`.

    `after`: the `next` or the `cursor` of a page, or the `cursor` of a watch; None: from the beginning. Cursors are
    opaque. Raises CursorUnknown for a cursor of another store or beyond the end, InvalidInput for a text that is no
    cursor. `limit`: the largest number of items in a page; None: all.
    """

    where: str
    """What messages call it: the path or URL of the store, or the URL of the server."""
    decided: Mapping[str, int]
    """The number of decisions made through this process since it opened the store, by `DecisionResult.kind`."""
    cards_failed: Mapping[str, int]
    """How often this process could not show a card since it opened the store, by channel."""

    @property
    def functions_left(self) -> int:
        """How many functions of tools and steps still run in this process although their calls and steps have ended
        (T3)."""
        return 0

    @property
    def other_metrics(self) -> Iterable[str]:
        """Lines of Prometheus' format with what another library has measured in this process: that of Temporal."""
        return ()

    @overload
    async def start(
        self,
        agent: AgentWithoutInput[R],
        /,
        *,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
        budget: Budget | None = None,
    ) -> Run[R]: ...
    @overload
    async def start(
        self,
        agent: AgentSpec[[T], R],
        input: T,
        /,
        *,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
        budget: Budget | None = None,
    ) -> Run[R]: ...
    @overload
    async def start(
        self,
        agent: str,
        input: Any = ...,
        /,
        *,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
        budget: Budget | None = None,
    ) -> Run[Any]: ...
    async def start(
        self,
        agent: Any,
        /,
        *args: Any,
        session: str | None = None,
        cwd: str | None = None,
        requester: str | None = None,
        by: str | None = None,
        budget: Budget | None = None,
    ) -> Run[Any]:
        """Start an agent, or continue its session: idempotent by the session's id. A finished run returns its outcome.

        `agent`: its declaration, or the name of an agent with which the supervisor was opened. For a name, input and
        result are plain JSON. `cwd`: the folder in which the calls of the session run, journaled without links; a
        relative one is below this program's working directory, which is also the default. Only a process that has the
        store open chooses it. `by`: the person who starts it; None: this program. `requester`: the person on whose
        behalf the agent works; None: the same person. `budget`: what the session with everything below it may spend
        over all its turns before a person is asked (B2); it is journaled. None: what it has, or the program's.

        Raises UnknownAgent for any other name; InvalidInput for an input that does not fit or a `cwd` that is no
        folder, before anything is journaled; SessionConflict if the session has another agent, input, folder or budget;
        TreeOwned if another process runs it; NotEntitled for a person who is no operator, if people have roles.
        """
        return await self._do(_start_of(agent, args, session, cwd, requester, budget), by)

    async def resume(self, session: str, *, by: str | None = None) -> Run[Any]:
        """Claim the tree of a session and run it. Return the root's run. `by`: the person who asks for it; None: this
        program.

        Raises NotFound; TreeOwned; NotEntitled for a person who is no operator.
        """
        return await self._do(c.Resume(session), by)

    async def resume_all(self, *, by: str | None = None) -> list[Run[Any]]:
        """Claim and run every open tree that no process owns. Return the roots' runs. `by`: as in `resume`."""
        return await self._do(c.ResumeAll(), by)

    @overload
    @abstractmethod
    async def get_run(self, session: str, *, number: int | None = None, agent: None = None) -> Run[Any]: ...
    @overload
    @abstractmethod
    async def get_run(self, session: str, *, number: int | None = None, agent: AgentSpec[..., R]) -> Run[R]: ...
    @abstractmethod
    async def get_run(
        self, session: str, *, number: int | None = None, agent: AgentSpec[..., Any] | None = None
    ) -> Run[Any]:
        """Return the latest run of a session, or run `number`, counted from 1. `agent` gives the type of its result;
        without it the result is plain JSON. Raises NotFound."""

    async def decide(self, approval: str, decision: Decision, *, channel: str | None = None) -> DecisionResult:
        """Decide an approval or answer a question, once. The first decision wins (A3). If its scope is wider than once,
        its rule is written together with it. `channel`: where it was made, for the audit trail.
        If no process runs the session and this program has declared its agent, this process runs it from now on (R2).
        Otherwise `DecisionResult.running` is false, and the decision counts when a process runs the session.

        Raises InvalidInput, and decides nothing, for edited arguments or an answer that do not fit, a scope or pattern
        that was not offered, an answer to a call, an approval of a question (Deny leaves it unanswered), or an empty
        identity. Raises NotEntitled for a person who may not decide this; that is in the audit trail.
        """
        return await self._do(c.Decide(approval, decision, channel=channel), decider_of(decision))

    async def acknowledge(
        self, approvals: Collection[str], *, by: str | None = None, channel: str | None = None
    ) -> tuple[str, ...]:
        """Say that `by` is on these approvals: for half an hour no step of the escalation comes of them, and their
        cards say who is on it. It is no decision, gives no right, and says nothing of what is asked later (A10). None:
        the user of the program. Return the ids of those that wait and that the person may decide.

        Raises NotFound for an approval that does not exist; NotEntitled if the person may decide none of them.
        """
        return await self._do(c.Acknowledge(tuple(approvals), channel=channel), by)

    async def snooze(
        self, approvals: Collection[str], until: datetime, *, by: str | None = None, channel: str | None = None
    ) -> tuple[str, ...]:
        """Tell `by` nothing of these approvals until an instant; others hear of them, and their cards stay. Otherwise
        as `acknowledge`."""
        return await self._do(c.Snooze(tuple(approvals), until, channel=channel), by)

    async def decide_all(
        self,
        decisions: Iterable[tuple[str, Decision]],
        *,
        channel: str | None = None,
        shown: Mapping[str, str] | None = None,
        batch: str | None = None,
    ) -> list[DecisionResult]:
        """Decide several calls by their ids, as one person; return the result of each, in order (A16).

        Each is a decision as `decide` makes it, and counts by itself: one that is refused, or that was decided before,
        does not stop the others. `DecisionResult.batch` is one id for all of them, which the audit trail has, too.
        Those of one tree are one append. After a crash between two trees the same batch again decides the rest, and
        answers `already` for what was decided.

        `shown`: by approval, the digest (`Approval.digest`) that the person was shown; one that has another digest
        stays pending, with the result `conflict`. Questions, and calls that this person may not decide, stay pending
        with the result `refused`: `DecisionResult.why` says why. `batch`: the id for the audit trail; None: a new one.

        Raises InvalidInput, and decides nothing, for decisions of several people.
        """
        given = tuple(decisions)
        names = {decider_of(decision) for _, decision in given}
        if len(names) > 1:
            raise InvalidInput("a batch has the decisions of one person: give those of each person by themselves")
        if not given:
            return []
        command = c.DecideAll(given, batch or new_session_id(), shown or {}, channel=channel)
        return await self._do(command, *names)

    async def reveal(self, approval: str, *, by: str | None = None, channel: str | None = None) -> Any:
        """Return the arguments of a call as JSON values, with the credentials that `get_approval` masks; arguments that
        the tool declares secret stay masked. That `by` has looked is on disk before (A15). None: the program.

        Raises NotFound; NotEntitled for a person who is no operator; InvalidInput for a question.
        """
        return await self._do(c.Reveal(approval, channel=channel), by)

    async def note_refusal(self, approval: str, *, by: str, reason: str, channel: str | None = None) -> None:
        """Note in the audit trail that a channel has refused a person's decision; nothing else changes (A15).

        The refusal is noted once for each person and approval, even if the person tries again. Raises InvalidInput over
        HTTP: a server notes itself what it refuses.
        """
        await self._do(c.NoteRefused(approval, reason, channel=channel), by)

    async def note_shown(self, session: str, mark: str, *, channel: str) -> None:
        """Note that a channel has shown people a piece of what a session said, for a platform that does not let the
        channel read what stands there. `mark` identifies the piece (`Piece.mark`). Raises NotFound;
        InvalidInput over HTTP."""
        await self._do(c.NoteShown(session, mark, channel), None)

    async def add_rule(self, rule: Rule, *, by: str | None = None, pending: bool = False) -> Rule:
        """Add a rule for calls that begin from now on, in every process. Return it with its id.

        If a rule with the same meaning holds already, that one is returned. `rule.session`: a session, for its whole
        tree. `pending`: it also decides the calls that wait and that it covers, in this person's name, as a decision
        for longer does (A13). Raises InvalidInput; NotFound for an unknown session; NotEntitled for a person who is no
        operator, if people have roles.
        """
        return await self._do(c.AddRule(rule, pending), by)

    async def revoke_rule(self, rule: str, *, by: str | None = None) -> Rule:
        """Revoke a rule of the store by its id, and return it. It does not apply to calls that begin from now on.

        Raises NotFound; NotEntitled as `add_rule`.
        """
        return await self._do(c.RevokeRule(rule), by)

    async def add_schedule(self, schedule: Schedule, *, by: str | None = None) -> ScheduleView:
        """Begin an agent by the clock from now on, once for each instant (R11). `by`: the person on whose behalf its
        sessions work; None: this program. The processes begin it that were opened with an agent of that name. The same
        schedule again changes nothing.

        Raises InvalidInput for a name, a cron expression or a time zone that cannot be, for an input that does not fit,
        and if another schedule has this name; UnknownAgent; NotEntitled for a person who is no operator.
        """
        return await self._do(c.AddSchedule(schedule), by)

    async def change_schedule(self, name: str, to: ScheduleChange, *, by: str | None = None) -> ScheduleView:
        """Pause a schedule, let it go on ("running"), or remove it. Return it as it is then, or was before it was
        removed. What it has begun goes on. Instants during a pause are left out.

        Raises NotFound; InvalidInput for the removal of one that a configuration has; NotEntitled as `add_schedule`.
        """
        return await self._do(c.ChangeSchedule(name, to), by)

    async def run_schedule(self, name: str, *, session: str | None = None, by: str | None = None) -> Run[Any]:
        """Start a session of a schedule now, between its instants, even while it is paused. `session`: as in `start`.

        Raises NotFound, and as `start` does.
        """
        return await self._do(c.RunSchedule(name, session), by)

    async def retry(self, session: str, *, by: str | None = None) -> Run[Any]:
        """Begin a new run of an idle root session whose latest run failed, stalled or was abandoned. It has that run's
        operations and version (R10). Operations that led to the end are done again, and so are operations that the end
        cancelled before they had an effect: approvals are asked anew, and cancelled sub-agents go on. All other results
        stay. This is one append, in the audit trail.

        Raises NotFound; InvalidInput for every other session, saying what to do instead; NotEntitled for a person who
        is no operator.
        """
        return await self._do(c.Retry(session), by)

    async def fork(
        self, session: str, *, before: int, new: str | None = None, version: str | None = None, by: str | None = None
    ) -> Fork:
        """Copy a session's whole tree as it was before the append of an entry, and run the copy as a new tree (R10).

        Finished operations keep their results; open ones, decided or not, are asked anew. State, marks, unread
        messages, instants of timers, requester, folder and rules from code are copied; session rules, jobs, cards and
        approvals are not. The source does not change, except for an entry that names the fork. This is one append, in
        the audit trail. The same fork again, by its id `new`, returns the existing one.

        `before`: the number of the entry in the journal of `session`, from 1. `new`: the id of the new root. `version`:
        the version of the root's code; None for the current one. Sub-agents go on with their current versions.

        Raises NotFound; InvalidInput if the entry does not exist or has no entry before it; SessionConflict if another
        session has the id `new`; UnknownAgent if the agent has no such version; NotEntitled for a person who is no
        operator.
        """
        return await self._do(c.Fork(session, before, new, version), by)

    async def cancel(
        self, session: str, *, reason: str | None = None, by: str | None = None, run: int | None = None
    ) -> None:
        """Cancel a session and all sessions below it (W8). Return when that is on disk.

        `reason`: why, for people; it is journaled, and part of the outcome's `cause`. `by`: the person who asks for it;
        None: this program. `run`: do nothing unless the run with this number is the open one. None: whichever is open.
        Raises NotFound; NotEntitled as `resume`.
        """
        await self._do(c.Cancel(session, reason, run), by)

    async def raise_budget(self, session: str, budget: Budget, *, by: str | None = None) -> None:
        """Raise the budgets of a session to these limits at least: those of its tree, and of its run (B3). What waits
        for them goes on; an open question about them ends. A lower limit changes nothing. Return when it is on disk.

        Raises NotFound; InvalidInput for a budget without a limit, and for a session that was cancelled and has not
        ended yet; NotEntitled for a person who is no operator.
        """
        await self._do(c.RaiseBudget(session, budget), by)

    async def send(self, session: str, text: str, *, by: str | None = None, message: str | None = None) -> SendResult:
        """Send a message to a session in any state. The result says whether it is delivered, kept, or begins a turn. As
        with `decide`, a program that has declared the agent runs the session if no other process does (R2).

        `message`: an id of the sender; the same message again under it arrives once. None: it gets a new one.
        Raises NotFound; InvalidInput if no run could ever receive it; NotEntitled for a person who is no operator, if
        people have roles; SessionConflict if another message has this id.
        """
        return await self._do(c.Send(session, text, message), by)

    async def chat(
        self,
        session: str,
        text: str,
        *,
        by: str | None = None,
        shown_before: datetime | None = None,
        channel: str | None = None,
        shown: Collection[str] | None = None,
        message: str | None = None,
    ) -> ChatResult:
        """Act on a text that a person writes to a session: a chat word decides, and any other text is sent (A12).

        A bare "yes" or "no" decides the only approval that waits for this person in the session or below it. "approve
        all" approves the calls that wait for them there. Both count only approvals that the person had been shown
        before: by a card that was posted before `shown_before` (None: now), on `channel` if that is given. `shown`: the
        ids of the approvals that the caller itself showed. With a `channel`, only cards of these approvals count;
        without one, these approvals count as shown, over HTTP those of them that the server has given to this person.
        With a `channel`, a text also answers a question that is the only approval that waits for this person, and that
        they had been shown whole, if it fits the question. `message`: an id of the sender; the same text again under it
        decides nothing but what it decided before. Raises as `decide` and `send` do.
        """
        return await self._do(c.Chat(session, text, shown_before, shown, message, channel=channel), by)

    @abstractmethod
    async def get_session(self, session: str) -> SessionView:
        """Return a session as it is now. Raises NotFound."""

    @abstractmethod
    async def get_tree(self, session: str, *, entries: int | None = 5000) -> TreeView:
        """Return the tree of a session, and the journals of the session and of those below it, up to its cursor.

        A tree of more than 100 sessions or entries is read in pieces: its sessions may then be shown as they are a
        moment after the cursor; a watch that continues from it returns these changes again.
        The session's own journal is complete. Complete journals of sessions below it follow, until the result has
        `entries` entries; None: all of them. Raises NotFound.
        """

    @abstractmethod
    async def get_approval(self, approval: str) -> Approval:
        """Return an approval in any state. Raises NotFound."""

    @abstractmethod
    async def get_transcript(self, session: str) -> tuple[Message, ...]:
        """Return the messages of a session, with each approval where it was asked. Raises NotFound."""

    @abstractmethod
    async def get_counts(self) -> Counts:
        """Return the numbers of sessions and approvals, from the index alone. Cheap."""

    @abstractmethod
    async def get_usage(self, session: str | None = None, *, by: UsageKind = "agent") -> UsageReport:
        """Return what a session and everything below it has spent on models, in all its runs; None: the whole store.

        `by`: in parts by the agents' names, by model, by the person on whose behalf, or by day (UTC). It is read from
        the journals, so what was pruned is not in it; `UsageReport.since` says since when it counts. Raises NotFound.
        """

    async def find_sessions(
        self,
        *,
        is_open: bool | None = None,
        status: SessionStatus | None = None,
        agent: str | None = None,
        root: str | None = None,
        newest_first: bool = False,
        after: str | None = None,
        limit: int | None = 100,
    ) -> Page[SessionView]:
        """Return sessions, parents before children; with `newest_first` in reverse order.

        `is_open`, `status`, `agent`, `root`: only matching sessions. `root`: the id of a tree's root.
        """
        only = SessionFilter(is_open, status, agent, root, newest_first)
        return await self._find_sessions(only, after, limit)

    async def find_approvals(
        self,
        *,
        pending: bool | None = None,
        session: str | None = None,
        text: str | None = None,
        by: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        decided: bool | ApprovalStatus | None = None,
        before: datetime | None = None,
        newest_first: bool = False,
        after: str | None = None,
        limit: int | None = 100,
    ) -> Page[Approval]:
        """Return approvals, oldest first: those that wait for a person, or those that a search finds (A15).

        `pending`: only pending ones. None: so it is, unless one of the following is given. `session`: of this session
        and all below it. `text`: with each of its words in what was asked, or with words that begin so; masked values
        are not found. `by`: this person decided. `tool`, `agent`: of these names. `decided`: whether it has ended, or
        how ("approved", "denied", "answered", "expired", "withdrawn"). `before`: asked before this instant.

        Raises NotFound for an unknown session.
        """
        search = {"text": text, "by": by, "tool": tool, "agent": agent, "before": before}
        only = ApprovalFilter.asked_for(pending=pending, decided=decided, newest_first=newest_first, **search)
        return await self._find_approvals(only, session, after, limit)

    @abstractmethod
    async def find_entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = 1000
    ) -> Page[JournalEntry]:
        """Return the entries of a session's journal, in order; with `tree` also those of all sessions below it. Raises
        NotFound."""

    @abstractmethod
    async def find_audit(self, *, after: str | None = None, limit: int | None = 1000) -> Page[JournalEntry]:
        """Return the audit trail in order: approvals asked, shown, decided and withdrawn, calls, and rules (A15)."""

    @abstractmethod
    async def find_rules(self) -> Page[Rule]:
        """Return all rules that hold: this program's, then the store's, oldest first. Raises StoreUnreadable."""

    @abstractmethod
    async def find_schedules(self) -> Page[ScheduleView]:
        """Return all schedules of the store, oldest first. Raises StoreUnreadable."""

    @abstractmethod
    async def find_agents(self) -> Page[AgentView]:
        """Return all agents that `start` finds by name, sorted by name."""

    @abstractmethod
    async def find_jobs(self, *, running: bool = True) -> Page[JobView]:
        """Return all background jobs, oldest first. `running`: only those that run (T6)."""

    @abstractmethod
    async def find_owners(self) -> Page[Owner]:
        """Return all living processes that have owned trees of this store."""

    @abstractmethod
    def watch_inbox(self, *, session: str | None = None, after: str | None = None) -> Watch[Approval]:
        """Watch all pending approvals, and then every approval that is asked, decided or withdrawn.

        `session`: only those of this session and below it. `after`: a cursor; then the watch begins with the changes
        since, without the pending approvals. Opening it raises NotFound, CursorUnknown; over
        HTTP its first item raises CursorUnknown.
        """

    @abstractmethod
    def watch_approvals(self, *, session: str | None = None) -> Watch[Approval]:
        """Watch pending approvals, each once, beginning with those that are pending now. `session`: of this session and
        all below it.

        Opening it raises NotFound.
        """

    @abstractmethod
    def watch_session(self, session: str, *, after: str | None = None, stay: bool = False) -> Watch[JournalEntry]:
        """Watch a session's journal after a cursor, without gaps. The watch ends with the run, unless `stay` is true.

        Opening it raises NotFound, CursorUnknown; over HTTP its first item raises CursorUnknown.
        """

    @abstractmethod
    def watch_activity(self, session: str | None = None) -> ActivityWatch:
        """Watch the activity of a session's tree, or of every open tree. Opening it raises NotFound."""

    @abstractmethod
    def watch_text(self, session: str) -> TextWatch:
        """Watch the text that a session's agent is writing (`Context.stream`): the text as it is, whenever it has
        changed, first as it is now. Only the process that runs the session knows it, and its API; elsewhere the text
        stays empty, and so it does on Temporal. Opening it raises NotFound."""

    @abstractmethod
    async def check(self) -> None:
        """Raise StoreError if the store cannot be read, or has died for this process. Over HTTP, raise ServerError if
        the server cannot be reached or does not answer as a supervisor of this API, and NotAuthenticated."""

    # -- what each Supervisor implements -------------------------------------------------------------------------------

    async def _do(self, command: c.Command[A], by: str | None) -> A:
        """Carry out a command, if its law admits it."""
        law = c.LAWS[type(command)]
        who = await self._admit(command, law, by)
        answer: A = await getattr(self, f"_{law.method}")(command, who)
        return answer

    @asynccontextmanager
    async def _entered(self, command: c.Command[AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
        """Carry out a command, and enter its answer."""
        async with await self._do(command, None) as entered:
            yield entered

    @abstractmethod
    async def _admit(self, command: c.Command[Any], law: c.Law, by: str | None) -> str:
        """Return the name of the person who gives a command, or for whom this program does. Raises NotEntitled where
        the law does not admit it."""

    @abstractmethod
    async def _find_sessions(self, only: SessionFilter, after: str | None, limit: int | None) -> Page[SessionView]: ...
    @abstractmethod
    async def _find_approvals(
        self, only: ApprovalFilter, session: str | None, after: str | None, limit: int | None
    ) -> Page[Approval]: ...
    @abstractmethod
    async def _start(self, command: c.Start, who: str) -> Run[Any]: ...
    @abstractmethod
    async def _resume(self, command: c.Resume, who: str) -> Run[Any]: ...
    @abstractmethod
    async def _resume_all(self, command: c.ResumeAll, who: str) -> list[Run[Any]]: ...
    @abstractmethod
    async def _decide(self, command: c.Decide, who: str) -> DecisionResult: ...
    @abstractmethod
    async def _decide_all(self, command: c.DecideAll, who: str) -> list[DecisionResult]: ...
    @abstractmethod
    async def _chat(self, command: c.Chat, who: str) -> ChatResult: ...
    @abstractmethod
    async def _acknowledge(self, command: c.Acknowledge, who: str) -> tuple[str, ...]: ...
    @abstractmethod
    async def _snooze(self, command: c.Snooze, who: str) -> tuple[str, ...]: ...
    @abstractmethod
    async def _reveal(self, command: c.Reveal, who: str) -> Any: ...
    @abstractmethod
    async def _cancel(self, command: c.Cancel, who: str) -> None: ...
    @abstractmethod
    async def _raise_budget(self, command: c.RaiseBudget, who: str) -> None: ...
    @abstractmethod
    async def _send(self, command: c.Send, who: str) -> SendResult: ...
    @abstractmethod
    async def _retry(self, command: c.Retry, who: str) -> Run[Any]: ...
    @abstractmethod
    async def _fork(self, command: c.Fork, who: str) -> Fork: ...
    @abstractmethod
    async def _add_rule(self, command: c.AddRule, who: str) -> Rule: ...
    @abstractmethod
    async def _revoke_rule(self, command: c.RevokeRule, who: str) -> Rule: ...
    @abstractmethod
    async def _add_schedule(self, command: c.AddSchedule, who: str) -> ScheduleView: ...
    @abstractmethod
    async def _change_schedule(self, command: c.ChangeSchedule, who: str) -> ScheduleView: ...
    @abstractmethod
    async def _run_schedule(self, command: c.RunSchedule, who: str) -> Run[Any]: ...
    @abstractmethod
    async def _note_refusal(self, command: c.NoteRefused, who: str) -> None: ...
    @abstractmethod
    async def _note_shown(self, command: c.NoteShown, who: str) -> None: ...


def _start_of(
    agent: Any,
    args: tuple[Any, ...],
    session: str | None,
    cwd: str | None,
    requester: str | None,
    budget: Budget | None,
) -> c.Start:
    """Return the command that starts an agent, or the agent of a name. `args`: its input, or nothing."""
    spec, raw, inexact = None, None, None
    if isinstance(agent, AgentSpec):
        agent, spec = agent.name, agent
        if args:
            raw = spec.encode_input(args, {})
            inexact = spec.why_inexact(args, {}, raw)
    elif not isinstance(agent, str):
        raise InvalidInput(f"start takes an agent, or the name of one, not {agent!r}: declare it with @agent")
    elif args:
        raw = to_json(args[0], "the input")
        inexact = None if is_exact(args[0], raw) else f"the input {INEXACT}"
    bounded = checked_budget(budget, "start")
    return c.Start(agent, raw, inexact, spec, session=session, cwd=cwd, requester=requester, budget=bounded)


class StoreSupervisor(Supervisor):
    """A Supervisor in a process that has the store open. It can do more than a Supervisor over HTTP."""

    people: People | None
    """The people and their roles; None: every process that can open the store may decide everything (A4)."""

    @property
    @abstractmethod
    def refusals(self) -> Mapping[str, str]:
        """By session id: why a session that this process was asked to run does not run."""

    def import_session(
        self, session: str, origin: Origin, *, agent: AgentSpec[Any, Any] | None = None
    ) -> AbstractAsyncContextManager[SessionImport]:
        """Import a session of another program in batches. A second import continues where the first one ended.

        `origin`: which session of which program it was; journaled, and compared by a second import. `agent`: the agent
        that continues the session when a message comes. Entering raises InvalidInput for an agent that takes no text,
        SessionConflict if another session has this id, TreeOwned if another process imports it, NotEntitled in a
        process that a supervised call started.
        """
        return self._entered(c.Import(session, origin, agent))

    async def prune(
        self, before: datetime, *, only: Collection[str] | None = None, dry_run: bool = False
    ) -> PruneResult:
        """Remove the trees that have ended and have no entry since `before`, and the logs of their background jobs.

        `before`: an aware instant. `only`: the ids of the roots that may be removed; None: all. `dry_run`: find them,
        and remove nothing. This also removes logs that an interrupted prune has left, and gives free space back to the
        disk. Raises NotEntitled in a process that a supervised call started.
        """
        command = c.Prune(before, only, dry_run)
        return await (self._prune(command, "") if dry_run else self._do(command, None))  # a dry run only looks

    @abstractmethod
    def listen(self, listener: Callable[[Sequence[JournalEntry]], object]) -> None:
        """Call `listener` with the entries of each commit from now on, in order, those of other processes too.

        It is called in the loop and must neither raise nor take long: what it has to wait for belongs into a task.
        """

    @abstractmethod
    async def wait_until_broken(self) -> None:
        """Wait until this process can no longer trust the store, then raise StoreDied."""

    @abstractmethod
    async def _import_session(self, command: c.Import, who: str) -> AbstractAsyncContextManager[SessionImport]: ...
    @abstractmethod
    async def _prune(self, command: c.Prune, who: str) -> PruneResult: ...
