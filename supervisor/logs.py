"""Logs: a library logs facts and configures nothing (style.md 14); here is where its loggers come from.

structlog takes longer to import than most commands take to answer, and most never log: the first fact that is logged
imports it. `to_stderr` is for programs whose stdout is an answer, the command line first of all.
"""

import sys
from typing import Any, Final

WARNING: Final = 30
_is_for_stderr = False


class Logger:
    """A structlog logger that is made when something is logged: `log.warning("noun.past_participle", key=value)`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, level: str) -> Any:
        import structlog

        if _is_for_stderr:
            _configure()
        return getattr(structlog.get_logger(self._name), level)


def get_logger(name: str) -> Logger:
    """Return the logger of a module."""
    return Logger(name)


def to_stderr() -> None:
    """Send warnings and errors to stderr, and what is less than that nowhere, unless the program says otherwise."""
    global _is_for_stderr  # one process, one stderr
    _is_for_stderr = True
    if "structlog" in sys.modules:
        _configure()


def _configure() -> None:
    import structlog

    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
