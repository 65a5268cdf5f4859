"""What agents of all frameworks have in common: the framework runs the loop, and its I/O is done by operations.

Rules
- A framework runs on asyncio. On trio its agent is refused before anything is journaled.
- Each model request is a named step, and each tool call a named call of a foreign tool, `AGENT.TOOL`. Names are made of
  what the model answered, so that each attempt makes the same ones. LangGraph is different: langgraph/agent.py.
- Models repeat the ids of their calls, and frameworks refuse that. So a repeated id is made a new one, the same in each
  attempt. A call is identified by its request, its id, its arguments, and the use of all three.
- A model that cannot stream is asked for its answer as a whole.
- An exception of a tool ends the run if it does so in the framework. Its call has a result, and nothing runs again.
- If a person has approved a call with other arguments, a line above its result tells the model which ones ran.
- The last save of a run holds its output and its messages, for the turns after it.
"""

import copy
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import sniffio

from supervisor.agents.model_arguments import read_arguments
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.foreign_tool import foreign_tool
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.core.ids import digest_of_value
from supervisor.core.limits import BUSY
from supervisor.core.text.visible import json_text
from supervisor.core.usage import Usage
from supervisor.core.values import ToolResult
from supervisor.seam.context import Context, Operations

T = TypeVar("T")
_NOT_IN_NAMES: Final = re.compile(r"[/#:*\s]+")
_SUB_AGENT: Final[ContextVar[Operations | None]] = ContextVar("supervisor_sub_agent", default=None)
"""The operations by which the tool that runs now may call a sub-agent."""


