"""One attempt of one run of a graph of LangGraph: its segments and its thread. The rules are in agent.py."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import is_dataclass
from typing import Any, Final, NamedTuple

import msgspec
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, messages_from_dict, messages_to_dict
from langgraph.types import Command, StateSnapshot

from supervisor.agents.busy import telling_busy
from supervisor.agents.framework import Answers
from supervisor.agents.langgraph.checks import Graph
from supervisor.agents.langgraph.guard import (
    Asked,
    Decisions,
    GraphFailed,
    Guard,
    asked_state,
    equal_ids,
    graph_of,
    last_calls,
)
from supervisor.agents.langgraph.questions import Asking, asked_calls, ids_of
from supervisor.agents.langgraph.threads import Place, checkpoint_of, config_of, place_of
from supervisor.agents.langgraph.tools import Tools
from supervisor.agents.model_arguments import journal_value
from supervisor.agents.plain_json import as_json
from supervisor.agents.written_context import WrittenContext
from supervisor.core.declarations.foreign_tool import foreign_tool
from supervisor.core.declarations.tool_context import ToolContext
from supervisor.core.errors import InvalidInput
from supervisor.core.limits import BUSY
from supervisor.core.usage import Usage
from supervisor.core.values import ToolResult
from supervisor.seam.context import Context

WATCHED: Final = Usage(requests=0)
"""What a block reserves that is only watched: the requests in it are counted one by one."""
_GO_ON: Final = ("go on", "stop")


class Settings(NamedTuple):
    """What a program chose for an agent."""

    name: str
    input: Callable[[str], Any] | None
    output: Callable[[Any], Any] | None
    deps: Callable[[Context], Any] | None
    segment_timeout: float
    idempotent: bool
    stream: bool
    limit: str | None = None


class GraphRun:
    """One attempt of one run of the graph."""

    def __init__(self, ctx: Context, settings: Settings, graph: Graph, text: str) -> None:
        self._ctx = ctx
        self._settings = settings
        self._asking = Asking(ctx, settings.name)
        self._graph = graph
        self._text = text
        self._place = Place(thread="")
        self._number = 0
        self._given: dict[str, Any] = {}
        """The answers to the interrupts of the last segment, by their ids."""
        self._answers = Answers()
        self._decisions = Decisions()
        self._begun: list[Asked] = []
        """The calls that the graph has begun in this attempt."""
        self._context = WrittenContext(settings.name, self._new_context())
        self._has_begun = False
        """Whether a segment has ended, so that the checkpointer must know the thread."""

    def _new_context(self) -> Any:
        """Return the runtime context as LangGraph gives it to nodes: it would make another one of a dict in each
        segment."""
        made: Any = None if self._settings.deps is None else self._settings.deps(self._ctx)
        schema: Any = self._graph.context_schema
        is_made = isinstance(made, dict) and (is_dataclass(schema) or hasattr(schema, "model_fields"))
        return schema(**made) if is_made else made

    async def converse(self) -> Any:
        """Bring the graph to its end. Raises GraphFailed, and what else ends a run."""
        said = await self._ctx.named("thread").step(self._find_place)
        self._place = Place(thread=said) if isinstance(said, str) else msgspec.convert(said, Place)
        if self._place.lost is not None:
            text = f"the state of thread {self._place.lost} is lost for this fork: it goes on with the messages alone"
            await self._ctx.report("text", text)
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
            if (why := rest.get("broken")) is not None:
                raise GraphFailed(f"{self._settings.name}: {why}")
            if rest["interrupts"]:
                self._given = await self._asking.answers(self._number, rest["interrupts"])
                self._decisions.note(self._decided(rest["interrupts"]))
            elif rest["before"]:
                self._given = {}
                nodes = " and ".join(rest["before"])
                await self._ask_to_go_on(f"{self._settings.name} stops at {nodes}. Does it go on?")
            else:
                where = {"thread": self._thread, "at": rest.get("at")}
                await self._ctx.save({"output": rest["output"], "messages": rest["messages"], **where})
                return rest["output"]

    def _decided(self, interrupts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Asked, Mapping[str, Any]]]:
        """Yield each call of the interrupts that a person was asked about, with the decision."""
        for each in interrupts:
            if calls := asked_calls(each):
                answer = self._given[each["id"]]
                yield from zip(calls, answer.get("decisions", [answer]), strict=True)

    async def _find_place(self) -> Any:
        """Return where this turn begins; for a new thread its id alone, as a former version has it."""
        place = await place_of(self._ctx, self._graph)
        return place.thread if place == Place(thread=place.thread) else msgspec.to_builtins(place)

    async def _segment(self, *, is_again: bool) -> dict[str, Any] | None:
        """Run the graph until it waits or ends, and return where it rests. None: it is to go on in another segment.

        `is_again`: a segment with the same answers was begun before.
        """
        name, has_run = f"segment {self._number}", False

        async def body(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult[Any]:
            nonlocal has_run
            has_run = True
            rest = await self._drive(context, is_again=is_again or self._settings.idempotent)
            result = ToolResult(kind="ok", content=_in_words(rest), value=rest)
            return self._context.with_changes("segment", result)

        tool = foreign_tool(
            f"{self._settings.name}.segment",
            body,
            policy="allow",
            timeout=self._settings.segment_timeout,
            idempotent=self._settings.idempotent,
            editable=False,
        )
        tool.asks_model = True
        tool.limit = self._settings.limit
        result = await self._ctx.named(name).call(
            tool, {"answers": self._given} if self._given else {"text": self._text}
        )
        self._context.take(result, is_replayed=not has_run)
        self._decisions.is_watched &= has_run
        if result.kind == "ok":
            return dict(result.value or {})
        if result.details.get("reason") == BUSY and self._settings.idempotent:
            return None  # the next segment waits until the limit opens
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
    def _thread(self) -> str:
        return self._place.thread

    @property
    def _config(self) -> Any:
        return config_of(self._thread)

    def _has_input(self, state: StateSnapshot) -> bool:
        """Whether the thread has the input of this turn."""
        return state.created_at is not None and checkpoint_of(state) != self._place.start

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
        if not self._has_input(state):
            return False
        waiting = [{each.id for each in task.interrupts} for task in state.tasks if task.result is None]
        is_between_steps = bool(state.tasks) and not waiting  # all nodes of a step have ended, and others follow
        return not is_between_steps and all(ids and ids.isdisjoint(self._given) for ids in waiting)

    async def _drive(self, context: ToolContext, *, is_again: bool) -> dict[str, Any]:
        """Run the graph from where its thread is until it waits or ends."""
        state = await self._read()
        is_known, is_lost = self._has_input(state), state.created_at is None and self._place.start is not None
        if is_lost or (is_known != self._has_begun and not (is_known and is_again)):
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
        guard = Guard(self._decisions, context.used)
        place = self._place
        base = place.base if not is_known and place.base != place.start else None
        config: Any = {**config_of(place.thread, base), "callbacks": [guard]}
        events = self._graph.astream(
            start,
            config,
            context=self._context.context,
            stream_mode=["updates", "custom", "messages"] if settings.stream else ["updates", "custom"],
            subgraphs=True,
            durability="sync",  # what a node did is in the thread before the next one begins
        )
        with telling_busy(settings.limit):
            async with ctx.model_call(reserve=WATCHED), aclosing(events):  # type: ignore[type-var] # it is an async generator
                async for event in events:
                    ctx.heartbeat()
                    self._show(event)
        self._begun += guard.begun
        state = await self._read()
        rest = self._rest(state)
        if not settings.idempotent and (why := guard.made_twice(state)) is not None:
            rest["broken"] = why
        return rest

    def _show(self, event: Any) -> None:
        """Show what a chat model of the graph writes."""
        _, mode, content = event
        if mode == "messages" and isinstance(message := content[0], AIMessageChunk):
            self._answers.write(self._ctx.stream, message.id or "", "".join(_texts(message.content)))

    def _input(self) -> Any:
        made: Any = {"messages": [HumanMessage(self._text)]}
        if self._settings.input is not None:
            made = self._settings.input(self._text)
        before = self._ctx.saved_before() if self._place.base is None else ()
        if before and isinstance(made, dict) and "messages" in made:
            made = {**made, "messages": [*messages_from_dict(before[-1]["messages"]), *made["messages"]]}
        return made

    def _rest(self, state: StateSnapshot) -> dict[str, Any]:
        """Return where the graph rests, as JSON."""
        rest: dict[str, Any] = {"interrupts": [], "before": list(state.next)}
        if not state.tasks:
            if (call := self._decisions.left_out(state, self._begun)) is not None:
                rest["broken"] = (
                    f"{call} was approved, and the graph has ended without making it: its middleware left it out"
                )
            return rest | self._end(state.values) | {"at": checkpoint_of(state)}
        name, paths, tools = self._settings.name, dict(_paths(state)), Tools(self._graph)
        for each in state.interrupts:
            value = journal_value(as_json(each.value, f"agent {name}: an interrupt", "interrupt with a value of JSON"))
            path = paths.get(each.id, [])
            found = {"id": each.id, "path": path, "value": value, "schema": each.response_schema}
            where = asked_state(state, each.id)
            made = last_calls(where)
            if calls := asked_calls({"value": each.value}):
                found |= {"calls": ids_of(calls, made), "graph": graph_of(where)}
                if any(unfit := [tools.why_unfit(call) for call in calls]):
                    found["unfit"] = unfit
            rest["interrupts"].append(found)
            if len(calls) > 1 and (same := equal_ids(made)) is not None:
                rest["broken"] = (
                    f"two calls of one answer have the id {same!r}, so the graph cannot tell what was decided of each; "
                    "no person was asked. Use a model that gives each call an id of its own"
                )
        return rest

    def _end(self, values: Any) -> dict[str, Any]:
        messages: list[Any] = []
        if isinstance(values, dict):
            messages = [each for each in values.get("messages") or () if isinstance(each, BaseMessage)]
        what, cure = f"the output of agent {self._settings.name}", "give a function that makes JSON of it: output=..."
        return {
            "output": as_json((self._settings.output or self._output)(values), what, cure),
            "messages": journal_value(messages_to_dict(messages)),
        }

    def _output(self, values: Any) -> Any:
        names = self._graph.output_channels
        if isinstance(names, str) or not isinstance(values, dict):  # one value, as that of an `entrypoint`
            return values
        if values.get("structured_response") is not None:
            return values["structured_response"]
        if values.get("messages"):
            return str(values["messages"][-1].text)
        return {key: value for key, value in values.items() if key in names}


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


def _texts(content: Any) -> Iterator[str]:
    """Iterate over the texts of a message's content, which is one text or a list of blocks."""
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, str):
            yield block
        elif block.get("type") == "text":
            yield str(block.get("text", ""))
