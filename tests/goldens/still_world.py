"""A world that stands still: the same ids and instants in each run, whatever the machine and the backend.

`still()` replaces what differs: random bytes, chance, the wall clock, the zone of its hours, and the login. On virtual
time the clock begins at BEGAN and follows the loop; in real time it stays there. `without_machine` takes out of an
event what says where and how fast it was made. `exact` writes a text so that a person sees each character of it.
"""

import hashlib
import os
import random
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
from msgspec import structs

from supervisor.core.marker import CALL_MARKER
from supervisor.runtime.clock.clock import Clock
from supervisor.system.identity import current_user
from supervisor.testing import wrapped

Backend = Callable[[], tuple[str, dict[str, Any]]]
"""Makes a backend of virtual time, with a new clock each time."""
BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
MACHINE = {"file": None, "host": "host", "pid": 1, "duration": 0.0, "traceback": "a traceback"}
"""Fields of events that say where they were made, how long something took, or which lines of our code ran."""
_HERE = str(Path(__file__).parent)
_ABSENT = ("FORCE_COLOR", "TTY_COMPATIBLE", "EDITOR", "VISUAL", CALL_MARKER)
"""Variables of the environment that would change what is shown or allowed."""
_PLAIN = "⟨⟩·…“”⏎—"
"""Characters outside ASCII that our own words have."""
_LONGEST = 220
"""Characters of a line that are shown whole."""
_MOST = 90
"""Lines of a text that are shown whole."""


class Numbers:
    """What ids are made of. `restart` begins anew, so that the ids of a part do not follow from the parts before."""

    def __init__(self) -> None:
        self._last = 0

    def restart(self, after: int = 0) -> None:
        self._last = after

    def token_bytes(self, size: int = 32) -> bytes:
        self._last += 1
        return self._last.to_bytes(size)


@contextmanager
def still(*, is_virtual: bool = True) -> Iterator[Numbers]:
    """Let each id be the next number, and each instant that of the loop's clock."""
    numbers = Numbers()

    def now(_: Clock) -> datetime:
        seconds = round(anyio.current_time(), 3) if is_virtual else 0.0
        return BEGAN + timedelta(seconds=seconds)

    try:
        with _replaced(now, numbers):
            yield numbers
    finally:
        time.tzset()
        current_user.cache_clear()
        random.seed()


@contextmanager
def _replaced(now: Any, numbers: Numbers) -> Iterator[None]:
    with (
        patch.object(secrets, "token_bytes", numbers.token_bytes),
        wrapped(Clock, "now", lambda _, clock: now(clock)),
        patch.dict(os.environ, {"TZ": "UTC", "COLUMNS": "100", "NO_COLOR": "1", "LOGNAME": "login"}),
    ):
        for name in _ABSENT:
            os.environ.pop(name, None)
        random.seed(1)
        time.tzset()
        current_user.cache_clear()
        yield


def without_machine(event: Any) -> Any:
    """Return an event without facts about the machine that made it."""
    return structs.replace(event, **{name: value for name, value in MACHINE.items() if getattr(event, name, None)})


def without_folder(text: str) -> str:
    """Return a text without the place of these files."""
    return text.replace(_HERE, "GOLDENS")


def without_ages(text: str) -> str:
    """Return a text without how long ago something was: a surface asks the real clock for that."""
    return re.sub(r"\b\d+ (?:days|h|min|s) ago\b", "AGO", text)


def exact(text: str) -> str:
    """Return a text in which what a screen draws as nothing, in another order or as another letter has its number.
    The middle of a long line, and of many lines, is a number of all of its characters."""
    lines = [_shortened("".join(map(_one, line)).rstrip()) for line in text.split("\n")]
    if len(lines) <= _MOST:
        return "\n".join(lines)
    left_out = lines[50:-20]
    return "\n".join([*lines[:50], f"{{{len(left_out)} lines, {_number(left_out)}}}", *lines[-20:]])


def _one(char: str) -> str:
    is_known = char in _PLAIN or (char.isascii() and char.isprintable()) or "\u2500" <= char <= "\u257f"
    return char if is_known else f"{{U+{ord(char):04X}}}"


def _shortened(line: str) -> str:
    left_out = line[120:-40]
    shown = f"{line[:120]}{{{len(left_out)} characters, {_number(left_out)}}}{line[-40:]}"
    return shown if len(line) > _LONGEST else line


def _number(left_out: str | list[str]) -> str:
    return hashlib.sha256("\n".join(left_out).encode()).hexdigest()[:12]
