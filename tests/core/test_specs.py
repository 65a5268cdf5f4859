"""Declarations: an error in one is raised when it is declared, and values are converted in one place."""

import enum
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Optional

import pytest
from decorating import loudly
from hypothesis import given, strategies as st

import supervisor.core.declarations.tool_context
from supervisor.core.declarations.agent_spec import agent
from supervisor.core.declarations.tool_context import ProcessToolContext, ToolContext
from supervisor.core.declarations.tool_spec import tool
from supervisor.core.encoding import from_json, printable_text, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.values import ToolResult


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Order:
    item: str
    due: datetime
    colour: Colour = Colour.RED
    tags: frozenset[int] = frozenset()


@tool(policy="allow")
async def ship(order: Order, count: int = 1, notes: list[str] = ["none"]) -> None:  # noqa: B006 # the test checks that it works
    ...


@agent
async def taker(ctx, order: Order) -> None: ...


@agent
async def optional(ctx, folder: str = ".") -> None: ...


@agent
async def clock(ctx) -> None: ...


ORDER = Order("tea", datetime(2026, 1, 1, tzinfo=UTC), Colour.RED, frozenset({1, 2}))
ORDERS = st.builds(
    Order,
    st.text(max_size=4),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(Colour),
    st.frozensets(st.integers(), max_size=3),
)


async def two_inputs(ctx, a: int, b: int) -> None: ...
async def no_context() -> None: ...
async def keyword_input(ctx, *, a: int) -> None: ...
async def any_inputs(ctx, *inputs: int) -> None: ...
async def named_inputs(ctx, **inputs: int) -> None: ...
async def nameless(a: int, /) -> None: ...
async def late_context(n: int, context: ToolContext) -> None: ...
def blocking(ctx) -> None: ...
def yielding(n: int) -> Iterator[int]:
    yield n


def starting(context: ProcessToolContext) -> None: ...


@pytest.mark.parametrize("fn", [two_inputs, no_context, keyword_input, any_inputs, named_inputs, blocking])
def test_a_function_that_cannot_be_an_agent_is_refused_in_its_declaration(fn):
    """An agent is an async function of its context and at most one input, which has a name."""
    with pytest.raises(TypeError):
        agent(fn)


@pytest.mark.parametrize(
    "fn",
    [any_inputs, named_inputs, nameless, yielding, starting, late_context, functools.partial(two_inputs, a=1)],
)
def test_a_function_that_cannot_be_a_tool_is_refused_in_its_declaration(fn):
    """Its arguments have names, for JSON and for people. It returns its result as a whole. One that starts processes
    awaits the commit before they begin."""
    with pytest.raises(TypeError):
        tool(fn)


