"""A journal told for people: each event becomes typed parts, which every surface draws in its own way.

    event -> tell -> parts -> `show`, `audit` and the progress of a run: a line (cli/story.py)
                           -> the session's page: an entry (channels/web/pages/story.py)

A Telling remembers from earlier events which call an operation is and what a child is called, so that it can name them
later. How a session is (`how_it_is`) is told here, too.

Rules
- The sentences are here, and nowhere else. A surface chooses which events it tells, and how a kind of part looks.
- A Law says of each kind of part whether its text is ours or hostile, and so masked, and whether it may be cut. `drawn`
  is the only way from a hostile part to a screen: it masks, then cuts, then makes visible. So no credential is cut into
  an unknown piece, and what is cut off costs nothing.
- Texts in parts are as the journal has them. A part is drawn once.
- Logs, metrics and traces tell nothing from here: no text of agents reaches them. What an agent reads of its own
  journal (`ctx.transcript()`) is part of its replay, and has words of its own, which never change.
- Pure: surfaces draw instants, in the time zone of their readers.

The module has more than 400 lines because it has all the sentences.
"""

from collections.abc import Iterator
from datetime import datetime
from string import Formatter
from typing import Final, Literal, NamedTuple

import msgspec

from supervisor.core import events as e
from supervisor.core.approvals.facts import argument_facts, instant_text
from supervisor.core.budgets import KINDS, budget_text
from supervisor.core.calls.content import content_of_request
from supervisor.core.calls.rules import Rule
from supervisor.core.events.asking import COPIED, CardEvent
from supervisor.core.events.kinds import kind_of
from supervisor.core.ids import RULES, SCHEDULES, split_operation_id
from supervisor.core.limits import OWN, name_of, wait_text
from supervisor.core.rows import JournalEntry
from supervisor.core.text.masks import LONGEST_KEY_CHARACTERS, hide
from supervisor.core.text.visible import Kind as Look, visible
from supervisor.core.usage import spent_by, spent_text
from supervisor.core.values import HOW_LONG, HushedBy, SessionView


class Part(NamedTuple):
    """A piece of a sentence, of the kind that `law` is. `id`: of a session, whose name `text` is; `at`: an instant."""

    law: "Law"
    text: str = ""
    id: str = ""
    at: datetime | None = None

    @property
    def kind(self) -> str:
        return self.law.kind


class Law(NamedTuple):
    """A kind of part, and what holds for all of them. `look`: what its text could be mistaken for
    (core/text/visible.py); "drawn": it was made visible before; None: it is ours. `width`: the characters that a line
    has of it; 0: it is never cut. `is_block`: it may have many lines, and a page shows them below the sentence."""

    kind: str
    look: Look | Literal["drawn"] | None = None
    width: int = 0
    is_block: bool = False

    def __call__(self, text: str, session: str = "") -> Part:
        return Part(self, text, session)

    @property
    def is_hostile(self) -> bool:
        """Whether it was written elsewhere. So it may have credentials, and these are masked."""
        return self.look is not None

    @property
    def may_be_cut(self) -> bool:
        return self.width > 0


QUOTED_CHARACTERS: Final = 100
"""Of a quotation in a line; `show --json` has all of it."""
WORDS: Final = Law("words")
MARK: Final = Law("mark")  # what follows is reported or imported, and did not happen here
STATE: Final = Law("state")  # one word for how something is
INSTANT: Final = Law("instant")
NAME: Final = Law("name", "code", 200)  # of an agent, a tool, a step, a host
PERSON: Final = Law("person", "code")
SESSION: Final = Law("session", "code")
APPROVAL: Final = Law("approval", "code")
RULE: Final = Law("rule", "code")
CODE: Final = Law("code", "code", QUOTED_CHARACTERS)  # a command, a pattern
COMMAND: Final = Law("command", "drawn", 60)  # of a call, as on a card
ARGUMENT: Final = Law("argument", "drawn", 60)  # the first one of a call without a command, as on a card
QUOTE: Final = Law("quote", "prose", QUOTED_CHARACTERS)  # a short text in the sentence: a reason, a question
SAID: Final = Law("said", "prose", QUOTED_CHARACTERS, is_block=True)
OUTPUT: Final = Law("output", "words", QUOTED_CHARACTERS, is_block=True)
JSON: Final = Law("json", "words", QUOTED_CHARACTERS, is_block=True)
TRACEBACK: Final = Law("traceback", "words", is_block=True)
_LONGEST_CREDENTIAL_CHARACTERS: Final = LONGEST_KEY_CHARACTERS + 200
Tone = Literal["active", "waiting", "ok", "error", "cancelled"]
_ENDED: Final[dict[str, Tone]] = {"succeeded": "ok", "cancelled": "cancelled"}
_REPORTS: Final = {"text": "says", "thought": "thinks", "plan": "plans"}


