"""A journal told in sentences: for `show`, `audit`, and the progress of a run.

A Story remembers from earlier events which call an operation is and what a child is called, so that it can name them
later. In all that agents, tools and people wrote, control characters are escaped.
"""

from datetime import datetime
from typing import Final

import msgspec

from supervisor.channels.wording.cards import path_text
from supervisor.channels.wording.granting import HOW_LONG, where_rule_holds
from supervisor.core import events as e
from supervisor.core.approvals.facts import call_line, instant_text
from supervisor.core.budgets import KINDS, budget_text
from supervisor.core.calls.content import CallContent, content_of_request
from supervisor.core.calls.rules import Rule
from supervisor.core.events.asking import CardEvent
from supervisor.core.ids import RULES, split_operation_id
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.machine import ASKS, ENDS_APPROVAL
from supervisor.core.text.visible import Kind, visible
from supervisor.core.usage import spent_by, spent_text

_PROGRESS: Final = e.having("told")
_TROUBLE: Final = e.having("trouble")
_UNATTENDED: Final = _PROGRESS | ASKS | ENDS_APPROVAL
_DONE: Final = {"ask": "received the end of its question", "send": "sent its message"}


def is_progress(event: e.AnyEvent) -> bool:
    """Whether people who watch a run see an event of this type."""
    return type(event) in _PROGRESS


def is_progress_unattended(event: e.AnyEvent) -> bool:
    """The same, where no channel shows approvals."""
    return type(event) in _UNATTENDED


def is_trouble(event: e.AnyEvent) -> bool:
    """The same, next to a tree of runs, which shows all else: failures, which should stay on the screen."""
    ended = isinstance(event, e.RunFinished) and event.kind != "succeeded"
    return ended or type(event) in _TROUBLE


_WIDTH_CHARACTERS: Final = 100
"""Characters of a quotation; `show --json` has all of them."""


