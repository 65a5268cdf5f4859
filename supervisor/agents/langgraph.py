"""LangGraph: a compiled graph is an agent of ours. Extra: langgraph.

    planner = langgraph_agent("planner", graph)        # or a function that opens a graph with its checkpointer

    segment -> the graph waits: approvals, questions, sub-agents -> segment -> ... -> its output

Nodes run arbitrary code, and the graph's checkpointer remembers what they did. So what runs between two interrupts is
one call of ours, a segment. The journal says which segments ran and what was answered; the thread, in the checkpointer,
says how far the graph is.

Rules
- Rules and approvals cover the graph's interrupts, and not what its nodes do. A segment is the call `AGENT.segment`.
- The events of the graph's stream are heartbeats. A segment that is silent stalls, as a model call does.
- Before a segment resumes, it reads its thread. It gives answers only to interrupts that wait: LangGraph would give the
  answer of an interrupt that has one to the next interrupt of the same node.
- After a segment that an earlier attempt left without an end, its nodes may have acted. If the thread shows that it
  had come to its end, the run goes on from there. Otherwise a person is asked, unless the graph is idempotent.
- The thread's id is the session's id, and the run's number for later turns. It is journaled: a retry goes on with the
  thread of the run before it, and a fork of a run in progress is refused, since no two sessions can have one thread.
- All interrupts of a segment are answered before the next one begins.
"""

import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from functools import partial
from importlib.metadata import version
from typing import Any, Final, NamedTuple, TypeAlias

import anyio

from supervisor.abc import Context, ToolContext
from supervisor.agents.framework import framework_agent, word
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.foreign_tool import foreign_tool
from supervisor.core.tool_schema import tool_schema
from supervisor.core.values import ToolResult

_NEEDED: Final = (1, 2, 20)  # the first in which each interrupt of a node has an id of its own
try:
    from langchain_core.messages import BaseMessage, HumanMessage, messages_from_dict, messages_to_dict
    from langchain_core.tools import BaseTool, StructuredTool
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.pregel import Pregel
    from langgraph.types import Command, StateSnapshot, interrupt

    from supervisor.agents.plain_json import as_json

    if tuple(map(int, re.findall(r"[0-9]+", version("langgraph"))[:3])) < _NEEDED:
        raise ImportError(f"{version('langgraph')} is installed")
except ImportError as error:
    raise ImportError(
        f"supervisor.agents.langgraph needs langgraph 1.2.20 or later ({error}): "
        "pip install 'subagent-supervisor[langgraph]'"
    ) from error

__all__ = ["GraphFailed", "langgraph_agent", "supervisor_tool"]

Graph: TypeAlias = Pregel[Any, Any, Any, Any]
_SUB_AGENT: Final = "__supervisor_agent__"
_sub_agents: dict[str, AgentSpec[..., Any]] = {}
"""The agents that were made tools, by module and name: an interrupt names the one it wants."""
_GO_ON: Final = ("go on", "stop")
_TYPES: Final[Mapping[Any, Any]] = {
    "boolean": bool,
    "integer": int,
    "number": float,
    "array": list[Any],
    "object": dict[str, Any],
}
"""The type of an answer, by the type in an interrupt's `response_schema`. Any other answer is text."""


class GraphFailed(Exception):
    """A graph could not end: a node raised, a segment met its deadline, or a person stopped it."""


