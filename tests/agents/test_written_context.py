"""What tools write into the context of a run is there in a later process, for each framework and each kind of field."""

import json
from dataclasses import dataclass, field
from datetime import date
from types import SimpleNamespace
from typing import Any, TypedDict

import agents
import msgspec
import pytest
from agents import RunContextWrapper, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from dying import fork
from framework_scenes import opened
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from watching import next_of

from supervisor import Answer, Approve, JournalEntry, MemoryStore
from supervisor.agents.langgraph import langgraph_agent
from supervisor.agents.openai_agents import openai_agent
from supervisor.agents.pydantic_ai import pydantic_agent
from supervisor.agents.written_context import LARGEST_BYTES, WrittenContext
from supervisor.core.values import ToolResult
from supervisor.testing import fast_disk, virtual_asyncio

pytestmark = pytest.mark.anyio
charged: list[Any] = []
OK = ToolResult(kind="ok", content="", value=None)


@pytest.fixture
def anyio_backend():
    return virtual_asyncio()


@pytest.fixture(autouse=True)
def _nothing_is_charged(enter):
    enter(fast_disk())
    charged.clear()


class Item(BaseModel):
    name: str
    day: date = date(2026, 1, 2)


class Client:
    """A handle: JSON cannot hold it."""


@dataclass
class Basket:
    client: Client = field(default_factory=Client)
    items: list[Item] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


def fill(basket: Basket, name: str) -> str:
    basket.items.append(Item(name=name))
    basket.seen |= {name}
    return "added"


def pay(basket: Basket) -> str:
    charged.append(([each.name for each in basket.items], basket.seen, type(basket.client)))
    return "charged"


@function_tool
async def add(ctx: RunContextWrapper[Basket], name: str) -> str:
    """Add."""
    return fill(ctx.context, name)


@function_tool(needs_approval=True)
async def charge(ctx: RunContextWrapper[Basket]) -> str:
    """Charge."""
    return pay(ctx.context)


async def pydantic_script(messages, info):
    answers = sum(isinstance(each, ModelResponse) for each in messages)
    if answers == 0:
        yield {n: DeltaToolCall(name="add", json_args=f'{{"name": "{n}"}}', tool_call_id=f"c{n}") for n in (1, 2)}
    elif answers == 1:
        yield {0: DeltaToolCall(name="charge", json_args="{}", tool_call_id="c")}
    else:
        yield "done"


def of_pydantic(deps):
    shop = Agent(FunctionModel(stream_function=pydantic_script), deps_type=object)

    @shop.tool(name="add")
    async def added(ctx: RunContext[Any], name: str) -> str:
        return fill(ctx.deps, name)

    @shop.tool(name="charge", requires_approval=True)
    async def paid(ctx: RunContext[Any]) -> str:
        return pay(ctx.deps)

    return pydantic_agent("shop", shop, deps=deps)


def openai_model(*answers):
    """Return a model that gives the answer at the number of results that it reads."""

    def respond(call):
        done = sum(item.get("type") == "function_call_output" for item in call.input if isinstance(item, dict))
        calls = [function_call(name, given, call_id=f"c{done}{n}") for n, (name, given) in enumerate(answers[done])]
        return calls or [assistant_message("done")]

    return ScriptedModel([ModelStep.respond(respond)] * 20)


ADDING = [("add", {"name": "1"}), ("add", {"name": "2"})]


def of_openai(deps):
    model = openai_model(ADDING, [], [("charge", {})], [])
    return openai_agent("shop", agents.Agent("Shop", model=model, tools=[add, charge]), deps=deps)


def of_openai_with_an_agent_as_tool(deps):
    """The inner agent adds, and the outer one charges."""
    inner = agents.Agent("Clerk", model=openai_model(ADDING, [], []), tools=[add]).as_tool("clerk", "Add.")
    model = openai_model([("clerk", {"input": "add"})], [("charge", {})], [])
    return openai_agent("shop", agents.Agent("Shop", model=model, tools=[inner, charge]), deps=deps)


