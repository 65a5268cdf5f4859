"""Tracebacks for people: they show where the code of an agent, a step or a tool raised.

The journal holds a traceback in the event that it explains. An agent cannot read it: a replay raises no exception, so
an agent that read tracebacks would take another path.

Rules
- Consecutive frames of this package are folded to one line, since they say nothing about the user's code.
- The known secret values of a run (arguments that a tool declares secret) are masked.
- A traceback, and the text of an exception, has at most LIMIT bytes of UTF-8. A longer one keeps its beginning and its
  end, and says what is left out.
- An exception's `__str__` is the user's code. If it raises, a remark stands in place of the text.
"""

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException
from typing import Any, Final

import msgspec

from supervisor.core import events as e
from supervisor.core.encoding import printable_text
from supervisor.core.sessions.state import SessionState
from supervisor.core.text.masks import MASK

LIMIT_BYTES: Final = 16 * 1024
SHORTEST_SECRET_CHARACTERS: Final = 4
"""Characters. A shorter value occurs in too much text that is not secret."""
_NESTED: Final = re.compile(r"loop is already running|(from|or) a running event loop")
"""What asyncio and the frameworks say if code that runs in a loop starts another one."""
_OURS: Final = str(Path(str(sys.modules[__name__.partition(".")[0]].__file__)).parent) + "/"


def is_ours(file: str) -> bool:
    """Whether code of this file belongs to this package."""
    return file.startswith(_OURS)


def describe(error: BaseException) -> str:
    """Return the type and text of an exception in one line; of a group, those of its exceptions."""
    if isinstance(error, BaseExceptionGroup):
        return _bounded(f"{error.message}: " + "; ".join(describe(inner) for inner in error.exceptions))
    return f"{type(error).__name__}: {text_of(error)}"


def explain(error: BaseException, what: str) -> str:
    """Return `describe` of an exception of an agent or a tool, `what`, with the cure for a mistake that is common in
    code that calls a framework."""
    return f"{describe(error)}{cure(error, what)}"


def cure(error: BaseException, what: str) -> str:
    """Return what to do about an event loop that `what` started inside a running one; "" for any other exception."""
    if not isinstance(error, RuntimeError) or not _NESTED.search(text_of(error)):
        return ""
    return (
        f"; {what} calls a function that runs an event loop of its own, such as run_sync, while a loop runs: await its "
        "asynchronous form, such as run, or make the framework's agent one of ours, and call that (a model calls it by "
        "supervisor_tool)"
    )


def text_of(error: BaseException) -> str:
    """Return the text of an exception, or a remark if its `__str__` raises."""
    try:
        return _bounded(printable_text(str(error)))
    except Exception as broken:  # noqa: BLE001 # its __str__ is the user's code; the result must not be lost with it
        return f"(its text cannot be shown: __str__ raises {type(broken).__name__})"


def traceback_of(error: BaseException, secrets: Collection[str] = ()) -> str:
    """Return the traceback of an exception as the journal holds it."""
    told = TracebackException.from_exception(error, compact=True)
    for each in _all(told):
        each.stack = _folded(each.stack)
    return _bounded(without_values(printable_text("".join(told.format())), secrets))


def without_values(text: str, secrets: Collection[str]) -> str:
    """Return a text with these secret values masked, the longest first: one may be a part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def secret_values(state: SessionState) -> set[str]:
    """Return the texts in the secret arguments of a run's calls, both original and edited."""
    found: set[str] = set()
    for record in (*state.operations.values(), *state.kept.values()):
        if isinstance(record.request, e.ToolCallRequested) and record.request.secret:
            for arguments in (record.request.arguments, record.arguments):
                found |= secrets_in(arguments, record.request.secret)
    return found


def secrets_in(arguments: msgspec.Raw, secret: Collection[str]) -> set[str]:
    """Return the texts in the arguments with these names, also in the forms that `repr` and JSON give them."""
    decoded = msgspec.json.decode(arguments)
    values = (decoded.get(name) for name in secret) if isinstance(decoded, Mapping) else (decoded,)
    texts = {text for value in values for text in _texts(value) if len(text) >= SHORTEST_SECRET_CHARACTERS}
    written = {msgspec.json.encode(text).decode()[1:-1] for text in texts}
    return texts | written | {repr(text)[1:-1] for text in texts}


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
            yield from value.split("\n")
        case Mapping():
            for each in value.values():
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
        case bool() | None:
            pass
        case _:
            yield str(value)


def _all(told: TracebackException) -> Iterator[TracebackException]:
    """Yield an exception, its causes, its contexts and the exceptions of groups, each once."""
    seen, left = set[int](), [told]
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            left += [other for other in (each.__cause__, each.__context__, *(each.exceptions or ())) if other]


class _Stack(StackSummary):
    """Formats a run of our own frames as one line."""

    def format_frame_summary(self, frame_summary: FrameSummary, **options: Any) -> str:
        if is_ours(frame_summary.filename):
            return f"  ({frame_summary.name} of supervisor)\n"
        return super().format_frame_summary(frame_summary, **options)


def _folded(stack: StackSummary) -> StackSummary:
    folded = _Stack()
    for ours, run in groupby(stack, lambda frame: is_ours(frame.filename)):
        frames = list(run)
        if ours:
            count = f"{len(frames)} frame{'s' if len(frames) > 1 else ''}"
            frames = [FrameSummary(_OURS, len(folded), count, lookup_line=False, line="")]
        folded += frames
    return folded


def _bounded(text: str) -> str:
    whole = text.encode()
    if len(whole) <= LIMIT_BYTES:
        return text
    left_out = f"\n  ... {len(whole) - LIMIT_BYTES + 80} bytes are left out here ...\n"
    half = (LIMIT_BYTES - len(left_out)) // 2
    return whole[:half].decode(errors="ignore") + left_out + whole[-half:].decode(errors="ignore")
