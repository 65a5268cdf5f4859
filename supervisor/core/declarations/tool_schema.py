"""Tools as models see them, in the form that every provider accepts: a name, a description, a JSON schema."""

import inspect
from typing import Any

from supervisor.core.declarations.signatures import DeclaredFunction


def tool_schema(tool: DeclaredFunction) -> dict[str, Any]:
    """Return the description of a tool or sub-agent for a model; raises InvalidInput for a type without a schema."""
    description = inspect.cleandoc(tool.__doc__ or "")
    return {"name": tool.name, "description": description, "parameters": tool.parameters_schema()}
