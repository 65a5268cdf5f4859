"""Commands that decide and cancel: approve, deny, answer, cancel. They work whether or not a process runs the tree.

Only a person may approve, deny and answer: a process that a supervised call started is refused (A4). It may cancel,
which grants nothing.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any

from cyclopts import Parameter

from supervisor.channels.wording.cards import told
from supervisor.channels.wording.granting import where_rule_holds, with_meant_pattern
from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.batches import Named, SessionOption, ToolOption, decide_all, list_for
from supervisor.cli.exits import Exit
from supervisor.cli.filling import fill_in_approval
from supervisor.cli.options import (
    AS_ME,
    AnyPlace,
    ApprovalId,
    ForOption,
    JsonOption,
    PersonPlace,
    SessionId,
    UsesOption,
    parse_arguments,
    parse_duration,
)
from supervisor.core.approvals.questions import read_answer
from supervisor.core.calls.rules import deniable, find_option, patterns_of
from supervisor.core.documents import decision_document, outcome_document
from supervisor.core.errors import InvalidInput, ServerUnavailable
from supervisor.core.text.visible import visible
from supervisor.core.values import Answer, Approval, Approve, Decision, DecisionResult, Deny, Scope, SessionView
from supervisor.seam.runs import Run
from supervisor.seam.supervisor import Supervisor
from supervisor.system.refusals import COMMANDS

Decide = Callable[[str, Approval], Awaitable[Decision]]
"""Makes a decision from a person's name and the approval."""


