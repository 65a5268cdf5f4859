"""Facts about event types: each is in one place, and what is derived from it knows every type."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import supervisor
from supervisor.core import events as e
from supervisor.core.approvals.state import APPROVAL, ASKS, ENDS_APPROVAL
from supervisor.core.events.facts import TRAITS
from supervisor.core.sessions.machine import BEGINS_OPERATION, OPERATION, RUN

EVENTS = {*get_args(e.AnyEvent)}
NAMES = {each.__name__ for each in EVENTS}
PACKAGE = Path(supervisor.__file__).parent


def listed(source: str) -> Iterator[list[str]]:
    """Yield the event types in each collection, pattern and `isinstance` union of a module that names three."""
    if len(NAMES.intersection(re.findall(r"\w+", source))) < 3:
        return  # to parse all modules takes seconds
    tree = ast.parse(source)
    types = {id(node.slice) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(elts=found) | ast.List(elts=found) | ast.Set(elts=found) if id(node) not in types:
                names = [*found]
            case ast.Dict(keys=found):
                names = [*found]
            case ast.MatchOr(patterns=found):
                names = [each.cls for each in found if isinstance(each, ast.MatchClass)]
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.BinOp() as union]):
                names = [*ast.walk(union)]
            case _:
                continue
        words = (getattr(each, "attr", None) or getattr(each, "id", None) for each in names)
        yield [word for word in words if word in NAMES]


def test_no_module_lists_three_event_types_or_more() -> None:
    """It selects them by a trait, so that a new event is not forgotten there."""
    own = {*(PACKAGE / "core" / "events").iterdir(), PACKAGE / "events.py"}
    sources = {path: path.read_text() for path in PACKAGE.rglob("*.py") if path not in own}
    found = [(path.name, names) for path, source in sources.items() for names in listed(source) if len(names) > 2]
    assert found == []


def test_every_type_with_a_trait_can_be_read_from_a_journal() -> None:
    assert {*TRAITS} | {*e.ANSWERS} <= EVENTS


def test_types_are_found_by_any_of_the_traits_asked_for() -> None:
    assert e.having("card") == {e.CardBegun, e.CardPosted, e.CardFailed, e.CardRetired}
    assert e.having("card", "reminds") == {*e.having("card"), e.ApprovalReminded, e.ApprovalHushed}


def test_the_tables_hold_no_type_that_a_journal_does_not() -> None:
    assert {symbol.partition(".")[0] for table in (RUN, OPERATION, APPROVAL) for _, symbol in table} <= NAMES


def test_every_type_may_follow_something_but_those_of_the_store_itself() -> None:
    of_the_store = {e.RuleAdded, e.RuleRevoked, e.CommandRefused, e.ScheduleAdded, e.ScheduleChanged}
    of_the_store |= {e.ScheduleDisputed, e.ScheduleHandled, e.DeliveryPruned}
    may_come = {symbol.partition(".")[0] for table in (RUN, OPERATION) for _, symbol in table}
    assert {each for each in EVENTS if each.__name__ not in may_come} == of_the_store


def test_the_tables_say_what_begins_and_ends_an_approval() -> None:
    assert {e.ToolCallRequested, e.QuestionAsked} == ASKS
    assert {
        e.ApprovalDecided,
        e.ApprovalExpired,
        e.ApprovalWithdrawn,
        e.OperationAbandoned,
        e.QuestionAnswered,
    } == ENDS_APPROVAL


def test_an_event_that_begins_an_operation_has_the_number_of_given_results() -> None:
    assert all("given" in each.__struct_fields__ for each in BEGINS_OPERATION)
