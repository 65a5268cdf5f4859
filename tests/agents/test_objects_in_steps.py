"""Steps and the objects of SDKs and of pydantic, as docs/how-to/use-a-model.md shows them.

A step takes and gives back objects of SDKs and of pydantic, and says before it runs what it could not read back.
"""

import json
import re
from pathlib import Path

import anyio
import httpx
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ParsedChatCompletion
from pydantic import BaseModel, Field, SecretStr, create_model
from scenes import fork, opened

from supervisor import Context, MemoryStore, StepContext, agent

pytestmark = pytest.mark.anyio
PAGE = Path(__file__).parents[2] / "docs/how-to/use-a-model.md"
paid: list = []
ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "service_tier": "of tomorrow",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello", "more": 1}}],
}


@pytest.fixture(autouse=True)
def _nothing_is_paid():
    paid.clear()


class City(BaseModel):
    name: str
    people: int = 0
    kind: str = Field("town", alias="type")


class Fake:
    """Stands for `client.chat.completions`; its answer is what the SDK makes of one that a server has sent."""

    async def create(self, *, model: str, stream: bool = False) -> "ChatCompletion | AsyncOpenAI":
        paid.append(model)
        return ChatCompletion.construct(**ANSWER)


async def parse() -> ParsedChatCompletion[City]:
    paid.append("parse")
    message = {"role": "assistant", "content": "", "parsed": {"name": "Rome", "people": 3}}
    return ParsedChatCompletion[City].construct(**ANSWER | {"choices": [ANSWER["choices"][0] | {"message": message}]})


async def cities(near: City) -> list[City]:
    paid.append(near.name)
    return [near, City(name="Rome", type="city")]


async def city_or_text(name: str) -> City | str | None:
    return None if name == "none" else City(name=name) if name.istitle() else name


async def in_two_lives(program) -> list[object]:
    """Return the outcomes of a run and of its replay by another process."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(program, session="s")
        with anyio.fail_after(10):
            while not paid:
                await anyio.sleep(0.01)
        killed = fork(store)
        found = [await run.outcome()]
    async with opened(killed) as supervisor:
        return [*found, await (await supervisor.resume("s")).outcome()]


async def test_the_answer_of_an_sdk_is_read_back_as_the_sdk_reads_it():
    """Also one that says what today's version of the SDK does not know, and one of a union with a stream."""

    @agent
    async def loop(ctx: Context) -> list[str]:
        whole = await ctx.step(Fake().create, model="m")
        parsed = await ctx.step(parse)
        await ctx.sleep(0)
        message = whole.choices[0].message
        found = parsed.choices[0].message.parsed
        return [type(whole).__name__, whole.service_tier, message.content, str(message.more), repr(found)]

    for outcome in await in_two_lives(loop):
        assert outcome.value == [
            "ChatCompletion",
            "of tomorrow",
            "hello",
            "1",
            "City(name='Rome', people=3, kind='town')",
        ], outcome
    assert paid[:2] == ["m", "parse"]


async def test_models_are_arguments_and_parts_of_results():
    """They come back as their types, with what was set."""

    @agent
    async def loop(ctx: Context) -> list[str]:
        found = await ctx.step(cities, City(name="Pisa"))
        others = [await ctx.step(city_or_text, name) for name in ("Rome", "nowhere", "none")]
        return [*map(repr, found), *(min(each.model_fields_set) for each in found), *map(repr, others)]

    outcome, again = await in_two_lives(loop)
    assert (
        outcome.value
        == again.value
        == [
            "City(name='Pisa', people=0, kind='town')",
            "City(name='Rome', people=0, kind='city')",
            "name",
            "kind",
            "City(name='Rome', people=0, kind='town')",
            "'nowhere'",
            "None",
        ]
    ), outcome


async def test_a_new_default_of_an_sdk_changes_no_operation_id():
    """R1: only what was set names the step."""
    asked = {}

    @agent
    async def loop(ctx: Context, version: int) -> None:
        more = {"effort": (str, "medium")} if version > 1 else {}
        options = create_model("Options", model=(str, ...), **more)
        await ctx.step(takes_options, options(model="m"))

    async with opened(MemoryStore()) as supervisor:
        for version in (1, 2):
            await (await supervisor.start(loop, version, session=f"s{version}")).result()
            found = await supervisor.find_entries(f"s{version}", limit=None)
            asked[version] = [each.event.operation for each in found if hasattr(each.event, "operation")]
    assert asked[1] == asked[2] != []


async def takes_options(options: BaseModel) -> None: ...