class Story:
    """Tells the events of any number of sessions, each in its order. `brief`: for people who watch a run."""

    def __init__(self, *, brief: bool = False) -> None:
        self._brief = brief
        self._calls: dict[tuple[str, str], str] = {}
        self._names: dict[str, str] = {}

    def name(self, session: str) -> str:
        """Return a session's path of agents, or its id while the path is unknown."""
        return "rules" if session == RULES else self._names.get(session, session)

    def knows(self, session: str, path: tuple[str, ...]) -> None:
        self._names[session] = path_text(path)

    def tell(self, row: JournalEntry, now: datetime) -> str:
        """Return the sentence of one event, without its time and its session."""
        event = row.event
        told = (
            _rest(event, now)
            or self._life(row.session, event, now)
            or self._work(event, now)
            or self._call(row.session, event)
        )
        told = told or _approval(event) or _budget(event)
        return told or _rule(event) or _forked(event) or _imported(event) or type(event).__name__

    def _life(self, session: str, event: e.AnyEvent, now: datetime) -> str | None:
        """Tell how a session and its runs begin and end."""
        match event:
            case e.SessionCreated():
                self.knows(session, event.path[-1:] if self._brief else event.path)
                return "began" if self._brief else f"began, for {visible(event.requester)}, in {visible(event.cwd)}"
            case e.RunStarted(message=str()):
                return f"begins a turn with {quote(_json(event.input))}"
            case e.RunStarted(again=e.Again(by=by)):
                return f"is retried by {visible(by)}"
            case e.RunStarted():
                return f"was given {quote(_json(event.input))}"
            case e.AttemptStarted():
                return f"works in process {event.pid} on {visible(event.host)}"
            case e.CancelRequested():
                return f"is being cancelled by {visible(event.by)}{_because(event.reason)}"
            case e.RunFinished():
                if self._brief and event.kind == "cancelled":
                    return event.kind  # the request has told by whom, and why
                value = f": {quote(_json(event.value))}" if event.kind == "succeeded" and not self._brief else ""
                return f"{ending(event.kind, event.cause)}{value}"
        return None

    def _work(self, event: e.AnyEvent, now: datetime) -> str | None:
        """Tell what a session does, apart from calls."""
        match event:
            case e.OperationStarted():
                return f"{'sleeps' if event.kind == 'sleep' else 'set a timer'} until {instant_text(event.due_at, now)}"
            case e.OperationFinished():
                return self._operation(event)
            case e.StateSaved():
                return "saved its state"
            case e.MessageReceived():
                return f"{visible(event.by)} says: {quote(event.text)}"
            case e.MessageUndelivered():
                return f"ended before it received what {visible(event.by)} said: {quote(event.text)}"
            case e.MessageSent():
                return f"says: {quote(event.text)}"
            case e.Reported():
                return _reported(event)
            case e.ChildEnded():
                return f"its sub-agent {self.name(event.child)} {ending(event.kind, event.cause)}"
        return None

    def _operation(self, event: e.OperationFinished) -> str:
        name = visible(split_operation_id(event.operation)[0].rsplit(":", 2)[-2])
        child = self.name(event.child) if event.child else name
        if event.error is not None:
            return f"{event.kind} {name} failed with {visible(event.error[0])}: {quote(event.error[1])}"
        if event.kind in _DONE:
            return _DONE[event.kind]
        match event.kind:
            case "spawn":
                return f"started a sub-agent, {name}" + (f" [{event.child}]" if event.child else "")
            case "step":
                return f"step {name} gave {quote(_json(event.value))}"
            case "sleep" | "timer":
                return f"{event.kind} is over"
            case "now" | "random":
                return f"noted {event.kind} {quote(_json(event.value))}"
            case "outcome":
                return f"received the outcome of {child}"
            case "cancel":
                return f"cancelled {child}"
            case "receive":
                return f"received {quote(_json(event.value))}"
            case kind:
                return f"did {kind} {child}"

    def _call(self, session: str, event: e.AnyEvent) -> str | None:
        match event:
            case e.ToolCallRequested():
                call = call_text(content_of_request(event))
                self._calls[session, event.operation] = call
                ruled = f", by rule {visible(event.rule)}" if event.rule else ""
                return f"calls {call}{ruled}" if event.approval is None else f"asks to call {call} [{event.approval}]"
            case e.ToolCallStarted():
                process = f", as process {event.process}" if event.process and not self._brief else ""
                child = f", as sub-agent [{event.child}]" if event.child else ""
                return f"runs {self._called(session, event.operation)}{process}{child}"
            case e.ToolCallFinished():
                content = "" if self._brief and event.kind in ("ok", "interrupted") else event.content
                return f"{self._called(session, event.operation)}: {event.kind}{_because(content)}"
            case e.JobStarted():
                command = quote(event.command, kind="code")
                return f"started job {event.job} in the background, process {event.process}: {command}"
            case e.JobEnded():
                return f"job {event.job} {job_ending(event)}"
            case e.OperationAbandoned():
                return f"gave up {self._called(session, event.operation)}"
        return None

    def _called(self, session: str, operation: str) -> str:
        return self._calls.get((session, operation)) or visible(split_operation_id(operation)[0].rsplit(":", 2)[-2])


def _rest(event: e.AnyEvent, now: datetime) -> str | None:
    """Tell how a session leaves memory, comes back, restarts and blocks."""
    match event:
        case e.AttemptSettled():
            return "is where it was before"
        case e.RunPassivated():
            until = f", until {instant_text(event.due_at, now)} at the latest" if event.due_at else ""
            return f"left memory to wait for {len(event.waiting_for)} answer(s){until}"
        case e.RunRestarted():
            return (
                f"{ending(event.kind, event.cause)}; restart {event.number} begins at {instant_text(event.due_at, now)}"
            )
        case e.RunBlocked():
            entry = f" at entry {event.block.entry}" if event.block.entry else ""
            return f"is blocked{entry}: {quote(event.block.cause)}"
        case e.RunUnblocked():
            return "is no longer blocked"
        case e.OperationRecalled():
            return "reused a result from before a restart"
    return None


