"""Standing rules: rules, and rules allow, ask, deny and revoke. They hold in every process on the store (A7).

Only a person may change rules: a process that a supervised call started is refused (A4). It may list them.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Final

from cyclopts import App, Parameter

from supervisor.channels.wording.cards import summary
from supervisor.channels.wording.granting import ending_of, where_rule_holds
from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit, not_found
from supervisor.cli.options import (
    ANYWHERE,
    AS_ME,
    AnyPlace,
    JsonOption,
    PersonPlace,
    ToolName,
    parse_duration,
    read_count,
)
from supervisor.core.approvals.facts import ago, instant_text
from supervisor.core.calls import rules as core
from supervisor.core.calls.rules import Rule, end_words
from supervisor.core.documents import rule_document
from supervisor.core.errors import NotFound, SupervisorError
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval
from supervisor.seam.supervisor import Supervisor
from supervisor.system.refusals import COMMANDS

_CHANGING: Final = COMMANDS["rules allow"].what
PendingOption = Annotated[
    bool, Parameter(negative=(), help="It also decides the calls that wait and that it covers; they are printed.")
]
SessionOption = Annotated[
    str | None,
    Parameter(name="--session", help="A session; the rule holds in its tree only. Default: in every session."),
]


def rules(*, place: AnyPlace = ANYWHERE, json: JsonOption = False) -> int:
    """List the standing rules of the store, oldest first. Rules in a program's code are not listed."""
    found = place.read(lambda supervisor: supervisor.find_rules())
    if json:
        answers.print_json([rule_document(rule) for rule in found])
    elif found:
        _print_rules(found)
        say_on_stderr(f"\nDeny beats ask, and ask beats allow. To revoke one: supervisor rules revoke ID{place.option}")
    else:
        say_on_stderr(
            f"There are no rules in {place.where}. To add one: supervisor rules allow TOOL PATTERN{place.option}"
        )
    return Exit.DONE


def allow(
    tool: ToolName,
    pattern: str,
    /,
    *,
    session: SessionOption = None,
    unreviewed: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Accept a prefix that was not reviewed, whose further words may run anything "
            "(docs/reference/prefixes.md).",
        ),
    ] = False,
    pending: PendingOption = False,
    uses: Annotated[int | None, Parameter(converter=read_count, help="It allows only so many calls.")] = None,
    for_: Annotated[
        str | None, Parameter(name="--for", help="It allows only the calls of so long from now on, such as 15m.")
    ] = None,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Allow calls of a tool from now on, without asking.

    Parameters
    ----------
    pattern
        The calls that it covers. For the shell: a whole command, or its first words followed by a space and `*`.
        `in /folder: git status` covers one folder only. For other tools: the JSON object of all arguments.
    """
    until = None if for_ is None else datetime.now(UTC) + parse_duration(for_)
    rule = core.make_rule(
        "allow", tool, pattern, "command line", session, unreviewed=unreviewed, uses=uses, until=until
    )
    return _add(rule, place, as_json=json, pending=pending)


def ask(
    tool: ToolName,
    pattern: str | None = None,
    /,
    *,
    session: SessionOption = None,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Ask a person about calls of a tool from now on, even if another rule allows them.

    Parameters
    ----------
    pattern
        The calls that it covers; default: every call. For the shell: the first words of a command, in any folder. For
        other tools: a JSON object of some of the arguments.
    """
    rule = core.make_rule("ask", tool, pattern, "command line", session)
    return _add(rule, place, as_json=json)


def deny(
    tool: ToolName,
    pattern: str | None = None,
    /,
    *,
    session: SessionOption = None,
    pending: PendingOption = False,
    place: PersonPlace = AS_ME,
    json: JsonOption = False,
) -> int:
    """Deny calls of a tool from now on, even if another rule allows them or a person approves them.

    Parameters
    ----------
    pattern
        The calls that it covers, as for `rules ask`.
    """
    rule = core.make_rule("deny", tool, pattern, "command line", session)
    return _add(rule, place, as_json=json, pending=pending)