class State(TypedDict, total=False):
    said: str


def of_langgraph(deps):
    async def adds(state: State, runtime: Runtime[Basket]) -> State:
        return {"said": fill(runtime.context, "1") + fill(runtime.context, "2")}

    async def asks(state: State) -> State:
        return {"said": interrupt("Pay?")}

    async def pays(state: State, runtime: Runtime[Basket]) -> State:
        return {"said": pay(runtime.context)}

    graph = StateGraph(State, context_schema=Basket)
    for number, node in enumerate([adds, asks, pays]):
        graph.add_node(node.__name__, node)
        graph.add_edge(["adds", "asks"][number - 1] if number else START, node.__name__)
    compiled = graph.compile(checkpointer=InMemorySaver())
    return langgraph_agent("shop", compiled, input=lambda text: {}, output=lambda values: "done", deps=deps)


MAKE = [of_pydantic, of_openai, of_openai_with_an_agent_as_tool, of_langgraph]


class FormerStore(MemoryStore):
    """Has results as a version before this wrote them: without contexts."""

    def write(self, rows):
        super().write([JournalEntry(row.position, row.session, without_context(row.event)) for row in rows])


def without_context(event):
    details = json.loads(bytes(getattr(event, "details", b"{}")))
    if "context" not in details:
        return event
    del details["context"]
    return msgspec.structs.replace(event, details=msgspec.Raw(json.dumps(details).encode()))


async def in_two_lives(shop, store=None):
    """Run until a person is asked, kill the process, answer in the next one; return the store and the outcome."""
    store = store or MemoryStore()
    async with opened(store) as supervisor:
        asked = await next_of((await supervisor.start(shop, "buy", session="s")).watch_approvals())
        killed = fork(store)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        is_question = asked.kind == "question"
        await supervisor.decide(asked.id, Answer(value="yes", by="ana") if is_question else Approve(by="ana"))
        return killed, await run.outcome()


@pytest.mark.parametrize("make", MAKE)
async def test_a_context_has_what_a_tool_wrote_in_a_later_process(make):
    """T1: of two calls at once, in a list of models and in a set, on the object that the attempt has made. A handle is
    the new one."""
    store, outcome = await in_two_lives(make(lambda ctx: Basket()))
    assert outcome.value == "done", outcome
    assert charged == [(["1", "2"], {"1", "2"}, Client)]
    assert len([row for row in store.journal("s") if b'"context"' in bytes(getattr(row.event, "details", b""))]) in (
        1,
        2,
    )


@pytest.mark.parametrize("make", MAKE)
async def test_a_journal_without_contexts_is_replayed_as_before(make):
    """R1: a former version wrote none. The run goes on with the context that the attempt has made."""
    _, outcome = await in_two_lives(make(lambda ctx: Basket(items=[Item(name="0")])), FormerStore())
    assert outcome.value == "done", outcome
    assert charged == [(["0"], set(), Client)]


def change(context, write):
    """Return what the journal has of a call that writes, and the context of a later process after its replay."""
    tracked, later = WrittenContext("shop", context()), WrittenContext("shop", context())
    write(tracked.context)
    result = tracked.with_changes("write", OK)
    later.take(result, is_replayed=True)
    tracked.take(result, is_replayed=False)
    return tracked, result, later.context


class Slots:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 0


@dataclass(frozen=True)
class Frozen:
    names: list[str] = field(default_factory=list)


class Model(BaseModel):
    days: dict[str, date] = {}
    best: Item | None = None


