"""The pages on which a person starts an agent: the agents that there are, and the form of one's input."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from supervisor.channels.web import rendering
from supervisor.channels.web.pages.forms import FormView, Misfilled, form_view, read_form
from supervisor.channels.web.pages.visits import Visit
from supervisor.channels.web.problems import Problem, problem_of
from supervisor.channels.wording.form_words import is_small
from supervisor.core.approvals.fields import Field, describe_schema
from supervisor.core.approvals.forms import write_form_texts
from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput, NotEntitled
from supervisor.core.ids import new_session_id
from supervisor.core.values import AgentView


class StartView(msgspec.Struct, frozen=True, kw_only=True):
    """The page of one agent. `session`: the id of the session that the form starts, so that a form that is sent twice
    starts one."""

    name: str
    description: str
    session: str
    takes_input: bool
    form: FormView | None
    """The fields of the input; None if it takes none, or JSON only."""
    json: str
    """The input as JSON, as far as it was typed."""
    is_json: bool
    """Whether the input was typed as JSON."""


def start_view(agent: AgentView, typed: Mapping[str, str] | None = None, problem: str = "") -> StartView:
    """Return the page of an agent. `typed`: the form that the reader has sent; `problem`: what is wrong with it."""
    typed = typed or {}
    field = _fields(agent)
    return StartView(
        name=agent.name,
        description=agent.description,
        session=typed.get("session") or new_session_id(),
        takes_input=agent.input is not None,
        form=form_view(field, "input", UNSET, typed if "fields" in typed else None, problem) if field else None,
        json=typed.get("json", ""),
        is_json="json" in typed,
    )


def input_of(agent: AgentView, typed: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the arguments for a start: none or one. Raises InvalidInput; Misfilled for a form with problems."""
    if agent.input is None:
        return ()
    if "fields" in typed and (field := _fields(agent)) is not None:
        return (read_form(field, typed),)
    text = typed.get("json", "").replace("\r\n", "\n")
    if not text.strip():
        raise InvalidInput("the input is missing; write it as JSON")
    return (from_json(text, Any, "the input is not JSON"),)


def _fields(agent: AgentView) -> Field | None:
    """Return the fields of an agent's input; None if it takes none, or JSON only."""
    if agent.input is None:
        return None
    field = describe_schema(agent.input)
    return field if field.kind != "json" and is_small(write_form_texts(field)) else None


async def list_agents(visit: Visit) -> Response:
    return await visit.page("agents.html", "agents", {"agents": await visit.supervisor.find_agents()})


async def show_agent(visit: Visit) -> Response:
    return await _agent(visit, await _find_agent(visit))


async def _find_agent(visit: Visit) -> AgentView:
    name = visit.path("name")
    found = next((agent for agent in await visit.supervisor.find_agents() if agent.name == name), None)
    if found is None:
        raise Problem(404, f"there is no agent {name}; the page of agents lists those that there are")
    return found


async def _agent(visit: Visit, agent: AgentView, status: int = 200, problem: str = "") -> Response:
    view = start_view(agent, visit.form, problem)
    model = {"view": view, "problem": problem, "may_start": visit.person.is_operator}
    return await visit.page("agent.html", "agents", model, status=status)


async def start(visit: Visit) -> Response:
    agent = await _find_agent(visit)
    if "press" in visit.form:  # a button inside the form; nothing is started
        return await _agent(visit, agent)
    session = visit.form.get("session") or None
    try:
        given = input_of(agent, visit.form)
        run = await visit.supervisor.start(agent.name, *given, session=session, by=visit.person.name)
    except Misfilled:  # the form says what is wrong, and where
        return await _agent(visit, agent, 422)
    except (InvalidInput, NotEntitled) as error:
        return await _agent(visit, agent, problem_of(error).status, f"Nothing was started: {error}")
    return RedirectResponse(rendering.url("sessions", run.session), 303)
