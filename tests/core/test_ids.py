"""Ids that are made here are accepted, cannot be guessed, and are the same wherever they must be."""

import base64
import hashlib
import re

import pytest
from hypothesis import example, given, strategies as st

from supervisor.core.errors import IllegalEvent, InvalidInput
from supervisor.core.ids import (
    approval_route,
    canonical_json,
    check_session_id,
    child_session_id,
    digest_of_value,
    id_from,
    new_approval_id,
    new_session_id,
    operation_id,
    operation_key,
    split_operation_id,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("make", [new_session_id, lambda: child_session_id("parent", "spawn:a:0#1")])
def test_a_session_id_of_ours_is_22_lower_case_letters_and_digits(make):
    """A2: at any depth, never a path; and a caller may pass it back."""
    assert re.fullmatch("[a-z0-9]{22}", check_session_id(make()))


@example([["a-b", "c"], ["a", "b-c"]])
@example([["May"], ["may"]])
@example([["a" * 70], ["a" * 71]])
@given(st.lists(st.lists(st.text("aA-._ é/", max_size=40), min_size=1, max_size=3).filter(any), min_size=2, max_size=2))
def test_a_session_id_from_texts_is_accepted_and_tells_texts_apart(both):
    """A2: whatever stands in a request, a repeated one finds its session, and no other one does."""
    first, second = (check_session_id(id_from(*parts)) for parts in both)
    assert (first == second) == (both[0] == both[1])
    assert id_from("report", "may") == "report-may"
    for parts, why in [([""], "no text"), (["report", "\ud800"], "surrogates")]:
        with pytest.raises(InvalidInput, match=why):
            id_from(*parts)


def test_an_approval_id_names_its_tree_and_has_130_random_bits():
    """A2: no id can be guessed from another one of the same tree."""
    made = {new_approval_id("root") for _ in range(500)}
    assert len(made) == 500
    assert all(re.fullmatch("[a-z2-7]{42}", approval) for approval in made)
    assert {approval[:16] for approval in made} == {approval_route("root")}
    assert [len({approval[place] for approval in made}) > 20 for place in range(16, 42)] == [True] * 26


def test_the_route_of_an_approval_is_a_digest_of_the_root_sessions_id():
    """A2: base32 of its SHA-256, so that any program can compute it; another tree has another route."""
    assert approval_route("release-7") == base64.b32encode(hashlib.sha256(b"release-7").digest())[:16].decode().lower()
    assert not new_approval_id("other").startswith(approval_route("release-7"))


@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_a_childs_id_depends_on_its_parent_and_its_spawn_only(parent, operation, other_parent, other_operation):
    """A plan that runs twice makes one child, and two spawns never make the same."""
    is_same = (parent, operation) == (other_parent, other_operation)
    assert (child_session_id(parent, operation) == child_session_id(other_parent, other_operation)) == is_same


@pytest.mark.parametrize("session", ["a", "0", "clean-up_2026.01", "a" * 64])
def test_a_callers_session_id_is_accepted_unchanged(session):
    """A2: [a-z0-9][a-z0-9._-]{0,63}."""
    assert check_session_id(session) == session


@pytest.mark.parametrize("session", ["", "A", "-a", ".a", "_a", "a/b", "../a", "a b", "ä", "a\n", "a" * 65])
def test_a_text_that_could_be_a_path_or_is_not_visible_is_not_a_session_id(session):
    """A2: it is refused before anything is written."""
    with pytest.raises(InvalidInput):
        check_session_id(session)


@given(JSON, JSON)
def test_equal_values_have_one_digest_and_others_have_another(value, other):
    """The approved arguments are those that run (A9)."""
    assert (digest_of_value(value) == digest_of_value(other)) == (canonical_json(value) == canonical_json(other))
    assert re.fullmatch("[0-9a-f]{64}", digest_of_value(value))


@given(st.dictionaries(st.text(max_size=3), st.integers(), max_size=5))
def test_the_order_of_names_does_not_matter(arguments):
    """A call with the same arguments is the same call."""
    assert digest_of_value(arguments) == digest_of_value(dict(reversed(arguments.items())))
    assert digest_of_value(arguments) != digest_of_value({**arguments, "one more": 1})


@given(st.sampled_from(["", "left/", "left/right/"]), st.text(max_size=5), JSON, st.integers(1, 999))
def test_an_operations_id_can_be_split_into_its_parts(branch, name, arguments, count):
    """For any name: the count is what follows the last mark."""
    key = operation_key(branch, "call", name, arguments)
    assert split_operation_id(operation_id(key, count)) == (key, count)
    assert operation_key("other/", "call", name, arguments) != key
    assert operation_key(branch, "step", name, arguments) != key


@pytest.mark.parametrize("operation", ["", "call:a:0", "call:a:0#", "call:a:0#x", "call:a:0#-1"])
def test_a_text_that_was_not_made_here_is_not_an_operations_id(operation):
    """It raises, and is never read as a count."""
    with pytest.raises(IllegalEvent):
        split_operation_id(operation)