def _reported(event: e.Reported) -> str:
    """Tell what an agent says of itself, marked as its own words."""
    tool = quote(event.tool, 60) if event.tool else "a tool"
    match event.kind:
        case "text":
            told = "says"
        case "thought":
            told = "thinks"
        case "plan":
            told = "plans"
        case "call":
            told = f"calls {tool}"
        case _:
            told = f"{tool} {'failed' if event.is_error else 'gave'}"
    cut = f" ({event.left_out} more bytes are not recorded)" if event.left_out else ""
    return f"(reported) {told}: {quote(event.text)}{cut}"


def _imported(event: e.AnyEvent) -> str | None:
    """Tell what another program did, marked as imported."""
    match event:
        case e.ImportStarted():
            return f"is being imported from {visible(event.format)} session {visible(event.source)}"
        case e.ImportFinished():
            left_out = (
                f"; {event.left_out} unreadable lines or results without a call were left out" if event.left_out else ""
            )
            return f"is imported: {event.messages} messages, none of which ran here{left_out}"
        case e.MessageImported(role="call"):
            return f"(imported) called {visible(event.tool or 'a tool')}: {quote(event.text)}"
        case e.MessageImported(role="result"):
            word = "has no result" if event.is_lost else "failed" if event.is_error else "gave"
            return f"(imported) {visible(event.tool or 'a tool')} {word}: {quote(event.text)}"
        case e.MessageImported():
            return f"(imported) the {event.role} said: {quote(event.text)}"
        case _:
            return None


def _approval(event: e.AnyEvent) -> str | None:
    """Tell what became of an approval or a question."""
    match event:
        case e.ApprovalDecided():
            word = "approved" if event.decision == "approve" else "denied"
            edited = ", with other arguments" if event.edited is not None else ""
            wide = "" if event.scope == "once" else f" {HOW_LONG[event.scope]}"
            through = "" if event.through is None else f", through {event.through}"
            return f"{word}{wide} by {_by(event)}{edited}{through}{_because(event.reason)} [{event.approval}]"
        case e.DecisionRefused():
            return f"{_by(event)} may not decide{_because(event.reason)} [{event.approval}]"
        case e.CredentialsShown():
            return f"{_by(event)} looked at its credentials [{event.approval}]"
        case e.QuestionAsked():
            return f"asks {quote(event.question)} [{event.approval}]"
        case e.QuestionAnswered():
            return f"answered by {_by(event)}: {quote(_json(event.value))} [{event.approval}]"
        case e.ApprovalExpired():
            return f"expired, since it was not decided in time [{event.approval}]"
        case e.ApprovalWithdrawn():
            return f"the question is withdrawn{_because(event.reason)} [{event.approval}]"
    return _card(event)


def _card(event: e.AnyEvent) -> str | None:
    """Tell what happened to the cards of an approval."""
    match event:
        case e.ApprovalReminded():
            names = ", ".join(visible(name) for name in event.escalated_to)
            return f"people were reminded{', and from now on also ' + names if names else ''} [{event.approval}]"
        case e.CardPosted():
            return f"{'told' if event.is_notice else 'shown'} in {_where(event)} [{event.approval}]"
        case e.CardFailed():
            return f"could not be shown in {_where(event)}{_because(event.error)} [{event.approval}]"
        case e.CardRetired():
            became = "is gone" if event.is_gone else "says what was decided"
            return f"its card in {_where(event)} {became} [{event.approval}]"
    return None


def _where(event: CardEvent) -> str:
    return visible(f"{event.channel}:{event.place}" if event.place else event.channel)


