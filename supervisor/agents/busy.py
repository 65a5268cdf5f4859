"""Endpoints that are busy: what a provider's SDK raises for it, as RetryAfter.

Rules
- Busy are the answers 429, 503 and 529. What is spent for good (`insufficient_quota`) is not busy: no wait helps.
- The seconds are those of the answer's header: `retry-after-ms`, or `retry-after` as seconds, or as a date, which is
  compared with the date of the answer itself. Without one they are SECONDS.
- A group of errors is busy if each of them is: a model that tries others is busy while all are, for the shortest time.
- A bridge that is given a limit turns the SDK's own retries off: they would ask again while the limit is closed.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, Final

from supervisor.core.errors import RetryAfter
from supervisor.core.limits import checked_seconds

BUSY: Final = frozenset({429, 503, 529})
SECONDS: Final = 5.0
_SPENT: Final = "insufficient_quota"


@contextmanager
def telling_busy(limit: str | None) -> Iterator[None]:
    """Raise RetryAfter for what says that an endpoint is busy, if a limit can be closed for it."""
    try:
        yield
    except Exception as error:
        if limit is None or (busy := busy_of(error)) is None:
            raise
        raise busy from error


def busy_of(error: BaseException) -> RetryAfter | None:
    """Return what an exception says of a busy endpoint; None if it says something else."""
    seen, each = list[BaseException](), error
    while each is not None and each not in seen:
        if isinstance(each, BaseExceptionGroup):
            several = [*map(busy_of, each.exceptions)]
            return min((one for one in several if one), key=lambda one: one.seconds) if all(several) else None
        if getattr(each, "status_code", None) in BUSY and not _is_spent(each):
            return RetryAfter(_seconds(_headers(error)), f"it answered {each.status_code}")  # type: ignore[attr-defined] # an exception of an SDK
        seen.append(each)
        each = each.__cause__  # type: ignore[assignment] # None ends the loop
    return None


def _is_spent(error: BaseException) -> bool:
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    said = inner if isinstance(inner, dict) else {}
    return _SPENT in (getattr(error, "code", None), said.get("code"), said.get("type"))


def _headers(error: BaseException | None) -> dict[str, str]:
    """Return the headers of the answer, with names in lower case."""
    while error is not None:
        for found in (getattr(error, "headers", None), getattr(getattr(error, "response", None), "headers", None)):
            if found:
                return {str(name).lower(): str(value) for name, value in dict(found).items()}
        error = error.__cause__
    return {}


def _seconds(headers: dict[str, Any]) -> float:
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            if isfinite(seconds := float(headers[name]) / unit):
                return checked_seconds(seconds)
    try:
        until, now = (parsedate_to_datetime(headers[name]) for name in ("retry-after", "date"))
        return checked_seconds((until - now).total_seconds())
    except (KeyError, ValueError, TypeError):
        return SECONDS
