"""Results of calls, as the journal holds them and as callers get them: kind, content, typed value, details (T8)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from supervisor.core import events as e
from supervisor.core.approvals.state import ApprovalState
from supervisor.core.encoding import JSON_NULL, from_json, printable_text, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.values import ResultKind, ToolResult

NOT_AGAIN: Final = "\n[the same call will be denied again: do not repeat it as it is]"
"""What an agent reads below each denial of a person: models repeat a call that was denied."""
LARGEST_RESULT_BYTES: Final = 16 * 1024 * 1024  # bytes of JSON that one result may add to the journal


def finished_call(
    operation: str,
    now: datetime,
    kind: ResultKind,
    content: str,
    details: Mapping[str, Any],
    value: msgspec.Raw = JSON_NULL,
    traceback: str = "",
) -> e.ToolCallFinished:
    """Return the result of a call as an event. A result above LARGEST_RESULT_BYTES becomes an error (`too_large`)."""
    size = len(content) + len(bytes(value))
    if size > LARGEST_RESULT_BYTES:
        kind, details = "error", {**details, "reason": "too_large"}
        content = (
            f"the result has {size} bytes, more than {LARGEST_RESULT_BYTES}; write it to a file and return its path"
        )
    return e.ToolCallFinished(
        at=now,
        operation=operation,
        kind=kind,
        content=printable_text(content),
        value=value if kind == "ok" else JSON_NULL,
        details=encode_details(details),
        traceback=traceback,
    )


def denial(operation: str, said: ApprovalState, now: datetime, *, is_former: bool = False) -> e.ToolCallFinished:
    """Return the result of a call that a person denied. `is_former`: as former versions wrote it."""
    content = f"denied by {said.by}: {said.reason or 'no reason was given'}"
    if not is_former:
        content += NOT_AGAIN
    why = {} if said.reason is None else {"said": said.reason}
    return finished_call(operation, now, "denied", content, {"effect": "none", **why})


def result_of(event: e.ToolCallFinished, type_: Any, what: str) -> ToolResult[Any]:
    """Return a journaled result as the caller gets it. Only an ok result has a value; it is decoded as `type_`."""
    value = from_json(event.value, type_, what) if event.kind == "ok" else None
    details = msgspec.json.decode(event.details)
    return ToolResult(kind=event.kind, content=event.content, value=value, details=details)


def encode_details(details: Mapping[str, Any]) -> msgspec.Raw:
    """Return details as JSON. A tool chooses them freely: a value that JSON cannot hold is written as its `repr`, so
    that the result is not lost with it."""
    whole = {"reason": None, "effect": "done", **details}
    return msgspec.Raw(msgspec.json.encode({printable_text(str(k)): _as_json(v) for k, v in whole.items()}))


def _as_json(value: Any) -> Any:
    if value is None or (type(value) is str and value.isascii()):  # most are
        return value
    try:
        return to_json(value, "a detail", exact=True)
    except InvalidInput:
        return printable_text(repr(value))
