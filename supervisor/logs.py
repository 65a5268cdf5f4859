"""Logs: facts, in the words of the glossary and the journal. A library logs, and never configures logging.

If the program has configured structlog, facts go there. If not, they go to the standard library's logging under the
package's name, which is quiet below a warning. structlog's own default would print to standard output, which belongs to
a command's JSON document. structlog is imported at the first fact, since its import takes longer than a command may
take to answer.
"""

import logging
from typing import Any


class FactLog:
    """Logs facts: `noun.past_participle`, with values as keywords."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._plain = logging.getLogger(name)

    def debug(self, fact: str, **values: Any) -> None:
        self._log(logging.DEBUG, fact, values)

    def warning(self, fact: str, **values: Any) -> None:
        self._log(logging.WARNING, fact, values)

    def error(self, fact: str, **values: Any) -> None:
        self._log(logging.ERROR, fact, values)

    def _log(self, level: int, fact: str, values: dict[str, Any]) -> None:
        if level < logging.WARNING and not self._plain.isEnabledFor(level):
            return
        import structlog

        if structlog.is_configured():
            structlog.get_logger(self._name).log(level, fact, **values)
        else:
            self._plain.log(level, "%s", " ".join([fact, *(f"{key}={value!r}" for key, value in values.items())]))