Parts = tuple[Part, ...]
_Words = tuple[str | Part, ...]
"""A sentence while it is written: a text is our words."""


def drawn(part: Part, width: int = 0, *, lines: bool = False) -> str:
    """Return the text of a part as a screen may show it, cut to `width` characters if it may be cut; 0: as its kind
    says. `lines`: keep its lines, else it is one line."""
    text, look = part.text, part.law.look
    if look is None:
        return text
    width = (width or part.law.width) if part.law.may_be_cut else 0
    if part.law is JSON and lines:
        text = msgspec.json.format(text, indent=2)
    text = text.rstrip() if lines else text.strip()
    text = hide(text[: width + _LONGEST_CREDENTIAL_CHARACTERS] if width else text)
    text = text[: width + 1] if width else text
    text = text if lines else "\n".join(text.splitlines())
    shown = text if look == "drawn" else visible(text, kind=look, lines=True)
    shown = shown if lines else shown.replace("\n", " ⏎ ")
    return shown if not width or len(shown) <= width else shown[: width - 1] + "…"


def told_at(row: JournalEntry) -> datetime:
    """Return when an event happened. An imported message happened when it was said, if its file says when."""
    event = row.event
    return event.said_at or event.at if isinstance(event, e.MessageImported) else event.at


class Telling:
    """Tells the events of any number of sessions, each in its order. `is_brief`: for people who watch a run.
    `is_grouped`: what becomes of a call stands below its request, so that no sentence names it again."""

    def __init__(self, *, is_brief: bool = False, is_grouped: bool = False) -> None:
        self._is_brief = is_brief
        self._is_grouped = is_grouped
        self._calls: dict[tuple[str, str], _Words] = {}
        self._names: dict[str, str] = {RULES: "rules", SCHEDULES: "schedules"}

    def name(self, session: str) -> Part:
        """Return a session's path of agents, or its id while the path is unknown."""
        return SESSION(self._names.get(session, session), session)

    def knows(self, session: str, path: tuple[str, ...]) -> None:
        self._names[session] = " > ".join(path)

    def tell(self, row: JournalEntry) -> Parts:
        """Return the sentence of one event, without its time and its session."""
        event = row.event
        told = (
            _rest(event)
            or self._life(row.session, event)
            or self._work(event)
            or self._call(row.session, event)
            or self._approval(event)
            or _card(event)
            or _rule(event)
            or _schedule(event)
            or _budget(event)
            or _forked(event)
            or _imported(event)
            or (event.event if isinstance(event, e.UnknownEvent) else type(event).__name__,)
        )
        if traceback := getattr(event, "traceback", ""):
            told = (*told, TRACEBACK(traceback))
        return tuple(WORDS(piece) if isinstance(piece, str) else piece for piece in told if piece)

    def _life(self, session: str, event: e.AnyEvent) -> _Words | None:
        """Tell how a session and its runs begin and end."""
        match event:
            case e.SessionCreated():
                self.knows(session, event.path[-1:] if self._is_brief else event.path)
                if self._is_brief:
                    return ("began",)
                return "began, for ", PERSON(event.requester), ", in ", NAME(event.cwd)
            case e.RunStarted(message=str()):
                return "begins a turn with ", _value(event.input, SAID)
            case e.RunStarted(again=e.Again(by=by)):
                return "is retried by ", PERSON(by)
            case e.RunStarted():
                return "was given ", _value(event.input, SAID)
            case e.AttemptStarted():
                return f"works in process {event.pid} on ", NAME(event.host)
            case e.CancelRequested():
                return "is being cancelled by ", PERSON(event.by), *_because(event.reason)
            case e.RunFinished(kind="cancelled") if self._is_brief:
                return (event.kind,)  # the request has told by whom, and why
            case e.RunFinished():
                value = () if self._is_brief else _gave(event.value)
                return *ending(event.kind, event.cause), *value
        return None

    def _work(self, event: e.AnyEvent) -> _Words | None:
        """Tell what a session does, apart from calls."""
        match event:
            case e.OperationStarted():
                return f"{kind_of(event.kind).start} ", _instant(event.due_at)
            case e.OperationFinished():
                return self._operation(event)
            case e.StateSaved():
                return ("saved its state",)
            case e.MessageReceived():
                return PERSON(event.by), " says: ", SAID(event.text)
            case e.MessageUndelivered():
                missed = "ended before it received what ", PERSON(event.by), " said"
                return missed if self._is_grouped else (*missed, ": ", SAID(event.text))
            case e.MessageSent():
                return "says: ", SAID(event.text)
            case e.Reported():
                return _reported(event)
            case e.ChildEnded():
                ended = *ending(event.kind, event.cause), *_gave(event.value)
                return "its sub-agent ", self.name(event.child), " ", *ended
        return None

    def _operation(self, event: e.OperationFinished) -> _Words:
        name = NAME(_operation_name(event.operation))
        child = self.name(event.child) if event.child else name
        if event.error is not None:
            kind, text = event.error
            return f"{event.kind} ", name, " ", STATE("failed"), " with ", NAME(kind), *_left(text)
        told = {"kind": NAME(event.kind), "name": name, "child": child, "session": _session(event.child or "")}
        told |= {"value": _value(event.value), "said": _value(event.value, SAID)}
        words = Formatter().parse(kind_of(event.kind).words)
        return tuple(each for text, field, *_ in words for each in (text, told[field] if field else "") if each)

    def _call(self, session: str, event: e.AnyEvent) -> _Words | None:
        match event:
            case e.ToolCallRequested():
                self._calls[session, event.operation] = call = _call_parts(event)
                if event.approval is not None:
                    return "asks to call ", *call, " ", _approval_of(event.approval)
                return "calls ", *call, *((", by rule ", RULE(event.rule)) if event.rule else ())
            case e.ToolCallStarted():
                process = f", as process {event.process}" if event.process and not self._is_brief else ""
                child = (", as sub-agent [", _session(event.child), "]") if event.child else ()
                return STATE("runs"), *self._of(session, event.operation, before=" "), process, *child
            case e.ToolCallFinished():
                content = "" if self._is_brief and event.kind in ("ok", "interrupted") else event.content
                return *self._of(session, event.operation, after=": "), STATE(event.kind), *_left(content)
            case e.JobStarted():
                where = f" in the background, process {event.process}: "
                return "started job ", NAME(event.job), where, CODE(event.command)
            case e.JobEnded():
                return "job ", NAME(event.job), " ", *_job_ending(event)
            case e.OperationAbandoned():
                content = "" if self._is_brief else event.content
                return STATE("gave up"), *self._of(session, event.operation, before=" "), *_left(content)
        return None

    def _of(self, session: str, operation: str, *, before: str = "", after: str = "") -> _Words:
        """Return the call that an event is about; nothing where the sentence stands below its request."""
        call = self._calls.get((session, operation))
        if call is not None and self._is_grouped:
            return ()
        return before, *(call or (NAME(_operation_name(operation)),)), after

    def _approval(self, event: e.AnyEvent) -> _Words | None:
        """Tell what became of an approval or a question."""
        said: _Words
        match event:
            case e.ApprovalDecided():
                word = STATE("approved" if event.decision == "approve" else "denied")
                wide = "" if event.scope == "once" else f" {HOW_LONG[event.scope]}"
                edited = ", with other arguments" if event.edited is not None else ""
                through = () if event.through is None else (", through ", NAME(event.through))
                voters = () if not event.votes else (", with the vote of ", PERSON(", ".join(event.votes)))
                batch = () if event.batch is None else (", in batch ", NAME(event.batch))
                ends = _end_words(event.uses, event.until)
                said = (
                    word,
                    f"{wide} by ",
                    *_by(event),
                    *ends,
                    edited,
                    *voters,
                    *through,
                    *batch,
                    *_because(event.reason),
                )
            case e.ApprovalVoted():
                wide = "" if event.scope == "once" else f" {HOW_LONG[event.scope]}"
                other = () if bytes(event.value) == b"null" else (", for ", _value(event.value))
                given = None if event.minutes is None else f", for {event.minutes:g} minutes"
                ends = (*_end_words(event.uses, event.until), *([given] if given else []))
                said = "voted for", f"{wide} by ", *_by(event), *ends, f", of {event.quorum} who must", *other
            case e.EvidenceTaken() | e.EvidenceWanted():
                said = _evidence(event)
            case e.QuestionAsked():
                return "asks ", QUOTE(event.question), " ", _approval_of(event.approval)
            case e.QuestionAnswered():
                said = STATE("answered"), " by ", *_by(event), ": ", _value(event.value, QUOTE)
            case e.ApprovalExpired():
                said = STATE("expired"), ", since it was not decided in time"
            case e.ApprovalWithdrawn():
                said = "the question is ", STATE("withdrawn"), *_because(event.reason)
            case e.DecisionRefused():
                said = *_by(event), " may not decide", *_because(event.reason)
            case e.CredentialsShown():
                said = *_by(event), " looked at its credentials"
            case _:
                return None
        return said if self._is_grouped else (*said, " ", _approval_of(event.approval))