def revoke(rule: str, /, *, place: PersonPlace = AS_ME, json: JsonOption = False) -> int:
    """Revoke a rule: it does not cover calls that begin from now on.

    Parameters
    ----------
    rule
        The rule's id, as `supervisor rules` shows it.
    """

    async def body(supervisor: Supervisor, name: str) -> Rule:
        try:
            return await supervisor.revoke_rule(rule, by=name)
        except NotFound:
            known = [each.id for each in await supervisor.find_rules() if each.id is not None]
            raise not_found("rule", rule, known, place.option) from None

    taken = place.give(_CHANGING, body, wanted=("rule", rule))
    if json:
        answers.print_json(rule_document(taken))
    else:
        print(f"revoked {rule}: {_sentence(taken)}")
    return Exit.DONE


def _add(rule: Rule, place: PersonPlace, *, as_json: bool, pending: bool = False) -> int:
    warning: list[str] = []
    decided: list[Approval] = []

    async def body(supervisor: Supervisor, name: str) -> Rule:
        from supervisor.system.known_tools import warn_of_tool

        waiting = await supervisor.find_approvals(session=rule.session, limit=None) if pending else ()
        made = await supervisor.add_rule(rule, by=name, pending=pending)
        now = [await supervisor.get_approval(each.id) for each in waiting if each.tool == rule.tool]
        decided.extend(each for each in now if each.rule == made.id)
        with suppress(SupervisorError):  # a person who may make rules may be one who may not read everything
            warning.extend(filter(None, [await warn_of_tool(supervisor, rule)]))
        return made

    added = place.give(_CHANGING, body, create=True)
    if as_json:
        answers.print_json(rule_document(added))
    else:
        print(f"{added.id}: {_sentence(added)}")
        for each in decided:
            print(f"{each.status}: {summary(each)} [{each.id}]")
        say_on_stderr(f"To revoke it: supervisor rules revoke {added.id}{place.option}")
    for text in warning:
        say_on_stderr(f"warning: {text}")
    return Exit.DONE


def _sentence(rule: Rule) -> str:
    ends = end_words(rule.uses, rule.until)
    return f"{rule.kind} {visible(rule.tool)} {where_rule_holds(rule.session)}{ends}: {_pattern(rule)}{_review(rule)}"


def _review(rule: Rule) -> str:
    if (why := core.why_void(rule)) is not None:
        return f" (allows nothing: {visible(why)})"
    return " (unreviewed: its further words may run anything)" if rule.unreviewed else ""


def _pattern(rule: Rule) -> str:
    """Return what a rule covers, safe for a screen."""
    pattern = "any arguments" if rule.pattern is None else visible(rule.pattern, lines=True, ordered=True)
    return f"{pattern}  (exactly this call)" if rule.exact else pattern


def _print_rules(found: Sequence[Rule]) -> None:
    from rich.text import Text

    console, now = answers.open_console(), datetime.now().astimezone()
    for number, rule in enumerate(found):
        text = Text("\n" if number else "")
        style = {"allow": "green", "deny": "red", "ask": "yellow"}[rule.kind]
        text.append(f"{rule.id}  ", style="bold").append(rule.kind, style=style)
        ends = f", {ending}" if (ending := ending_of(rule, now)) else ""
        text.append(f" {visible(rule.tool)}, {where_rule_holds(rule.session)}{ends}{_review(rule)}\n")
        for line in _pattern(rule).split("\n"):
            text.append("  │ ", style="dim").append(f"{line}\n")
        since = f", {instant_text(rule.added_at, now)} ({ago(rule.added_at, now)})" if rule.added_at else ""
        out_of = f", deciding {rule.approval}" if rule.approval else ""
        text.append(f"  by {visible(rule.by or '?')}{since}, {visible(rule.origin)}{out_of}", style="dim")
        console.print(text)


commands = App(name="rules", default_command=rules)
for command in (allow, ask, deny, revoke):
    commands.command(command)