class FrameworkAgent(AgentSpec[[str], Any]):
    """An agent whose loop another framework runs, on asyncio only."""

    def encode_input(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if (backend := _other_backend()) is not None:
            raise InvalidInput(_refusal(self.name, backend))
        return super().encode_input(args, kwargs)

    def at_version(self, version: str) -> AgentSpec[Any, Any]:
        if (backend := _other_backend()) is not None:
            raise UnknownAgent(_refusal(self.name, backend))
        return super().at_version(version)


def _other_backend() -> str | None:
    """Return the backend that runs now, unless it is asyncio."""
    try:
        backend = sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        return None
    return None if backend == "asyncio" else backend


def _refusal(name: str, backend: str) -> str:
    return f"agent {name} runs on asyncio only, as its framework does, and not on {backend}: run the program on asyncio"


def framework_agent(
    name: str, run: Callable[[Context, str], Awaitable[Any]], module: str, description: str, options: Mapping[str, Any]
) -> FrameworkAgent:
    """Make an agent for a module that calls a factory. `run`: its function; it may be a closure."""

    async def agent(ctx: Context, text: str) -> Any:
        if ctx.saved is not None:  # the attempt before this one ended between its save and its outcome
            return ctx.saved["output"]
        return await run(ctx, text)

    agent.__name__ = agent.__qualname__ = name
    agent.__module__ = module
    agent.__doc__ = description
    made = FrameworkAgent(agent, name=name, **options)
    made.asks_all_it_awaits = True
    return made


def check_deps(deps: object, whose: str) -> None:
    """Raise InvalidInput for a context that is no function: a resumed run makes it again."""
    if deps is not None and not callable(deps):
        raise InvalidInput(
            f"{whose}: a resumed run cannot make {type(deps).__name__} again; give a function of the "
            "context that makes it: deps=lambda ctx: ..."
        )


def answer_usage(model: object, given: int | None, cached: int | None, written: int | None, requests: int = 1) -> Usage:
    """Return what an answer of a model took. A model that says nothing of its tokens leaves them unknown."""
    name = model if isinstance(model, str) else ""
    if not (given or written):
        return Usage(name, requests, None, None, None)
    return Usage(name, requests, given, cached or 0, written)


def name_word(text: str) -> str:
    """Return a text as a word of the name of a tool or an operation."""
    return _NOT_IN_NAMES.sub("_", text)


def edit_line(result: ToolResult[Any]) -> str:
    """Return the line for the model above the result of a call that a person has edited; "" for any other call."""
    ran = result.details.get("arguments")
    return "" if ran is None else f"[a person approved this call with other arguments, which ran: {json_text(ran)}]\n"


def cannot_stream(error: BaseException) -> bool:
    """Whether an exception says that a model has no streamed answers, and not that one has failed. A model that tries
    others raises a group of theirs."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(cannot_stream, error.exceptions))
    is_told = isinstance(error, AssertionError) and "stream_function" in str(error)  # Pydantic AI's FunctionModel
    return is_told or isinstance(error, NotImplementedError)


class ToolRaised(Exception):
    """A tool has raised what ends the run in its framework."""


RAISED: Final = ("exception", "connection_lost", BUSY)
"""The reasons of a result that is an exception of the tool's function."""


async def may_end_run(ctx: Context) -> bool:
    """Whether a failed call ends the run, as it does in the framework. A run of a former version has told its model of
    such a call, and goes on so."""
    return await ctx.patched("a tool's exception ends the run")


class Answers:
    """Shows what a framework's model writes (`Context.stream`), with a blank line between two answers."""

    def __init__(self) -> None:
        self._last: object = None

    def write(self, stream: Callable[[str], None], answer: object, piece: str) -> None:
        """Show the next piece of an answer. `answer`: what tells it from the others; not None."""
        if not piece:
            return
        if self._last is not None and self._last != answer:
            stream("\n\n")
        self._last = answer
        stream(piece)


class Names:
    """Names the operations of one attempt."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()
        self._ids: set[str] = set()

    def request(self, kind: str = "request") -> str:
        """Return the name of the next request of a kind."""
        return self._next(name_word(kind).replace("_", " "))

    def call_id(self, given: str) -> str:
        """Return the id of the next call of an answer: the model's own, unless an earlier call of the run has it."""
        found, number = given, 1
        while found in self._ids:
            number += 1
            found = f"{given}_{number}"
        self._ids.add(found)
        return found

    def call(self, request: int, call_id: str, tool: str, arguments: Any) -> str:
        """Return the name of a call: of its request, its place in it and its use."""
        return self._next(f"request {request} {name_word(tool)} {digest_of_value([call_id, arguments])[:12]}")

    def _next(self, name: str) -> str:
        self._uses[name] += 1
        return f"{name} {self._uses[name]}"


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a variable of this task another value in this block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def calling_sub_agents(operations: Operations) -> AbstractContextManager[None]:
    """Let a `supervisor_tool` that runs in this block call its agent, by these operations."""
    return setting(_SUB_AGENT, operations)


async def call_sub_agent(agent: AgentSpec[..., Any], arguments: str | Mapping[str, Any]) -> ToolResult[Any]:
    """Call a sub-agent for a `supervisor_tool`, with what the model wrote. Raises InvalidInput outside an agent of
    ours."""
    operations = _SUB_AGENT.get()
    if operations is None:
        raise InvalidInput(
            f"the tool {agent.name} starts a sub-agent of a supervised agent: wrap the agent that has it, and run it "
            "with a supervisor"
        )
    return await offered_call(operations, agent, arguments)


async def offered_call(
    operations: Operations, agent: AgentSpec[..., Any], given: str | Mapping[str, Any]
) -> ToolResult[Any]:
    """Call a sub-agent with what a model wrote. Arguments that do not fit are an error, which the model reads."""
    arguments, problem = read_arguments(agent.name, given)
    try:
        agent.encode_input((), arguments)
    except (TypeError, InvalidInput) as error:
        told = problem or _misfit(agent, arguments) or f"the arguments of tool {agent.name} do not fit: {error}"
        refused = foreign_tool(agent.name, _never, policy="allow")
        refused.refusal = told
        return await operations.call(refused, arguments)
    if told := problem or _misfit(agent, arguments):
        agent = copy.copy(agent)
        agent.refusal = told
    return await operations.call(agent, **arguments)


def _misfit(agent: AgentSpec[..., Any], arguments: Mapping[str, Any]) -> str:
    try:
        agent.read_offered(to_json(dict(arguments), f"the arguments of tool {agent.name}"))
    except InvalidInput as error:
        return str(error)
    return ""


async def _never(arguments: Mapping[str, Any]) -> None:
    """The effect of a call that is refused."""