def _rest(event: e.AnyEvent) -> _Words | None:
    """Tell how a session leaves memory, comes back, restarts and blocks."""
    match event:
        case e.AttemptSettled():
            return ("is where it was before",)
        case e.RunPassivated():
            until = (", until ", _instant(event.due_at), " at the latest") if event.due_at else ()
            names = [
                name for key in event.waiting_for if (name := name_of(key)) is not None and not name.startswith(OWN)
            ]
            answers = len(event.waiting_for) - len(names)
            limits = [part for name in names for part in (" and " * (name != names[0]), NAME(name))]
            if names and not answers:
                return "left memory to wait for ", *limits, *until
            also = (", and for ", *limits) if names else ()
            return f"left memory to wait for {answers} answer(s)", *also, *until
        case e.RunRestarted():
            begins = f"; restart {event.number} begins at "
            return *ending(event.kind, event.cause), begins, _instant(event.due_at)
        case e.RunBlocked():
            entry = f" at entry {event.block.entry}" if event.block.entry else ""
            return "is ", STATE("blocked"), entry, *_because(event.block.cause)
        case e.RunUnblocked():
            return ("is no longer blocked",)
        case e.OperationRecalled():
            return ("reused a result from before a restart",)
    return None


def _reported(event: e.Reported) -> _Words:
    """Tell what an agent says of itself, marked as its own words."""
    tool: str | Part = NAME(event.tool) if event.tool else "a tool"
    cut = f" ({event.left_out} more bytes are not recorded)" if event.left_out else ""
    told: _Words
    match event.kind:
        case "call":
            told = "calls ", tool, ": ", OUTPUT(event.text)
        case "result":
            word = STATE("failed") if event.is_error else "gave"
            told = tool, " ", word, ": ", OUTPUT(event.text)
        case kind:
            told = f"{_REPORTS[kind]}: ", SAID(event.text)
    return MARK("reported"), " ", *told, cut


