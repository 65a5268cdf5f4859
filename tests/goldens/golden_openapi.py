"""The OpenAPI document, as the server gives it: openapi.json. The version of the package is left out of it."""

import json

from supervisor.channels.web.openapi import openapi
from supervisor.channels.web.table import endpoints


def describe_all() -> dict[str, str]:
    """Return the document, one line for each value."""
    document = openapi(endpoints())
    document["info"]["version"] = "VERSION"
    return {"openapi.json": json.dumps(document, indent=1, ensure_ascii=False) + "\n"}
