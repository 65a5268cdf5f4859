"""What a server sends that is newer than this client: unknown fields are left out, and nothing is guessed at."""

import pytest

from supervisor import ServerMismatch
from supervisor.client.documents import entry_of, outcome_of, value_of
from supervisor.core.documents import event_document
from supervisor.core.values import DecisionResult, SendResult
from supervisor.events import MessageSent, UnknownEvent

TELEPORTED = {
    "position": 7,
    "session": "s",
    "event": "RunTeleported",
    "at": "2026-01-02T00:00:00Z",
    "to": {"host": "mars"},
}


def test_a_field_that_is_not_known_is_left_out():
    """Of a value, and of an event."""
    assert value_of(SendResult, {"kind": "begun", "message": "m", "session": "s", "weight": 3}).kind == "begun"
    sent = entry_of({**TELEPORTED, "event": "MessageSent", "text": "hello", "loudly": True})
    assert isinstance(sent.event, MessageSent)
    assert sent.event.text == "hello"


def test_an_event_that_is_not_known_is_shown_as_it_came():
    """With all of its fields, also in an export."""
    entry = entry_of(TELEPORTED)
    assert (entry.position, entry.session) == (7, "s")
    assert isinstance(entry.event, UnknownEvent)
    assert (entry.event.event, entry.event.fields) == ("RunTeleported", {"to": {"host": "mars"}})
    assert event_document(entry) == TELEPORTED


@pytest.mark.parametrize(
    "read",
    [
        lambda: value_of(DecisionResult, {"kind": "postponed", "approval": "x" * 42}),
        lambda: value_of(SendResult, {"kind": "begun", "message": 4, "session": "s"}),
        lambda: outcome_of({"kind": "vanished"}, int),
        lambda: entry_of({**TELEPORTED, "position": "seven"}),
        lambda: entry_of({**TELEPORTED, "event": "MessageSent", "text": ["hello"]}),
        lambda: entry_of({"event": "MessageSent"}),
        lambda: entry_of(["no object"]),
    ],
)
def test_a_value_that_is_not_known_is_not_guessed_at(read):
    """A new kind, or another type: the server may be newer."""
    with pytest.raises(ServerMismatch):
        read()