def _imported(event: e.AnyEvent) -> _Words | None:
    """Tell what another program did, marked as imported."""
    mark = MARK("imported")
    match event:
        case e.ImportStarted():
            source = " session ", NAME(event.source), ", from ", NAME(event.file)
            return "is being imported from ", NAME(event.format), *source
        case e.ImportFinished():
            lines = "unreadable lines or results without a call were left out"
            left_out = f"; {event.left_out} {lines}" if event.left_out else ""
            return (f"is imported: {event.messages} messages, none of which ran here{left_out}",)
        case e.MessageImported(role="call"):
            return mark, " called ", _tool(event), ": ", OUTPUT(event.text)
        case e.MessageImported(role="result"):
            word = "has no result" if event.is_lost else STATE("failed") if event.is_error else "gave"
            return mark, " ", _tool(event), " ", word, ": ", OUTPUT(event.text)
        case e.MessageImported():
            return mark, f" the {event.role} said: ", SAID(event.text)
    return None


def _card(event: e.AnyEvent) -> _Words | None:
    """Tell what happened to the cards of an approval."""
    match event:
        case e.ApprovalReminded():
            names = [piece for name in event.escalated_to for piece in (", ", PERSON(name))][1:]
            also = (", and from now on also ", *names) if names else ()
            return "people were reminded", *also, " ", _approval_of(event.approval)
        case e.ApprovalHushed():
            is_on_it = event.acknowledged == HushedBy(event.by, event.until)
            said = " is on it " if is_on_it else " wants to hear of it later "
            return PERSON(event.by), said, _approval_of(event.approval)
        case e.ReminderSent():
            return "told again in ", _where(event), " ", _approval_of(event.approval)
        case e.CardPosted():
            shown = "shown in " if event.is_whole else "shown in part in "
            return "told in " if event.is_notice else shown, _where(event), " ", _approval_of(event.approval)
        case e.CardFailed():
            return "could not be shown in ", _where(event), *_because(event.error), " ", _approval_of(event.approval)
        case e.CardRetired():
            became = " is gone " if event.is_gone else " says what was decided "
            return "its card in ", _where(event), became, _approval_of(event.approval)
    return None