@pytest.mark.parametrize(
    "wrong", [{"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"policy": "maybe"}, {"policy": True}]
)
def test_a_tool_with_invalid_options_is_refused(wrong):
    """A misspelt policy must never mean that no person is asked (A5)."""
    with pytest.raises(ValueError):
        tool(**wrong)(two_inputs)


@pytest.mark.parametrize("budget", ["inactivity_timeout", "first_progress_timeout", "active_timeout", "stop_timeout"])
@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_an_agent_with_an_invalid_budget_is_refused(budget, seconds):
    """A budget that is never reached, or reached at once, is a mistake."""
    with pytest.raises(ValueError):
        agent(**{budget: seconds})(clock.fn)


def test_an_agent_without_an_inactivity_timeout_is_refused():
    """A run without one could be silent without end (W5)."""
    with pytest.raises(ValueError, match="inactivity_timeout must be more than 0 seconds, not None"):
        agent(inactivity_timeout=None)(clock.fn)


def test_a_declaration_keeps_its_functions_name_and_documentation():
    """The agent or tool is found again where its function is, whatever its name."""

    @tool(name="rm")
    async def remove(path: str) -> None:
        """Remove a file."""

    assert (remove.name, remove.__name__, remove.__doc__) == ("rm", "remove", "Remove a file.")
    assert remove.__module__ == __name__
    assert remove.__qualname__.endswith("remove")


def test_arguments_are_bound_as_in_a_call_and_kept_apart_from_defaults():
    """An operation's id uses the arguments as passed; a person is shown those that will be used (A2)."""
    assert ship.bind((ORDER,), {"count": 2}) == (
        {"order": ORDER, "count": 2},
        {"order": ORDER, "count": 2, "notes": ["none"]},
    )
    for args, kwargs in [((), {}), ((ORDER, 1, [], 4), {}), ((ORDER,), {"order": ORDER}), ((ORDER,), {"size": 3})]:
        with pytest.raises(TypeError):
            ship.bind(args, kwargs)


@given(ORDERS, st.integers(-(2**53), 2**53))
def test_a_tool_gets_the_arguments_that_were_passed_by_way_of_json(order, count):
    """Their types are restored: dataclasses, instants, enums, sets."""
    _, full = ship.bind((order, count), {})
    assert ship.decode_arguments(to_json(full, "it")) == {"order": order, "count": count, "notes": ["none"]}


@given(ORDERS)
def test_an_agent_gets_the_input_that_was_passed_by_way_of_json(order):
    """One input, by position or by name."""
    raw = taker.encode_input((order,), {})
    assert taker.decode_input(raw) == (order,)
    assert bytes(taker.encode_input((), {"order": order})) == bytes(raw)


@pytest.mark.parametrize(
    "document", [b'{"order":{}}', b'{"count":1}', b"[]", b'{"order":null,"count":"2"}', b"{", b'{"x":1}']
)
def test_arguments_that_do_not_fit_are_named_in_one_error(document):
    """The arguments of an approver's edit, for example (A8)."""
    with pytest.raises(InvalidInput):
        ship.decode_arguments(document)


def test_an_argument_that_the_tool_does_not_take_is_refused():
    """A typing error in an edit is always noticed."""
    whole = to_json(ship.bind((ORDER,), {})[1], "it")
    assert ship.decode_arguments(whole)["order"] == ORDER
    with pytest.raises(InvalidInput):
        ship.decode_arguments(bytes(whole).replace(b'"count"', b'"cuont"'))


@pytest.mark.parametrize("value", [object(), {1, object()}, lambda: 0, "\ud800", {"a": [object]}])
def test_a_value_that_json_cannot_express_is_refused_by_name(value):
    """Closures, handles, and invalid text."""
    with pytest.raises(InvalidInput, match="the argument"):
        to_json(value, "the argument")


def test_a_value_that_contains_itself_is_refused():
    """It is an error of the caller, and does not end the program."""
    endless = []
    endless.append(endless)
    with pytest.raises(InvalidInput):
        to_json(endless, "it")


def test_an_agent_without_input_takes_none_and_one_with_a_default_needs_none():
    """A start without an input is checked before anything is journaled."""
    assert (bytes(clock.default_input()), clock.decode_input(b"null"), clock.takes_input) == (b"null", (), False)
    assert (bytes(optional.default_input()), optional.decode_input(b'"/srv"')) == (b'"."', ("/srv",))
    with pytest.raises(InvalidInput):
        taker.default_input()
    with pytest.raises(InvalidInput):
        clock.decode_input(b"3")
    for wrong in [lambda: clock.encode_input((3,), {}), lambda: optional.encode_input(("a", "b"), {})]:
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("value", [3, None, "text", {"item": "tea"}])
def test_an_input_of_another_type_is_refused_when_it_is_given(value):
    """It is not refused only when the agent first uses it."""
    with pytest.raises(InvalidInput):
        taker.encode_input((value,), {})


def test_equal_inputs_are_the_same_bytes_whatever_the_order_of_sets_and_names():
    """The order of a set differs between processes, and a session goes on with the same input."""

    @agent
    async def adder(ctx, numbers: set[int] | dict[str, int]) -> None: ...

    assert [*{0, 8}] != [*{8, 0}]
    assert bytes(adder.encode_input(({0, 8},), {})) == bytes(adder.encode_input(({8, 0},), {}))
    assert bytes(adder.encode_input(({"a": 1, "b": 2},), {})) == bytes(adder.encode_input(({"b": 2, "a": 1},), {}))


def test_keys_are_numbers_if_annotated_as_numbers():
    """Keys are text in JSON; the annotation restores the numbers."""

    @agent
    async def counter(ctx, names: dict[int, str]) -> None: ...

    raw = counter.encode_input(({2: "b", 1: "a"},), {})
    assert bytes(raw) == bytes(counter.encode_input(({1: "a", 2: "b"},), {}))
    assert counter.decode_input(raw) == ({1: "a", 2: "b"},)


@loudly
async def decorated(order: "Order") -> "Order":
    return order


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (ToolResult, Any),
        (ToolResult[int], int),
        (Annotated[ToolResult[int], "a count"], int),
        (ToolResult[int] | None, int | None),
        (Annotated[int, "a count"], Annotated[int, "a count"]),
        (Optional[int], Optional[int]),  # noqa: UP045 # people write it this way, too
    ],
)
def test_the_type_of_a_result_is_the_type_of_its_value(annotation, value):
    """T8: a tool may return a ToolResult, and need not say of which type."""

    async def counted() -> None: ...

    counted.__annotations__ = {"return": annotation}
    assert tool(counted).value_type == value


