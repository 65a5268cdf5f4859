"""The environment of a process that a supervised call or run starts (T4): ours, with its mark, without our secrets."""

import os
from collections.abc import Mapping
from typing import Final

from supervisor.core.marker import CALL_MARKER

OUR_SECRETS: Final = (
    *("SUPERVISOR_TOKEN", "SUPERVISOR_SERVER", "SUPERVISOR_TEMPORAL_"),
    *("SLACK_", "DISCORD_", "TEMPORAL_"),
)
"""Names, or beginnings of names, of variables that no command sees (T4)."""


def environment_of(mark: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the whole environment of a new process: the supervisor's, `env` added to it.

    `mark` names the operation or session that starts the process. A deciding command below it is refused (A4).
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith(OUR_SECRETS)}
    return {**ours, **(env or {}), CALL_MARKER: mark}
