"""The place where errors of PostgreSQL become ours.

- A statement or a COMMIT that the server refused was not written: StoreRefused. So a full disk, a missing permission, a
  deadlock and a lock that was waited for in vain belong here.
- A page or an index that contradicts itself: StoreUnreadable.
- A value that no database can keep: InvalidInput for a read, StoreRefused for a write.
- A connection that broke is not translated here: the store asks the server what became of its transaction.
"""

from typing import Final

import psycopg

from supervisor.core.errors import InvalidInput, StoreDied, StoreError, StoreRefused, StoreUnreadable
from supervisor.seam.store import StoreAway

_DAMAGED: Final = ("XX001", "XX002")
_REFUSED: Final = (
    ("unsupported startup parameter", "a pooler is in between (PgBouncer): name the server itself"),
    ("unrecognized configuration parameter", "version 13 or later of PostgreSQL is needed, and no pooler in between"),
    ("session is read-only", "it is a standby, which lags, or its sessions only read: name the primary"),
)
"""What a pooler, an older server, and libpq itself, answer to the connection that we ask for."""

_COMING: Final = ("Connection refused", "starting up", "shutting down", "not yet accepting", "closed the connection")


def may_come(error: psycopg.Error) -> bool:
    """Whether a server that cannot be reached may be one that is restarted."""
    return isinstance(error, psycopg.OperationalError) and any(text in str(error) for text in _COMING)


def explain(error: psycopg.Error, name: str) -> StoreError:
    what = f"{str(error).strip()} ({error.sqlstate or type(error).__name__})"
    if error.sqlstate in _DAMAGED:
        return StoreUnreadable(f"{name} is damaged: {what}. Restore it from a backup")
    if error.sqlstate == "53100":
        return StoreRefused(
            f"there is no room on the disk of {name}: {what}. Nothing of the commit was written: make room, then resume"
        )
    return StoreRefused(f"{name} refused a commit: {what}; nothing of it was written. Resume when the cause is gone")


def explain_reading(error: psycopg.Error, name: str) -> Exception:
    if isinstance(error, psycopg.DataError):
        return InvalidInput(f"{name} cannot look for this value: {error}")
    fault = explain(error, name)
    return fault if isinstance(fault, StoreUnreadable) else StoreRefused(f"{name} cannot be read: {error}")


def explain_opening(error: psycopg.Error, name: str) -> StoreError:
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return StoreUnreadable(
            f"{name} cannot be opened now: another process upgrades it, or reads its tables, as a backup does; nothing "
            "was begun. Try again when that has ended"
        )
    said = str(error).strip()
    if may_come(error):
        return StoreUnreadable(
            f"{name} cannot be opened: no server answers there ({said}); nothing was begun. Try again when it runs"
        )
    why = next((f"{why} ({said})" for text, why in _REFUSED if text in said), None)
    return StoreUnreadable(f"{name} cannot be opened: {said if why is None else why}; nothing was begun")


def misused(error: Exception, name: str) -> InvalidInput:
    return InvalidInput(f"{name} cannot look for this value: {error}")


def closed(name: str) -> StoreDied:
    return StoreDied(f"{name} is closed. Open it again to go on from what is there")


def away(name: str, moment: float) -> StoreAway:
    error = StoreAway(f"{name} does not answer. Nothing is lost: try again when it is back")
    error.moment_seconds = moment
    return error


def gone(name: str, seconds: float) -> StoreDied:
    return StoreDied(
        f"{name} has not answered for {seconds:g} s. What was committed is safe, and nothing else was written. Start "
        "again when it is back"
    )


def lost_commits(name: str, what: str) -> StoreDied:
    return StoreDied(
        f"{name} has lost commits: {what}. A standby took over that had not "
        "received them (its replication is asynchronous), or a backup was restored. Start the program again: it goes "
        "on from there"
    )