def langgraph_agent(
    name: str,
    graph: Graph | Callable[[], AbstractAsyncContextManager[Graph]],
    /,
    *,
    input: Callable[[str], Any] | None = None,  # noqa: A002 # LangGraph's word
    output: Callable[[Any], Any] | None = None,
    deps: Callable[[Context], Any] | None = None,
    segment_timeout: float = 3600.0,
    idempotent: bool = False,
    stream: bool = True,
    **options: Any,
) -> AgentSpec[[str], Any]:
    """Make an agent that takes a text and returns the output of a LangGraph graph as plain JSON.

    `name`: its name, and that of the variable that holds it: `planner = langgraph_agent("planner", ...)`.
    `graph`: a graph compiled with a checkpointer; or a function that returns an async context manager of one, for a
    checkpointer that must be opened and closed. It is opened in each attempt.
    `input`: makes the graph's input of the text. Default: a message after those of the turns before, for a graph with
    `messages`. `output`: makes the result of the graph's final values. Default: its structured response, else the text
    of its last message, else the values.
    `deps`: makes the graph's runtime context. It is called in each attempt, since a resumed run has no other.
    `segment_timeout`: the deadline in seconds of what runs between two interrupts.
    `idempotent`: whether nodes may run again after a crash without asking a person.
    `stream`: whether the tokens of chat models are heartbeats, and not only the ends of nodes. `options`: as in
    `@agent`.
    Raises InvalidInput for a graph that cannot be resumed, or for one without `messages` and `input`.
    """
    if isinstance(graph, Pregel):
        _check(name, graph, has_input=input is not None, idempotent=idempotent)
    elif not callable(graph):
        raise InvalidInput(f"langgraph_agent {name} takes a compiled graph or a function that opens one, not {graph!r}")
    if deps is not None and not callable(deps):
        raise InvalidInput(
            f"langgraph_agent {name}: a resumed run cannot make {type(deps).__name__} again; give a function of the "
            "context that makes it: deps=lambda ctx: ..."
        )
    settings = _Settings(name, input, output, deps, segment_timeout, idempotent, stream)

    async def run(ctx: Context, text: str) -> Any:
        async with nullcontext(graph) if isinstance(graph, Pregel) else graph() as opened:
            _check(name, opened, has_input=input is not None, idempotent=idempotent)
            await _check_saver(name, opened.checkpointer, is_durable=ctx.is_durable)
            return await _Run(ctx, settings, opened, text).converse()

    module = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001 # where a resumed run finds the agent
    return framework_agent(name, run, module, "", options)


def supervisor_tool(agent: AgentSpec[..., Any], /) -> BaseTool:
    """Make a tool with which the model of a graph calls a sub-agent. Rules apply to it by the agent's name.

    The tool interrupts the graph, and the sub-agent runs between two segments.
    """
    schema = tool_schema(agent)
    key = f"{agent.fn.__module__}:{agent.name}"
    _sub_agents[key] = agent

    async def call(**arguments: Any) -> Any:
        return interrupt({_SUB_AGENT: key, "arguments": arguments})

    return StructuredTool(
        name=schema["name"], description=schema["description"], args_schema=schema["parameters"], coroutine=call
    )


class _Settings(NamedTuple):
    """What a program chose for an agent."""

    name: str
    input: Callable[[str], Any] | None
    output: Callable[[Any], Any] | None
    deps: Callable[[Context], Any] | None
    segment_timeout: float
    idempotent: bool
    stream: bool


# -- what is refused ---------------------------------------------------------------------------------------------------


def _check(name: str, graph: Graph, *, has_input: bool, idempotent: bool) -> None:
    """Raise InvalidInput for a graph that a later attempt could not resume."""
    if not isinstance(graph, Pregel):
        raise InvalidInput(f"langgraph_agent {name}: {graph!r} is no compiled graph; yield builder.compile(...)")
    if not isinstance(graph.checkpointer, BaseCheckpointSaver):
        raise InvalidInput(
            f"langgraph_agent {name}: the graph has no checkpointer, so nothing remembers what its nodes did; compile "
            "it with one: builder.compile(checkpointer=...)"
        )
    if not has_input and "messages" not in graph.channels:
        raise InvalidInput(
            f"langgraph_agent {name}: the graph has no `messages`; say what its input is: input=lambda text: {{...}}"
        )
    if idempotent and (graph.interrupt_before_nodes or graph.interrupt_after_nodes):
        raise InvalidInput(
            f"langgraph_agent {name}: after a crash an idempotent graph would pass its breakpoints unasked; use "
            "interrupt() in the nodes in place of interrupt_before and interrupt_after"
        )


async def _check_saver(name: str, saver: Any, *, is_durable: bool) -> None:
    """Raise InvalidInput for a checkpointer that dies with the process, if our store does not."""
    if is_durable and (isinstance(saver, InMemorySaver) or await _is_sqlite_in_memory(saver)):
        raise InvalidInput(
            f"langgraph_agent {name}: the graph's {type(saver).__name__} dies with this process, and the store of the "
            "session does not; compile the graph with a checkpointer on disk, such as AsyncSqliteSaver"
        )


async def _is_sqlite_in_memory(saver: Any) -> bool:
    if type(saver).__module__ != "langgraph.checkpoint.sqlite.aio":
        return False
    async with saver.conn.execute("PRAGMA database_list") as rows:
        return not any([path async for _, name, path in rows if name == "main"])


# -- one run -----------------------------------------------------------------------------------------------------------


