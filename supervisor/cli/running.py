"""Commands that run agents: run, resume, retry, fork, demo.

On a terminal (stdin and stderr) they ask there, and stay until the session has ended. With --wait they stay, too.
Otherwise they leave `open_supervisor`, which waits for everything that can go on and passivates what waits for people.
Then they list what is left to decide, with the commands that decide it, and exit with 3.

The module is longer than 400 lines because these commands begin, follow and report a run in the same way.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Annotated, Any, Final

import anyio
import msgspec
from cyclopts import Parameter

from supervisor.channels.terminal import Terminal
from supervisor.channels.wording.cards import call_text, path_text, summary
from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.following import follow_there, goes_on
from supervisor.cli.options import (
    ANYWHERE,
    ASKING,
    HERE,
    AnyPlace,
    BudgetOption,
    HowToRun,
    JsonOption,
    Place,
)
from supervisor.cli.progress import Following
from supervisor.cli.reading import block_lines, get_session
from supervisor.cli.story import ended, is_progress, is_progress_unattended, is_trouble
from supervisor.core.budgets import read_budget
from supervisor.core.calls.content import shown_content
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, RunBlocked, SupervisorError
from supervisor.core.telling import OUTPUT, drawn
from supervisor.core.text.visible import visible
from supervisor.core.values import SessionView
from supervisor.seam.runs import Run
from supervisor.seam.supervisor import StoreSupervisor, Supervisor
from supervisor.system.inside import has_marker, refuse_inside_call
from supervisor.wiring.stopping import STOPPED_READING, bare, run_until_stopped

TOLD: Final = ("supervisor.runtime.lifecycle.restart", "supervisor.runtime.lifecycle.blocked")
"""Logs that are not shown, since the story of the run tells the same."""
_CAUSE_CHARACTERS: Final = 4_000
"""Characters of why a run failed: what to do is often at the end."""
Begin = Callable[[Supervisor], Awaitable[list[Run[Any]]]]


class Settings(msgspec.Struct, frozen=True):
    """The options of a command that runs agents."""

    place: Place
    how: HowToRun
    as_json: bool
    refusals: dict[str, dict[str, str]] = {}
    """By root and session: why sessions of this command cannot run."""


def run(
    agent: str,
    input: str | None = None,  # noqa: A002 # its name in the help
    /,
    *,
    session: Annotated[
        str | None, Parameter(help="The session's id; an unfinished session of this id goes on.")
    ] = None,
    cwd: Annotated[
        str | None, Parameter(help="The folder in which the session's calls run. Default: this one.")
    ] = None,
    budget: BudgetOption = None,
    how: HowToRun = ASKING,
    place: Place = HERE,
    json: JsonOption = False,
) -> int:
    """Run an agent, or go on with its unfinished session.

    Parameters
    ----------
    agent
        The agent: FILE.py:NAME, MODULE:NAME, or acp:COMMAND for a program that speaks ACP.
    input
        Its input, as JSON. For an agent that takes text, it may be plain text.
    """
    settings = Settings(place, how, json)

    bounded = None if budget is None else read_budget(budget)
    with answers.stdout_for_json(is_json=json):
        spec = load(agent)
    values = spec.decode_input(spec.default_input()) if input is None else spec.read_input(input)

    async def begin(supervisor: Supervisor) -> list[Run[Any]]:
        return [await supervisor.start(spec, *values, session=session, cwd=cwd, budget=bounded)]

    return _one(settings, begin)


def resume(
    session: str | None = None,
    /,
    *,
    how: HowToRun = ASKING,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Go on with a session, or with every open session that no process runs.

    Parameters
    ----------
    session
        The id of a session; its whole tree goes on.
    """
    settings = Settings(place, how, json)
    if place.is_server:
        if session is None:
            raise InvalidInput("a server resumes by itself what it can: name the session that you mean")
        return _there(settings, place, "resuming", lambda supervisor: supervisor.resume(session))
    if session is not None:
        place.need("session", session)
    elif not place.exists:
        return _report(settings, [], as_list=True)

    async def begin(supervisor: Supervisor) -> list[Run[Any]]:
        if session is None:
            return await supervisor.resume_all()
        root = await supervisor.get_session((await get_session(supervisor, session, place)).root)
        if root.status != "blocked":  # else a missing agent is the reason that the report gives
            await _check_agent(supervisor, root.id)
        return [await supervisor.resume(session)]

    if session is not None:
        return _one(settings, begin)
    stopped, views = _drive(settings, begin)
    return stopped or _report(settings, views, as_list=True)


