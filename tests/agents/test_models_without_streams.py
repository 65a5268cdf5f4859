"""A model that cannot stream is asked for its answer as a whole, although `stream=True` is the default."""

import pytest
from agents import Agent as OpenAIAgent, Model as OpenAIModel, ModelResponse as OpenAIResponse, Usage
from framework_scenes import opened
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel

from supervisor.agents.openai_agents import openai_agent
from supervisor.agents.pydantic_ai import pydantic_agent

pytestmark = pytest.mark.anyio
asked: list[str] = []


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def _nothing_is_asked():
    asked.clear()


def _say(messages, info):
    asked.append("whole")
    return ModelResponse(parts=[TextPart("hello")])


async def _busy(messages, info):
    asked.append("streamed")
    raise ModelHTTPError(503, "m")
    yield ""


async def _break_off(messages, info):
    asked.append("streamed")
    yield "hel"
    raise NotImplementedError("the parser does not know this event")


class Own(Model):
    model_name, system = "own", "own"

    async def request(self, messages, model_settings, model_request_parameters):
        return _say(messages, None)


class OwnOpenAI(OpenAIModel):
    async def get_response(self, *args, **kwargs):
        asked.append("whole")
        text = ResponseOutputText(text="hello", type="output_text", annotations=[])
        said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return OpenAIResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


class Generator(OwnOpenAI):
    async def stream_response(self, *args, **kwargs):
        raise NotImplementedError
        yield


class Coroutine(OwnOpenAI):
    async def stream_response(self, *args, **kwargs):
        raise NotImplementedError


class Nothing(OwnOpenAI):
    stream_response = lambda self, *args, **kwargs: None  # noqa: E731


plain = FunctionModel(_say)
MODELS = {
    "a function": plain,
    "a wrapper": WrapperModel(plain),
    "two to fall back on": FallbackModel(plain, plain),
    "two that all fall back": FallbackModel(plain, Own(), fallback_on=(Exception,)),
    "a busy one first": FallbackModel(FunctionModel(stream_function=_busy, function=_say), plain),
    "its own": Own(),
    "OpenAI's": OwnOpenAI(),
    "OpenAI's, a generator": Generator(),
    "OpenAI's, a coroutine": Coroutine(),
    "OpenAI's, nothing": Nothing(),
}


def _agent_with(model, name):
    if isinstance(model, OpenAIModel):
        return openai_agent(name, OpenAIAgent("A", model=model))
    return pydantic_agent(name, Agent(model))


@pytest.mark.parametrize("case", MODELS)
async def test_a_model_that_cannot_stream_is_asked_without(case):
    """Its agent runs as it is, and the model answers once."""
    async with opened() as supervisor:
        run = await supervisor.start(_agent_with(MODELS[case], f"agent{list(MODELS).index(case)}"), "hi")
        assert await run.result() == "hello"
    assert asked.count("whole") == 1


async def test_a_stream_that_breaks_off_is_no_model_that_cannot_stream():
    """The first event was paid for: the model is not asked again in secret."""
    agent = _agent_with(FunctionModel(_say, stream_function=_break_off), "breaks")
    async with opened() as supervisor:
        assert (await (await supervisor.start(agent, "hi")).outcome()).kind == "failed"
    assert asked == ["streamed"]
