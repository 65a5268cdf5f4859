"""`supervisor usage`: what was spent on models, which only reads; and `supervisor budget`, which raises a budget."""

from typing import Annotated

import msgspec
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import ANYWHERE, AS_ME, AnyPlace, JsonOption, PersonPlace
from supervisor.cli.reading import get_session
from supervisor.core.budgets import budget_text, read_budget
from supervisor.core.text.visible import visible
from supervisor.core.usage import Spent, UsageKind, UsageReport, money_text, requests_text
from supervisor.seam.supervisor import Supervisor
from supervisor.system.refusals import COMMANDS


def usage(
    session: str | None = None,
    /,
    *,
    by: Annotated[UsageKind, Parameter(help="The parts of the sum.")] = "agent",
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Show what was spent on models, in parts. What was pruned is gone; the answer says since when it counts.

    Parameters
    ----------
    session
        The id of a session: what it and everything below it has spent. Default: the whole store.
    """

    async def read(supervisor: Supervisor) -> UsageReport:
        if session is not None:
            await get_session(supervisor, session, place)  # raises NotFound with the closest ids
        return await supervisor.get_usage(session, by=by)

    report = place.read(read, wanted=None if session is None else ("session", session))
    if json:
        answers.print_json(msgspec.to_builtins(report))
    elif report.parts:
        _print(report)
    else:
        say_on_stderr(f"Nothing was spent on models in {session or place.where}, as far as its agents say.")
    return Exit.DONE


def budget(session: str, limits: str, /, *, place: PersonPlace = AS_ME) -> int:
    """Raise what a session and everything below it may spend: what waits for that goes on. A lower limit changes
    nothing.

    Parameters
    ----------
    session
        The id of the session whose budget it is.
    limits
        The new limits, as in usd=10,requests=400; the kinds are usd, tokens, requests and calls.
    """
    given = read_budget(limits)

    async def act(supervisor: Supervisor, who: str) -> None:
        await get_session(supervisor, session, place)  # raises NotFound with the closest ids
        await supervisor.raise_budget(session, given, by=who)

    place.give(COMMANDS["budget"].what, act, wanted=("session", session))
    print(f"The budget of {session} is at least {budget_text(given.limits)} from now on")
    return Exit.DONE


def _print(report: UsageReport) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim", show_edge=False)
    for name in (report.by, "price", "requests", "tokens in", "cached", "out"):
        table.add_column(name, overflow="fold")
    for part in report.parts:
        table.add_row(Text(visible(part.name)), *map(Text, _cells(part.spent)))
    if len(report.parts) > 1:
        table.add_row(Text("in all", style="bold"), *map(Text, _cells(report.total)))
    answers.open_console().print(table)
    if report.since is not None:
        say_on_stderr(f"\nIt counts since {report.since.astimezone():%Y-%m-%d %H:%M}; what was pruned is not in it.")


def _cells(spent: Spent) -> tuple[str, ...]:
    unknown = " and unknown" if spent.uncounted else ""
    cached = f"{spent.cached_input_tokens:,}{unknown}"
    tokens = f"{spent.input_tokens:,}{unknown}", cached, f"{spent.output_tokens:,}{unknown}"
    return (money_text(spent), requests_text(spent), *tokens)
