"""Which tools of the SDK have failed: the SDK makes a text of what a tool raises, and the text alone does not say so.

The SDK calls a tool's failure function (`failure_error_function`), and gives the model what it returns. A copy of the
tool notes the exception first, and then does what the tool does. A result of an MCP server may be an error, too: the
SDK gives the model its text as if the call had succeeded.
"""

import copy
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final

from agents import FunctionTool
from agents.exceptions import ModelBehaviorError
from agents.tool import (
    maybe_invoke_function_tool_failure_error_function,
    resolve_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)

from supervisor.agents.framework import setting
from supervisor.core.errors import ToolFailed

_NOT_BEGUN: Final = "Invalid JSON input for tool"
"""With this the SDK refuses arguments before it calls the function."""
RAISED: Final = "raised"
"""Marks, in the details of a failure, that the tool's failure function has raised."""
_NOTED: Final[ContextVar[list[dict[str, Any]] | None]] = ContextVar("supervisor_openai_failures", default=None)
"""Gets the details of a failure of the call that this task makes."""


def noting(failures: list[dict[str, Any]]) -> AbstractContextManager[None]:
    """Note what fails in this block."""
    return setting(_NOTED, failures)


def note_result(result: Any) -> Any:
    """Return the result of an MCP server's tool, and note it if it is an error."""
    failures = _NOTED.get()
    is_error = result.is_error if hasattr(result, "is_error") else getattr(result, "isError", False)  # before mcp 2
    if failures is not None and is_error:
        failures.append({"reason": "exception", "effect": "maybe"})
    return result


def tells(tool: FunctionTool) -> bool:
    """Whether the model is told of what a tool raises. Otherwise that ends the run, also if a program has made the tool
    of a function of its own, without `function_tool`: no failure function is called for that."""
    is_of_sdk = type(tool.on_invoke_tool).__module__.partition(".")[0] == "agents"
    return is_of_sdk and resolve_function_tool_failure_error_function(tool) is not None


def with_failures(tool: FunctionTool) -> tuple[FunctionTool, list[dict[str, Any]]]:
    """Return a copy of a tool for one call, and the list that gets the details of its failure."""
    found: list[dict[str, Any]] = []
    if resolve_function_tool_failure_error_function(tool) is None:
        return tool, found  # what it raises comes out

    async def failed(context: Any, error: Exception) -> str:
        is_unfit = isinstance(error, ModelBehaviorError) and str(error).startswith(_NOT_BEGUN)
        found.append(
            {"reason": "invalid_arguments", "effect": "none"}
            if is_unfit
            else {"reason": "exception", "effect": "maybe"}
        )
        try:
            told = await maybe_invoke_function_tool_failure_error_function(
                function_tool=tool, context=context, error=error
            )
        except Exception as own:
            raise ToolFailed(
                f"{type(own).__name__}: {own}", reason="exception", effect="maybe", **{RAISED: True}
            ) from own
        if told is None:
            raise error
        return told

    return set_function_tool_failure_error_function(copy.copy(tool), failed), found
