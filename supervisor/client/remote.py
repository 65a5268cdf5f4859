"""The Supervisor of a daemon, over its HTTP API: each method is one request, and means what it means next to a store.

Rules
- A person is known by their token, and acts for no other one: a decision by another name, and a `by` or `requester`
  that is another's, is refused before anything is sent. None means the person of the token.
- After a broken connection the client repeats what may safely be done twice: reads, decisions (the second answer is
  `already`), cancels, rules that are added, starts and forks under an id that is made here. It does not repeat
  messages, retries, resumes and revoked rules: ServerUnavailable says that they may have been done.
- Instants are sent in the server's time.

The module is longer than 400 lines because it is one seam: a short method for each command and each read.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, NoReturn, TypeVar, overload
from urllib.parse import quote

import msgspec

from supervisor.client.answers import AnswerTooLarge, error_of
from supervisor.client.connection import Connection
from supervisor.client.documents import entry_of, value_of
from supervisor.client.runs import Pending, RemoteActivityWatch, RemoteRun, RemoteTextWatch, RemoteWatch
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.budgets import Budget
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec, AgentWithoutInput
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput, NotEntitled, ServerMismatch
from supervisor.core.ids import check_session_id, new_session_id
from supervisor.core.rows import Counts, JournalEntry, Owner, TreeView, ids_from
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
    SessionStatus,
    SessionView,
    decider_of,
)
from supervisor.seam.runs import ActivityWatch, Page, Run, TextWatch, Watch
from supervisor.seam.supervisor import Supervisor

R = TypeVar("R")
T = TypeVar("T")


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

    def _me(self, by: str | None, what: str = "act") -> str:
        """Return the person of the token. Raises NotEntitled if another one is meant."""
        if by not in (None, self.person):
            raise NotEntitled(f"{self.where} knows you as {self.person} by your token: you cannot {what} as {by}")
        return self.person

    # -- commands ----------------------------------------------------------------------------------------------------

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
        self._me(requester, "start")
        self._me(by, "start")
        if cwd is not None:
            raise InvalidInput(f"{self.where} chooses the folders of the sessions that it runs; pass no cwd")
        root = check_session_id(session) if session is not None else new_session_id()
        body: dict[str, Any] = {"session": root}
        type_: Any = Any
        if isinstance(agent, AgentSpec):
            body["agent"], type_ = agent.name, agent.return_type
            if agent.takes_input:
                body["input"] = agent.encode_exactly(args) if args else agent.default_input()
        elif isinstance(agent, str):
            body["agent"] = agent
            if args:
                body["input"] = to_json(args[0], "the input", exact=True)
        else:
            raise InvalidInput(f"start takes an agent, or the name of one, not {agent!r}: declare it with @agent")
        if budget is not None:
            body["budget"] = msgspec.to_builtins(budget)
        answer = await self._connection.answer("POST", "/api/sessions", body=body, repeats=True)
        if not answer.is_good:
            raise error_of(answer, self.where)
        started = value_of(_Started, answer.document)
        is_new = answer.status == 201 or session is None  # only this client knows an id that was made here
        return RemoteRun(self, started.id, started.run, type_, is_new=is_new)

    async def resume(self, session: str, *, by: str | None = None) -> Run[Any]:
        self._me(by, "resume")
        return self._run(await self._connection.ask("POST", _path("sessions", session, "resume")))

    async def resume_all(self, *, by: str | None = None) -> list[Run[Any]]:
        self._me(by, "resume")
        found = await self._connection.ask("POST", "/api/resume")
        return [self._run(each) for each in found["items"]]

    async def raise_budget(self, session: str, budget: Budget, *, by: str | None = None) -> None:
        self._me(by, "raise a budget")
        body = msgspec.to_builtins(budget)
        await self._connection.ask("POST", _path("sessions", session, "budget"), body=body, repeats=True)

    @overload
    async def get_run(self, session: str, *, number: int | None = None, agent: None = None) -> Run[Any]: ...
    @overload
    async def get_run(self, session: str, *, number: int | None = None, agent: AgentSpec[..., R]) -> Run[R]: ...
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

    async def decide(self, approval: str, decision: Decision, *, channel: str | None = None) -> DecisionResult:
        self._me(decider_of(decision), "decide")
        body = {name: value for name, value in _said(decision).items() if value is not None or name == "value"}
        if channel is not None:
            body["channel"] = channel
        path = _path("approvals", approval, "decision")
        answer = await self._connection.answer("POST", path, body=body, repeats=True)
        result = answer.document
        if not answer.is_good:
            result = answer.document.get("result") if isinstance(answer.document, dict) else None
            if result is None:
                raise error_of(answer, self.where)
        found = value_of(DecisionResult, result)
        self.decided[found.kind] += 1
        return found

    async def reveal(self, approval: str, *, by: str | None = None, channel: str | None = None) -> Any:
        self._me(by, "look at credentials")
        body = {} if channel is None else {"channel": channel}
        answer = await self._connection.ask("POST", _path("approvals", approval, "reveal"), body=body)
        return answer["arguments"]

    async def note_refusal(self, approval: str, *, by: str, reason: str, channel: str | None = None) -> None:
        self._refuse_note("refuses")

    async def note_shown(self, session: str, mark: str, *, channel: str) -> None:
        self._refuse_note("shows")

    def _refuse_note(self, what: str) -> NoReturn:
        raise InvalidInput(f"{self.where} notes itself what it {what}: a client cannot")

    async def send(self, session: str, text: str, *, by: str | None = None) -> SendResult:
        self._me(by, "speak")
        found = await self._say(session, {"text": text, "decides": False})
        if found.sent is None:
            raise ServerMismatch(f"{self.where} does not say what became of the message")
        return found.sent

    async def chat(
        self,
        session: str,
        text: str,
        *,
        by: str | None = None,
        shown_before: datetime | None = None,
        channel: str | None = None,
        shown: Collection[str] | None = None,
    ) -> ChatResult:
        self._me(by, "speak")
        seen = self._connection
        instant = seen.now() if shown_before is None else seen.to_server_time(shown_before)
        given = None if shown is None else [*shown]
        return await self._say(session, {"text": text, "shown_before": instant, "channel": channel, "shown": given})

    async def _say(self, session: str, body: Mapping[str, Any]) -> ChatResult:
        return value_of(
            ChatResult, await self._connection.ask("POST", _path("sessions", session, "messages"), body=body)
        )

    async def cancel(
        self, session: str, *, reason: str | None = None, by: str | None = None, run: int | None = None
    ) -> None:
        self._me(by, "cancel")
        body = {"reason": reason, "run": run}
        await self._connection.ask("POST", _path("sessions", session, "cancel"), body=body, repeats=True)

    async def add_rule(self, rule: Rule, *, by: str | None = None) -> Rule:
        self._me(by, "make rules")
        body = {name: getattr(rule, name) for name in ("kind", "tool", "pattern", "session", "unreviewed")}
        return value_of(Rule, await self._connection.ask("POST", "/api/rules", body=body, repeats=True))

    async def revoke_rule(self, rule: str, *, by: str | None = None) -> Rule:
        self._me(by, "revoke rules")
        return value_of(Rule, await self._connection.ask("DELETE", _path("rules", rule)))

    async def retry(self, session: str, *, by: str | None = None) -> Run[Any]:
        self._me(by, "retry")
        return self._run(await self._connection.ask("POST", _path("sessions", session, "retry")))

    async def fork(
        self, session: str, *, before: int, new: str | None = None, version: str | None = None, by: str | None = None
    ) -> Fork:
        self._me(by, "fork")
        root = check_session_id(new) if new is not None else new_session_id()
        body = {"before": before, "session": root, "version": version}
        return value_of(
            Fork, await self._connection.ask("POST", _path("sessions", session, "fork"), body=body, repeats=True)
        )

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
        query = {"open": is_open, "status": status, "agent": agent, "root": root, "newest": newest_first or None}
        return await self._pages("/api/sessions", query, _reader(SessionView), after, limit)

    async def find_approvals(
        self, *, pending: bool = True, session: str | None = None, after: str | None = None, limit: int | None = 100
    ) -> Page[Approval]:
        query = {"status": "pending" if pending else "all", "session": session}
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
        return RemoteWatch(
            self._connection,
            "/api/events",
            {"session": session},
            after,
            _reader(Approval),
            begins_again=after is None,
        )

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


def _reader(kind: type[T]) -> Callable[[Any], T]:
    return lambda document: value_of(kind, document)


def _said(decision: Decision) -> dict[str, Any]:
    """Return a decision as the API takes it."""
    match decision:
        case Approve(arguments=arguments, scope=scope, pattern=pattern):
            edited = None if arguments is None else to_json(arguments, "an edited argument", exact=True)
            return {"decision": "approve", "arguments": edited, "scope": scope, "pattern": pattern}
        case Deny(reason=reason, scope=scope, pattern=pattern):
            return {"decision": "deny", "reason": reason, "scope": scope, "pattern": pattern}
        case Answer(value=value):
            return {"decision": "answer", "value": to_json(value, "the answer", exact=True)}