def test_a_decorated_function_is_annotated_with_the_names_of_its_own_module():
    """functools.wraps copies the annotations, not the names in them."""
    assert tool(decorated).value_type is Order
    assert tool(decorated).decode_arguments(to_json({"order": ORDER}, "it")) == {"order": ORDER}


@dataclass
class Particular:
    of: "Missing"  # noqa: F821 # only type checkers know this name


@dataclass
class Choosy:
    of: int

    def __post_init__(self) -> None:
        raise KeyError("none of these")


@pytest.mark.parametrize("type_", [Particular, Choosy])
def test_any_error_while_a_type_is_read_is_one_clear_error(type_):
    """Its own code, or names that cannot be resolved: the supervisor goes on, and the value does not fit."""
    with pytest.raises(InvalidInput):
        from_json(b'{"of":1}', type_, "it")


async def by_class(context: ToolContext, n: int) -> int: ...
async def by_name(context: "ToolContext", n: int) -> int: ...
async def by_path(context: "supervisor.core.declarations.tool_context.ToolContext", n: int) -> int: ...
async def of_processes(context: ProcessToolContext, n: int) -> int: ...
async def of_processes_by_name(context: "ProcessToolContext", n: int) -> int: ...
async def without(n: int) -> int: ...
async def of_another_kind(context: "Order", n: int) -> int: ...


@pytest.mark.parametrize(
    ("fn", "takes_context"),
    [
        *((by_class, True), (by_name, True), (by_path, True), (of_processes, True), (of_processes_by_name, True)),
        *((without, False), (of_another_kind, False)),
    ],
)
def test_a_tool_gets_its_context_if_its_first_parameter_says_so(fn, takes_context):
    """It is not an argument: no caller passes it, and no card shows it."""
    declared = tool(fn)
    assert declared.takes_context == takes_context
    names = {"n"} if takes_context or fn is without else {"context", "n"}
    assert {*declared.bind((), dict.fromkeys(names, 1))[1]} == names


def test_the_type_of_its_context_declares_that_a_tool_starts_processes():
    """T9: the call of such a tool does not execute before its process is known."""
    declared = [tool(fn).starts_process for fn in (by_class, by_name, without, of_processes, of_processes_by_name)]
    assert declared == [False, False, False, True, True]


@pytest.mark.parametrize("policy", ["allow", "ask", "deny"])
def test_a_tool_has_the_policy_of_its_declaration(policy):
    """The default is to ask."""
    assert tool(policy=policy)(without).policy_of({"n": 1}) == policy
    assert tool(without).policy_of({"n": 1}) == "ask"


@pytest.mark.parametrize("said", [True, False, None, "never", "", ["allow"], 1])
def test_a_callable_that_returns_something_else_than_a_policy_asks(said):
    """A5: a value that is not a policy proves nothing."""
    assert tool(policy=lambda n: said)(without).policy_of({"n": 1}) == "ask"


def test_a_callable_decides_by_the_arguments_and_asks_when_it_raises():
    """A5: a callable that raises proves nothing."""
    ruled = tool(policy=lambda n: "deny" if 1 / n < 0 else "allow")(without)
    assert [ruled.policy_of({"n": n}) for n in (-1, 1, 0)] == ["deny", "allow", "ask"]


@pytest.mark.parametrize("annotation", ["Missing", "Order.missing", "Order[", "Order + 1"])
def test_an_annotation_that_cannot_be_resolved_is_one_clear_error_where_it_is_needed(annotation):
    """It harms nothing else: names for type checkers only may be anywhere but on a value."""

    async def lost(n, m): ...

    lost.__annotations__ = {"n": annotation, "m": "int"}
    declared = tool(lost)
    with pytest.raises(InvalidInput):
        declared.decode_arguments(b'{"n":1,"m":1}')
    lost.__annotations__ = {"m": "int", "return": annotation}
    assert tool(lost).decode_arguments(b'{"n":[1],"m":1}') == {"n": [1], "m": 1}


