"""Values of frameworks that are built on pydantic, as plain JSON values. Needs pydantic-core, as these do."""

from typing import Any

from pydantic_core import to_jsonable_python

from supervisor.agents.model_arguments import journal_value
from supervisor.core.errors import InvalidInput


def as_json(value: Any, what: str, cure: str = "return values that pydantic can write") -> Any:
    """Return a value as plain JSON values. Raises InvalidInput, which names `what` it is, and the `cure`."""
    try:
        return to_jsonable_python(value)
    except ValueError as error:
        raise InvalidInput(f"{what} cannot be written as JSON: {error}; {cure}") from None


def as_shown(value: Any) -> Any:
    """Return a value as people see it: plain JSON values, in which a value of another type is its text."""
    try:
        return journal_value(to_jsonable_python(value, fallback=repr))
    except ValueError:
        return journal_value(repr(value))