class Hidden(BaseModel):
    key: SecretStr


class Aliased(BaseModel):
    name: str = Field(serialization_alias="a", validation_alias="b")


async def returns_hidden() -> Hidden:
    paid.append(1)


async def returns_aliased() -> list[Aliased]:
    paid.append(1)


async def returns_any_model() -> BaseModel:
    paid.append(1)


async def returns_open() -> ParsedChatCompletion:
    paid.append(1)


async def returns_client() -> AsyncOpenAI:
    paid.append(1)


async def returns_one_of_two() -> City | Hidden:
    paid.append(1)


async def returns_unknown() -> "Nowhere":  # noqa: F821 # the annotation that cannot be resolved
    paid.append(1)


UNREADABLE = {
    returns_hidden: "masked",
    returns_aliased: "'a'",
    returns_any_model: "name the model itself",
    returns_open: "ParsedChatCompletion[YourModel]",
    returns_client: "cannot hold a AsyncOpenAI",
    returns_one_of_two: "masked",
    returns_unknown: "Nowhere",
}


@pytest.mark.parametrize("fn", UNREADABLE, ids=lambda fn: fn.__name__)
async def test_a_result_that_cannot_be_read_back_is_refused_before_the_request(fn):
    """The function does not run, nothing is journaled, and the error says what to do."""

    @agent
    async def loop(ctx: Context) -> None:
        await ctx.step(fn)

    async with opened(MemoryStore()) as supervisor:
        outcome = await (await supervisor.start(loop, session="s")).outcome()
        assert UNREADABLE[fn] in outcome.cause, outcome
        assert "OperationFinished" not in str(await supervisor.find_entries("s", limit=None))
    assert not paid


async def test_a_stream_is_refused_before_the_request():
    """`stream=True` returns what the journal cannot hold."""

    @agent
    async def loop(ctx: Context) -> None:
        await ctx.step(Fake().create, model="m", stream=True)

    async with opened(MemoryStore()) as supervisor:
        outcome = await (await supervisor.start(loop)).outcome()
    assert "Read the stream in a function of your own" in outcome.cause
    assert not paid


async def test_a_model_of_a_step_without_an_annotation_is_plain_json():
    """What was paid for is kept, as it is for a dataclass."""

    async def unsaid(city):
        return city

    @agent
    async def loop(ctx: Context) -> str:
        return json.dumps(await ctx.named("it").step(unsaid, City(name="Rome", type="city")))

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(loop)).result() == '{"name": "Rome", "type": "city"}'


async def test_a_real_client_is_asked_in_a_step():
    """`ctx.step(client.chat.completions.create, ...)`, as anyone writes it first."""
    client = AsyncOpenAI(
        api_key="k",
        http_client=httpx.AsyncClient(transport=httpx.MockTransport(lambda request: httpx.Response(200, json=ANSWER))),
    )

    @agent
    async def loop(ctx: Context) -> str:
        said = {"role": "user", "content": "hi"}
        found = await ctx.step(client.chat.completions.create, model="m", messages=[said])
        return found.choices[0].message.content

    @agent
    async def fails(ctx: Context) -> None:
        await ctx.step(client.models.list)

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(loop)).result() == "hello"
        outcome = await (await supervisor.start(fails)).outcome()
        assert "did not run" in outcome.cause


@pytest.mark.parametrize("end", ["stop", None])
async def test_the_page_checks_how_a_stream_ended(end):
    """Its programs run as they are shown: one that was cut off fails its step, and a whole one is the answer."""
    pieces = [{"content": "the "}, {"content": "sea"}]
    chunks = [{"choices": [{"index": 0, "delta": piece}]} for piece in pieces]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": end}]}] if end else []
    sent = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks)

    def serve(request):
        if json.loads(request.content).get("stream"):
            return httpx.Response(200, text=sent, headers={"content-type": "text/event-stream"})
        return httpx.Response(200, json=ANSWER)

    client = AsyncOpenAI(api_key="k", http_client=httpx.AsyncClient(transport=httpx.MockTransport(serve)))
    known = {"AsyncOpenAI": lambda: client, "agent": agent, "Context": Context, "StepContext": StepContext}
    for program in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(program, known)  # as the page shows it

    @agent
    async def writes(ctx: Context) -> str:
        return await ctx.step(known["write"], [{"role": "user", "content": "go"}])

    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(known["poet"], "the sea")).result() == "hello"
        outcome = await (await supervisor.start(writes)).outcome()
    assert outcome.value == "the sea" if end else "the answer is not whole" in outcome.cause
