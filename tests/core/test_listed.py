"""A16: a list that a person was shown is found again, whatever was asked and decided since, or not at all."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st
from msgspec.structs import replace

from supervisor import Approval
from supervisor.core.approvals.listed import find_listed, name_of_list

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def call(number: int) -> Approval:
    return Approval(
        id=f"a{number}",
        session="s",
        root_session="s",
        path=("one",),
        agent="one",
        operation=f"call:x:{number}#1",
        tool="note",
        arguments={},
        digest=f"{number:064}",
        cwd="/",
        options=(),
        requester="ana",
        status="pending",
        created_at=BEGIN,
    )


def ended(approval: Approval, when: int) -> Approval:
    return replace(approval, status="approved", decided_at=BEGIN + timedelta(seconds=when))


@given(before=st.sets(st.integers(0, 7)), since=st.lists(st.integers(0, 7), unique=True), later=st.integers(0, 3))
def test_the_list_that_was_shown_is_found_again(before, since, later):
    """Calls were decided before it was read and after it, and further ones were asked."""
    calls = [ended(call(each), each) if each in before else call(each) for each in range(8)]
    shown = [each.id for each in calls if each.status == "pending"]
    name = name_of_list(calls)
    for place, each in enumerate(since):
        if calls[each].status == "pending":
            calls[each] = ended(calls[each], 100 + place)
    calls += [call(8 + each) for each in range(later)]
    found = find_listed(calls, name)
    assert found is not None
    assert [each.id for each in found] == shown


@given(place=st.integers(0, 3), name=st.sampled_from(["digest", "tool", "cwd"]))
def test_a_list_with_another_call_is_not_found(place, name):
    """Not one of its calls is decided then."""
    calls = [call(each) for each in range(4)]
    shown = name_of_list(calls)
    calls[place] = replace(calls[place], **{name: "other"})
    assert find_listed(calls, shown) is None


@given(st.text(max_size=50))
def test_a_text_that_names_no_list_finds_none(text):
    """Such as an id, a number, or nothing."""
    assert find_listed([call(1), call(2)], text) is None
