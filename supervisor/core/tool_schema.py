"""Tools as models see them, in the form that every provider accepts: a name, a description, a JSON schema."""

import inspect
from typing import Any

import msgspec

from supervisor.core.errors import InvalidInput
from supervisor.core.signatures import DeclaredFunction


def tool_schema(tool: DeclaredFunction) -> dict[str, Any]:
    """Return the description of a tool or sub-agent for a model; raises InvalidInput for a type without a schema."""
    try:
        (parameters,), parts = msgspec.json.schema_components([tool.offered_struct], ref_template="#/$defs/{name}")
    except (TypeError, NameError) as error:
        raise InvalidInput(f"tool {tool.name} has a parameter that JSON schema cannot describe: {error}") from None
    parameters = parts.pop(parameters["$ref"].rpartition("/")[2])
    del parameters["title"]
    if parts:
        parameters["$defs"] = parts
    return {"name": tool.name, "description": inspect.cleandoc(tool.__doc__ or ""), "parameters": parameters}
