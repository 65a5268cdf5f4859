"""A graph keeps what people decided about its calls: a guard sees each tool that begins, in whatever node or subgraph.

    the graph asks -> a person decides (Decisions.note) -> a segment -> a tool begins (Guard.on_tool_start) -> it runs

LangChain calls the guard before the function of a tool, since it is a callback of the whole graph. So no order of
middleware, and no jump between nodes, leads past it. Functions that are no tools of LangChain are not seen.

Rules
- A call that was decided runs only as it was approved: with the tool, the arguments and the id that were shown.
- A decision is about one call of one answer of a model. A model that uses an id again, in this graph or in a subgraph,
  makes another call.
- Calls of one answer that have one id cannot be told apart by a graph: all but the first get an id of their own.
- A call that was approved runs. A graph that ends without it has failed.
- A node that waits for an answer begins again with it. So a call that the same node has made already would be made
  again, and the graph has failed before a person is asked, unless it is idempotent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langgraph.errors import GraphBubbleUp
from langgraph.types import StateSnapshot

from supervisor.agents.framework import answer_usage
from supervisor.agents.plain_json import as_shown
from supervisor.core.ids import canonical_json
from supervisor.core.usage import Usage


class GraphFailed(Exception):
    """A graph could not end: a node raised, a segment met its deadline, a person stopped it, or it did not keep what a
    person had decided."""


class Asked(NamedTuple):
    """A call about which a graph asks. `id`: the model's, if the thread shows it. `graph`: where LangGraph keeps the
    state of the graph that makes it; "" for the outermost one."""

    id: str | None
    tool: str
    arguments: Mapping[str, Any]
    graph: str = ""

    def __str__(self) -> str:
        return f"{self.tool} {canonical_json(self.arguments).decode()}"


class _Decided(NamedTuple):
    call: Asked
    may_run: bool


class Decisions:
    """What was decided in this run, the same in each attempt."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str | None], list[_Decided]] = {}
        """What was decided, by the graph and the id of the call."""
        self._new: set[tuple[str, str]] = set()
        """The calls that models have made in this process, and that were not decided."""
        self.is_watched = True
        """Whether every segment since the first decision has run in this process."""

    def note(self, decided: Iterable[tuple[Asked, Mapping[str, Any]]]) -> None:
        """Note the decisions after one segment, as the middleware gets them."""
        new: dict[tuple[str, str | None], list[_Decided]] = {}
        for call, decision in decided:
            found = new.setdefault((call.graph, call.id), [])
            found.append(_Decided(call, decision["type"] == "approve"))
            if decision["type"] == "edit":
                action = decision["edited_action"]
                edited = call._replace(tool=action["name"], arguments=_shown(action["args"]))
                found.append(_Decided(edited, may_run=True))
            self._new = {each for each in self._new if each[1] != call.id or not _is_below(each[0], call.graph)}
        for key, found in new.items():
            again = [each.call for each in found]
            self._of[key] = [said for said in self._of.get(key, []) if said.call not in again] + found

    def forget(self, graph: str, call_id: str) -> None:
        """A model has made a new call with this id."""
        self._of.pop((graph, call_id), None)
        self._new.add((graph, call_id))

    def why_not(self, begun: Asked) -> str | None:
        """Return why a call may not begin; None if it may."""
        if (begun.graph, begun.id) in self._new:
            return None
        known = [said for key, each in self._of.items() if _is_below(begun.graph, key[0]) for said in each]
        found = [said for said in known if begun.id is not None and said.call.id == begun.id]
        found = found or [said for said in known if None in (said.call.id, begun.id) and _is_in(said.call, begun)]
        if not found or any(said.may_run and _is_in(said.call, begun) for said in found):
            return None
        return (
            f"{begun} did not run: a person had decided about {found[0].call}, and this is not what they approved. The "
            "graph's middleware leads past the decision: let no middleware jump to the tools, or rewrite a call, after "
            "the review"
        )

    def left_out(self, state: StateSnapshot, begun: Sequence[Asked]) -> Asked | None:
        """Return a call that was approved, and that the graph has not made although it has ended."""
        values = state.values if isinstance(state.values, dict) else {}
        messages = values.get("messages") or ()
        wanted = {call["id"] for each in messages if isinstance(each, AIMessage) for call in each.tool_calls}
        answers = {each.tool_call_id: each.status for each in messages if isinstance(each, ToolMessage)}
        for said in (said for each in self._of.values() for said in each if said.may_run):
            call = said.call
            if call.graph or call.id not in wanted or any(call.id == each.id and _is_in(call, each) for each in begun):
                continue
            if call.id not in answers or (self.is_watched and answers[call.id] == "error"):
                return call
        return None


class _Begun(NamedTuple):
    node: str
    call: Asked


