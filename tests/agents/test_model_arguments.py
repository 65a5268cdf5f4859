"""What models write as arguments: an error that they read, before a person is asked, in every framework."""

import json

import agents
import agents.testing
import pytest
from framework_scenes import approve_all, kept_in_the_loop, opened
from framework_table import FRAMEWORKS, Said, Wanted

from supervisor import Context, MemoryStore, agent
from supervisor.agents.model_arguments import read_arguments
from supervisor.agents.openai_agents import openai_agent
from supervisor.core import events as e
from supervisor.testing import virtual_asyncio

paid: list[float] = []
NUMBER = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


@pytest.fixture
def anyio_backend():
    return virtual_asyncio()


@pytest.fixture(autouse=True)
def _nothing_has_happened(enter):
    enter(kept_in_the_loop())
    paid.clear()


BAD = {
    '{"amount": NaN}': ({"amount": None}, "amount is nan"),
    '{"a": [1, {"b": -Infinity}]}': ({"a": [1, {"b": None}]}, "a[1].b is -inf"),
    '{"a": 1e999}': ({"a": None}, "a is inf"),
    '{"a": "\\ud800"}': ({"a": "\\ud800"}, "half of a surrogate pair"),
    '{"\\ud800": 1}': ({"\\ud800": 1}, "half of a surrogate pair"),
    '{"a": {"b": 1, "b": 2}}': ({"a": {"b": 2}}, "'b' stands twice"),
    "[1]": ({"arguments": "[1]"}, "no object"),
    "null": ({"arguments": "null"}, "no object"),
    '{"a": 1} and more': ({"arguments": '{"a": 1} and more'}, "no JSON object"),
    "amount=5": ({"arguments": "amount=5"}, "no JSON object"),
    f'{{"a": {"[" * 300}{"]" * 300}}}': (None, "nested"),
    f'{{"a": {"[" * 9999}{"]" * 9999}}}': (None, "nested"),
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:20])
def test_arguments_that_no_call_can_have_say_what_is_wrong(text):
    """The journal can hold what is left of them."""
    arguments, named = BAD[text]
    found = read_arguments("pay", text)
    assert named in found.problem
    assert arguments is None or found.arguments == arguments
    json.dumps(found.arguments, allow_nan=False).encode()


GOOD = {
    '{"amount": 5}': {"amount": 5},
    "": {},
    "{}": {},
    '{"amount": 1.5, "note": null}': {"amount": 1.5, "note": None},
    '{"a": "\\ud83d\\ude00"}': {"a": "😀"},
}


@pytest.mark.parametrize("text", GOOD)
def test_arguments_that_are_fine_stay_as_they_are(text):
    assert read_arguments("pay", text) == (GOOD[text], "")


STRICT = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "force": {"type": "boolean", "default": False},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["path", "force", "note"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("given", "named"),
    [({"path": "a"}, ""), ({"force": True}, "path"), ({"path": 1}, "path"), ({"path": "a", "x": 1}, "x")],
)
def test_a_schema_for_strict_models_lets_a_name_be_left_out_that_the_framework_fills_in(given, named):
    problem = read_arguments("drop", given, STRICT).problem
    assert named in problem
    assert bool(problem) == bool(named)


async def pay(amount: float) -> str:
    """Pay."""
    paid.append(amount)
    return f"paid {amount:g}"


@pytest.mark.anyio
@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
async def test_a_model_reads_what_is_wrong_with_its_number_and_no_person_is_asked_about_it(framework):
    async def script(said: Said):
        amounts = [float("nan"), 5.0]
        done = len(said.results)
        return "; ".join(said.results) if done == 2 else [Wanted("pay", {"amount": amounts[done]}, f"c{done}")]

    payer = framework.agent("payer", script, [framework.tool(pay, asks=True)])
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(payer, "pay 5", session="s")
        asked = await approve_all(supervisor, run)
        said = await run.result()
    assert ([each[2] for each in asked], paid) == ([{"amount": 5.0}], [5.0])
    assert "which JSON cannot hold" in said
    ended = [row.event for row in store.journal("s") if isinstance(row.event, e.ToolCallFinished)]
    assert [json.loads(bytes(each.details)) for each in ended if each.kind == "error"] == [
        {"reason": "invalid_arguments", "effect": "none"}
    ]


@agent
async def research(ctx: Context, text: str) -> str:
    """Find something."""
    return f"found {text}"


WRONG = {
    "name": {"question": "where?"},
    "type": {"text": 5},
    "more": {"text": "where?", "depth": 2},
    "none": {},
}


@pytest.mark.anyio
@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
async def test_a_model_that_misnames_an_argument_of_a_sub_agent_is_told(framework, case):
    async def script(said: Said):
        given = [WRONG[case], {"text": "the cause"}]
        done = len(said.results)
        return said.results[-1] if done == 2 else [Wanted("research", given[done], f"c{done}")]

    desk = framework.agent("desk", script, [framework.sub_agent(research)])
    async with opened() as supervisor:
        assert await (await supervisor.start(desk, "find it")).result() == "found the cause"


TEXTS = {
    '{"path": "\\ud800"}': "path has half of a surrogate pair",
    '{"path": "a", "path": "b"}': "'path' stands twice",
    '["a"]': "no object",
    '{"path": "a"} and more': "no JSON object",
    '{"path": 5}': "path",
}


@pytest.mark.anyio
@pytest.mark.parametrize("text", TEXTS)
async def test_a_text_that_the_openai_sdk_cannot_use_is_an_error_that_the_model_reads(text):
    """No person is asked, and the run goes on."""

    @agents.function_tool(needs_approval=True)
    async def drop(path: str) -> str:
        raise AssertionError("no call of it can be made")

    def respond(call):
        results = [each["output"] for each in call.input if each.get("type") == "function_call_output"]
        if results:
            return [agents.testing.assistant_message(results[0])]
        wanted = agents.testing.function_call("drop", {}, call_id="c1")
        wanted.arguments = text
        return [wanted]

    model = agents.testing.ScriptedModel([agents.testing.ModelStep.respond(respond)] * 3)
    quiet = agents.RunConfig(tracing_disabled=True)
    helper = openai_agent("helper", agents.Agent("helper", model=model, tools=[drop]), run_config=quiet)
    async with opened() as supervisor:
        run = await supervisor.start(helper, "go")
        assert await approve_all(supervisor, run) == []
        assert TEXTS[text] in await run.result()