FIELDS = {
    "a key of a dict": (lambda: {"count": 0}, lambda at: at.update(count=2, more={"a": 1})),
    "a key that goes": (lambda: {"count": 0}, lambda at: at.pop("count")),
    "a key of another type": (lambda: {"cart": None, "sum": 1}, lambda at: at.update(cart={"a": [1]}, sum=1.5)),
    "an attribute of another type": (lambda: SimpleNamespace(at=date(2026, 1, 2)), lambda at: setattr(at, "at", None)),
    "an attribute that is new": (SimpleNamespace, lambda at: setattr(at, "user", "ana")),
    "a slot": (Slots, lambda at: setattr(at, "count", 3)),
    "what is in a frozen object": (Frozen, lambda at: at.names.append("ana")),
    "a field of a model": (Model, lambda at: at.days.update(x=date(2026, 1, 2))),
    "a model in a model": (Model, lambda at: setattr(at, "best", Item(name="x"))),
}


@pytest.mark.parametrize("case", FIELDS)
def test_a_field_of_any_kind_of_context_is_set_again(case):
    context, write = FIELDS[case]
    tracked, result, later = change(context, write)
    told = {name: getattr(later, name) for name in Slots.__slots__} if isinstance(later, Slots) else later
    wrote = {name: getattr(tracked.context, name) for name in told} if isinstance(later, Slots) else tracked.context
    assert told == wrote
    assert result.kind == "ok"
    assert tracked.with_changes("nothing", OK) is OK


def test_only_fields_that_changed_are_journaled():
    """A key of the program (a password of the start) is not written."""
    _, result, _ = change(lambda: {"password": "x", "count": 0}, lambda at: at.update(count=1))
    assert result.details["context"] == {"number": 1, "set": {"count": 1}}


LOST = {
    "no JSON": (lambda: {"items": []}, lambda at: at["items"].append(Client()), "annotate it"),
    "another value": (lambda: {"items": []}, lambda at: at["items"].append((1, 2)), "another value"),
    "too large": (lambda: {"text": ""}, lambda at: at.update(text="x" * LARGEST_BYTES), "1000000 at most"),
}


@pytest.mark.parametrize("case", LOST)
def test_a_tracked_field_that_cannot_be_kept_fails_its_call_once(case):
    """It says what to do, and what else was written is kept. Later calls do not fail for it, here or after a replay."""
    context, write, told = LOST[case]
    tracked, result, _ = change(context, lambda at: (write(at), at.update(other=1)))
    assert (result.kind, result.details["effect"]) == ("error", "done")
    assert told in result.content
    assert result.details["context"]["set"] == {"other": 1}
    later = WrittenContext("shop", context())
    later.take(result, is_replayed=True)
    for each in (tracked, later):
        write(each.context)
        assert each.with_changes("write", OK).kind == "ok"


def test_a_field_without_a_type_may_have_values_of_many_types():
    """Each is plain JSON, or of the type of the first value. A set that a tool adds is a handle: it would come back as
    a list."""
    start, values = date(2026, 1, 2), [None, {"a": 1}, date(2027, 3, 4), 2, date(2026, 1, 2)]
    tracked, later = (WrittenContext("shop", {"at": start}) for _ in range(2))
    for value in values:
        tracked.context.update(at=value, seen={"a"}, pair=(1, 2))
        result = tracked.with_changes("write", OK)
        tracked.take(result, is_replayed=False)
        later.take(result, is_replayed=True)
        assert (result.kind, later.context) == ("ok", {"at": value})


def test_a_handle_that_changes_fails_no_call():
    """What did not round-trip at the start of the run, or is added so, is promised to no one."""
    _, result, later = change(lambda: {"client": Client()}, lambda at: at.update(client=Client(), pool=Client()))
    assert result is OK
    assert "pool" not in later


def test_the_later_of_two_results_at_once_is_right_whichever_is_committed_first():
    """A result has whole values, and says which one is the later."""
    tracked, later = WrittenContext("shop", {"items": []}), WrittenContext("shop", {"items": []})
    results = []
    for name in ("a", "b"):
        tracked.context["items"].append(name)
        results.append(tracked.with_changes("write", OK))
    for result in reversed(results):
        later.take(result, is_replayed=True)
    assert later.context == {"items": ["a", "b"]}
