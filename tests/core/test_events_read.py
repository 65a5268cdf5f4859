"""A reader of a newer program's journal gets what it knows, and learns that there are entries that it does not know."""

from datetime import UTC, datetime
from typing import get_args

import pytest

import supervisor.events
from supervisor import InvalidInput, StoreUnreadable
from supervisor.core import events as e

AT = datetime(2026, 1, 2, tzinfo=UTC)
TELEPORTED = b'{"event":"RunTeleported","at":"2026-01-02T00:00:00Z","to":{"host":"mars"}}'


def test_every_event_has_a_public_name() -> None:
    """So has the one value of a field that is a struct of its own."""
    public = {name for name in vars(supervisor.events) if name[0].isalpha()}  # pytest adds names with an @
    assert public == {"Event", "UnknownEvent", "Again", *(each.__name__ for each in get_args(e.AnyEvent))}


def test_a_known_event_is_read_as_it_was_written() -> None:
    sent = e.MessageSent(at=AT, text="hello", operation="send")
    assert e.read_event(e.encode_event(sent)) == sent


def test_fields_of_a_newer_program_are_left_out() -> None:
    body = b'{"event":"MessageSent","at":"2026-01-02T00:00:00Z","text":"hello","loudly":true}'
    assert e.read_event(body) == e.MessageSent(at=AT, text="hello")


def test_an_event_of_a_newer_program_is_unknown_to_a_reader() -> None:
    assert e.read_event(TELEPORTED) == e.UnknownEvent(at=AT, event="RunTeleported", fields={"to": {"host": "mars"}})


def test_a_store_refuses_an_event_of_a_newer_program() -> None:
    with pytest.raises(StoreUnreadable):
        e.decode_event(TELEPORTED)


def test_an_unknown_event_does_not_show_its_fields_in_logs() -> None:
    assert "mars" not in repr(e.read_event(TELEPORTED))


@pytest.mark.parametrize(
    "document",
    [
        b"nothing",
        b"[]",
        b"{}",
        b'{"event":"RunTeleported"}',
        b'{"event":7,"at":"2026-01-02T00:00:00Z"}',
        b'{"event":["RunTeleported"],"at":"2026-01-02T00:00:00Z"}',
        b'{"event":"MessageSent","at":"2026-01-02T00:00:00Z","text":7}',
        b"[" * 100_000,
    ],
)
def test_json_that_is_not_an_event_is_invalid_input(document: bytes) -> None:
    with pytest.raises(InvalidInput):
        e.read_event(document)
