"""A8: an edit that does not fit the tool's types is refused where the person decides, and the approval still waits."""

import enum
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from scenes import effects, opened
from watching import next_of

from supervisor import Approve, Context, InvalidInput, MemoryStore, ToolCall, agent, ask, tool

pytestmark = pytest.mark.anyio
MIDNIGHT = datetime(2026, 1, 1)  # noqa: DTZ001 # of any zone
FIRST, DAY = UUID(int=1), timedelta(1)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


LONG = "an option with a long name and the number {}"
Long = Literal[tuple(LONG.format(number) for number in range(200))]
"""Its schema is too long to be journaled."""


@dataclass
class Place:
    street: str
    number: int = 1


@tool
async def plain(text: str, loud: bool = False) -> str:
    effects.append(text)
    return text


@tool
async def typed(
    price: Decimal = Decimal("1.5"),
    at: datetime = MIDNIGHT,
    on: date | None = None,
    clock: time = time(1),
    lasts: timedelta = DAY,
    name: UUID = FIRST,
    colour: Colour = Colour.RED,
    size: Literal["s", 3] = "s",
    place: Place | None = None,
    places: tuple[Place, ...] = (),
    ratio: float = 0.5,
    many: frozenset[int] = frozenset(),
    raw: bytes = b"",
    counts: dict[int, float] | None = None,
    few: Annotated[list[int], msgspec.Meta(max_length=2)] | None = None,
    anything: Any = None,
) -> str:
    effects.append("typed")
    return "done"


@tool
async def odd(long: Long, whatever: object = None) -> str:
    effects.append(long[-3:])
    return "done"


@tool(secret=["pin"])
async def guarded(count: int, pin: int = 1) -> str:
    effects.append(f"{count} {pin}")
    return "done"


@agent
async def sub(ctx: Context, count: int) -> int:
    return count


@agent(tools=[sub])
async def calls(ctx: Context, which: str) -> str:
    match which:
        case "plain":
            return (await ctx.call(plain, "hi")).kind
        case "typed":
            return (await ctx.call(typed)).kind
        case "odd":
            return (await ctx.call(odd, LONG.format(1))).kind
        case "sub":
            return (await ctx.call(ToolCall("1", "sub", {"count": 1}))).kind
        case _:
            return (await ctx.call(guarded, 1)).kind


@pytest.fixture(params=["here", "elsewhere"])
def is_elsewhere(request):
    """Whether the process that decides runs the call, or knows only what is on disk."""
    return request.param == "elsewhere"


async def edited(which, change, *, is_elsewhere):
    """Approve a call with some other arguments. Return its kind after that, or "asked" and why it is not approved."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(calls, which, session="s")
        asked = await next_of(run.watch_approvals())
        decision = Approve(by="ana", arguments={**asked.arguments, **change})
        if not is_elsewhere:
            try:
                await supervisor.decide(asked.id, decision)
            except InvalidInput as error:
                assert [each.id for each in await supervisor.find_approvals()] == [asked.id]
                await supervisor.decide(asked.id, Approve(by="ana"))
                assert await run.result() == "ok"
                return "asked", str(error)
            return await run.result(), ""
    async with opened(store.copy()) as supervisor:
        try:
            await supervisor.decide(asked.id, decision)
        except InvalidInput as error:
            assert [each.id for each in await supervisor.find_approvals()] == [asked.id]
            return "asked", str(error)
        return await (await supervisor.resume("s")).result(), ""


@pytest.mark.parametrize(
    ("which", "change"),
    [
        ("plain", {"text": 5}),
        ("plain", {"loud": "yes"}),
        ("plain", {"text": None}),
        ("typed", {"price": "much"}),
        ("typed", {"at": "soon"}),
        ("typed", {"on": "2026-13-01"}),
        ("typed", {"clock": 9}),
        ("typed", {"colour": "green"}),
        ("typed", {"size": "3"}),
        ("typed", {"place": {"number": 2}}),
        ("typed", {"places": [{"street": "x", "town": "y"}]}),
        ("typed", {"ratio": "half"}),
        ("typed", {"many": [1.5]}),
        ("typed", {"few": [1, 2, 3]}),
        ("guarded", {"count": "x"}),
    ],
)
async def test_an_edit_of_a_wrong_type_decides_nothing(which, change, is_elsewhere):
    """The error is one line that names the argument."""
    kind, why = await edited(which, change, is_elsewhere=is_elsewhere)
    assert (kind, "\n" in why) == ("asked", False)
    assert next(iter(change)) in why


@pytest.mark.parametrize(
    "change",
    [
        {"price": 3},
        {"price": 2.25},
        {"price": "7"},
        {"at": "2026-02-03T04:05:06"},
        {"at": "2026-02-03T04:05:06Z"},
        {"on": "2026-02-03", "clock": "04:05:00", "lasts": "PT3S"},
        {"name": "00000000000000000000000000000002"},
        {"colour": "blue", "size": 3},
        {"place": {"street": "x"}, "places": [{"street": "x", "number": 3}]},
        {"ratio": 2, "many": [3, 3], "counts": {"1": 2}, "few": [], "raw": "QUI="},
        {"anything": [1, {"x": None}]},
    ],
)
async def test_an_edit_that_the_conversion_of_the_tool_takes_runs(change, is_elsewhere):
    """A number is a decimal, a text a time, a value an enum."""
    assert await edited("typed", change, is_elsewhere=is_elsewhere) == ("ok", "")
    assert effects == ["typed"]


@pytest.mark.parametrize("change", [{"long": LONG.format(100)}, {"whatever": [1]}])
async def test_an_edit_of_a_type_without_a_journaled_schema_is_left_to_the_tool(change, is_elsewhere):
    """Another process knows nothing of it, and refuses nothing."""
    assert await edited("odd", change, is_elsewhere=is_elsewhere) == ("ok", "")
    assert effects == ["100" if "long" in change else "r 1"]


@pytest.mark.parametrize(("which", "change"), [("odd", {"long": "three"}), ("guarded", {"pin": "7700"})])
async def test_the_process_that_runs_the_call_knows_more_than_its_schema(which, change):
    """Types without a schema, and secrets, which the error does not quote."""
    kind, why = await edited(which, change, is_elsewhere=False)
    assert (kind, "7700" in why) == ("asked", False)


async def test_an_edit_that_only_the_tool_can_refuse_is_an_error_before_the_effect():
    """A process that could not know it has accepted the edit: the call has one result, and nothing runs."""
    assert await edited("odd", {"long": "three"}, is_elsewhere=True) == ("error", "")
    assert effects == []


async def test_an_edit_of_a_call_of_a_sub_agent_fits_its_input():
    """Its types are known where the call waits."""
    async with opened(rules=[ask("sub")]) as supervisor:
        run = await supervisor.start(calls, "sub")
        asked = await next_of(run.watch_approvals())
        with pytest.raises(InvalidInput, match="count"):
            await supervisor.decide(asked.id, Approve(by="ana", arguments={"count": "many"}))
        await supervisor.decide(asked.id, Approve(by="ana", arguments={"count": 2}))
        assert await run.result() == "ok"
