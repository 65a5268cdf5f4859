"""Outputs of tools: as the SDK gives them to the model, and as results of our calls."""

from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from supervisor.core.encoding import to_json
from supervisor.core.values import ToolResult


def result_of(value: Any) -> ToolResult[Any]:
    """Return the result of a call whose function has returned a value of JSON, or a result."""
    if isinstance(value, ToolResult):
        return value
    content = value if isinstance(value, str) else bytes(to_json(value, "the result of a tool")).decode()
    return ToolResult(kind="ok", content=content, value=value)


def with_line(line: str, value: Any) -> Any:
    """Return the output of a tool with a line for the model above it."""
    if isinstance(value, str):
        return line + value
    return [{"type": "text", "text": line}, *(value if isinstance(value, list) else [value])]


def as_text(value: Any) -> str:
    """Return what the SDK gives the model for a failed call: the texts of its parts."""
    parts = value if isinstance(value, list | tuple) else [value]
    texts = [part.get("text") if isinstance(part, dict) else getattr(part, "text", None) for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str)) or str(value)


def as_sdk_reads(value: Any) -> Any:
    """Return the output of a tool as JSON. The SDK reads a text, an output with a type, or a list of them; it calls str
    on all else."""
    parts = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, str | None) or not all(isinstance(part, BaseModel | dict) for part in parts):
        return value if isinstance(value, str) else str(value)
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        return str(value)