def approve(
    *approvals: ApprovalId,
    session: SessionOption = None,
    tool: ToolOption = None,
    shown: Annotated[
        str | None, Parameter(help="Of a session: approve exactly what was listed under this digest.")
    ] = None,
    edit: Annotated[
        str | None,
        Parameter(
            help="Approve with these arguments instead: a JSON object of all of them (approvals --json shows it)."
        ),
    ] = None,
    seen: Annotated[
        str | None, Parameter(help="With --edit: the code of the evidence that you have seen of these arguments.")
    ] = None,
    form: Annotated[
        bool, Parameter(negative=(), help="Approve with other arguments, which are asked for field by field.")
    ] = False,
    scope: Annotated[
        Scope,
        Parameter(help="What is approved: this call, or also later ones in its session's tree, or in every session."),
    ] = "once",
    pattern: Annotated[
        str | None,
        Parameter(
            help="For a wider scope: one of the patterns that are offered, or its number. Default: the listed one."
        ),
    ] = None,
    uses: UsesOption = None,
    for_: ForOption = None,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Approve a call, or several: each runs once. With a wider scope, or with --uses or --for, later calls that the
    pattern covers run without asking. With a session alone, list what waits there, and say how to approve exactly
    that."""
    named = Named(approvals, session, tool, shown)
    minutes = None if for_ is None else parse_duration(for_).total_seconds() / 60

    def approval(name: str, arguments: dict[str, Any] | None = None) -> Approve:
        return Approve(
            by=name, arguments=arguments, seen=seen, scope=scope, pattern=pattern, uses=uses, minutes=minutes
        )

    if named.one is None:
        if form or edit is not None:
            raise InvalidInput("other arguments are for one call: approve it by its id alone")
        if session is not None and shown is None:
            return list_for(named, place, as_json=json)
        return decide_all(named, approval, place, as_json=json)
    if form and edit is not None:
        raise InvalidInput("--form asks for the arguments, and --edit gives them: use one of them")
    arguments = None if edit is None else parse_arguments(edit)

    async def decision(name: str, found: Approval) -> Decision:
        given = arguments
        if form and found.kind == "call":
            given = await fill_in_approval(found, instead="give the arguments as JSON, by --edit")
        return with_meant_pattern(found, approval(name, given))

    return _decide(named.one, decision, place, as_json=json)


def deny(
    *approvals: ApprovalId,
    session: SessionOption = None,
    tool: ToolOption = None,
    reason: Annotated[str | None, Parameter(help="Why; the agent gets it as the call's result.")] = None,
    scope: Annotated[
        Scope,
        Parameter(
            name=["--for", "--scope"],
            help="What is denied: this call, or also the same one later in its session's tree, or in every session.",
        ),
    ] = "once",
    pattern: Annotated[
        str | None, Parameter(help="For a wider scope: a pattern of the call. Default: exactly this call.")
    ] = None,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Deny a call, or several, or all that wait in a session: they do not run, and the agents are told so. With a wider
    scope, the same call is denied later without asking. A question that is denied by its id stays unanswered."""

    def denial(name: str) -> Deny:
        return Deny(by=name, reason=reason, scope=scope, pattern=pattern)

    async def decision(name: str, found: Approval) -> Decision:
        return denial(name)

    named = Named(approvals, session, tool)
    if named.one is None:
        return decide_all(named, denial, place, as_json=json)
    return _decide(named.one, decision, place, as_json=json)


def answer(
    approval: str,
    value: str | None = None,
    /,
    *,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Answer a question that an agent asks.

    Parameters
    ----------
    approval
        The question's id, whole or short, as `supervisor approvals` shows it.
    value
        One of its choices, or free text, or JSON where the question asks for it. `yes` and `no` stand for true and
        false. Without one, its fields are asked for, one after the other.
    """

    async def decision(name: str, found: Approval) -> Decision:
        if found.kind == "question" and value is None:
            return Answer(value=await fill_in_approval(found, instead="give the answer after the id"), by=name)
        if found.kind == "question" and value is not None:
            return Answer(value=read_answer(found, value), by=name)
        return Answer(value=value, by=name)

    return _decide(approval, decision, place, as_json=json)


def cancel(
    session: SessionId,
    /,
    *,
    reason: Annotated[str | None, Parameter(help="Why; the outcome contains it.")] = None,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Cancel a session and every sub-agent below it, and wait until they have ended."""
    from supervisor.cli.reading import get_session
    from supervisor.wiring.stopping import run_until_stopped

    found: list[tuple[SessionView, dict[str, Any]]] = []

    async def body() -> None:
        # Which call started a process is known next to its store only: a server is not asked (A4).
        action = COMMANDS["cancel"].what if place.is_server else None
        async with place.act(action, wanted=("session", session)) as (supervisor, who):
            view = await get_session(supervisor, session, place)
            ended = outcome_document(view)
            if ended is None:
                run = await _cancel(supervisor, session, reason, who, place)
                outcome = await run.outcome()
                ended = {"kind": outcome.kind, "value": outcome.value, "cause": outcome.cause}
            found.append((view, ended))

    stopped = run_until_stopped(body, "asyncio")
    if not found:
        say_on_stderr(f"The session may not have ended yet. To wait for it: supervisor cancel {session}{place.option}")
        return stopped or Exit.REFUSED
    ((view, ended),) = found
    if json:
        answers.print_json({"session": view.id, "outcome": ended})
    else:
        had = "had already ended" if view.outcome is not None else "has ended"
        print(f"{visible(view.path[-1])} [{view.id}] {had}: {ended['kind']}")
        say_on_stderr(f"\nsupervisor show {session}{place.option}")
    return Exit.DONE


async def _cancel(supervisor: Supervisor, session: str, reason: str | None, by: str, place: AnyPlace) -> Run[Any]:
    """Cancel the latest run of a session, and return it; one that begins meanwhile goes on."""
    try:
        run = await supervisor.get_run(session)
    except ServerUnavailable:
        if place.temporal is not None:  # no worker lives, and a cancel counts all the same
            await supervisor.cancel(session, reason=reason, by=by)
        raise
    await supervisor.cancel(session, reason=reason, by=by, run=run.number)
    return run


def _end_of(made: Approve) -> str:
    counted = [] if made.uses is None else [f"the next {made.uses} times" if made.uses > 1 else "one more time"]
    return ", ".join([*counted, *([] if made.minutes is None else [f"for {made.minutes:g} minutes"])])


def _decide(approval: str, decision: Decide, place: PersonPlace, *, as_json: bool) -> int:
    from supervisor.cli.asked import find_approval

    async def decide(supervisor: Supervisor, who: str) -> tuple[DecisionResult, Decision, Approval]:
        found = await find_approval(supervisor, approval, place)
        made = await decision(who, found)
        return await supervisor.decide(found.id, made, channel="command line"), made, found

    result, made, found = place.give("deciding", decide, wanted=("approval", approval))
    if as_json:
        answers.print_json(decision_document(result))
    else:
        print(f"{told(result, datetime.now().astimezone())} [{found.id}]")
        if result.seen:
            say_on_stderr(f"To approve it: the same command with --edit, and with --seen {result.seen}")
        if result.rule is not None and isinstance(made, Approve | Deny):
            is_yes = isinstance(made, Approve)
            option = find_option(found.options if is_yes else deniable(found), made.scope, made.pattern)
            granted = patterns_of(option.pattern or "") if option is not None else ()
            here = where_rule_holds(found.root_session if made.scope == "session" else None)
            what = "No longer asked" if is_yes else "Denied from now on"
            end = f", {_end_of(made)}" if isinstance(made, Approve) and _end_of(made) else ""
            say_on_stderr(f"{what} {here}{end}: {visible(found.tool)}: {' and '.join(map(visible, granted))}")
            for rule in result.rules or (result.rule,):
                say_on_stderr(f"To revoke it: supervisor rules revoke {rule}{place.option}")
    if result.is_accepted and not result.running:
        answers.say_kept(found.path[0], found.root_session, place)
    return Exit.DONE if result.is_accepted or result.kind == "counted" else Exit.CONFLICT
