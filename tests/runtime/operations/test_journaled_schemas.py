"""A8: the schema of a call's arguments is journaled with it, so that every process shows the fields of an edit."""

from typing import Annotated, Literal

import msgspec
import pytest
from scenes import opened
from watching import next_of

from supervisor import Context, MemoryStore, SqliteStore, agent, tool
from supervisor.core.declarations.foreign_tool import foreign_tool

pytestmark = pytest.mark.anyio


@tool(secret=["pin"])
async def pack(
    name: str,
    size: Literal["s", "m"],
    count: Annotated[int, msgspec.Meta(le=9, description="bags")] = 2,
    pin: int = 7700770077,
) -> str:
    return name


@tool(policy="ask")
async def say(text: str, loud: bool) -> str:
    return text


async def lift(arguments) -> str:
    return "up"


THERE = {"type": "object", "properties": {"kilos": {"type": "number", "description": "weight", "pattern": "x"}}}


@agent
async def packing(ctx: Context, which: str) -> str:
    match which:
        case "own":
            return (await ctx.call(pack, "tent", "m")).kind
        case "plain":
            return (await ctx.call(say, "hi", loud=False)).kind
        case _:
            return (await ctx.call(foreign_tool("lift", lift, schema=THERE), {"kilos": 3})).kind


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize(
    ("which", "properties"),
    [
        (
            "own",
            {
                "size": {"enum": ["m", "s"]},
                "count": {"type": "integer", "maximum": 9, "description": "bags"},
                "pin": {"type": "integer"},
            },
        ),
        ("plain", {}),
        ("foreign", {"kilos": {"type": "number", "description": "weight"}}),
    ],
)
async def test_an_approval_has_the_schema_of_its_arguments(tmp_path, which, properties, is_file):
    """What values alone would not say: choices, bounds, descriptions; and no default of a secret. Of texts and bools
    there is nothing to say."""
    async with opened(SqliteStore(tmp_path / "s.db") if is_file else MemoryStore()) as supervisor:
        run = await supervisor.start(packing, which)
        asked = await next_of(run.watch_approvals())
        schema = asked.arguments_schema if which == "foreign" else asked.schema
        assert (schema and schema["properties"]) == properties
        assert "7700770077" not in str(asked)
        await run.cancel()