class Guard(BaseCallbackHandler):
    """Sees the tools and the models of one segment."""

    raise_error = True  # what it raises ends the call: without this LangChain logs it, and goes on
    run_inline = True  # in the task of the tool, and before it

    def __init__(self, decisions: Decisions, used: Callable[[Usage], None] = lambda usage: None) -> None:
        self._decisions = decisions
        self._used = used
        self._begun: dict[UUID, _Begun] = {}
        self._asked: dict[UUID, str] = {}
        """The graph in which each chat model answers."""

    @property
    def begun(self) -> list[Asked]:
        return [each.call for each in self._begun.values()]

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **known: Any) -> None:
        """Raise GraphFailed for a call that may not run."""
        call_id = known.get("tool_call_id")
        if call_id is None and "tool_call_id" in known:
            return  # code of the graph calls it, and no model
        node = _node(known)
        tool, arguments = str((serialized or {}).get("name")), _shown(known.get("inputs") or {})
        call = Asked(call_id, tool, arguments, node.rpartition("|")[0])
        if (why := self._decisions.why_not(call)) is not None:
            raise GraphFailed(why)
        self._begun[run_id] = _Begun(node, call)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **known: Any) -> None:
        """Note a tool that waits itself: it begins again with its answer."""
        if isinstance(error, GraphBubbleUp) and run_id in self._begun:
            self._begun[run_id] = self._begun[run_id]._replace(node="")

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **known: Any) -> None:
        self._asked[run_id] = _node(known).rpartition("|")[0]

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **known: Any) -> None:
        """Give each call of an answer an id of its own."""
        graph = self._asked.pop(run_id, "")
        for generation in (each for several in response.generations for each in several):
            message = getattr(generation, "message", None)
            if isinstance(message, AIMessage):
                self._used(_usage_of(message))
                _tell_apart(message)
                for call in message.tool_calls:
                    self._decisions.forget(graph, str(call["id"]))

    def made_twice(self, state: StateSnapshot) -> str | None:
        """Return why the answers to what the graph waits for would make a call again; None if they would not."""
        waiting = set(_waiting_nodes(state))
        made = next((each.call for each in self._begun.values() if each.node in waiting), None)
        return made and (
            f"{made} was made, and its node waits for a person now. Their answer would begin the node again, and make "
            "the call again. Give each call a node of its own (Send, as create_agent does), ask in a node before the "
            "calls, or declare that nodes may run again: idempotent=True"
        )


def _usage_of(message: AIMessage) -> Usage:
    said: Mapping[str, Any] = message.usage_metadata or {}
    about, details = message.response_metadata, said.get("input_token_details") or {}
    name = about.get("model_name") or about.get("model")
    return answer_usage(name, said.get("input_tokens"), details.get("cache_read"), said.get("output_tokens"))


def equal_ids(calls: Iterable[Mapping[str, Any]]) -> str | None:
    """Return an id that two calls of one answer have; None if there is none."""
    ids = [str(call["id"]) for call in calls]
    return next((each for each in ids if ids.count(each) > 1), None)


def graph_of(state: StateSnapshot | None) -> str:
    """Return where LangGraph keeps a state."""
    return "" if state is None else str(state.config.get("configurable", {}).get("checkpoint_ns") or "")


def asked_state(state: StateSnapshot, interrupt: str) -> StateSnapshot | None:
    """Return the innermost state in which a node waits at an interrupt."""
    for task in state.tasks:
        if isinstance(task.state, StateSnapshot) and (found := asked_state(task.state, interrupt)) is not None:
            return found
        if any(each.id == interrupt for each in task.interrupts):
            return state
    return None


def last_calls(state: StateSnapshot | None) -> list[Mapping[str, Any]]:
    """Return the calls of the last answer of a model in a state."""
    values = state.values if state is not None and isinstance(state.values, dict) else {}
    said = [each for each in values.get("messages") or () if isinstance(each, AIMessage)]
    return [*said[-1].tool_calls] if said else []


def _waiting_nodes(state: StateSnapshot) -> Iterator[str]:
    """Yield the nodes that wait at an interrupt, as LangGraph names them in a callback's metadata."""
    above = graph_of(state)
    for task in state.tasks:
        if task.interrupts and task.result is None:
            yield f"{above}|{task.name}:{task.id}" if above else f"{task.name}:{task.id}"
        if isinstance(task.state, StateSnapshot):
            yield from _waiting_nodes(task.state)


def _node(known: Mapping[str, Any]) -> str:
    """Return the node in which a callback is called, as LangGraph names it: its graph, and its task."""
    return str((known.get("metadata") or {}).get("langgraph_checkpoint_ns") or "")


def _is_below(graph: str, above: str) -> bool:
    """Whether a graph is another one, or is run by one of its nodes."""
    return not above or graph == above or graph.startswith(f"{above}|")


def _tell_apart(message: AIMessage) -> None:
    """Give calls with an id that another call of the message has one of their own, wherever the message has it."""
    content = message.content if isinstance(message.content, list) else []
    blocks = [each for each in content if isinstance(each, dict) and each.get("type") in ("tool_use", "tool_call")]
    for calls in (message.tool_calls, message.additional_kwargs.get("tool_calls") or (), blocks):
        taken: set[str] = set()
        for call in calls:
            given, number = call.get("id"), 1
            while isinstance(given, str) and call["id"] in taken:
                number += 1
                call["id"] = f"{given}_{number}"
            taken.add(str(call.get("id")))


def _is_in(call: Asked, begun: Asked) -> bool:
    """Whether a call begins with these arguments. LangChain adds those that it injects."""
    given = {name: value for name, value in begun.arguments.items() if name in call.arguments}
    return call.tool == begun.tool and canonical_json(given) == canonical_json(call.arguments)


def _shown(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as people see them. What LangChain injects may be anything."""
    return {name: as_shown(value) for name, value in arguments.items()}