def _forked(event: e.AnyEvent) -> _Words | None:
    """Tell of forks, in the copy and in its source."""
    match event:
        case e.SessionForked():
            copied = ": all above is copied from session ", _session(event.source), f", before its entry {event.before}"
            return "is a fork by ", PERSON(event.by), *copied
        case e.ForkTaken():
            before = f" before entry {event.before}: session "
            return "was forked by ", PERSON(event.by), before, _session(event.fork)
    return None


def _rule(event: e.AnyEvent) -> _Words | None:
    """Tell which rule was added or revoked, or which command was refused: what is in the journal of the store."""
    match event:
        case e.RuleAdded(rule=rule):
            origin: _Words = (" ", _approval_of(event.approval)) if event.approval else (", ", NAME(rule.origin))
            held: _Words = ("every session",) if rule.session is None else ("session ", _session(rule.session))
            told = (
                *_rule_words(rule),
                *_end_words(rule.uses, rule.until),
                " in ",
                *held,
                *_because(rule.reason),
                *origin,
            )
            return PERSON(event.by), " added ", RULE(rule.id or ""), ": ", *told
        case e.RuleUsed():
            return "a call of session ", _session(event.session), " used ", RULE(event.rule)
        case e.RuleRevoked(session=str(session)):
            return RULE(event.rule), " ended with session ", _session(session), ", which was removed"
        case e.RuleRevoked():
            return PERSON(event.by), " revoked ", RULE(event.rule)
        case e.CommandRefused():
            named = () if event.session is None else (" [", _session(event.session), "]")
            return PERSON(event.by), " was refused", *_because(event.reason), *named
    return None


def _schedule(event: e.AnyEvent) -> _Words | None:
    """Tell what became of schedules, and of what triggers have begun."""
    match event:
        case e.ScheduleAdded(schedule=schedule):
            told: _Words = (
                " begins ",
                NAME(schedule.agent),
                " at ",
                CODE(schedule.cron),
                " in ",
                NAME(schedule.timezone),
            )
            return PERSON(event.by), " added schedule ", NAME(schedule.name), ":", *told
        case e.ScheduleChanged():
            became = {"paused": " paused", "running": " let go on", "removed": " removed"}[event.to]
            return PERSON(event.by), became, " schedule ", NAME(event.schedule)
        case e.ScheduleDisputed(schedule=schedule):
            return "schedule ", NAME(schedule.name), " has other words in another process; the first ones count"
        case e.ScheduleHandled():
            named: _Words = () if event.session is None else (" [", _session(event.session), "]")
            told = "schedule ", NAME(event.schedule), f" {event.became} at ", _instant(event.instant)
            return *told, *named, *_because(event.reason)
        case e.DeliveryPruned():
            return "a trigger begins session ", _session(event.session), " no more: it was removed"
    return None


def _budget(event: e.AnyEvent) -> _Words | None:
    """Tell what was spent, and what became of a budget."""
    match event:
        case e.UsageSpent(usage=usage):
            model = NAME(usage.model) if usage.model.strip() else "a model"
            return f"spent {spent_text(spent_by(usage))} on ", model
        case e.BudgetRaised():
            limits = {kind: limit for kind in KINDS if (limit := getattr(event, kind)) is not None}
            return f"its budget was raised to {budget_text(limits)} by ", PERSON(event.by)
        case e.BudgetNoticed():
            return (QUOTE(event.text),)
        case e.BudgetAnswered(key=key) if (name := name_of(key)) is not None:
            return ("goes on: it has a place of limit ", NAME(name)) if not name.startswith(OWN) else ("goes on",)
        case e.BudgetAnswered():
            return ("goes on: the budget that it waited for was decided",)
    return None


def _rule_words(rule: Rule) -> _Words:
    """Tell what a rule says, but not where it holds."""
    pattern: str | Part = "any arguments" if rule.pattern is None else CODE(rule.pattern)
    return f"{rule.kind} ", NAME(rule.tool), ": ", pattern, ", exactly this call" if rule.exact else ""


def _end_words(uses: int | None, until: datetime | None) -> _Words:
    """Tell when an allowance ends; nothing for a rule without an end."""
    counted = () if uses is None else (", for one call" if uses == 1 else f", for {uses} calls",)
    return counted if until is None else (*counted, ", until ", _instant(until))