def retry(
    session: str,
    /,
    *,
    how: HowToRun = ASKING,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Run a session again that failed, stalled or was abandoned.

    What led to its end is repeated; all other results are kept.

    Parameters
    ----------
    session
        The id of a session that is no sub-agent's.
    """
    settings = Settings(place, how, json)
    if place.is_server:
        return _there(settings, place, "retrying", lambda supervisor: supervisor.retry(session))
    place.need("session", session)

    async def begin(supervisor: Supervisor) -> list[Run[Any]]:
        await _check_agent(supervisor, (await get_session(supervisor, session, place)).root)
        return [await supervisor.retry(session)]

    return _one(settings, begin)


def fork(
    session: str,
    /,
    *,
    before: Annotated[int, Parameter(help="The number of a journal entry (supervisor show SESSION prints it).")],
    new: Annotated[
        str | None, Parameter(name="--session", help="The id of the new session. Default: a random one.")
    ] = None,
    version: Annotated[str | None, Parameter(help="The version of its code. Default: the current one.")] = None,
    how: HowToRun = ASKING,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Start a new session from a copy of another one, as it was before an entry of its journal, and run it.

    Operations that had finished keep their results; the others are asked for again. The other session does not change.

    Parameters
    ----------
    session
        The session of the entry; its whole tree is copied.
    """
    settings = Settings(place, how, json)

    async def make(supervisor: Supervisor) -> Run[Any]:
        made = await supervisor.fork(session, before=before, new=new, version=version)
        say_on_stderr(f"{made.session} is a fork of {visible(made.source)} before its entry {made.before}.")
        if made.later_calls:
            say_on_stderr(
                f"It does not know these later calls of {visible(made.source)}; their effects may happen a second time:"
            )
        for call in made.later_calls:
            content = shown_content(call.tool, call.arguments, command=call.command)
            say_on_stderr(f"  entry {call.entry} of {visible(call.session)}: {call_text(content)}")
        return await supervisor.get_run(made.session)

    if place.is_server:
        return _there(settings, place, "forking", make)
    place.need("session", session)

    async def begin(supervisor: Supervisor) -> list[Run[Any]]:
        await _load_agent_of(supervisor, (await get_session(supervisor, session, place)).root)
        return [await make(supervisor)]

    return _one(settings, begin)


def _there(settings: Settings, place: AnyPlace, action: str, begin: Callable[[Supervisor], Awaitable[Run[Any]]]) -> int:
    """Do it on a server."""
    if settings.how.unattended != "ask" or settings.how.wait:
        raise InvalidInput("--unattended and --wait are for what runs here, not on a server")
    since = datetime.now().astimezone()
    return follow_there(place, begin, action, report_there, since=since, as_json=settings.as_json)


def report_there(place: AnyPlace, view: SessionView, *, as_json: bool) -> int:
    """Print how a session on a server is, say what to do next, and return the exit code."""
    return _report(Settings(place, ASKING, as_json), [view], as_list=False)


def demo(
    *,
    how: HowToRun = ASKING,
    place: Place = HERE,
    json: JsonOption = False,
) -> int:
    """Run the demonstration: sub-agents work on a small real project, and some of them ask you.

    If it was killed, it goes on where it was.
    """
    settings = Settings(place, how, json)

    async def begin(supervisor: Supervisor) -> list[Run[Any]]:
        from supervisor.demo import start

        run, folder = await start(supervisor)
        say_on_stderr(f"A small project is in {folder}; six sub-agents work on it [{run.session}].")
        say_on_stderr(
            f"After kill -9 {os.getpid()}, at any time, supervisor demo{settings.place.option} goes on where it was.\n"
        )
        return [run]

    return _one(settings, begin)


def load(agent: str) -> AgentSpec[Any, Any]:
    """Import an agent. To be called before the store is opened, since importing a module may do anything."""
    from supervisor.system.loading import load_agent

    return load_agent(agent)


async def _check_agent(supervisor: Supervisor, root: str) -> None:
    """Raise UnknownAgent if the agent of an open session cannot be run here."""
    if (await supervisor.get_session(root)).outcome is None:
        await _load_agent_of(supervisor, root)


async def _load_agent_of(supervisor: Supervisor, root: str) -> None:
    from supervisor.core.events import SessionCreated
    from supervisor.system.loading import load_recorded

    facts = (await supervisor.find_entries(root, limit=1))[0].event
    if isinstance(facts, SessionCreated) and facts.agent:
        load_recorded(facts.agent, facts.file, facts.path[-1])


def _one(settings: Settings, begin: Begin) -> int:
    stopped, views = _drive(settings, begin, is_alone=True)
    refused = {} if stopped else settings.refusals.get(views[0].id, {})
    if views and views[0].id in refused and views[0].outcome is None:
        # For example, the disk is full. The session was stopped and can go on.
        raise SupervisorError(f"{refused[views[0].id]} (then: supervisor resume {views[0].id}{settings.place.option})")
    return stopped or _report(settings, views, as_list=False)


def _drive(settings: Settings, begin: Begin, *, is_alone: bool = False) -> tuple[int | None, list[SessionView]]:
    """Run what `begin` starts. Return the exit code of a signal, if there was one, and the roots as they are then."""
    if settings.how.unattended == "allow":
        refuse_inside_call("--unattended allow")
    terminal = Terminal(
        store=(settings.place.postgres or settings.place.path) if settings.place.store is not None else None,
        interactive=not has_marker(),
    )
    is_asking = settings.how.unattended == "ask"
    stays = settings.how.wait or (is_asking and terminal.is_interactive)
    has_tree = terminal.can_show_tree
    wants = is_trouble if has_tree else is_progress if is_asking else is_progress_unattended
    _quieten(TOLD)
    roots: list[str] = []
    refused: dict[str, str] = {}

    async def body() -> None:
        opened_at = datetime.now().astimezone()
        async with AsyncExitStack() as shown, anyio.create_task_group() as onlookers:
            async with settings.place.open_store(
                create=True,
                channels=[terminal] if is_asking or has_tree else [],
                unattended=settings.how.unattended,
                tune_interpreter=True,
                runs=True,
            ) as supervisor:
                runs = await begin(supervisor)
                roots.extend(run.session for run in runs)
                if has_tree:
                    activities = supervisor.watch_activity(roots[0] if len(roots) == 1 else None)
                    terminal.show_tree(await shown.enter_async_context(activities), roots)
                for root in roots:
                    told = Following(supervisor, root, opened_at, terminal.say, wants, prints_result=is_alone)
                    onlookers.start_soon(told.run)
                if stays:
                    for run in runs:
                        await _stay(supervisor, run)
            refused.update(supervisor.refusals)  # the onlookers tell the end of the runs, and then end

    with answers.stdout_for_json(is_json=settings.as_json):
        stopped = run_until_stopped(bare(body), settings.how.backend, terminal.restore)
    if stopped:
        option = settings.place.option
        for root in roots if stopped != STOPPED_READING else ():
            if (who := goes_on(settings.place)) is not None:
                say_on_stderr(f"Stopped. Nothing is lost. {who} supervisor show {root}{option}")
            else:
                say_on_stderr(
                    f"Stopped. Nothing is lost, and no process goes on with it until: supervisor resume {root}{option}"
                )
        return stopped, []
    return None, _look(settings, roots, refused)


def _quieten(logs: Iterable[str]) -> None:
    for name in logs:
        logging.getLogger(name).setLevel(logging.ERROR)


async def _stay(supervisor: StoreSupervisor, run: Run[Any]) -> None:
    """Wait until a session has ended. Return at once for one that cannot run here; the report says why."""
    try:
        await run.outcome()
        while (await supervisor.get_session(run.session)).outcome is None:  # a message has begun the next turn
            await (await supervisor.get_run(run.session)).outcome()
    except RunBlocked:
        return
    except SupervisorError:
        if run.session not in supervisor.refusals:
            raise


def _look(settings: Settings, roots: list[str], refused: Mapping[str, str]) -> list[SessionView]:
    """Return the roots as they are in the store, and keep why sessions of them cannot run."""
    if not roots:
        return []

    async def look() -> list[SessionView]:
        async with settings.place.open(wanted=("session", roots[0])) as supervisor:
            for session, reason in refused.items():
                root = (await supervisor.get_session(session)).root
                settings.refusals.setdefault(root, {})[session] = reason
            return [await supervisor.get_session(root) for root in roots]

    return anyio.run(look)


def _report(settings: Settings, views: list[SessionView], *, as_list: bool) -> int:
    """Print the status of the sessions and what to do next; return the exit code."""
    if settings.as_json:
        documents = [answers.run_document(view) for view in views]
        answers.print_json(documents if as_list else documents[0])
    codes = [
        _report_blocked(settings, view) if view.status == "blocked" else _report_other(settings, view, not as_list)
        for view in views
    ]
    if not views:
        say_on_stderr(f"No session in {settings.place.where} can go on.")
    order = (Exit.FAILED, Exit.REFUSED, Exit.BLOCKED, Exit.WAITING)
    return next((code for code in order if code in codes), Exit.DONE)


def _report_blocked(settings: Settings, view: SessionView) -> Exit:
    say_on_stderr(f"\n{visible(view.path[-1])} [{view.id}] cannot go on with today's code")
    for line in block_lines(view, settings.place)[1:]:
        say_on_stderr(line)
    say_on_stderr(f"\nsupervisor show {view.id}{settings.place.option}")
    return Exit.BLOCKED


def _report_waiting(settings: Settings, view: SessionView) -> Exit:
    option = settings.place.option
    count = len(view.pending_approvals)
    say_on_stderr(f"\n{visible(view.path[-1])} [{view.id}] waits for {count} decision{'' if count == 1 else 's'}:")
    for approval in view.pending_approvals:
        say_on_stderr(f"  {approval.id}  {path_text(approval.path[-1:])}: {summary(approval, 100)}")
    say_on_stderr(f"Decide: {answers.ways_to_decide(view.pending_approvals, option)}")
    if goes_on(settings.place) is None:
        say_on_stderr(f"then go on: supervisor resume {view.id}{option}")
    return Exit.WAITING


def _report_other(settings: Settings, view: SessionView, is_alone: bool) -> Exit:
    option = settings.place.option
    if view.outcome is None and (refusals := settings.refusals.get(view.id)):
        for session, reason in refusals.items():
            who = visible(view.path[-1]) if session == view.id else "its sub-agent"
            say_on_stderr(f"{who} [{session}] cannot run: {visible(reason, kind='words')}")
        if not view.pending_approvals:
            say_on_stderr(f"Nothing is lost. When the problem is solved: supervisor resume {view.id}{option}")
            return Exit.REFUSED
    if view.outcome is None and not view.pending_approvals:
        say_on_stderr(f"\n{visible(view.path[-1])} [{view.id}] has not ended, and waits for no person:")
        say_on_stderr(f"supervisor show {view.id}{option}")
        return Exit.WAITING
    if view.outcome is None:
        return _report_waiting(settings, view)
    kind = view.outcome["kind"]
    if kind == "succeeded" and view.outcome.get("cause"):
        cause = visible(view.outcome["cause"], kind="words")
        say_on_stderr(f"{visible(view.path[-1])} [{view.id}] was {cause}; it waits for a message")
    elif kind == "succeeded":
        if not settings.as_json and is_alone:
            answers.print_value(view.outcome.get("value"))
        else:
            value = view.outcome.get("value")
            text = f": {drawn(OUTPUT(value))}" if isinstance(value, str) and not is_alone else ""
            say_on_stderr(f"{visible(view.path[-1])} [{view.id}] succeeded{text}")
    else:
        say_on_stderr(
            f"{visible(view.path[-1])} [{view.id}] {ended(kind, view.outcome.get('cause'), _CAUSE_CHARACTERS)}"
        )
    say_on_stderr(f"\nsupervisor show {view.id}{option}    or, of all: supervisor sessions{option}")
    return Exit.DONE if kind == "succeeded" else Exit.FAILED
