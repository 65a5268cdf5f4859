"""Pydantic AI: a result that comes from outside of the run is a question to a person, and its answer waits on disk."""

from datetime import timedelta

import pytest
from dying import fork
from framework_scenes import opened
from pydantic_ai import Agent
from pydantic_ai.capabilities import RequestInput
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDefinition
from pydantic_ai.toolsets import ExternalToolset
from watching import next_of

from supervisor import Answer, MemoryStore
from supervisor.agents.pydantic_ai import pydantic_agent
from supervisor.testing import fast_disk, virtual_asyncio

pytestmark = pytest.mark.anyio
told: list[str] = []
COLOUR = ToolDefinition(
    name="ask_user", parameters_json_schema={"type": "object", "properties": {"question": {"type": "string"}}}
)


@pytest.fixture
def anyio_backend():
    return virtual_asyncio()


@pytest.fixture(autouse=True)
def _nothing_is_told(enter):
    enter(fast_disk())
    told.clear()


async def script(messages, info):
    """Ask two things at once, and say what came back."""
    if not any(isinstance(each, ModelResponse) for each in messages):
        for number, question in enumerate(["Colour?", "Size?"]):
            asked = DeltaToolCall(name="ask_user", json_args=f'{{"question": "{question}"}}', tool_call_id=f"c{number}")
            yield {number: asked}
    else:
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        yield " and ".join(str(part.content) for part in last.parts if isinstance(part, ToolReturnPart))


def agent_of(*capabilities, external=False):
    """Return an agent with a tool whose result is not known here."""
    toolsets = [ExternalToolset([COLOUR], id="outside")] if external else []
    shop = Agent(
        FunctionModel(stream_function=script),
        output_type=[str, DeferredToolRequests],
        capabilities=capabilities,
        toolsets=toolsets,
    )
    if not external:

        @shop.tool_plain
        async def ask_user(question: str) -> str:
            raise CallDeferred(metadata={"hint": "any"})

    return pydantic_agent("shop", shop)


async def hands_on(run, requests, token):
    told.append(token)


async def knows(run, requests, token):
    told.append(token)
    return DeferredToolResults(calls={each.tool_call_id: "known" for each in requests.calls})


WAITING = {
    "a deferred call": lambda: agent_of(),
    "an external tool": lambda: agent_of(external=True),
    "input that was handed on": lambda: agent_of(RequestInput(ask=hands_on)),
}


@pytest.mark.parametrize("case", WAITING)
async def test_a_person_gives_the_result_of_a_call_that_is_made_elsewhere(case):
    """Each question names the tool and its arguments, and the run waits for it through the death of its process."""
    shop, store = WAITING[case](), MemoryStore()
    async with opened(store) as supervisor:
        first = await next_of((await supervisor.start(shop, "go", session="s")).watch_approvals())
        assert first.kind == "question"
        assert "shop.ask_user" in str(first)
        assert "Colour?" in str(first)
        killed = fork(store)
    async with opened(killed) as supervisor:
        run = await supervisor.resume("s")
        async with run.watch_approvals() as watch:
            for answer in ("red", "large"):
                asked = await anext(watch)
                await supervisor.decide(asked.id, Answer(value=answer, by="ana"))
            assert await run.result() == "red and large"
    assert len(told) == (case == "input that was handed on")


async def test_a_capability_that_knows_the_answer_asks_no_person():
    """`RequestInput` may answer at once, as without us; a replay does not call it again."""
    async with opened() as supervisor:
        run = await supervisor.start(agent_of(RequestInput(ask=knows, timeout=timedelta(minutes=1))), "go")
        assert await run.result() == "known and known"
    assert len(told) == 1
