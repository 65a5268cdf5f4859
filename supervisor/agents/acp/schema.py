"""The schema of ACP, from the package `agent-client-protocol`. Its import takes a second of CPU: only a process that
starts an agent imports it, in a thread."""

import sys
from collections.abc import Mapping
from typing import Any

from supervisor.core.errors import InvalidInput
from supervisor.system.threads import in_thread

HOW = "agents that speak ACP need an extra; run: pip install 'subagent-supervisor[acp]'"


class MissingExtra(InvalidInput):
    """A package is not installed that comes with an extra."""


class Schema:
    def __init__(self, models: Any) -> None:
        self._models = models

    def check(self, name: str, value: Mapping[str, Any]) -> None:
        """Raise InvalidInput unless the value has the form that the protocol gives it."""
        if (why := self.misfit(name, value)) is not None:
            raise InvalidInput(why)

    def misfit(self, name: str, value: Mapping[str, Any]) -> str | None:
        """Return what does not fit the protocol's form of this name, or None. Words that a later version of the
        protocol may add, such as another kind of call, fit."""
        from pydantic import ValidationError

        try:
            getattr(self._models, name).model_validate(value)
        except ValidationError as error:
            serious = [each for each in error.errors() if not _is_unknown_word(each)]
            if serious:
                first = serious[0]
                return f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        return None


def _is_unknown_word(error: Mapping[str, Any]) -> bool:
    return error["type"] == "literal_error" and isinstance(error["input"], str)


async def load_schema() -> Schema:
    """Import the models. Raises MissingExtra, which says what to install."""
    loaded = sys.modules.get("acp.schema")
    is_whole = loaded is not None and not getattr(
        loaded.__spec__, "_initializing", False
    )  # another thread may import it
    return Schema(loaded if is_whole else await in_thread(_import))


def _import() -> Any:
    try:
        from acp import schema
    except ImportError as error:
        raise MissingExtra(f"{HOW} ({error})") from None
    return schema
