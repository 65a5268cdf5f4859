"""The command `start`: an agent that a server offers, or a daemon of the same store, by its name.

Next to a store it needs no token: it writes the first entries of the session, and the daemon adopts it
(wiring/offers.py).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.filling import fill_in
from supervisor.cli.following import follow_there
from supervisor.cli.options import ANYWHERE, SERVER, AnyPlace, BudgetOption, JsonOption, Opened
from supervisor.cli.running import report_there
from supervisor.core.approvals.fields import describe_schema
from supervisor.core.budgets import Budget, read_budget
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.core.ids import new_session_id
from supervisor.core.store_urls import TEMPORAL
from supervisor.core.text.visible import json_text, visible
from supervisor.seam.runs import Run
from supervisor.seam.supervisor import Supervisor
from supervisor.wiring.offers import find_offer

BEFORE_EVERYTHING: Final = datetime(1970, 1, 1, tzinfo=UTC)


def start(
    name: str | None = None,
    input: str | None = None,  # noqa: A002 # the word that people know
    /,
    *,
    session: Annotated[
        str | None, Parameter(help="Its id. The same again is the same session. Default: made up.")
    ] = None,
    budget: BudgetOption = None,
    form: Annotated[bool, Parameter(negative=(), help="Ask for the input, field by field.")] = False,
    detach: Annotated[bool, Parameter(negative=(), help="Print the session's id, and do not follow it.")] = False,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Start an agent that a server or a daemon of this store offers, and follow it until it ends or waits for a person.

    Parameters
    ----------
    name
        The agent's name. Without one, the agents that there are.
    input
        Its input: JSON, or plain words for an agent that takes text.
    """
    opened = None if place.is_server else partial(next_to_a_daemon, place, *offered_there(place))
    if name is None:
        return _list(place, opened, as_json=json)
    if form and input is not None:
        raise InvalidInput("--form asks for the input: do not give it, too")
    bounded = None if budget is None else read_budget(budget)
    begin = partial(_ask if form else _begin, name, input, session or new_session_id(), bounded)
    return follow_there(
        place,
        begin,
        "starting",
        report_there,
        since=BEFORE_EVERYTHING,
        detach=detach,
        as_json=json,
        opened=opened,
    )


def offered_there(place: AnyPlace) -> tuple[dict[str, AgentSpec[..., Any]], tuple[Rule, ...]]:
    """Load what the daemon of a store offers, before the store is opened. Raises InvalidInput if no daemon lives."""
    if (local := place.local) is None or (found := find_offer(local)) is None:
        raise InvalidInput(
            f"start asks a server, a cluster or a daemon of the same store, and no daemon serves {place.where}: "
            f"start one with supervisor serve FILE.py, name a server by --server, ${SERVER} or --store {TEMPORAL}, or "
            "run the agent in this process: supervisor run FILE.py:NAME"
        )
    from supervisor.wiring.daemon import load_offer

    return load_offer(found)


@asynccontextmanager
async def next_to_a_daemon(
    place: AnyPlace, agents: dict[str, AgentSpec[..., Any]], rules: tuple[Rule, ...]
) -> AsyncIterator[Supervisor]:
    """Open a store, for starts that the daemon runs. Its deny and ask rules stay with the session (R4)."""
    from supervisor.wiring.daemon import leave_runs

    async with place.open_store(action="starting", rules=rules) as supervisor:
        leave_runs(supervisor, agents)
        yield supervisor


async def _begin(name: str, text: str | None, session: str, budget: Budget | None, supervisor: Supervisor) -> Run[Any]:
    """Start it with what a person's words mean: JSON where it is JSON that fits, else the words themselves."""
    if text is None:
        return await supervisor.start(name, session=session, budget=budget)
    is_json, value = read_words(text)
    try:
        return await supervisor.start(name, value, session=session, budget=budget)
    except UnknownAgent:
        raise
    except InvalidInput:  # nothing was started
        if not is_json or text.lstrip()[:1] in ("{", "[", '"'):
            raise
        return await supervisor.start(name, text, session=session, budget=budget)


async def _ask(name: str, text: str | None, session: str, budget: Budget | None, supervisor: Supervisor) -> Run[Any]:
    """Start it with the input that the person fills in."""
    agent = next((agent for agent in await supervisor.find_agents() if agent.name == name), None)
    if agent is None or agent.input is None:
        return await supervisor.start(name, session=session, budget=budget)
    value = await fill_in(describe_schema(agent.input), instead="give the input after the name")
    return await supervisor.start(name, value, session=session, budget=budget)


def read_words(text: str) -> tuple[bool, Any]:
    try:
        return True, msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False, text


def _list(place: AnyPlace, opened: Opened | None, *, as_json: bool) -> int:
    found = place.read(lambda supervisor: supervisor.find_agents(), opened=opened)
    if as_json:
        answers.print_json(msgspec.to_builtins(found.items))
        return Exit.DONE
    for agent in found:
        takes = "no input" if agent.input is None else f"input: {json_text(agent.input)}"
        first = visible(agent.description.strip().partition("\n")[0], kind="prose")
        print(f"{visible(agent.name)}{f': {first}' if first else ''}\n  {takes}")
    if not found:
        say_on_stderr(f"{place.where} offers no agents.")
    return Exit.DONE
