"""Logs: facts, in the words of the glossary and the journal. A library logs, and never configures logging.

If the program has configured structlog, facts go there. If not, they go to the standard library's logging under the
package's name, which is quiet below a warning. structlog's own default would print to standard output, which belongs to
a command's JSON document. structlog is imported at the first fact, since its import takes longer than a command may
take to answer.
"""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Literal

from supervisor.core.text.visible import visible

LogForm = Literal["text", "json"]


_repeats: Callable[[], bool] | None = None


def skip_while(repeats: Callable[[], bool]) -> None:
    """Log no fact while a function says that this code runs for the second time, only to find out where it was."""
    global _repeats  # one process has one such function
    _repeats = repeats


class FactLog:
    """Logs facts: `noun.past_participle`, with values as keywords."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._plain = logging.getLogger(name)

    @property
    def is_heard(self) -> bool:
        """Whether facts that are no warnings are logged: what is not heard need not be found out."""
        return self._plain.isEnabledFor(logging.INFO)

    def debug(self, fact: str, **values: Any) -> None:
        """Log a detail, for a person who looks for a defect."""
        self._log(logging.DEBUG, fact, values)

    def info(self, fact: str, **values: Any) -> None:
        """Log what happens when all goes well."""
        self._log(logging.INFO, fact, values)

    def warning(self, fact: str, **values: Any) -> None:
        """Log what works less well than it should, or will soon fail."""
        self._log(logging.WARNING, fact, values)

    def error(self, fact: str, **values: Any) -> None:
        """Log what failed: a person should look at it."""
        self._log(logging.ERROR, fact, values)

    def _log(self, level: int, fact: str, values: dict[str, Any]) -> None:
        if level < logging.WARNING and not self._plain.isEnabledFor(level):
            return
        if _repeats is not None and _repeats():
            return
        import structlog

        if structlog.is_configured():
            structlog.get_logger(self._name).log(level, fact, **values)
        else:
            self._plain.log(level, "%s", " ".join([fact, *(f"{key}={value!r}" for key, value in values.items())]))


def write_log(form: LogForm) -> None:
    """Let this process write its facts to standard error, a line each: readable text, or JSON documents. For commands
    that serve; a library configures no logging."""
    import structlog

    renderer = structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _one_line,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.getLogger("supervisor").setLevel(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # below, it logs the address of each request


def _one_line(_: Any, __: str, values: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Show control characters as escapes: what an agent or a platform said cannot move a cursor or begin a line."""
    return {key: visible(value, kind="words") if isinstance(value, str) else value for key, value in values.items()}
