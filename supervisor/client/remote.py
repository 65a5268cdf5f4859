"""The Supervisor of a daemon, over its HTTP API: each method is one request, and means what it means next to a store.

Rules
- A person is known by their token, and acts for no other one: a decision by another name, and a `by` or `requester`
  that is another's, is refused before anything is sent. None means the person of the token.
- After a broken connection the client repeats what may safely be done twice: reads, and the commands of which their
  law says so (seam/commands.py); starts and forks have an id that is made here, and messages may have one of the
  caller. Of all others ServerUnavailable says that they may have been done.
- Instants are sent in the server's time.

The module is longer than 400 lines because it is one seam: a short method for each command and each read.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from supervisor.client.answers import AnswerTooLarge, error_of
from supervisor.client.connection import Connection
from supervisor.client.documents import entry_of, value_of
from supervisor.client.runs import Pending, RemoteActivityWatch, RemoteRun, RemoteTextWatch, RemoteWatch
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput, NotEntitled, ServerMismatch
from supervisor.core.ids import check_session_id, new_session_id
from supervisor.core.rows import ApprovalFilter, Counts, JournalEntry, Owner, SessionFilter, TreeView, ids_from
from supervisor.core.schedules import ScheduleView, checked_schedule
from supervisor.core.usage import UsageKind, UsageReport
from supervisor.core.values import (
    AgentView,
    Answer,
    Approval,
    Approve,
    Decision,
    DecisionResult,
    Deny,
    Fork,
    JobView,
    Message,
    SendResult,
    SessionView,
)
from supervisor.seam import commands as c
from supervisor.seam.runs import ActivityWatch, Page, Run, TextWatch, Watch
from supervisor.seam.supervisor import Supervisor

T = TypeVar("T")


_STATUS: Final[Mapping[Any, str]] = {None: "all", True: "ended", False: "pending"}
"""How the API says which approvals are listed."""


class RemoteSupervisor(Supervisor):
    most_items: int = 1000
    """Items of one answer."""
    most_in_all: int = 1_000_000
    """Items of a list without a limit."""
    most_empty_pages: int = 300
    """Pages without an item, in a row. A server reads a thousand rows for each."""
    most_entries: int = 5000
    """Entries of a tree after which an answer begins no further journal; those are asked for one by one."""

    def __init__(self, connection: Connection) -> None:
        self.where = connection.where
        self.decided: Counter[str] = Counter()
        self.cards_failed: Counter[str] = Counter()
        self._connection = connection

    def __repr__(self) -> str:
        return f"<supervisor at {self.where}>"

    @property
    def person(self) -> str:
        """The name of the person whose token this is."""
        return self._connection.greeting.person

    async def _admit(self, command: c.Command[Any], law: c.Law, by: str | None) -> str:
        if law.role != "program":
            self._check_me(by)
        return self.person

    def _check_me(self, by: str | None) -> None:
        """Raise NotEntitled if another person is meant than that of the token."""
        if by not in (None, self.person):
            raise NotEntitled(f"{self.where} knows you as {self.person} by your token: you cannot act as {by}")

    async def _ask(self, command: c.Command[Any], path: str, body: Any = None, *, method: str = "POST") -> Any:
        """Send a command, and return the document of its answer. Raises what the server's problem stands for."""
        return await self._connection.ask(method, path, body=body, repeats=c.repeats(command))

    # -- commands ----------------------------------------------------------------------------------------------------

    async def _start(self, command: c.Start, who: str) -> Run[Any]:
        self._check_me(command.requester)
        if command.cwd is not None:
            raise InvalidInput(f"{self.where} chooses the folders of the sessions that it runs; pass no cwd")
        command.check_exact()
        session, spec, given = command.session, command.spec, command.input
        if given is None and spec is not None and spec.takes_input:
            given = spec.default_input()
        budget = msgspec.to_builtins(command.budget)
        body = _filled(session=_id(session), agent=command.agent, input=given, budget=budget)
        answer = await self._connection.answer("POST", "/api/sessions", body=body, repeats=c.repeats(command))
        if not answer.is_good:
            raise error_of(answer, self.where)
        started = value_of(_Started, answer.document)
        is_new = answer.status == 201 or session is None  # only this client knows an id that was made here
        return RemoteRun(self, started.id, started.run, Any if spec is None else spec.return_type, is_new=is_new)

    async def _resume(self, command: c.Resume, who: str) -> Run[Any]:
        return self._run(await self._ask(command, _path("sessions", command.session, "resume")))

    async def _resume_all(self, command: c.ResumeAll, who: str) -> list[Run[Any]]:
        return [self._run(each) for each in (await self._ask(command, "/api/resume"))["items"]]

    async def get_run(
        self, session: str, *, number: int | None = None, agent: AgentSpec[..., Any] | None = None
    ) -> Run[Any]:
        found = await self.find_run(session, "latest" if number is None else str(number), 0)
        return RemoteRun(self, session, found["run"], Any if agent is None else agent.return_type)

    async def find_run(self, session: str, number: str, wait: int) -> dict[str, Any]:
        """Return the number of a run, and its outcome if it ends within so many seconds."""
        path, query = _path("sessions", session, "runs", number), {"wait": wait or None}
        found = await self._connection.ask("GET", path, query=query)
        value_of(_RunState, found)
        return dict(found)

    def _run(self, document: Any) -> Run[Any]:
        started = value_of(_Started, document)
        return RemoteRun(self, started.id, started.run)

    async def _decide(self, command: c.Decide, who: str) -> DecisionResult:
        body = _said(command.decision) | _filled(channel=command.channel)
        path = _path("approvals", command.approval, "decision")
        answer = await self._connection.answer("POST", path, body=body, repeats=c.repeats(command))
        result = answer.document
        if not answer.is_good:
            result = answer.document.get("result") if isinstance(answer.document, dict) else None
            if result is None:
                raise error_of(answer, self.where)
        found = value_of(DecisionResult, result)
        self.decided[found.kind] += 1
        return found

    async def _acknowledge(self, command: c.Acknowledge, who: str) -> tuple[str, ...]:
        return await self._hush(command, "acknowledgements")

    async def _snooze(self, command: c.Snooze, who: str) -> tuple[str, ...]:
        return await self._hush(command, "snoozes", until=command.until)

    async def _hush(self, command: c.Acknowledge | c.Snooze, path: str, **more: Any) -> tuple[str, ...]:
        body = {"approvals": list(command.approvals), **more, **_filled(channel=command.channel)}
        return value_of(_Hushed, await self._ask(command, _path(path), body)).approvals

    async def _decide_all(self, command: c.DecideAll, who: str) -> list[DecisionResult]:
        decisions = [
            _filled(approval=approval, digest=command.shown.get(approval), **_said(decision))
            for approval, decision in command.decisions
        ]
        body = _filled(batch=command.batch, decisions=decisions, channel=command.channel)
        answer = value_of(_Decided, await self._ask(command, "/api/decisions", body))
        self.decided.update(each.kind for each in answer.results)
        return answer.results

    async def _reveal(self, command: c.Reveal, who: str) -> Any:
        path = _path("approvals", command.approval, "reveal")
        return (await self._ask(command, path, _filled(channel=command.channel)))["arguments"]

    async def _note_refusal(self, command: c.NoteRefused, who: str) -> None:
        raise InvalidInput(f"{self.where} notes itself what it refuses: a client cannot")

    async def _note_shown(self, command: c.NoteShown, who: str) -> None:
        raise InvalidInput(f"{self.where} notes itself what it shows: a client cannot")

    async def _send(self, command: c.Send, who: str) -> SendResult:
        found = await self._say(command, {"text": command.text, "decides": False})
        if found.sent is None:
            raise ServerMismatch(f"{self.where} does not say what became of the message")
        return found.sent

    async def _chat(self, command: c.Chat, who: str) -> ChatResult:
        seen, before = self._connection, command.shown_before
        body = {
            "text": command.text,
            "shown_before": seen.now() if before is None else seen.to_server_time(before),
            "channel": command.channel,
            "shown": None if command.shown is None else [*command.shown],
        }
        return await self._say(command, body)

    async def _say(self, command: c.Send | c.Chat, body: Mapping[str, Any]) -> ChatResult:
        given = body if command.message is None else {**body, "message": command.message}
        return value_of(ChatResult, await self._ask(command, _path("sessions", command.session, "messages"), given))

    async def _cancel(self, command: c.Cancel, who: str) -> None:
        body = {"reason": command.reason, "run": command.run}
        await self._ask(command, _path("sessions", command.session, "cancel"), body)

    async def _raise_budget(self, command: c.RaiseBudget, who: str) -> None:
        await self._ask(command, _path("sessions", command.session, "budget"), msgspec.to_builtins(command.budget))

    async def _add_rule(self, command: c.AddRule, who: str) -> Rule:
        rule = command.rule
        body = {name: getattr(rule, name) for name in ("kind", "tool", "pattern", "session", "unreviewed")}
        body |= _filled(uses=rule.uses, until=rule.until, pending=command.pending or None)
        return value_of(Rule, await self._ask(command, "/api/rules", body))

    async def _revoke_rule(self, command: c.RevokeRule, who: str) -> Rule:
        return value_of(Rule, await self._ask(command, _path("rules", command.rule), method="DELETE"))

    async def _add_schedule(self, command: c.AddSchedule, who: str) -> ScheduleView:
        body = msgspec.to_builtins(checked_schedule(command.schedule))
        return value_of(ScheduleView, await self._ask(command, "/api/schedules", body))

    async def _change_schedule(self, command: c.ChangeSchedule, who: str) -> ScheduleView:
        path = _path("schedules", command.schedule)
        return value_of(ScheduleView, await self._ask(command, path, {"to": command.to}))

    async def _run_schedule(self, command: c.RunSchedule, who: str) -> Run[Any]:
        body = {"session": _id(command.session)}
        return self._run(await self._ask(command, _path("schedules", command.schedule, "run"), body))

    async def _retry(self, command: c.Retry, who: str) -> Run[Any]:
        return self._run(await self._ask(command, _path("sessions", command.session, "retry")))

    async def _fork(self, command: c.Fork, who: str) -> Fork:
        body = {"before": command.before, "session": _id(command.new), "version": command.version}
        return value_of(Fork, await self._ask(command, _path("sessions", command.session, "fork"), body))

    # -- reading -----------------------------------------------------------------------------------------------------

    async def get_session(self, session: str) -> SessionView:
        return value_of(SessionView, await self._connection.ask("GET", _path("sessions", session)))

    async def get_tree(self, session: str, *, entries: int | None = 5000) -> TreeView:
        most = self.most_entries if entries is None else min(entries, self.most_entries)
        path = _path("sessions", session, "tree")
        found = value_of(_Tree, await self._connection.ask("GET", path, query={"entries": most}))
        rows, end = [entry_of(each) for each in found.entries], int(found.cursor.partition(".")[2])
        known = {row.session for row in rows}
        missing = [each for each in ids_from(session, found.sessions) if each not in known]
        while missing and (entries is None or len(rows) < entries):
            rows += [row for row in await self.find_entries(missing.pop(0), limit=None) if row.position <= end]
        rows.sort(key=lambda row: row.position)
        return TreeView(sessions=found.sessions, entries=tuple(rows), cursor=found.cursor, left_out=len(missing))

    async def get_approval(self, approval: str) -> Approval:
        return value_of(Approval, await self._connection.ask("GET", _path("approvals", approval)))

    async def get_transcript(self, session: str) -> tuple[Message, ...]:
        found = await self._page(_path("sessions", session, "transcript"), {}, _reader(Message))
        return found.items

    async def get_counts(self) -> Counts:
        return value_of(Counts, await self._connection.ask("GET", "/api/counts"))

    async def get_usage(self, session: str | None = None, *, by: UsageKind = "agent") -> UsageReport:
        query = {"session": session, "by": by}
        return value_of(UsageReport, await self._connection.ask("GET", "/api/usage", query=query))

    async def _find_sessions(self, only: SessionFilter, after: str | None, limit: int | None) -> Page[SessionView]:
        query = {"open": only.is_open, "status": only.status, "agent": only.agent, "root": only.root}
        query["newest"] = only.newest_first or None
        return await self._pages("/api/sessions", query, _reader(SessionView), after, limit)

    async def _find_approvals(
        self, only: ApprovalFilter, session: str | None, after: str | None, limit: int | None
    ) -> Page[Approval]:
        query = {name: getattr(only, name) for name in ("text", "by", "tool", "agent")}
        query |= {"before": only.before and only.before.isoformat(), "newest": only.newest_first or None}
        query |= {"session": session, "status": _STATUS.get(only.decided, only.decided)}
        return await self._pages("/api/approvals", query, _reader(Approval), after, limit)

    async def find_entries(
        self, session: str, *, tree: bool = False, after: str | None = None, limit: int | None = 1000
    ) -> Page[JournalEntry]:
        path = _path("sessions", session, "journal")
        return await self._pages(path, {"tree": tree or None}, entry_of, after, limit)

    async def find_audit(self, *, after: str | None = None, limit: int | None = 1000) -> Page[JournalEntry]:
        return await self._pages("/api/audit", {}, entry_of, after, limit)

    async def find_rules(self) -> Page[Rule]:
        return await self._page("/api/rules", {}, _reader(Rule))

    async def find_schedules(self) -> Page[ScheduleView]:
        return await self._page("/api/schedules", {}, _reader(ScheduleView))

    async def find_agents(self) -> Page[AgentView]:
        return await self._page("/api/agents", {}, _reader(AgentView))

    async def find_jobs(self, *, running: bool = True) -> Page[JobView]:
        return await self._page("/api/jobs", {"running": running}, _reader(JobView))

    async def find_owners(self) -> Page[Owner]:
        return await self._page("/api/owners", {}, _reader(Owner))

    async def _pages(
        self, path: str, query: Mapping[str, Any], read: Callable[[Any], T], after: str | None, limit: int | None
    ) -> Page[T]:
        """Return so many items, by as many requests as that takes. Raises ServerMismatch if the server's list does not
        end: after `most_empty_pages` pages without an item, or `most_in_all` items."""
        if limit is not None and limit < 1:
            raise InvalidInput(f"a page has at least one item, not {limit}; None: all")
        items: list[T] = []
        cursor: str | None = None
        largest, empty = self.most_items, 0
        while True:
            size = largest if limit is None else min(largest, limit - len(items))
            try:
                page = await self._page(path, {**query, "after": after, "limit": size}, read)
            except AnswerTooLarge:
                if (largest := size // 2) == 0:
                    raise
                continue
            items += page
            empty = 0 if page else empty + 1
            if empty >= self.most_empty_pages or (limit is None and len(items) >= self.most_in_all):
                raise ServerMismatch(f"the list of {self.where} does not end: ask for a part of it, with `limit`")
            cursor = cursor or page.cursor
            after = page.next
            if after is None or len(items) == limit:
                return Page(tuple(items), after, cursor)

    async def _page(self, path: str, query: Mapping[str, Any], read: Callable[[Any], T]) -> Page[T]:
        found = value_of(_Page, await self._connection.ask("GET", path, query=query))
        return Page(tuple(read(each) for each in found.items), found.next, found.cursor)

    async def check(self) -> None:
        await self._connection.greet()

    # -- watching ----------------------------------------------------------------------------------------------------

    def watch_inbox(self, *, session: str | None = None, after: str | None = None) -> Watch[Approval]:
        query, read = {"session": session}, _reader(Approval)
        return RemoteWatch(self._connection, "/api/events", query, after, read, begins_again=after is None)

    def watch_approvals(self, *, session: str | None = None) -> Watch[Approval]:
        return self.watch_pending({"session": session})

    def watch_pending(self, query: Mapping[str, Any]) -> Watch[Approval]:
        """Watch what is pending, each once; `query`: of which run."""
        return RemoteWatch(
            self._connection, "/api/events", query, None, _reader(Approval), Pending(), begins_again=True
        )

    def watch_session(self, session: str, *, after: str | None = None, stay: bool = False) -> Watch[JournalEntry]:
        path = _path("sessions", session, "events")
        return RemoteWatch(self._connection, path, {"stay": stay}, after, entry_of)

    def watch_activity(self, session: str | None = None) -> ActivityWatch:
        return RemoteActivityWatch(self._pages, session)

    def watch_text(self, session: str) -> TextWatch:
        return RemoteTextWatch(self._connection, _path("sessions", session, "events"))


class _Started(msgspec.Struct, frozen=True):
    id: str
    run: int


class _Hushed(msgspec.Struct, frozen=True):
    approvals: tuple[str, ...]


class _Decided(msgspec.Struct, frozen=True):
    results: list[DecisionResult]


class _RunState(msgspec.Struct, frozen=True):
    run: int
    outcome: Any


class _Tree(msgspec.Struct, frozen=True):
    sessions: tuple[SessionView, ...]
    entries: list[Any]
    cursor: str
    left_out: int


class _Page(msgspec.Struct, frozen=True):
    items: list[Any]
    next: str | None
    cursor: str


def _path(*parts: str) -> str:
    return "/api/" + "/".join(quote(part, safe="") for part in parts)


def _id(given: str | None) -> str:
    """Return the id of a session that is to be made."""
    return check_session_id(given) if given is not None else new_session_id()


def _filled(**fields: Any) -> dict[str, Any]:
    """Return a body without what is not given."""
    return {name: value for name, value in fields.items() if value is not None}


def _reader(kind: type[T]) -> Callable[[Any], T]:
    return lambda document: value_of(kind, document)


def _said(decision: Decision) -> dict[str, Any]:
    """Return a decision as the API takes it."""
    match decision:
        case Approve(arguments=arguments, scope=scope, pattern=pattern):
            more = {name: getattr(decision, name) for name in ("uses", "until", "minutes", "seen")}
            edited = None if arguments is None else to_json(arguments, "an edited argument", exact=True)
            return _filled(decision="approve", arguments=edited, scope=scope, pattern=pattern, **more)
        case Deny(reason=reason, scope=scope, pattern=pattern):
            return _filled(decision="deny", reason=reason, scope=scope, pattern=pattern)
        case Answer(value=value):
            return {"decision": "answer", "value": to_json(value, "the answer", exact=True)}