class _Run:
    """One attempt of one run of the graph."""

    def __init__(self, ctx: Context, settings: _Settings, graph: Graph, text: str) -> None:
        self._ctx = ctx
        self._settings = settings
        self._graph = graph
        self._text = text
        self._thread = ""
        self._number = 0
        self._given: dict[str, Any] = {}
        """The answers to the interrupts of the last segment, by their ids."""
        self._has_begun = False
        """Whether a segment has ended, so that the checkpointer must know the thread."""

    async def converse(self) -> Any:
        """Bring the graph to its end. Raises GraphFailed, and what else ends a run."""
        self._thread = await self._ctx.named("thread").step(self._new_thread)
        if self._thread.partition(":")[0] != self._ctx.session:
            raise InvalidInput(
                f"agent {self._settings.name}: thread {self._thread} belongs to the session that this one is a fork "
                "of, and no two can go on with it: send the fork a message, which begins a thread of its own"
            )
        is_again = False
        while True:
            self._number += 1
            rest = await self._segment(is_again=is_again)
            is_again = rest is None
            if rest is None:
                continue
            self._has_begun = True
            if rest["interrupts"]:
                self._given = await self._answers(rest["interrupts"])
            elif rest["before"]:
                self._given = {}
                nodes = " and ".join(rest["before"])
                await self._ask_to_go_on(f"{self._settings.name} stops at {nodes}. Does it go on?")
            else:
                await self._ctx.save({"output": rest["output"], "messages": rest["messages"]})
                return rest["output"]

    async def _new_thread(self) -> str:
        ctx = self._ctx
        return ctx.session if ctx.run_number == 1 else f"{ctx.session}:{ctx.run_number}"

    async def _segment(self, *, is_again: bool) -> dict[str, Any] | None:
        """Run the graph until it waits or ends, and return where it rests. None: it is to go on in another segment.

        `is_again`: a segment with the same answers was begun before.
        """
        name, has_run = f"segment {self._number}", False

        async def body(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult[Any]:
            nonlocal has_run
            has_run = True
            rest = await self._drive(is_again=is_again or self._settings.idempotent)
            return ToolResult(kind="ok", content=_in_words(rest), value=rest)

        tool = foreign_tool(
            f"{self._settings.name}.segment",
            body,
            policy="allow",
            timeout=self._settings.segment_timeout,
            idempotent=self._settings.idempotent,
            editable=False,
        )
        result = await self._ctx.named(name).call(
            tool, {"answers": self._given} if self._given else {"text": self._text}
        )
        if result.kind == "ok":
            return dict(result.value or {})
        if has_run or result.kind == "denied":
            raise GraphFailed(result.content)
        rest: dict[str, Any] | None = await self._ctx.named(f"thread after {name}").step(self._look)
        if rest is None and not self._settings.idempotent:
            await self._ask_to_go_on(
                f"{self._settings.name}: {name} was cut off ({result.content}). If it goes on, nodes "
                "that had begun and not ended run again. Does it go on?"
            )
        return rest

    async def _ask_to_go_on(self, question: str) -> None:
        if await self._ctx.named(f"after segment {self._number}").ask(question, choices=_GO_ON) != _GO_ON[0]:
            raise GraphFailed("a person stopped the graph")

    # -- the graph and its thread

    @property
    def _config(self) -> Any:
        return {"configurable": {"thread_id": self._thread}}

    async def _read(self) -> StateSnapshot:
        try:
            return await self._graph.aget_state(self._config, subgraphs=True)
        except NotImplementedError:
            saver = type(self._graph.checkpointer).__name__
            raise InvalidInput(
                f"agent {self._settings.name}: {saver} cannot be used with asyncio; use its asynchronous kind, such as "
                "AsyncSqliteSaver, in a function that opens it: langgraph_agent(name, open_graph)"
            ) from None

    async def _look(self) -> dict[str, Any] | None:
        """Return where the graph rests; None if a node may have been begun and not ended."""
        state = await self._read()
        return self._rest(state) if self._is_at_rest(state) else None

    def _is_at_rest(self, state: StateSnapshot) -> bool:
        """Whether the graph has ended, or each node that has not ended waits for an answer that it was not given."""
        if state.created_at is None:
            return False
        waiting = [{each.id for each in task.interrupts} for task in state.tasks if task.result is None]
        is_between_steps = bool(state.tasks) and not waiting  # all nodes of a step have ended, and others follow
        return not is_between_steps and all(ids and ids.isdisjoint(self._given) for ids in waiting)

    async def _drive(self, *, is_again: bool) -> dict[str, Any]:
        """Run the graph from where its thread is until it waits or ends."""
        state = await self._read()
        is_known = state.created_at is not None
        if is_known != self._has_begun and not (is_known and is_again):
            raise InvalidInput(
                f"agent {self._settings.name}: its checkpointer "
                + (f"has another thread {self._thread}" if is_known else f"does not know the thread {self._thread}")
                + ": use one checkpointer for one store, and keep both"
            )
        start: Any = None
        if not is_known:
            start = self._input()
        elif self._is_at_rest(state):
            return self._rest(state)
        elif answers := {each.id: self._given[each.id] for each in state.interrupts if each.id in self._given}:
            start = Command(resume=answers)
        settings, ctx = self._settings, self._ctx
        events = self._graph.astream(
            start,
            self._config,
            context=None if settings.deps is None else settings.deps(ctx),
            stream_mode=["updates", "custom", "messages"] if settings.stream else ["updates", "custom"],
            subgraphs=True,
            durability="sync",  # what a node did is in the thread before the next one begins
        )
        async with ctx.model_call(), aclosing(events):  # type: ignore[type-var] # it is an async generator
            async for _ in events:
                ctx.heartbeat()
        return self._rest(await self._read())

    def _input(self) -> Any:
        made: Any = {"messages": [HumanMessage(self._text)]}
        if self._settings.input is not None:
            made = self._settings.input(self._text)
        before = self._ctx.saved_before()
        if before and isinstance(made, dict) and "messages" in made:
            made = {**made, "messages": [*messages_from_dict(before[-1]["messages"]), *made["messages"]]}
        return made

    def _rest(self, state: StateSnapshot) -> dict[str, Any]:
        """Return where the graph rests, as JSON."""
        rest: dict[str, Any] = {"interrupts": [], "before": list(state.next)}
        if not state.tasks:
            return rest | self._end(state.values)
        name, paths = self._settings.name, dict(_paths(state))
        for each in state.interrupts:
            value = as_json(each.value, f"agent {name}: an interrupt", "interrupt with a value of JSON")
            path = paths.get(each.id, [])
            rest["interrupts"].append({"id": each.id, "path": path, "value": value, "schema": each.response_schema})
        return rest

    def _end(self, values: Any) -> dict[str, Any]:
        messages: list[Any] = []
        if isinstance(values, dict):
            messages = [each for each in values.get("messages") or () if isinstance(each, BaseMessage)]
        what, cure = f"the output of agent {self._settings.name}", "give a function that makes JSON of it: output=..."
        return {
            "output": as_json((self._settings.output or self._output)(values), what, cure),
            "messages": messages_to_dict(messages),
        }

    def _output(self, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        if values.get("structured_response") is not None:
            return values["structured_response"]
        if values.get("messages"):
            return str(values["messages"][-1].text)
        names = self._graph.output_channels
        return {key: value for key, value in values.items() if key in names}

    # -- what the graph waits for

    async def _answers(self, interrupts: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the answers to all interrupts of a segment, by their ids. They wait at the same time."""
        answers = await _together(
            partial(self._answer, f"segment {self._number} answer {place}", each)
            for place, each in enumerate(interrupts)
        )
        return {each["id"]: answer for each, answer in zip(interrupts, answers, strict=True)}

    async def _answer(self, name: str, given: Mapping[str, Any]) -> Any:
        value, path = given["value"], given["path"]
        if isinstance(value, dict):
            if _SUB_AGENT in value:
                agent = self._sub_agent(value[_SUB_AGENT])
                return (await self._ctx.named(name).call(agent, **value["arguments"])).content
            if value.get("type") == "tool_approval":
                return await self._decide(name, path, _per_call(value, given["schema"] or {}))
            if value.get("action_requests") and "review_configs" in value:
                return {"decisions": await self._decide_all(name, path, value)}
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        question = f"{'.'.join([self._settings.name, *path])}: {shown}"
        return await self._ctx.named(name).ask(question, **_answer_type(given["schema"]))

    def _sub_agent(self, key: str) -> AgentSpec[..., Any]:
        if (agent := _sub_agents.get(key)) is None:
            raise InvalidInput(
                f"agent {self._settings.name}: its graph calls the sub-agent {key}, of which this process has made no "
                "tool; call supervisor_tool where the module is imported, or where the graph is opened"
            )
        return agent

    async def _decide_all(self, name: str, path: list[str], value: Mapping[str, Any]) -> list[Any]:
        """Return the decisions about the calls of one answer of a model, in their order."""
        allowed = {each["action_name"]: frozenset(each["allowed_decisions"]) for each in value["review_configs"]}
        requests = [
            _Request(each["name"], each["args"], each.get("description", ""), allowed[each["name"]])
            for each in value["action_requests"]
        ]
        return await _together(
            partial(self._decide, f"{name} {place}", path, request) for place, request in enumerate(requests)
        )

    async def _decide(self, name: str, path: list[str], request: "_Request") -> dict[str, Any]:
        """Ask a person, or the rules, about a call. Return the decision as the middleware reads it."""
        operations, allowed = self._ctx.named(name), request.allowed
        tool_name = ".".join([self._settings.name, *map(word, path[:-1]), word(request.tool)])
        if allowed.isdisjoint({"approve", "edit"}) and "respond" in allowed:
            question = f"{tool_name} {json.dumps(request.arguments, ensure_ascii=False)}: {request.description}"
            return {"type": "respond", "message": await operations.ask(question)}
        tool = foreign_tool(
            tool_name,
            _take,
            schema=request.schema,
            description=request.description,
            policy="ask",
            idempotent=True,
            editable="edit" in allowed,
        )
        result = await operations.call(tool, request.arguments)
        if result.kind == "ok" and result.value == request.arguments and "approve" in allowed:
            return {"type": "approve"}
        if result.kind == "ok" and "edit" in allowed:
            return {"type": "edit", "edited_action": {"name": request.tool, "args": result.value}}
        if "reject" in allowed:
            return {"type": "reject", "message": result.content}
        raise GraphFailed(
            f"{tool_name}: {result.content}; the graph can be told neither of this, nor of another decision"
        )


async def _together(functions: Iterable[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Await functions at the same time, and return their results in order. Raises what one of them raised."""
    found: dict[int, Any] = {}

    async def put(place: int, function: Callable[[], Awaitable[Any]]) -> None:
        found[place] = await function()

    try:
        async with anyio.create_task_group() as tasks:
            for place, function in enumerate(functions):
                tasks.start_soon(put, place, function)
    except BaseExceptionGroup as group:
        raise (group.exceptions[0] if len(group.exceptions) == 1 else group) from None
    return [found[place] for place in sorted(found)]


async def _take(arguments: Mapping[str, Any]) -> ToolResult[dict[str, Any]]:
    """Return the arguments that were approved."""
    return ToolResult(kind="ok", content="allowed; the next segment of the graph makes the call", value=dict(arguments))


class _Request(NamedTuple):
    """A call about which the graph asks. `allowed`: approve, edit, reject, respond."""

    tool: str
    arguments: dict[str, Any]
    description: str
    allowed: frozenset[str]
    schema: Mapping[str, Any] | None = None


def _per_call(value: Mapping[str, Any], schema: Mapping[str, Any]) -> _Request:
    """Read the request of a middleware that interrupts for each call. Its response schema says what is allowed."""
    definitions = schema.get("$defs", {})

    def resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = definitions.get(part.get("$ref", "").rpartition("/")[2], part)
        return found

    kinds = {}
    for branch in map(resolved, schema.get("oneOf", [schema])):
        properties = branch.get("properties", {})
        kinds[properties.get("type", {}).get("const")] = properties
    arguments = None
    if "edit" in kinds:
        edited = resolved(kinds["edit"]["edited_action"])
        arguments = {**resolved(edited["properties"]["args"]), "$defs": definitions}
    allowed = frozenset(kind for kind in kinds if kind is not None)
    return _Request(value["name"], value["args"], value.get("description", ""), allowed, arguments)


def _answer_type(schema: Any) -> dict[str, Any]:
    """Return the options of `ask` for an interrupt's response schema."""
    if not isinstance(schema, dict):
        return {}
    choices = schema.get("enum")
    if choices and all(isinstance(each, str) for each in choices):
        return {"choices": choices}
    expected = _TYPES.get(schema.get("type"))
    return {} if expected is None else {"schema": expected}


def _paths(state: StateSnapshot, above: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Yield the id of each interrupt with the path of nodes to it; an interrupt of a subgraph last with its own."""
    for task in state.tasks:
        path = (*above, task.name)
        for each in task.interrupts:
            yield each.id, list(path)
        if isinstance(task.state, StateSnapshot):
            yield from _paths(task.state, path)


def _in_words(rest: Mapping[str, Any]) -> str:
    if rest["interrupts"]:
        count = len(rest["interrupts"])
        return "the graph waits for an answer" if count == 1 else f"the graph waits for {count} answers"
    if rest["before"]:
        return f"the graph stops at {' and '.join(rest['before'])}"
    return "the graph has ended"
