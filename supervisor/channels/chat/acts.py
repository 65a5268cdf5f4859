"""What people do on a chat platform, and what they are answered, as values. `Platform.read` makes acts of what the
platform sends. A platform answers by what it adds to an act: fields of a subclass of its own, or `origin`. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Place(msgspec.Struct, frozen=True):
    """A conversation of a platform, or a thread or topic in it ("" outside them)."""

    conversation: str
    thread: str = ""


class Press(msgspec.Struct, frozen=True, kw_only=True):
    """A button was pressed, or the form that it opened was sent with `text` or `fields`. `user`: the person's identity.
    `card`: the id of the message with the button, "" if the platform does not say it."""

    code: str
    approval: str
    user: str
    card: str = ""
    text: str | None = None
    fields: Mapping[str, str] | None = None
    """What the person filled into a form of several fields, by their names."""
    place: Place | None = None
    """Where the message with the button is; only platforms without forms need it."""
    origin: Any = None

    @property
    def is_form(self) -> bool:
        """Whether a form was sent."""
        return self.text is not None or self.fields is not None


class Replied(msgspec.Struct, frozen=True, kw_only=True):
    """A person replied to a card (`code` is ""), or to a message that asked for the text of `code`. `card`: the id of
    their own message."""

    code: str
    approval: str
    user: str
    text: str
    card: str
    place: Place
    origin: Any = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A person wrote a message for the agent, or to no one. `is_to_app`: it is for the app."""

    user: str
    is_to_app: bool = True
    is_again: bool = False
    """Whether an earlier process may have taken it."""
    origin: Any = None


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A person wrote a command: its name, and what follows it."""

    user: str
    text: str
    origin: Any = None


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """What a person did means nothing here; `text` tells them why."""

    text: str
    origin: Any = None


Act = Press | Replied | Said | Command | Noise


class Answer(msgspec.Struct, frozen=True):
    """What a person is told: `text`, "" for nothing. It was made visible before."""

    text: str = ""
    problems: Mapping[str, str] = {}
    """What is wrong in a form that was sent, by the names of its fields; `text` says all of it, too."""
    payload: Any = None
    """The response in the platform's own form, in place of the text."""
    is_form: bool = False
    """Whether `payload` opens a form, which only an immediate response can do."""