def _call_parts(event: e.ToolCallRequested) -> _Words:
    """Return a call: its tool, and its command or the first of its arguments."""
    facts = argument_facts(content_of_request(event))
    text = facts[0].text if facts and not facts[0].is_unset else ""
    law = COMMAND if event.command is not None else ARGUMENT
    return NAME(event.tool), *((" ", law(text)) if text else ())


def ending(kind: str, cause: str | None) -> Parts:
    """Tell how a run ended, and why, without repeating its kind."""
    state = STATE(kind)
    if kind == "succeeded" or not cause:
        return (state,)
    if cause.startswith((f"{kind} ", f"{kind};")):
        return state, WORDS(" "), QUOTE(cause.removeprefix(kind))
    return state, *_because(cause.removeprefix(f"{kind}:"))


def how_it_is(view: SessionView, now: datetime) -> tuple[Tone, str]:
    """Return how a session is, as a tone and in a few words, safe for a screen. `now`: its time zone is that of
    instants."""
    if view.outcome is not None:
        kind, cause = view.outcome["kind"], view.outcome["cause"]
        told = (QUOTE(cause),) if kind == "succeeded" and cause else ending(kind, cause)  # imported: nothing ran here
        return _ENDED.get(kind, "error"), "".join(map(drawn, told))
    if view.status == "blocked":
        why = "blocked below" if view.blocked is None else f"blocked: {drawn(QUOTE(view.blocked.cause))}"
        return "error", why
    unrun = "" if view.running else "; no process runs it"
    if count := len(view.pending_approvals):
        return "waiting", f"waits for {count} decision{'s' * (count > 1)}{unrun}"
    if (wait := view.limit) is not None:
        since = "" if wait.since is None else f", since {instant_text(wait.since, now)}"
        return "active", f"{wait_text(visible(wait.name), wait.place, wait.count)}{since}{unrun}"
    return "active", f"open{unrun}" if unrun else "active"


def _job_ending(event: e.JobEnded) -> Iterator[str | Part]:
    """Tell how a background job ended."""
    match event.how:
        case "lost":
            yield "is lost: its process is gone, and how it ended is unknown"
        case "failed":
            yield "could not start"
        case how:
            code = f"signal {event.signal}" if event.signal is not None else f"exit code {event.exit_code}"
            yield f"{how} with {code}"
            yield from (", because of ", PERSON(event.by)) if event.by else ()


def _because(text: str | None) -> Parts:
    return (WORDS(": "), QUOTE(text)) if text and text.strip() else ()


def _left(text: str | None) -> _Words:
    return (": ", OUTPUT(text)) if text and text.strip() else ()


def _evidence(event: e.EvidenceTaken | e.EvidenceWanted) -> _Words:
    if isinstance(event, e.EvidenceWanted):
        return "its preview is wanted by ", *_by(event), ", for ", _value(event.value)
    told = "its preview failed: " if event.failure else "the agent shows: " if event.kind == "claim" else "preview: "
    return told, OUTPUT(event.failure or event.text)


def _by(
    event: e.ApprovalVoted
    | e.ApprovalDecided
    | e.CredentialsShown
    | e.DecisionRefused
    | e.EvidenceWanted
    | e.QuestionAnswered,
) -> _Words:
    """Return the person, and the channel that they used."""
    return PERSON(event.by), *((" (", NAME(event.channel), ")") if event.channel else ())


def _approval_of(approval: str) -> Part:
    """Return an approval; of a copied entry, that of the session it was copied from."""
    return APPROVAL(approval.removeprefix(COPIED))


def _session(session: str) -> Part:
    return SESSION(session, session)


def _instant(at: datetime) -> Part:
    return Part(INSTANT, at=at)


def _where(event: CardEvent | e.ReminderSent) -> Part:
    return NAME(f"{event.channel}:{event.place}" if event.place else event.channel)


def _tool(event: e.MessageImported) -> str | Part:
    return NAME(event.tool) if event.tool else "a tool"


def _operation_name(operation: str) -> str:
    return split_operation_id(operation)[0].rsplit(":", 2)[-2]


def _gave(raw: msgspec.Raw) -> _Words:
    return () if bytes(raw) == b"null" else (": ", _value(raw))


def _value(raw: msgspec.Raw, law: Law = OUTPUT) -> Part:
    """Return a text as it is, and any other value as JSON."""
    value = msgspec.json.decode(raw)
    return law(value) if isinstance(value, str) else JSON(bytes(raw).decode())