def _forked(event: e.AnyEvent) -> str | None:
    """Tell of forks, in the copy and in its source."""
    match event:
        case e.SessionForked():
            source = f"session {visible(event.source)}, before its entry {event.before}"
            return f"is a fork by {visible(event.by)}: all above is copied from {source}"
        case e.ForkTaken():
            return f"was forked by {visible(event.by)} before entry {event.before}: session {visible(event.fork)}"
    return None


def _budget(event: e.AnyEvent) -> str | None:
    match event:
        case e.UsageSpent():
            return f"spent {spent_text(spent_by(event.usage))} on {visible(event.usage.model) or 'a model'}"
        case e.BudgetRaised():
            limits = {kind: limit for kind in KINDS if (limit := getattr(event, kind)) is not None}
            return f"its budget was raised to {budget_text(limits)} by {visible(event.by)}"
        case e.BudgetNoticed():
            return visible(event.text)
        case e.BudgetAnswered():
            return "goes on: the budget that it waited for was decided"
        case _:
            return None


def _rule(event: e.AnyEvent) -> str | None:
    """Tell which rule was added or revoked, or which command was refused: what is in the journal of the store."""
    match event:
        case e.RuleAdded():
            origin = f" [{event.approval}]" if event.approval else f", {visible(event.rule.origin)}"
            rule = f"{rule_text(event.rule)} {where_rule_holds(event.rule.session)}"
            return f"{visible(event.by)} added {event.rule.id}: {rule}{_because(event.rule.reason)}{origin}"
        case e.RuleRevoked():
            return f"{visible(event.by)} revoked {event.rule}"
        case e.CommandRefused():
            named = "" if event.session is None else f" [{visible(event.session)}]"
            return f"{visible(event.by)} was refused{_because(event.reason)}{named}"
    return None


def rule_text(rule: Rule) -> str:
    """Return a rule in one line."""
    pattern = "any arguments" if rule.pattern is None else quote(rule.pattern, kind="code")
    pattern += ", exactly this call" if rule.exact else ""
    return f"{rule.kind} {visible(rule.tool)}: {pattern}"


def _by(event: e.ApprovalDecided | e.CredentialsShown | e.DecisionRefused | e.QuestionAnswered) -> str:
    """Return the person, and the channel that they used."""
    return visible(event.by) + (f" ({visible(event.channel)})" if event.channel else "")


def told_at(row: JournalEntry) -> datetime:
    """Return when an event happened. An imported message happened when it was said, if its file says when."""
    event = row.event
    return event.said_at or event.at if isinstance(event, e.MessageImported) else event.at


def quote(text: str, width: int = _WIDTH_CHARACTERS, kind: Kind = "prose") -> str:
    """Return a text in one line, made visible, and cut to `width` characters."""
    line = " ⏎ ".join(visible(part, kind=kind) for part in text.strip().splitlines())
    return _cut(line, width)


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def call_text(content: CallContent) -> str:
    """Return a call in a few words."""
    first = call_line(content)
    return f"{visible(content.tool)} ({_cut(first, 60)})" if first else visible(content.tool)


def _json(raw: msgspec.Raw) -> str:
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) else bytes(raw).decode()


def ending(kind: str, cause: str | None, width: int = _WIDTH_CHARACTERS) -> str:
    """Return how a run ended, and why, without repeating its kind."""
    if kind == "succeeded" or not cause:
        return kind
    return quote(cause, width) if cause.startswith(kind) else f"{kind}: {quote(cause, width)}"


def job_ending(event: e.JobEnded) -> str:
    """Return how a background job ended."""
    match event.how:
        case "lost":
            return "is lost: its process is gone, and how it ended is unknown"
        case "failed":
            return "could not start"
    code = f"signal {event.signal}" if event.signal is not None else f"exit code {event.exit_code}"
    return f"{event.how} with {code}" + (f", because of {visible(event.by)}" if event.by else "")


def _because(text: str | None) -> str:
    return f": {quote(text)}" if text and text.strip() else ""
