"""The environment of a process that a supervised call or run starts (T4): ours, with its mark, without our secrets."""

import os
from collections.abc import Mapping

from supervisor.core.marker import CALL_MARKER
from supervisor.system.withheld import is_withheld


def environment_of(mark: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the whole environment of a new process: the supervisor's, `env` added to it.

    `mark` names the operation or session that starts the process. A deciding command below it is refused (A4).
    """
    ours = {name: value for name, value in os.environ.items() if not is_withheld(name, value)}
    return {**ours, **(env or {}), CALL_MARKER: mark}