def test_a_name_for_type_checkers_only_needs_no_quotes_where_annotations_are_lazy():
    """Since Python 3.14 annotations are evaluated when they are requested; before, quotes have the same effect."""
    lazy = sys.version_info >= (3, 14)
    missing, context = ("Missing", "ToolContext") if lazy else ("'Missing'", "'ToolContext'")
    names = {"__name__": __name__}
    exec(f"async def lost(first: {context}, n: {missing}, m: int = 1) -> list[{missing}]: ...", names)
    exec(f"async def asked(context: {missing}, text: str) -> {missing}: ...", names)
    declared = tool(names["lost"])
    assert (declared.takes_context, declared.offered_names) == (True, ["n", "m"])
    with pytest.raises(InvalidInput):
        declared.decode_arguments(b'{"n":1,"m":1}')
    assert agent(names["asked"]).offered_names == ["text"]


@given(st.text(alphabet=st.characters() | st.characters(categories=["Cs"]), max_size=6))
def test_any_text_can_be_made_printable_and_valid_text_is_unchanged(text):
    """Output of a program, or a text from a person's system, can always be journaled."""
    shown = printable_text(text)
    assert from_json(to_json(shown, "it"), str, "it") == shown
    is_text = not any(0xD800 <= ord(c) <= 0xDFFF for c in text)
    assert (shown == text) == is_text


def test_a_message_begins_a_turn_only_if_the_input_may_be_text():
    """A person's text cannot become any other input."""

    @agent
    async def listener(ctx, text: str | None) -> None: ...

    assert [spec.takes_text for spec in (listener, optional, taker, clock)] == [True, True, False, False]


@dataclass
class Wish:
    name: str
    orders: list[Order]


async def of_text(ctx, said: str) -> None: ...
async def of_text_or_number(ctx, said: str | int) -> None: ...
async def of_text_or_wish(ctx, said: Wish | str) -> None: ...
async def of_a_colour(ctx, said: Colour) -> None: ...
async def of_a_number(ctx, said: int) -> None: ...
async def of_anything(ctx, said) -> None: ...


@pytest.mark.parametrize(
    ("fn", "typed", "means"),
    [
        (of_text, "tidy up, please", "tidy up, please"),
        (of_text, '"tidy up"', "tidy up"),  # JSON that fits
        (of_text, "42", "42"),  # JSON that does not fit
        (of_text, "null", "null"),
        (of_text, '{"a": 1}', '{"a": 1}'),
        (of_text, '"Tidy" up', '"Tidy" up'),
        (of_text, "", ""),
        (of_text_or_number, "42", 42),
        (of_text_or_number, "forty-two", "forty-two"),
        (of_text_or_wish, "a pony", "a pony"),
        (of_text_or_wish, '{"name": "a", "orders": []}', Wish("a", [])),
        (of_text_or_wish, '{"name": "a", "order": []}', None),  # a misspelt name does not make it a text
        (of_text_or_wish, '{"name": "a", "orders": [', None),
        (of_a_colour, "red", Colour.RED),
        (of_a_colour, "blue", None),
        (of_a_number, "forty-two", None),
        (of_a_number, '"42"', None),
        (of_anything, "42", 42),
        (of_anything, "[42", None),
        (clock, "noon", None),
    ],
)
def test_typed_input_is_json_if_that_fits_and_else_text_if_text_fits(fn, typed, means):
    """None: refused. A text that looks like JSON and does not fit is text only if the input must be text."""
    spec = fn if fn is clock else agent(fn)
    if means is None:
        with pytest.raises(InvalidInput):
            spec.read_input(typed)
    else:
        assert spec.read_input(typed) == (means,)


MISSPELT = b'{"wish": {"name": "a", "orders": [{"item": "tea", "due": "2026-01-01T00:00:00Z", "tag": []}]}}'


async def grant(wish: Wish) -> None: ...
async def granting(ctx, wish: Wish) -> None: ...


@pytest.mark.parametrize(
    "read", [tool(grant).read_offered, agent(granting).read_offered, tool(grant).read_edited], ids=str
)
def test_a_misspelt_name_in_input_of_a_model_or_a_person_is_refused_at_any_depth(read):
    """It does not mean the default, at the top or below it."""
    read(MISSPELT.replace(b', "tag": []', b""))
    with pytest.raises(InvalidInput):
        read(MISSPELT)
    with pytest.raises(InvalidInput):
        agent(granting).check_input(b'{"name": "a", "orders": [], "order": []}')
