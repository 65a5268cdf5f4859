"""Foreign tools: what can be declared, and which arguments fit the schema that came with one."""

import functools
from copy import deepcopy

import msgspec
import pytest

from supervisor import Context, InvalidInput, ToolContext, agent, foreign_tool, tool
from supervisor.tools import ProcessToolContext

SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "path": {"type": "string", "pattern": "^(a+)+$"},
        "lines": {"type": ["integer", "null"], "minimum": 1},
        "mode": {"oneOf": [{"const": "read"}, {"const": "write"}]},
        "edits": {"type": "array", "items": {"$ref": "#/definitions/edit"}, "maxItems": 2},
        "when": {"if": {"type": "string"}, "then": {"format": "date"}, "x-odd": 1},
    },
    "required": ["path"],
    "additionalProperties": False,
    "definitions": {"edit": {"allOf": [{"required": ["old"]}, {"properties": {"old": {"maxLength": 3}}}]}},
}


async def one(arguments): ...
async def with_context(context: ToolContext, arguments): ...
async def with_process(context: ProcessToolContext, arguments): ...
async def nothing(): ...
async def two(first, second): ...
async def context_only(context: ToolContext): ...
async def late(arguments, context: ToolContext): ...
async def by_keyword(*, arguments): ...
async def many(*arguments): ...


@pytest.mark.parametrize("fn", [nothing, two, context_only, late, by_keyword, many, functools.partial(one, {})])
def test_a_function_that_takes_no_one_mapping_is_refused_in_its_declaration(fn):
    """By position, after a context if there is one."""
    with pytest.raises(TypeError):
        foreign_tool("t", fn)


def test_a_context_is_no_argument_and_says_whether_processes_are_started():
    """As for a tool with parameters."""
    found = [foreign_tool("t", fn) for fn in (one, with_context, with_process)]
    assert [(each.takes_context, each.starts_process) for each in found] == [
        (False, False),
        (True, False),
        (True, True),
    ]


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a#1", "a:b", "*", "x" * 129, "a\u202eb", "a\n"])
def test_a_name_that_ids_or_rules_could_not_have_is_refused(name):
    """A name with dots is a name."""
    assert foreign_tool("reviewer.execute", one).name == "reviewer.execute"
    with pytest.raises(ValueError):
        foreign_tool(name, one)


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": ["object", "null"]}, {"enum": [object()]}])
def test_a_schema_of_no_object_is_refused(schema):
    """The arguments are one object."""
    with pytest.raises(ValueError):
        foreign_tool("t", one, schema=schema)


def test_an_argument_that_cannot_be_the_command_is_refused():
    """A misspelt name would leave the command unguarded. The names of a mapping are not known."""
    with pytest.raises(ValueError):
        tool(command="comand")(with_process)
    assert foreign_tool("t", one, command="cmd").command == "cmd"


def test_a_model_is_shown_the_schema_as_it_is():
    """With words that this package does not check; and what a reader does to its copy changes nothing."""
    odd = foreign_tool("odd", one, schema=SCHEMA, description="Edit a file.")

    @agent(tools=[odd, foreign_tool("any", one)])
    async def main(ctx: Context) -> None: ...

    first, second = main.tool_schemas()
    assert first == {"name": "odd", "description": "Edit a file.", "parameters": SCHEMA}
    assert second == {"name": "any", "description": "", "parameters": {"type": "object"}}
    first["parameters"].clear()
    assert odd.parameters_schema() == SCHEMA


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"path": "a", "lines": None, "mode": "read", "edits": [{"old": "abc"}], "when": "never"}, True),
        ({"path": "a" * 50 + "b"}, True),
        ({}, False),
        ({"path": 1}, False),
        ({"path": "a", "lines": 0}, False),
        ({"path": "a", "mode": "run"}, False),
        ({"path": "a", "edits": [{"new": 1}]}, False),
        ({"path": "a", "edits": [{"old": "abcd"}]}, False),
        ({"path": "a", "edits": [{"old": ""}] * 3}, False),
        ({"path": "a", "pth": "b"}, False),
        (["path"], False),
    ],
)
def test_arguments_of_a_model_or_a_person_must_fit_the_schema(arguments, fits):
    """What cannot be checked is left to the function: a pattern that would never end does not run."""
    odd, raw = foreign_tool("odd", one, schema=SCHEMA), msgspec.json.encode(arguments)
    for read in (odd.read_offered, odd.read_edited):
        if fits:
            read(raw)
        else:
            with pytest.raises(InvalidInput):
                read(raw)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text"},
        {"type": []},
        {"minimum": True},
        {"exclusiveMinimum": True},
        {"required": True},
        {"enum": "a"},
        {"properties": ["a"], "additionalProperties": False},
        {"patternProperties": {"^x": {}}, "additionalProperties": False},
        {"items": [{"type": "integer"}]},
        {"anyOf": []},
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/definitions/none"},
        {"$ref": "#"},
        {"not": {}},
        {"properties": {"a": True}},
    ],
    ids=str,
)
def test_a_word_that_cannot_be_checked_refuses_nothing(part):
    """Of another draft, or mistaken."""
    before = deepcopy(part)
    for schema in ({"properties": {"x": part}}, {"anyOf": [part]}, {"allOf": [part]}):
        foreign_tool("t", one, schema=schema).read_offered(b'{"x":["y"],"a":2}')
    assert part == before


def test_a_schema_that_refers_to_itself_for_ever_refuses():
    """It can never be met, and does not hang."""
    endless = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    with pytest.raises(InvalidInput):
        foreign_tool("t", one, schema=endless).read_offered(b"{}")


def test_an_error_quotes_no_secret():
    """It names the argument only."""
    hiding = foreign_tool("t", one, schema={"properties": {"key": {"type": "integer"}}}, secret=["key"])
    with pytest.raises(InvalidInput) as refused:
        hiding.read_offered(b'{"key":"hunter2"}')
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), (({}, {}), {}), ((), {"a": 1}), ((["a"],), {}), (({1: 2},), {})]
)
def test_a_call_passes_one_mapping_with_names_of_text(args, kwargs):
    """As the type of the tool says."""
    with pytest.raises(TypeError):
        foreign_tool("t", one).bind(args, kwargs)


def test_a_policy_gets_the_mapping():
    """One that raises asks (A5)."""
    ruled = foreign_tool("t", one, policy=lambda arguments: arguments["kind"])
    assert [ruled.policy_of(each) for each in ({"kind": "allow"}, {"kind": "deny"}, {})] == ["allow", "deny", "ask"]
