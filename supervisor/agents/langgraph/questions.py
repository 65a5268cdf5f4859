"""What a graph of LangGraph waits for: its interrupts, and the calls of its human-in-the-loop middleware.

Rules
- An interrupt is a question that shows its value. A request of the middleware is an approval, with the decisions that
  the middleware allows.
- An interrupt of a tool that `supervisor_tool` made is a call of its sub-agent.
- All interrupts of a segment wait at the same time.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat, zip_longest
from typing import Any, Final, NamedTuple

import anyio

from supervisor.agents.framework import name_word, offered_call
from supervisor.agents.langgraph.guard import Asked, GraphFailed
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.foreign_tool import foreign_tool
from supervisor.core.errors import InvalidInput, only_error
from supervisor.core.values import ToolResult
from supervisor.seam.context import Context

SUB_AGENT: Final = "__supervisor_agent__"
sub_agents: Final[dict[str, AgentSpec[..., Any]]] = {}
"""The agents that were made tools, by module and name: an interrupt names the one it wants."""
_TYPES: Final[Mapping[Any, Any]] = {
    "boolean": bool,
    "integer": int,
    "number": float,
    "array": list[Any],
    "object": dict[str, Any],
}
"""The type of an answer, by the type in an interrupt's `response_schema`. Any other answer is text."""
_DEFAULT_WORDS: Final = "Tool execution requires approval\n\nTool: {tool}\nArgs: {arguments}"


class Asking:
    """Answers the interrupts of one attempt. `name`: of the agent."""

    def __init__(self, ctx: Context, name: str) -> None:
        self._ctx = ctx
        self._name = name

    async def answers(self, segment: int, interrupts: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the answers to all interrupts of a segment, by their ids. They wait at the same time."""
        answers = await _together(
            partial(self._answer, f"segment {segment} answer {place}", each) for place, each in enumerate(interrupts)
        )
        return {each["id"]: answer for each, answer in zip(interrupts, answers, strict=True)}

    async def _answer(self, name: str, given: Mapping[str, Any]) -> Any:
        value, path, unfit = given["value"], given["path"], given.get("unfit", [])
        match _kind(value):
            case "sub-agent":
                agent = self._sub_agent(value[SUB_AGENT])
                return (await offered_call(self._ctx.named(name), agent, value["arguments"])).content
            case "call":
                request = _per_call(value, given["schema"] or {})
                return await self._decide(name, path, request._replace(unfit="".join(unfit)))
            case "calls":
                return {"decisions": await self._decide_all(name, path, value, unfit)}
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        question = f"{'.'.join([self._name, *path])}: {shown}"
        return await self._ctx.named(name).ask(question, **_answer_type(given["schema"]))

    def _sub_agent(self, key: str) -> AgentSpec[..., Any]:
        if (agent := sub_agents.get(key)) is None:
            raise InvalidInput(
                f"agent {self._name}: its graph calls the sub-agent {key}, of which this process has made no "
                "tool; call supervisor_tool where the module is imported, or where the graph is opened"
            )
        return agent

    async def _decide_all(
        self, name: str, path: list[str], value: Mapping[str, Any], unfit: Sequence[str]
    ) -> list[Any]:
        """Return the decisions about the calls of one answer of a model, in their order."""
        allowed = {each["action_name"]: frozenset(each["allowed_decisions"]) for each in value["review_configs"]}
        requests = [
            _Request(each["name"], each["args"], each.get("description", ""), allowed[each["name"]], unfit=why)
            for each, why in zip(value["action_requests"], unfit or repeat(""), strict=False)
        ]
        return await _together(
            partial(self._decide, f"{name} {place}", path, request) for place, request in enumerate(requests)
        )

    async def _decide(self, name: str, path: list[str], request: "_Request") -> dict[str, Any]:
        """Ask a person, or the rules, about a call. Return the decision as the middleware reads it."""
        operations, allowed = self._ctx.named(name), request.allowed
        tool_name = ".".join([self._name, *map(name_word, path[:-1]), name_word(request.tool)])
        if allowed.isdisjoint({"approve", "edit"}) and "respond" in allowed:
            question = f"{tool_name} {json.dumps(request.arguments, ensure_ascii=False)}: {request.description}"
            return {"type": "respond", "message": await operations.ask(question)}
        tool = foreign_tool(
            tool_name, _take, schema=request.schema, policy="ask", idempotent=True, editable="edit" in allowed
        )
        tool.refusal = request.unfit
        result = await operations.call(tool, request.arguments, because=_words(request))
        if result.kind == "ok" and result.value == request.arguments and "approve" in allowed:
            return {"type": "approve"}
        if result.kind == "ok" and "edit" in allowed:
            return {"type": "edit", "edited_action": {"name": request.tool, "args": result.value}}
        if "reject" in allowed:
            return {"type": "reject", "message": result.content}
        raise GraphFailed(f"{tool_name}: {result.content}; the graph allows no decision by which it could learn this")


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
        raise only_error(group) from None
    return [found[place] for place in sorted(found)]


async def _take(arguments: Mapping[str, Any]) -> ToolResult[dict[str, Any]]:
    """Return the arguments that were approved."""
    return ToolResult(kind="ok", content="allowed; the next segment of the graph makes the call", value=dict(arguments))


class _Request(NamedTuple):
    """A call about which the graph asks. `allowed`: approve, edit, reject, respond. `unfit`: why it cannot run."""

    tool: str
    arguments: dict[str, Any]
    description: str
    allowed: frozenset[str]
    schema: Mapping[str, Any] | None = None
    unfit: str = ""


def _kind(value: Any) -> str:
    """Return what an interrupt is about: a call, several calls of one answer, a sub-agent, or anything else."""
    if not isinstance(value, dict):
        return "other"
    if SUB_AGENT in value:
        return "sub-agent"
    if value.get("type") == "tool_approval":
        return "call"
    return "calls" if value.get("action_requests") and "review_configs" in value else "other"


def asked_calls(interrupt: Mapping[str, Any]) -> list[Asked]:
    """Return the calls that an interrupt asks a person about. Their ids are known if the thread has shown them."""
    value, kind = interrupt["value"], _kind(interrupt["value"])
    requests = [value] if kind == "call" else value["action_requests"] if kind == "calls" else []
    return [
        Asked(each.get("tool_call_id") or call_id, each["name"], each["args"], interrupt.get("graph", ""))
        for each, call_id in zip_longest(requests, interrupt.get("calls", [])[: len(requests)])
    ]


def ids_of(calls: Iterable[Asked], made: Iterable[Mapping[str, Any]]) -> list[str | None]:
    """Return the ids of calls that a graph asks about, by their places in the answer in which a model made them."""
    left, found = list(made), []
    for call in calls:
        same = next((each for each in left if (each["name"], each["args"]) == (call.tool, call.arguments)), None)
        found.append(None if same is None else same["id"])
        if same is not None:
            left.remove(same)
    return found


def _words(request: _Request) -> str:
    """Return what the graph says to its reviewers. Its default says nothing but the call itself."""
    text = request.description if isinstance(request.description, str) else json.dumps(request.description)
    return "" if text == _DEFAULT_WORDS.format(tool=request.tool, arguments=request.arguments) else text


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
