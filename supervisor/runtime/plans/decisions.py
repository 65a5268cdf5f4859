"""Plans of decisions: what a decision means for what was asked, and the entries that it makes (A1, A3, A5, A8).

Rules
- A decision is checked against what was asked and offered before anything is written. One that does not fit (an
  approval of a question, an answer to a call, an edit that does not fit the tool's schema) raises.
- A call that is not editable is approved as it is, or denied.
- An edit is all arguments of the call. If the tool came with a schema, that alone says which those are; else they are
  those that were asked, and one that has a default value may be left out.
- An edit that leaves the mask in place of a secret value keeps that value, which the approver need not know.
- Where several people must decide (A17), a yes is a vote for what would run, and for how long that is allowed. The vote
  that completes the number for one digest is the decision, and names the others. A person has one vote, the latest.
- An edit of such a call leaves masked values as they are, since the others could not see what they vote for.
- A decision made after the expiry is ignored. If the expiry has not been journaled yet, it is journaled now (A10).
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.questions import check_answer
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.schemas import schema_misfit, why_unlike
from supervisor.core.encoding import JSON_NULL, printable_text, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import canonical_json, digest_of_value
from supervisor.core.sessions.state import Operation, SessionState
from supervisor.core.text.masks import hide, hides, unmask
from supervisor.core.values import Answer, Approval, Approve, Decision, Deny, Scope, filled_arguments
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.plans.allowances import check_end
from supervisor.runtime.plans.budgets import follow_decision
from supervisor.runtime.plans.rules import book, granted, rule_added, rule_of_denial

_ONCE: Final = (None, "once", None)
"""The arguments, scope and pattern of a plain approval: it edits nothing, and allows nothing beyond this call."""
Decided = tuple[SessionState, e.ApprovalDecided | e.QuestionAnswered]


class Checked(msgspec.Struct, frozen=True):
    """A decision in the form in which it is compared and journaled."""

    decision: Literal["approve", "deny", "answer"]
    value: msgspec.Raw = JSON_NULL
    """The answer to a question."""
    reason: str | None = None
    edited: msgspec.Raw | None = None
    scope: Scope = "once"
    rules: tuple[Rule, ...] = ()
    uses: int | None = None
    until: datetime | None = None
    minutes: float | None = None

    def until_at(self, now: datetime) -> datetime | None:
        """Return when the allowance of a decision ends that is made at this instant."""
        return self.until if self.minutes is None else now + timedelta(minutes=self.minutes)

    @property
    def pattern(self) -> str | None:
        """The patterns of its rules, a line each."""
        return "\n".join(str(each.pattern) for each in self.rules) or None


class Quorum(NamedTuple):
    """How many people must make a decision, and whether the vote that a person gave before counts still."""

    number: int = 1
    counts: Callable[[str], bool] = lambda by: True


ALONE: Final = Quorum()


class Counted(NamedTuple):
    """A vote that is no decision yet: so many people are missing."""

    missing: int


def check_plain(decision: Decision) -> Checked | None:
    """Return a decision that is checked in its plan, against the call alone; None for any other decision.

    Most decisions are plain, and reading the whole approval would take longer than everything else before the commit.
    """
    if isinstance(decision, Deny) and (decision.scope, decision.pattern) == ("once", None):
        return _denial(decision)
    if isinstance(decision, Approve) and (decision.arguments, decision.scope, decision.pattern) == _ONCE:
        return Checked("approve")
    return None


def _denial(decision: Deny, rules: tuple[Rule, ...] = ()) -> Checked:
    reason = printable_text(decision.reason) if decision.reason else None
    return Checked("deny", reason=reason, scope=decision.scope, rules=rules)


def _check_call(approval: str, is_call: bool) -> None:
    if not is_call:
        raise InvalidInput(f"{approval} is a question: answer it, or deny it to leave it unanswered")


def check(found: Approval, decision: Decision) -> Checked:
    """Check a decision against what was asked and offered. Raises InvalidInput."""
    if isinstance(decision, Deny):
        return _denial(decision, rule_of_denial(found, decision))
    if isinstance(decision, Answer):
        if found.kind != "question":
            raise InvalidInput(f"{found.id} is about a call of {found.tool}: approve or deny it instead of answering")
        return Checked("answer", value=check_answer(found, decision.value))
    _check_call(found.id, found.kind == "call")
    edited = _check_edit(found, decision.arguments)
    return Checked(
        "approve",
        edited=edited,
        scope=decision.scope,
        rules=granted(found, decision),
        uses=decision.uses,
        until=decision.until,
        minutes=decision.minutes,
    )


def _check_edit(approval: Approval, arguments: Mapping[str, Any] | None) -> msgspec.Raw | None:
    """Encode edited arguments, with the default values of those that are left out. Raises InvalidInput unless they are
    all of the call's arguments, as its journaled schema has them, or as it asked with if there is none (A8).

    Their types are checked by `check_types`, and by the process that runs the call. Secret arguments are checked only
    there: they may be masked here.
    """
    if arguments is None:
        return None
    if not isinstance(arguments, Mapping):
        raise InvalidInput("edited arguments are a JSON object with all of the call's arguments; a patch is not enough")
    if not approval.editable:
        raise InvalidInput(
            f"{approval.id} may not be approved with other arguments: {approval.tool} takes them only as it asked with "
            "them; approve or deny it as it is"
        )
    edited = filled_arguments(approval, arguments)
    raw = to_json(edited, "an edited argument", exact=True)
    asked, given = set(approval.arguments), set(edited)
    schema = approval.arguments_schema
    if schema is not None:  # it says which names there are; a secret argument can neither be added nor dropped
        asked, given = asked.intersection(approval.secret), given.intersection(approval.secret)
    if asked != given:
        problems = [f"{name} is missing" for name in sorted(asked - given)]
        problems += [f"{name} is not an argument of {approval.tool}" for name in sorted(given - asked)]
        raise InvalidInput(f"edited arguments replace all of the call's arguments: {', '.join(problems)}")
    shown = {name: value for name, value in msgspec.json.decode(raw).items() if name not in approval.secret}
    if schema is not None and (problem := schema_misfit(shown, _without(schema, approval.secret))) is not None:
        raise InvalidInput(f"the edited arguments do not fit the schema of {approval.tool}: {problem}; correct them")
    return raw


def check_types(approval: Approval, checked: Checked) -> None:
    """Raise InvalidInput for edited arguments that certainly do not fit the types of the tool, by its journaled
    parameters (A8). The tool's own decoder, which knows more, is asked before the effect.

    It is no part of `check`: a decision that was accepted must be accepted in each replay.
    """
    if checked.edited is None or approval.schema is None:
        return
    known, edited = approval.schema.get("properties", {}), msgspec.json.decode(checked.edited)
    unseen = {*approval.secret, *approval.masked}
    properties = {
        name: {} if name in unseen else known[name] if name in known else _plain_like(approval.arguments.get(name))
        for name in edited
    }
    schema = {"properties": properties, "$defs": approval.schema.get("$defs", {})}
    if (problem := why_unlike(edited, schema, is_closed=not approval.secret)) is not None:
        raise InvalidInput(f"the edited arguments do not fit {approval.tool}: {problem.lstrip()}; correct them")


def _plain_like(value: Any) -> dict[str, Any]:
    """Return the schema of a parameter of which the journaled parameters say nothing: it is that of a text or a bool,
    like the value that the call asked with."""
    return {"type": "boolean" if isinstance(value, bool) else "string"} if isinstance(value, bool | str) else {}


def _without(schema: Mapping[str, Any], secret: Collection[str]) -> dict[str, Any]:
    """Return what a schema of arguments says of those that are not secret: what else it says of all of them together
    cannot be checked without the secret ones."""
    if not secret:
        return dict(schema)
    words = ("properties", "$defs", "additionalProperties", "propertyNames")
    required = [name for name in schema.get("required", ()) if name not in secret]
    return {word: schema[word] for word in words if word in schema} | {"required": required}


def restored(edited: msgspec.Raw, request: e.ToolCallRequested) -> msgspec.Raw:
    """Return edited arguments with the secret values and credentials in place of the masks that the approver left."""
    return to_json(unmask(msgspec.json.decode(edited), request.arguments, request.secret), "an edited argument")


def rules_of(view: View, checked: Checked, now: datetime) -> tuple[Rule, ...]:
    """Return the rules that a decision makes, or finds already in place."""
    until = checked.until_at(now)
    made = checked.rules if until is None else tuple(replace(rule, until=until) for rule in checked.rules)
    return tuple(book(view).find_same(rule) or rule for rule in made)


def ids_of(rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """Return the ids of rules, if there are several."""
    return tuple(str(rule.id) for rule in rules) if len(rules) > 1 else ()


def decision_entries(
    view: View,
    asking: tuple[str, str],
    approval: str,
    checked: Checked,
    *,
    by: str,
    channel: str | None,
    batch: str | None = None,
    quorum: Quorum = ALONE,
    now: datetime,
    is_in_time: Callable[[datetime], bool] = lambda expires_at: False,
    shares_rules: bool = False,
    is_former: bool = False,
) -> tuple[list[Entry], Decided | Counted | None]:
    """Return the entries of a decision, and the session with the event that counts; Counted if it is a vote; None if it
    does not count. `asking`: the session and the operation of the approval. `is_in_time`: whether an approval with this
    expiry is known to be decided before it, although the wall clock says later. `shares_rules`: whether rules for all
    sessions are kept elsewhere: the caller adds them there. `is_former`: as in Environment. Raises InvalidInput for an
    approval of a question, and for a vote on what others could not see.
    """
    session, operation = asking
    state = view.find_session(session)
    record = None if state is None else state.record_of(operation)
    if state is None or record is None or record.pending_approval != approval:
        return [], None
    is_of_budget = operation in state.budgeting.asides
    if record.expires_at is not None and record.expires_at <= now and not is_in_time(record.expires_at):
        expired = e.ApprovalExpired(at=now, operation=operation, approval=approval)
        return [(session, expired), *(follow_decision(view, state, expired, now) if is_of_budget else ())], None
    rules: tuple[Rule, ...] = ()
    if checked.rules:  # most decisions are about this call alone
        check_end(checked.uses, checked.until, now, is_counted=not shares_rules)
        rules = rules_of(view, checked, now)
    event = _event(record, checked, rules, at=now, operation=operation, approval=approval, by=by, channel=channel)
    if batch is not None and isinstance(event, e.ApprovalDecided):
        event = replace(event, batch=batch)
    if quorum.number > 1 and checked.decision != "deny":
        vote = _vote(record, checked, event, quorum.number)
        given = [] if record.approval is None else record.approval.votes
        same = [each.by for each in given if each.digest == vote.digest]
        others = [each for each in same if each != by and quorum.counts(each)]
        if (missing := quorum.number - len(others) - 1) > 0:
            return [] if by in same else [(session, vote)], Counted(missing)
        event = replace(event, votes=tuple(others))
    entries: list[Entry] = [(session, event)]
    for rule in rules:
        if rule.session is not None or not shares_rules:
            entries += rule_added(view, rule, by, now, approval, is_former=is_former)
    if is_of_budget:
        entries += follow_decision(view, state, event, now)
    return entries, (state, event)


def _event(
    record: Operation, checked: Checked, rules: tuple[Rule, ...], **about: Any
) -> e.ApprovalDecided | e.QuestionAnswered:
    """Return the event of a decision. Raises InvalidInput for an approval of a question."""
    if checked.decision == "answer":
        return e.QuestionAnswered(**about, value=_chosen(checked.value, record.request))
    if checked.decision == "approve":
        _check_call(about["approval"], record.is_call)
    if checked.edited is not None and isinstance(record.request, e.ToolCallRequested):
        about |= {"arguments": restored(checked.edited, record.request), "secret": record.request.secret}
    if rules:
        about |= {"pattern": checked.pattern, "rule": rules[0].id}
        about |= {"rules": ids_of(rules), "uses": checked.uses, "until": checked.until_at(about["at"])}
    return e.ApprovalDecided(**about, decision=checked.decision, scope=checked.scope, reason=checked.reason)


def _vote(
    record: Operation, checked: Checked, event: e.ApprovalDecided | e.QuestionAnswered, number: int
) -> e.ApprovalVoted:
    """Return a decision as a vote. Raises InvalidInput for an edit of what the others could not see."""
    request, value = record.request, JSON_NULL
    about: dict[str, Any] = {"digest": ""}
    if isinstance(event, e.QuestionAnswered):
        value = event.value
        about["digest"] = digest_of_value(msgspec.json.decode(value))
    elif isinstance(request, e.ToolCallRequested):
        about = {"digest": request.digest, "scope": event.scope, "pattern": event.pattern, "secret": request.secret}
        asked = msgspec.json.decode(request.arguments)
        runs = asked if event.edited is None else msgspec.json.decode(event.edited)
        if canonical_json(runs) != canonical_json(asked):
            hidden = [name for name in runs if name in request.secret or hides(runs[name]) or hides(asked.get(name))]
            if changed := [name for name in hidden if canonical_json(runs[name]) != canonical_json(asked.get(name))]:
                raise InvalidInput(
                    f"this needs {number} people, and the others could not see what you write into "
                    f"{', '.join(changed)}: leave it as it is, or deny the call"
                )
            value, about["digest"] = event.arguments, digest_of_value(runs)
        bounds = {"uses": checked.uses, "until": checked.until, "minutes": checked.minutes}
        if checked.scope != "once":
            ends = [] if not any(bounds.values()) else [checked.uses, str(checked.until), checked.minutes]
            about["digest"] = digest_of_value([about["digest"], event.scope, event.pattern, *ends])
        about |= bounds
    said = {name: getattr(event, name) for name in ("at", "operation", "approval", "by", "channel")}
    return e.ApprovalVoted(**said, **about, quorum=number, value=value)


def _chosen(answer: msgspec.Raw, request: Any) -> msgspec.Raw:
    """Return an answer with the choice of the question in place of the one that was shown, with credentials masked."""
    choices = request.choices if isinstance(request, e.QuestionAsked) else None
    shown = hide(choices)
    if choices is None or shown is choices or (said := msgspec.json.decode(answer)) not in shown:
        return answer
    return to_json(choices[shown.index(said)], "the answer")


def kind_of(now: Approval, checked: Checked) -> Literal["already", "conflict", "closed"]:
    """Return the result kind of a decision that did not win, by the approval on disk."""
    if now.status in ("withdrawn", "expired"):
        return "closed"
    if now.decision != checked.decision:
        return "conflict"
    if checked.decision == "answer":
        given = msgspec.json.decode(checked.value)
        return "already" if msgspec.json.encode(now.answer) == msgspec.json.encode(given) else "conflict"
    # Compared with the masked arguments: an edit that contains a secret value is never the same, so that no caller can
    # learn the secret by guessing.
    is_as_asked = not now.edited if checked.edited is None else now.arguments == msgspec.json.decode(checked.edited)
    until = checked.until if now.decided_at is None else checked.until_at(now.decided_at)
    if now.through is not None and until is not None:  # the same minutes, from another instant on
        until = now.until
    said = (now.scope or "once", now.pattern, now.uses, now.until)
    is_same = said == (checked.scope, checked.pattern, checked.uses, until)
    # A denial is a denial, and so is an approval through a rule; but a rule that was not made must not seem to be.
    is_same = is_same or (checked.scope == "once" and (checked.decision == "deny" or now.through is not None))
    return "already" if is_as_asked and is_same else "conflict"
