"""A model whose endpoint is busy: a wrapped agent with a limit waits for it, and journals nothing of that."""

import httpx
import msgspec
import openai
import pytest
from agents import Agent as OpenAIAgent, Model as OpenAIModel, ModelResponse as OpenAIResponse, Usage
from agents.models._retry_runtime import should_disable_provider_managed_retries
from framework_scenes import opened
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel

from supervisor import Limit
from supervisor.agents.busy import SECONDS, busy_of
from supervisor.agents.langgraph import langgraph_agent
from supervisor.agents.openai_agents import openai_agent
from supervisor.agents.pydantic_ai import pydantic_agent
from supervisor.core.events import ToolCallFinished
from supervisor.core.limits import LONGEST_WAIT_SECONDS

pytestmark = pytest.mark.anyio
asked: list[object] = []


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def _nothing_is_asked():
    asked.clear()


def refused(status: int, headers: dict[str, str], body: object = None) -> openai.APIStatusError:
    request = httpx.Request("POST", "http://model")
    return openai.APIStatusError("no", response=httpx.Response(status, headers=headers, request=request), body=body)


def _say(messages, info):
    asked.append((info.model_settings or {}).get("max_retries"))
    if len(asked) <= 2:
        raise ModelHTTPError(429, "m") from refused(429, {"retry-after": "0.05"})
    return ModelResponse(parts=[TextPart("hello")])


class BusyOpenAI(OpenAIModel):
    async def get_response(self, *args, **kwargs):
        asked.append(0 if should_disable_provider_managed_retries() else None)
        if len(asked) <= 2:
            raise refused(503, {"retry-after-ms": "50"})
        text = ResponseOutputText(text="hello", type="output_text", annotations=[])
        said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return OpenAIResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


AGENTS = {
    "pydantic": pydantic_agent("busy_pydantic", Agent(FunctionModel(_say)), limit="model"),
    "pydantic, two models": pydantic_agent(
        "busy_models", Agent(FallbackModel(FunctionModel(_say), FunctionModel(_say))), limit="model"
    ),
    "openai": openai_agent("busy_openai", OpenAIAgent("A", model=BusyOpenAI()), limit="model"),
}


@pytest.mark.parametrize("name", AGENTS)
async def test_a_wrapped_agent_asks_again_when_its_model_is_no_longer_busy(name):
    """L4: each request is made once, without the SDK's own retries, and only the answer is journaled."""
    async with opened(limits=[Limit("model", at_once=1)]) as supervisor:
        run = await supervisor.start(AGENTS[name], "hi")
        assert await run.result() == "hello"
        journal = [row.event for row in supervisor.store.journal(run.session)]
    assert asked == [0, 0, 0]
    assert [event.error for event in journal if getattr(event, "kind", "") == "step"] == [None]


class BusyGraph(BaseChatModel):
    @property
    def _llm_type(self):
        return "busy"

    def _generate(self, *args, **kwargs):
        asked.append(0)
        if len(asked) <= 2:
            raise refused(529, {"retry-after-ms": "50"})
        return ChatResult(generations=[ChatGeneration(message=AIMessage("hello"))])


def graph(*, idempotent):
    async def node(state):
        return {"messages": [await BusyGraph().ainvoke(state["messages"])]}

    built = StateGraph(MessagesState)
    built.add_node("talk", node)
    built.add_edge(START, "talk")
    compiled = built.compile(checkpointer=InMemorySaver())
    return langgraph_agent("busy_graph", compiled, limit="model", idempotent=idempotent)


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_graph_closes_its_limit_and_goes_on_if_its_nodes_may_run_again(idempotent):
    """L4: the answer of a node's model is read, whoever raises it. Else the run fails, and others wait all the same."""
    async with opened(limits=[Limit("model", at_once=1)]) as supervisor:
        run = await supervisor.start(graph(idempotent=idempotent), "hi")
        outcome = await run.outcome()
        results = [
            row.event for row in supervisor.store.journal(run.session) if isinstance(row.event, ToolCallFinished)
        ]
    assert [msgspec.json.decode(each.details).get("reason") for each in results][:1] == ["busy"]
    assert (outcome.kind, len(asked)) == (("succeeded", 3) if idempotent else ("failed", 1))


BUSY = {
    "seconds": (refused(429, {"Retry-After": "7"}), 7.0),
    "milliseconds come first": (refused(503, {"retry-after-ms": "1500", "retry-after": "7"}), 1.5),
    "a date, after the answer's own": (
        refused(529, {"retry-after": "Fri, 27 Nov 2026 20:00:09 GMT", "date": "Fri, 27 Nov 2026 20:00:00 GMT"}),
        9.0,
    ),
    "a date before it": (
        refused(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "Fri, 27 Nov 2026 20:00:00 GMT"}),
        0.0,
    ),
    "a date without end": (
        refused(429, {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT", "date": "Fri, 27 Nov 2026 20:00:00 GMT"}),
        LONGEST_WAIT_SECONDS,
    ),
    "a date without the answer's": (refused(429, {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}), SECONDS),
    "less than nothing": (refused(429, {"retry-after": "-5"}), 0.0),
    "seconds without end": (refused(429, {"retry-after": "1e12"}), LONGEST_WAIT_SECONDS),
    "no header": (refused(429, {}), SECONDS),
    "nonsense": (refused(429, {"retry-after": "soon"}), SECONDS),
    "no number": (refused(429, {"retry-after": "nan"}), SECONDS),
    "money that is spent": (refused(429, {}, {"code": "insufficient_quota"}), None),
    "another status": (refused(500, {"retry-after": "7"}), None),
    "no status": (ValueError("429"), None),
    "all models that were tried": (
        ExceptionGroup("", [refused(429, {"retry-after": "7"}), refused(503, {"retry-after": "3"})]),
        3.0,
    ),
    "one of them fails otherwise": (ExceptionGroup("", [refused(429, {"retry-after": "7"}), ValueError()]), None),
}


@pytest.mark.parametrize("case", BUSY)
def test_an_endpoint_says_for_how_long_it_is_busy(case):
    """L4: by its header, within bounds."""
    error, seconds = BUSY[case]
    found = busy_of(error)
    assert (None if found is None else found.seconds) == seconds
