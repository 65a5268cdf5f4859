"""Commands that change what goes on: approve, deny, answer, cancel. They work whether or not another process runs the
tree.

Approving, denying and answering are a person's; from inside a supervised call they are refused (A4). Cancelling is not:
it grants nothing.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from supervisor.abc import Supervisor
from supervisor.channels.cards import told
from supervisor.channels.granting import where
from supervisor.cli import answers
from supervisor.cli.answers import say
from supervisor.cli.exits import Exit, not_found
from supervisor.cli.options import ANYWHERE, AnyPlace, ByOption, JsonOption, parse_arguments
from supervisor.core.errors import NotFound
from supervisor.core.questions import read_answer
from supervisor.core.values import Answer, Approval, Approve, Decision, DecisionResult, Deny, Scope, SessionView
from supervisor.core.visible import visible

Decide = Callable[[str, Approval], Decision]
"""Makes a decision of somebody's name and what was asked."""


def approve(
    approval: str,
    /,
    *,
    edit: Annotated[
        str | None, Parameter(help="Approve with these instead: the whole object that `approvals --json` shows.")
    ] = None,
    scope: Annotated[
        Scope, Parameter(help="How far: this call, all of its session's tree from now on, or every session.")
    ] = "once",
    pattern: Annotated[
        str | None, Parameter(help="What a wider scope covers, of those offered. Default: exactly this call.")
    ] = None,
    by: ByOption = None,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Say yes to one call: it runs once. With a wider scope what its pattern covers is asked no more.

    Parameters
    ----------
    approval
        The approval's id, as `supervisor approvals` shows it.
    """
    arguments = None if edit is None else parse_arguments(edit)
    return _decide(
        approval,
        lambda name, found: Approve(by=name, arguments=arguments, scope=scope, pattern=pattern),
        by,
        place,
        as_json=json,
    )


def deny(
    approval: str,
    /,
    *,
    reason: Annotated[str | None, Parameter(help="The agent sees it as the call's result.")] = None,
    by: ByOption = None,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Say no to one call: nothing runs, and the agent is told so.

    Parameters
    ----------
    approval
        The approval's id, as `supervisor approvals` shows it.
    """
    return _decide(approval, lambda name, found: Deny(by=name, reason=reason), by, place, as_json=json)


def answer(
    approval: str,
    value: str,
    /,
    *,
    by: ByOption = None,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Answer a question that an agent asks.

    Parameters
    ----------
    approval
        The question's id, as `supervisor approvals` shows it.
    value
        One of its choices, or free text; JSON where the question asks for it (`yes` and `no` will do for true and
        false).
    """

    def decision(name: str, found: Approval) -> Decision:
        return Answer(value=read_answer(found, value) if found.kind == "question" else value, by=name)

    return _decide(approval, decision, by, place, as_json=json)


def cancel(
    session: str,
    /,
    *,
    reason: Annotated[str | None, Parameter(help="Why; it is part of the outcome.")] = None,
    by: ByOption = None,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Cancel a session and every sub-agent below it; return when they have ended.

    Parameters
    ----------
    session
        The session's id.
    """
    from supervisor.cli.reading import get_session
    from supervisor.stopping import run_until_stopped

    place.check_by(by)
    views: list[SessionView] = []

    async def body() -> None:
        async with place.open(wanted=("session", session)) as supervisor:
            before = await get_session(supervisor, session)
            if before.outcome is None:
                await supervisor.cancel(session, reason=reason, by=place.name_of(by, supervisor))
                await (await supervisor.get_run(session)).outcome()
            views[:] = [before, await supervisor.get_session(session)]

    stopped = run_until_stopped(body, "asyncio")
    if not views:
        say(f"The cancel is on disk if it was accepted; to see it through: supervisor cancel {session}{place.option}")
        return stopped or Exit.REFUSED
    before, view = views
    if json:
        answers.print_json(answers.run_document(view))
    else:
        assert view.outcome is not None
        had = "had already ended" if before.outcome is not None else "has ended"
        print(f"{visible(view.path[-1])} [{view.id}] {had}: {view.outcome['kind']}")
        say(f"\nsupervisor show {session}{place.option}")
    return Exit.DONE


def _decide(approval: str, decision: Decide, by: str | None, place: AnyPlace, *, as_json: bool) -> int:
    import anyio

    place.check_by(by)

    async def decide() -> tuple[DecisionResult, Approval]:
        async with place.open(wanted=("approval", approval), action="deciding") as supervisor:
            try:
                found = await supervisor.get_approval(approval)
            except NotFound:
                raise await _unknown(supervisor, approval) from None
            name = place.name_of(by, supervisor)
            result = await supervisor.decide(approval, decision(name, found), channel="command line")
            return result, await supervisor.get_approval(approval)

    result, found = anyio.run(decide)
    if as_json:
        answers.print_json(answers.decision_document(result))
    else:
        print(f"{told(result, datetime.now().astimezone())} [{approval}]")
        if result.rule is not None:
            here = where(found.root_session if found.scope == "session" else None)
            say(f"Asked no more {here}: {visible(found.tool)}: {visible(found.pattern or '', lines=True)}")
            say(f"To take it back: supervisor rules revoke {result.rule}{place.option}")
    if result.is_accepted and not result.running:
        answers.say_kept(found.root_session, place.option)
    return Exit.DONE if result.is_accepted else Exit.CONFLICT


async def _unknown(supervisor: Supervisor, approval: str) -> NotFound:
    """Return what to say of an id that no approval has; a session's id is a common slip."""
    everything = await supervisor.find_approvals(pending=False)
    here = [other.id for other in everything if approval in (other.session, other.root_session)]
    if here:
        return NotFound(f"{visible(approval)} is a session, not an approval; it asked {', '.join(here)}")
    return not_found("approval", approval, [other.id for other in everything])
